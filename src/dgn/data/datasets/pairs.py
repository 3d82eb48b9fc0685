"""Pairs of molecules, such as a solute and its solvent, as one graph whose atoms are marked by their molecule."""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from dgn.data.packed import PackedGraphs

BETWEEN = ">"  # which no SMILES contains: one text of a pair


def join_smiles(smiles: Sequence[str]) -> str:
    """One text for the SMILES of a pair, or that of a single molecule.

    >>> join_smiles(["CCO", "O"]), join_smiles(["CCO"])
    ('CCO>O', 'CCO')
    """
    return BETWEEN.join(smiles)


def split_smiles(text: str) -> list[str]:
    """The SMILES of :func:`join_smiles`.

    >>> split_smiles("CCO>O"), split_smiles("CCO")
    (['CCO', 'O'], ['CCO'])
    """
    return text.split(BETWEEN)


def are_pairs(texts: Sequence[str]) -> bool:
    """Whether all texts are pairs.

    >>> are_pairs(["CCO>O", "CN>"]), are_pairs(["CCO"]), are_pairs([])
    (True, False, False)
    """
    return bool(texts) and all(BETWEEN in text for text in texts)


def pack_pairs(first: PackedGraphs, second: PackedGraphs) -> PackedGraphs:
    """One graph for each pair: the atoms of the first molecule, then those of the second, in two components.

    A last column of ``nodes["x"]`` is 0 in the first molecule and 1 in the second. Features of graphs are side by side.

    >>> from dgn.data.datasets.smiles import pack_smiles
    >>> pair = pack_pairs(pack_smiles(["C=O", "C"]), pack_smiles(["O", "CN"]))
    >>> pair.node_pointer.tolist(), pair.nodes["x"][:, -1].tolist(), pair.edge_index[0].tolist()
    ([0, 3, 6], [0, 0, 1, 0, 1, 1], [0, 1, 1, 2])
    """
    first, second = (_marked(graphs, mark) for mark, graphs in enumerate((first, second)))
    nodes = _interleave(first.node_pointer, second.node_pointer)
    edges = _interleave(first.edge_pointer, second.edge_pointer)
    shift = first.node_pointer.diff().repeat_interleave(second.edge_pointer.diff())  # of the nodes of second molecules
    return replace(
        first,
        node_pointer=first.node_pointer + second.node_pointer,
        edge_pointer=first.edge_pointer + second.edge_pointer,
        edge_index=torch.cat([first.edge_index, second.edge_index + shift], dim=1)[:, edges],
        nodes={name: torch.cat([value, second.nodes[name]])[nodes] for name, value in first.nodes.items()},
        edges={name: torch.cat([value, second.edges[name]])[edges] for name, value in first.edges.items()},
        graphs={name: torch.cat([value, second.graphs[name]], dim=1) for name, value in first.graphs.items()},
    )


def _marked(graphs: PackedGraphs, mark: int) -> PackedGraphs:
    x = graphs.nodes["x"]
    return graphs.with_values(nodes={"x": torch.cat([x, torch.full_like(x[:, :1], mark)], dim=1)})


def _interleave(first: Tensor, second: Tensor) -> Tensor:
    """The order in which the rows of each graph follow each other, from concatenated ones; arguments are pointers."""
    graph = torch.arange(len(first) - 1)
    graphs = torch.cat([graph.repeat_interleave(pointer.diff()) for pointer in (first, second)])
    return graphs.argsort(stable=True)
