"""Graphs of SMILES, in this process or in workers; unreadable SMILES are reported, never raised."""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch

from dgn.data.datasets.smiles import CENTRES, pack_parsed, parse_smiles
from dgn.data.packed import PackedGraphs
from dgn.data.prefetch import prefetch

CHUNK = 2048  # molecules per unit of work


class Featurized(NamedTuple):
    """Graphs of the readable molecules, and the problem of every SMILES ("" if there is none)."""

    graphs: PackedGraphs
    problems: list[str]


def featurize(smiles: Sequence[str], featurization: str = CENTRES) -> Featurized:
    """Graphs with OGB's features, but stereo centres as R and S (:func:`dgn.data.datasets.smiles.pack_parsed`).

    Law: all SMILES of a molecule give the same atom and bond features, up to their order.

    >>> featurized = featurize(["CO", "C(", ""])
    >>> len(featurized.graphs), featurized.problems
    (1, ['', 'RDKit cannot read it', 'no SMILES'])
    """
    parsed = [parse(text) for text in smiles]
    molecules = [molecule for molecule in parsed if not isinstance(molecule, str)]
    graphs = pack_parsed(molecules, featurization)
    return Featurized(graphs, [problem if isinstance(problem, str) else "" for problem in parsed])


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
    chunks: Iterable[Sequence[str]], workers: int = 0, featurization: str = CENTRES
) -> Iterator[Featurized]:
    """Featurized chunks, in order; with ``workers``, computed in that many processes a few chunks ahead."""
    if workers < 1:
        return (featurize(chunk, featurization) for chunk in chunks)
    return map(_from_arrays, prefetch(partial(_to_arrays, featurization), chunks, workers))


def _to_arrays(featurization: str, smiles: list[str]) -> dict[str, Any]:
    graphs, problems = featurize(smiles, featurization)
    arrays = {
        "node_pointer": graphs.node_pointer,
        "edge_pointer": graphs.edge_pointer,
        "edge_index": graphs.edge_index.to(torch.int32),
        "x": graphs.nodes["x"],
        "edge_attr": graphs.edges["edge_attr"],
    }
    return {"problems": problems, **{name: tensor.numpy() for name, tensor in arrays.items()}}


def _from_arrays(payload: dict[str, Any]) -> Featurized:
    arrays = {name: torch.from_numpy(array) for name, array in payload.items() if name != "problems"}
    graphs = PackedGraphs(
        arrays["node_pointer"],
        arrays["edge_pointer"],
        arrays["edge_index"],
        nodes={"x": arrays["x"]},
        edges={"edge_attr": arrays["edge_attr"]},
    )
    return Featurized(graphs, payload["problems"])
