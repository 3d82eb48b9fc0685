"""Gathering batches on the CPU (Numba): the rows of a graph lie side by side, and are copied as they are."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dgn.kernels.numba.jit import jit


@jit
def place_graphs(chosen, first_node, first_edge, node_start, edge_start):
    """Where each graph begins in a batch, and the last one ends; -1 is no graph. Both ``starts`` [B + 1]."""
    node_start[0], edge_start[0] = 0, 0
    for b in range(len(chosen)):
        g, there = max(chosen[b], 0), chosen[b] >= 0
        node_start[b + 1] = node_start[b] + (first_node[g + 1] - first_node[g] if there else 0)
        edge_start[b + 1] = edge_start[b] + (first_edge[g + 1] - first_edge[g] if there else 0)


@jit
def place_edges(chosen, first, node_start, start, grad_ends, of_place, last, ends, place):
    """Ends of the edges, and their place in the order of sources; padding edges begin and end in the last node."""
    for b in range(len(chosen)):
        shift, node = first[max(chosen[b], 0)] - start[b], np.int32(node_start[b])
        for e in range(start[b], start[b + 1]):
            ends[0, e] = grad_ends[0, e + shift] + node
            ends[1, e] = grad_ends[1, e + shift] + node
            place[e] = of_place[e + shift] + np.int32(start[b])
    for e in range(start[-1], len(place)):
        ends[0, e], ends[1, e], place[e] = last, last, e


@jit
def place_nodes(chosen, first, start, edge_start, of_pointer, grad_source, pointer, source, number, real):
    """Where the edges of each node begin in both orders, its graph, and whether it is real."""
    for b in range(len(chosen)):
        shift = first[max(chosen[b], 0)] - start[b]
        for n in range(start[b], start[b + 1]):
            pointer[n], source[n] = of_pointer[n + shift] + edge_start[b], grad_source[n + shift] + edge_start[b]
            number[n], real[n] = b, 1
    pointer[start[-1] :], source[start[-1] :] = edge_start[-1], edge_start[-1]
    number[start[-1] :], real[start[-1] :] = len(chosen), 0


@jit
def copy_rows(chosen, first, start, values, out):
    """The rows of each graph; padding gets the first row of all."""
    for b in range(len(chosen)):
        shift = first[max(chosen[b], 0)] - start[b]
        for r in range(start[b], start[b + 1]):
            for c in range(values.shape[1]):
                out[r, c] = values[r + shift, c]
    for r in range(start[-1], len(out)):
        for c in range(values.shape[1]):
            out[r, c] = values[0, c]


def copy_batch(
    chosen: Tensor,
    layout: Sequence[Any],
    tables: Sequence[Mapping[str, Tensor]],
    views: Mapping[str, Tensor],
) -> None:
    """Fill in all arrays of a batch of the graphs ``chosen`` [B].

    ``layout``: first nodes and edges of graphs, and, counted from these, ends, places and both pointers of all graphs;
    ``tables``: values of nodes, edges and graphs by the name of their view.
    """
    first_node, first_edge, ends, place, pointer, source_pointer = layout
    arrays = {name: view.numpy() for name, view in views.items()}
    graphs, node_start, edge_start = chosen.numpy(), arrays["node_pointer"][:-1], np.empty(len(chosen) + 1, np.int64)
    place_graphs(graphs, first_node, first_edge, node_start, edge_start)
    nodes = len(arrays["number"])
    arrays["node_pointer"][-1] = nodes
    place_edges(graphs, first_edge, node_start, edge_start, ends, place, nodes - 1, arrays["ends"], arrays["place"])
    place_nodes(
        graphs, first_node, node_start, edge_start, pointer, source_pointer,
        *(arrays[name] for name in ("pointer", "source_pointer", "number")), arrays["real"][:, 0],
    )  # fmt: skip
    arrays["real_graphs"][:-1, 0], arrays["real_graphs"][-1] = graphs >= 0, 0
    size = views["node_pointer"].diff().float()[:, None]
    views[f"known.graph size {torch.float32}"].copy_(size)
    factor = size.clamp(min=1).rsqrt()
    torch.index_select(factor, 0, views["number"], out=views[f"known.size {torch.float32}"])
    for name, value in tables[2].items():
        torch.index_select(value, 0, torch.nn.functional.pad(chosen.clamp(min=0), (0, 1)), out=views[name])
    for values, first, start in ((tables[0], first_node, node_start), (tables[1], first_edge, edge_start)):
        for name, value in values.items():
            if arrays[name].size:
                flat, out = (each.reshape(len(each), -1) for each in (value.numpy(), arrays[name]))
                copy_rows(graphs, first, start, flat, out)
