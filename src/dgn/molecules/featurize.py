"""Graphs of SMILES, in this process or in workers; unreadable SMILES are reported, never raised."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import torch

from dgn.data.datasets.smiles import pack_parsed, parse_smiles
from dgn.data.packed import PackedGraphs
from dgn.data.prefetch import prefetch

VERSION = "ogb, centres R and S 1"  # of the features: a model refuses others
CHUNK = 2048  # molecules per unit of work
CHIRALITY, CENTRES = 1, {"R": 1, "S": 2}  # column of the atom features, and its values; any other centre is 3


class Featurized(NamedTuple):
    """Graphs of the readable molecules, and the problem of every SMILES ("" if there is none)."""

    graphs: PackedGraphs
    problems: list[str]


def featurize(smiles: Sequence[str]) -> Featurized:
    """Graphs with OGB's features, but stereo centres as R and S.

    OGB's chirality tags, clockwise or not, depend on the order of neighbours in the SMILES, so that another SMILES of
    the molecule would give another prediction. Law: all SMILES of a molecule give the same atom and bond features, up
    to their order.

    >>> featurized = featurize(["CO", "C(", ""])
    >>> len(featurized.graphs), featurized.problems
    (1, ['', 'RDKit cannot read it', 'no SMILES'])
    """
    parsed = [parse(text) for text in smiles]
    molecules = [molecule for molecule in parsed if not isinstance(molecule, str)]
    graphs = pack_parsed(molecules)
    _name_centres(graphs, molecules)
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


def _name_centres(graphs: PackedGraphs, molecules: Sequence[Any]) -> None:
    """Replace chirality tags by R and S, in place."""
    chirality = graphs.nodes["x"][:, CHIRALITY]
    centres = chirality.nonzero()[:, 0]
    owners = torch.searchsorted(graphs.node_pointer, centres, right=True) - 1
    atoms = centres - graphs.node_pointer[owners]
    for node, owner, index in zip(centres.tolist(), owners.tolist(), atoms.tolist(), strict=True):
        atom = molecules[owner].GetAtomWithIdx(index)
        chirality[node] = CENTRES.get(atom.GetProp("_CIPCode") if atom.HasProp("_CIPCode") else "", 3)


def featurize_chunks(chunks: Iterable[Sequence[str]], workers: int = 0) -> Iterator[Featurized]:
    """Featurized chunks, in order; with ``workers``, computed in that many processes a few chunks ahead."""
    return map(featurize, chunks) if workers < 1 else map(_from_arrays, prefetch(_to_arrays, chunks, workers))


def _to_arrays(smiles: list[str]) -> dict[str, Any]:
    graphs, problems = featurize(smiles)
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
