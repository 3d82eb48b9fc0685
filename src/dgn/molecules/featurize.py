"""Graphs of SMILES, in this process or in workers; unreadable SMILES are reported, never raised."""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import torch

from dgn.data.benchmark import GRAPH_ATTR
from dgn.data.datasets.pairs import pack_pairs, split_smiles
from dgn.data.datasets.smiles import (
    AND,
    BESIDE,
    CENTRES,
    IMPOSSIBLE,
    OGB,
    PAIRS,
    pack_parsed,
    parse_smiles,
    standardize,
)
from dgn.data.packed import PackedGraphs
from dgn.data.prefetch import prefetch

CHUNK = 2048  # molecules per unit of work
Valence = Literal["refuse", "keep"]
VALENCES: tuple[Valence, ...] = get_args(Valence)  # what happens to molecules with impossible valences


class Featurized(NamedTuple):
    """Graphs of the usable molecules, the problem of each SMILES without one, and remarks on the others ("": none)."""

    graphs: PackedGraphs
    problems: list[str]
    remarks: list[str]


def featurize(smiles: Sequence[str], featurization: str = CENTRES, valence: Valence = "refuse") -> Featurized:
    """Graphs with OGB's features, but stereo centres as R and S (:func:`dgn.data.datasets.smiles.pack_parsed`).

    An impossible ``valence`` is a problem, or a remark on a molecule that is kept. With the featurization ``PAIRS``,
    each text has the SMILES of two molecules.

    Law: all SMILES of a molecule give the same graph.

    >>> featurized = featurize(["CO", "C(", "", "CF(F)F"])
    >>> len(featurized.graphs), featurized.problems
    (1, ['', 'RDKit cannot read it', 'no SMILES', 'impossible valence of fluorine (atom 2 has 3 bonds)'])
    """
    base, *descriptors = featurization.split(AND)
    if base == PAIRS:
        return _featurize_pairs(smiles, AND.join([CENTRES, *descriptors]), valence)
    parsed = [parse(text) for text in smiles]
    reasons = [
        "" if isinstance(each, str) or not each.HasProp(IMPOSSIBLE) else each.GetProp(IMPOSSIBLE) for each in parsed
    ]
    if valence == "refuse":
        parsed = [reason or each for each, reason in zip(parsed, reasons, strict=True)]
    molecules = [molecule for molecule in parsed if not isinstance(molecule, str)]
    graphs = pack_parsed(molecules if featurization.startswith(OGB) else map(standardize, molecules), featurization)
    problems = [problem if isinstance(problem, str) else "" for problem in parsed]
    return Featurized(
        graphs, problems, ["" if problem else reason for problem, reason in zip(problems, reasons, strict=True)]
    )


def _featurize_pairs(smiles: Sequence[str], featurization: str, valence: Valence) -> Featurized:
    """Graphs of the pairs of which both molecules are usable; problems and remarks name the molecule."""
    pairs = [parts if len(parts := split_smiles(text)) == 2 else [text, ""] for text in smiles]
    both = [featurize([pair[index] for pair in pairs], featurization, valence) for index in range(2)]
    problems, remarks = (
        [one or (f"{other}, second SMILES" if other else "") for one, other in zip(*texts, strict=True)]
        for texts in ([each.problems for each in both], [each.remarks for each in both])
    )
    graphs = []
    for each, other in (both, both[::-1]):
        partners = [theirs for ours, theirs in zip(each.problems, other.problems, strict=True) if not ours]
        graphs.append(each.graphs.select(torch.tensor([not problem for problem in partners]).nonzero()[:, 0]))
    return Featurized(
        pack_pairs(*graphs),
        problems,
        ["" if problem else remark for problem, remark in zip(problems, remarks, strict=True)],
    )


def parse(smiles: str) -> Any:
    """RDKit's molecule, or the problem as text."""
    if not smiles.strip():
        return "no SMILES"
    try:
        molecule = parse_smiles(smiles.strip())
    except ValueError:  # also text that is not UTF-8
        return "RDKit cannot read it"
    return molecule if molecule.GetNumAtoms() else "no atoms"


def featurize_chunks(
    chunks: Iterable[Sequence[str]], workers: int = 0, featurization: str = CENTRES, valence: Valence = "refuse"
) -> Iterator[Featurized]:
    """Featurized chunks, in order; with ``workers``, computed in that many processes a few chunks ahead."""
    if workers < 1:
        return (featurize(chunk, featurization, valence) for chunk in chunks)
    return map(_from_arrays, prefetch(partial(_to_arrays, featurization, valence), chunks, workers))


def _to_arrays(featurization: str, valence: Valence, smiles: Sequence[str]) -> dict[str, Any]:
    graphs, problems, remarks = featurize(smiles, featurization, valence)
    arrays = {
        "node_pointer": graphs.node_pointer,
        "edge_pointer": graphs.edge_pointer,
        "edge_index": graphs.edge_index.to(torch.int32),
        "x": graphs.nodes["x"],
        "edge_attr": graphs.edges["edge_attr"],
    }
    arrays |= graphs.graphs  # descriptors
    return {"problems": problems, "remarks": remarks, **{name: tensor.numpy() for name, tensor in arrays.items()}}


def _from_arrays(payload: dict[str, Any]) -> Featurized:
    arrays = {name: torch.from_numpy(array) for name, array in payload.items() if isinstance(array, np.ndarray)}
    graphs = PackedGraphs(
        arrays["node_pointer"],
        arrays["edge_pointer"],
        arrays["edge_index"],
        nodes={"x": arrays["x"]},
        edges={"edge_attr": arrays["edge_attr"]},
        graphs={name: arrays[name] for name in (GRAPH_ATTR, BESIDE) if name in arrays},
    )
    return Featurized(graphs, payload["problems"], payload["remarks"])
