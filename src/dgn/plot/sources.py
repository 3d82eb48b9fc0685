"""Scenes from SMILES, GraphML files and files of packed graphs."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dgn.data.datasets.smiles import parse_smiles, read_smiles
from dgn.data.io.sources import PACKED, PYG, TABLE, load_graphs
from dgn.data.packed import PackedGraphs
from dgn.plot.layout import lay_out
from dgn.plot.scene import Scene

FILES = (".graphml", *PACKED, TABLE, PYG)


def read_scene(source: str, graph: int | None = None) -> Scene:
    """The scene of a SMILES, of a GraphML file, or of the graph at index ``graph`` in a file of graphs.

    >>> read_scene("C=O").labels
    ('C0', 'O1')
    """
    path = Path(source)
    is_file = path.suffix in FILES
    if not is_file and path.suffix and _exists(path):
        raise ValueError(
            f"{source}: expected SMILES or a file called {', '.join(FILES)}, got {path.suffix}; "
            "pass the SMILES of a molecule, or convert the file"
        )
    if graph is not None and path.suffix not in FILES[1:]:
        raise ValueError(f"graph: expected an index only with a file of many graphs, got {source!r}; leave it out")
    if not is_file:
        return molecule_scene(source)
    if not path.exists():
        raise FileNotFoundError(f"{source}: expected a file with a graph, found nothing; check the path")
    return graphml_scene(path) if path.suffix == ".graphml" else packed_scene(load_graphs(path), graph or 0, path.name)


def molecule_scene(smiles: str) -> Scene:
    """A molecule without its hydrogens, laid out by RDKit; signals: degree and atomic number."""
    parsed = parse_smiles(smiles)
    atoms = list(parsed.GetAtoms())
    atomic_number = torch.tensor([atom.GetAtomicNum() for atom in atoms], dtype=torch.float64)
    ends = read_smiles(smiles).edge_index
    bonds = [bond.GetBondTypeAsDouble() for bond in parsed.GetBonds()]
    return Scene(
        smiles,
        ends,
        _coordinates(parsed),
        tuple(f"{atom.GetSymbol()}{atom.GetIdx()}" for atom in atoms),
        {"atomic number": atomic_number},
        torch.tensor(bonds, dtype=torch.float64).repeat_interleave(2),
        atoms=True,
    )


def packed_scene(graphs: PackedGraphs, index: int, name: str = "graphs") -> Scene:
    """One of many graphs: positions are ``pos`` if present, signals the finite columns of ``x``."""
    if not 0 <= index < len(graphs):
        raise ValueError(f"graph: expected an index from 0 to {len(graphs) - 1}, got {index}; {name} holds no other")
    one = graphs.select(torch.tensor([index]))
    edges, position = one.edge_index.long(), one.nodes.get("pos")
    xy = lay_out(edges, one.num_nodes) if position is None else position.double().numpy()
    x = one.nodes.get("x", torch.empty(one.num_nodes, 0)).double()
    x = x[:, None] if x.dim() == 1 else x.flatten(1)
    return Scene(
        f"{name}, graph {index}",
        edges,
        xy[:, :2] if xy.ndim == 2 else xy,
        tuple(map(str, range(one.num_nodes))),
        {f"x{column}": values for column, values in enumerate(x.unbind(1)) if values.isfinite().all()},
        edge_weight=one.edges.get("edge_weight"),
    )


def graphml_scene(path: Path) -> Scene:
    """A GraphML file: ``x`` and ``y`` are positions, ``label`` labels, ``weight`` edge weights.

    Other numeric node attributes are signals. Undirected edges become two directed ones.
    """
    graph = _read_graphml(path)
    index = {node: row for row, node in enumerate(graph)}
    values = [dict(graph.nodes[node]) for node in graph]
    links = [(index[j], index[i], _weight(path, data)) for j, i, data in graph.edges(data=True)]
    if not graph.is_directed():
        links += [(i, j, weight) for j, i, weight in links if i != j]
    edges = torch.tensor([link[:2] for link in links], dtype=torch.long).reshape(-1, 2).T.contiguous()
    weight = torch.tensor([link[2] for link in links], dtype=torch.float64)
    column = {name: _column(values, name) for name in sorted(set().union(*values))}
    x, y = column.pop("x", None), column.pop("y", None)
    xy = None if x is None or y is None else torch.stack([x, y], dim=1).numpy()
    return Scene(
        path.name,
        edges,
        lay_out(edges, len(graph)) if xy is None else xy,
        tuple(str(data.get("label", node)) for node, data in zip(graph, values, strict=True)),
        {name: signal for name, signal in column.items() if signal is not None},
        edge_weight=weight,
    )


def _exists(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # a long SMILES is no valid file name
        return False


def _read_graphml(path: Path) -> Any:
    from xml.etree.ElementTree import ParseError

    import networkx as nx

    try:
        return nx.read_graphml(path)
    except (ParseError, nx.NetworkXError, LookupError, ValueError, AttributeError) as problem:  # of bad attributes
        raise ValueError(f"{path}: expected a graph as GraphML, got invalid content ({problem})") from problem


def _weight(path: Path, edge: dict[str, Any]) -> float:
    weight = edge.get("weight", 1.0)
    if not isinstance(weight, int | float):
        raise ValueError(
            f"{path}: expected numbers as weight of the edges, got {weight!r}; declare attr.type as double"
        )
    return float(weight)


def _column(values: list[dict[str, Any]], name: str) -> Tensor | None:
    """An attribute of all nodes, if it is a finite number everywhere, else None."""
    column = [data.get(name) for data in values]
    if not all(isinstance(value, int | float) and np.isfinite(value) for value in column):
        return None
    return torch.tensor(column, dtype=torch.float64)


def _coordinates(parsed: Any) -> NDArray[np.float64]:
    """RDKit's 2D coordinates of a molecule, [N, 2], with bonds of length 1."""
    from rdkit.Chem import rdDepictor

    position: NDArray[np.float64] = np.zeros((0, 2))
    if parsed.GetNumAtoms():
        conformer = rdDepictor.Compute2DCoords(parsed)
        position = parsed.GetConformer(conformer).GetPositions()[:, :2] / 1.5
    return position
