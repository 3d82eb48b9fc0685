"""Colour refinement (1-WL), which bounds the expressive power of networks without directions."""

from collections import Counter
from hashlib import sha256
from typing import Any

from torch import Tensor

from dgn.graph import as_graph


def weisfeiler_leman(
    edge_index: Any, num_nodes: int | None = None, x: Tensor | None = None, rounds: int | None = None
) -> list[str]:
    r"""The colour of every node after a number of rounds of refinement (1-WL).

    .. math:: c_i^{(0)} = x_i, \qquad c_i^{(r+1)} = \mathrm{hash}(c_i^{(r)}, \{\{ c_j^{(r)} : (j, i) \in E \}\})

    Colours are digests: they do not depend on the numbering of the nodes, and those of different graphs can be
    compared after equally many rounds. ``rounds=None`` takes as many as there are nodes, after which no graph of that
    size is refined further. ``x`` [N] or [N, C] are the initial colours (default: all equal), compared exactly.

    >>> from dgn.testing.graphs import path
    >>> colour = weisfeiler_leman(*path(3))
    >>> colour[0] == colour[2], colour[0] == colour[1]
    (True, False)
    """
    graph = as_graph(edge_index, num_nodes)
    if x is not None and len(x) != graph.num_nodes:
        raise ValueError(f"x: expected {graph.num_nodes} rows, one per node, got {len(x)}; give a colour to each node")
    colours = [""] * graph.num_nodes if x is None else [_digest(row) for row in x.tolist()]
    pointer, neighbor = graph.by_target.pointer.tolist(), graph.by_target.neighbor.tolist()
    for _ in range(graph.num_nodes if rounds is None else rounds):
        colours = [
            _digest((colours[i], sorted(colours[j] for j in neighbor[pointer[i] : pointer[i + 1]])))
            for i in range(graph.num_nodes)
        ]
    return colours


def same_to_weisfeiler_leman(
    graph_a: tuple[Tensor, int], graph_b: tuple[Tensor, int], x_a: Tensor | None = None, x_b: Tensor | None = None
) -> bool:
    """Whether 1-WL cannot distinguish two graphs: their colours have equal counts.

    >>> from dgn.testing.graphs import cycle, disjoint_union, path
    >>> two_triangles = disjoint_union(cycle(3), cycle(3))[:2]
    >>> same_to_weisfeiler_leman(cycle(6), two_triangles), same_to_weisfeiler_leman(cycle(6), path(6))
    (True, False)
    """
    return Counter(weisfeiler_leman(*graph_a, x_a)) == Counter(weisfeiler_leman(*graph_b, x_b))


def _digest(value: object) -> str:
    return sha256(repr(value).encode()).hexdigest()
