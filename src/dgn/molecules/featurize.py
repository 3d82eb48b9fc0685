"""SMILES to graphs, here or in other processes; what cannot be read is said, never raised."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import torch

from dgn.data.datasets.smiles import pack_parsed, parse_smiles
from dgn.data.packed import PackedGraphs
from dgn.data.prefetch import prefetch

VERSION = "ogb, centres R and S 1"  # of the features: a model reads no others
CHUNK = 2048  # molecules that travel together
CHIRALITY, CENTRES = 1, {"R": 1, "S": 2}  # its column among the features of an atom; every other centre is a 3


class Featurized(NamedTuple):
    """Graphs of the molecules that could be read, and for every SMILES what is wrong with it ("": nothing)."""

    graphs: PackedGraphs
    problems: list[str]


def featurize(smiles: Sequence[str]) -> Featurized:
    """Graphs with the features of OGB, but stereo centres as R and S.

    OGB's own marks, clockwise or not, follow from the order in which a SMILES names the neighbours: another spelling
    of the molecule would give another prediction. Law: any spelling of a molecule gives the same atoms and bonds, up
    to their order.

    >>> found = featurize(["CO", "C(", ""])
    >>> len(found.graphs), found.problems
    (1, ['', 'RDKit cannot read it', 'no SMILES'])
    """
    found = [parse(one) for one in smiles]
    molecules = [one for one in found if not isinstance(one, str)]
    graphs = pack_parsed(molecules)
    _name_centres(graphs, molecules)
    return Featurized(graphs, [one if isinstance(one, str) else "" for one in found])


def parse(smiles: str) -> Any:
    """RDKit's molecule, or a text that says why there is none."""
    if not smiles.strip():
        return "no SMILES"
    try:
        molecule = parse_smiles(smiles.strip())
    except ValueError:  # also text that is no UTF-8
        return "RDKit cannot read it"
    return molecule if molecule.GetNumAtoms() else "no atoms"


def _name_centres(graphs: PackedGraphs, molecules: Sequence[Any]) -> None:
    """Write R and S in place of the direction of rotation."""
    mark = graphs.nodes["x"][:, CHIRALITY]
    centres = mark.nonzero()[:, 0]
    owners = torch.searchsorted(graphs.node_pointer, centres, right=True) - 1
    places = centres - graphs.node_pointer[owners]
    for row, owner, place in zip(centres.tolist(), owners.tolist(), places.tolist(), strict=True):
        atom = molecules[owner].GetAtomWithIdx(place)
        mark[row] = CENTRES.get(atom.GetProp("_CIPCode") if atom.HasProp("_CIPCode") else "", 3)


def featurize_chunks(chunks: Iterable[Sequence[str]], workers: int = 0) -> Iterator[Featurized]:
    """Featurize chunk by chunk, in order; with ``workers`` in so many processes, a few chunks ahead."""
    return map(featurize, chunks) if workers < 1 else map(_arrived, prefetch(_for_travel, chunks, workers))


def _for_travel(smiles: list[str]) -> dict[str, Any]:
    graphs, problems = featurize(smiles)
    arrays = {
        "node_pointer": graphs.node_pointer,
        "edge_pointer": graphs.edge_pointer,
        "edge_index": graphs.edge_index.to(torch.int32),
        "x": graphs.nodes["x"],
        "edge_attr": graphs.edges["edge_attr"],
    }
    return {"problems": problems, **{name: tensor.numpy() for name, tensor in arrays.items()}}


def _arrived(found: dict[str, Any]) -> Featurized:
    arrays = {name: torch.from_numpy(array) for name, array in found.items() if name != "problems"}
    graphs = PackedGraphs(
        arrays["node_pointer"],
        arrays["edge_pointer"],
        arrays["edge_index"],
        nodes={"x": arrays["x"]},
        edges={"edge_attr": arrays["edge_attr"]},
    )
    return Featurized(graphs, found["problems"])
