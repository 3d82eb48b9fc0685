"""Gathering batches on the CPU (Numba): the rows of a graph lie side by side, and are copied as they are."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from dgn.kernels.batch_layout import BatchLayout
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
def place_edges(chosen, first, node_start, start, edge_index, target_to_source, last, ends, place):
    """Ends of the edges, and their place in the order of sources; padding edges begin and end in the last node."""
    for b in range(len(chosen)):
        shift, node = first[max(chosen[b], 0)] - start[b], np.int32(node_start[b])
        for e in range(start[b], start[b + 1]):
            ends[0, e] = edge_index[0, e + shift] + node
            ends[1, e] = edge_index[1, e + shift] + node
            place[e] = target_to_source[e + shift] + np.int32(start[b])
    for e in range(start[-1], len(place)):
        ends[0, e], ends[1, e], place[e] = last, last, e


@jit
def place_nodes(chosen, first, start, edge_start, by_target, by_source, pointer, source_pointer, batch, mask):
    """Where the edges of each node begin in both orders, its graph, and whether it is real."""
    for b in range(len(chosen)):
        shift = first[max(chosen[b], 0)] - start[b]
        for n in range(start[b], start[b + 1]):
            pointer[n], source_pointer[n] = by_target[n + shift] + edge_start[b], by_source[n + shift] + edge_start[b]
            batch[n], mask[n] = b, 1
    pointer[start[-1] :], source_pointer[start[-1] :] = edge_start[-1], edge_start[-1]
    batch[start[-1] :], mask[start[-1] :] = len(chosen), 0


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


class DatasetLayout(NamedTuple):
    """Arrays of all graphs of a dataset, counted from the first node and edge of each graph.

    Shapes:
        ``first_node`` and ``first_edge`` [G + 1]; ``edge_index`` [2, E], ``target_to_source`` [E]; ``pointer`` and
        ``source_pointer`` [N].
    """

    first_node: Any
    first_edge: Any
    edge_index: Any
    target_to_source: Any
    pointer: Any
    source_pointer: Any


class Table(NamedTuple):
    """Features of nodes, edges or graphs of a dataset, and where they go in a batch."""

    values: Tensor
    out: Tensor


def copy_batch(
    chosen: Tensor,
    dataset: DatasetLayout,
    layout: BatchLayout,
    nodes: Sequence[Table],
    edges: Sequence[Table],
    graphs: Sequence[Table],
) -> None:
    """Fill in all arrays of a batch of the graphs ``chosen`` [B], where -1 is no graph."""
    out = BatchLayout(*(view.numpy() for view in layout))
    index, node_start, edge_start = chosen.numpy(), out.node_pointer[:-1], np.empty(len(chosen) + 1, np.int64)
    place_graphs(index, dataset.first_node, dataset.first_edge, node_start, edge_start)
    out.node_pointer[-1] = len(out.batch)
    place_edges(
        index, dataset.first_edge, node_start, edge_start, dataset.edge_index, dataset.target_to_source,
        len(out.batch) - 1, out.edge_index, out.target_to_source,
    )  # fmt: skip
    place_nodes(
        index, dataset.first_node, node_start, edge_start, dataset.pointer, dataset.source_pointer, out.pointer,
        out.source_pointer, out.batch, out.node_mask[:, 0],
    )  # fmt: skip
    out.graph_mask[:-1, 0], out.graph_mask[-1] = index >= 0, 0
    size = layout.node_pointer.diff().float()[:, None]
    layout.graph_size.copy_(size)
    torch.index_select(size.clamp(min=1).rsqrt(), 0, layout.batch, out=layout.graph_norm)
    for table in graphs:
        torch.index_select(table.values, 0, torch.nn.functional.pad(chosen.clamp(min=0), (0, 1)), out=table.out)
    for tables, first, start in ((nodes, dataset.first_node, node_start), (edges, dataset.first_edge, edge_start)):
        for values, target in tables:
            if target.numel():
                flat, rows = (part.numpy().reshape(len(part), -1) for part in (values, target))
                copy_rows(index, first, start, flat, rows)
