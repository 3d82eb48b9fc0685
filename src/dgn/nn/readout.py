"""From nodes to outputs: the readout and the published head."""

from itertools import pairwise
from typing import Literal

import torch
from torch import Tensor, nn

from dgn.graph import Graph
from dgn.nn.linear import Linear

Readout = Literal["mean", "sum", "sum-mean", "max", "directional", "nodes"]
READOUTS = ("mean", "sum", "sum-mean", "max", "directional", "nodes")
DOUBLE_WIDTH = ("sum-mean", "directional")  # as wide as the nodes


def pool(readout: Readout, x: Tensor, graph: Graph, potential: Tensor | None = None) -> Tensor:
    r"""Combine the nodes of each graph.

    ``"directional"`` joins to the mean the projection on the first potential,
    :math:`\big|\sum_i \phi_1(i) x_i\big| / \sum_i |\phi_1(i)|`, with the sum over all nodes of a graph. It is blind to
    the sign of the potential of a whole graph, so of a connected one. Connected components have signs of their own:
    where a graph has several, it depends on those that :func:`dgn.directions` chose. ``"sum-mean"`` joins the mean to
    the sum, for what grows with a graph and what does not. ``"nodes"`` keeps every node.

    Shapes:
        ``x`` [N, C], ``potential`` [N, K]; returns [G, C] ([G, 2 C] sum-mean and directional, [N, C] nodes).
    """
    if readout == "nodes":
        return x
    if readout == "max":
        number = graph.target.new_zeros(len(x)) if graph.batch is None else graph.batch
        index = number[:, None].expand_as(x)
        return x.new_zeros(graph.num_graphs, x.size(1)).scatter_reduce(0, index, x, reduce="amax", include_self=False)
    if readout == "sum":
        return graph.sum_over_graph(x)
    if readout == "sum-mean":
        total = graph.sum_over_graph(x)
        return torch.cat([total, total / graph.graph_size(x.dtype).clamp(min=1)], dim=1)
    mean = graph.sum_over_graph(x, mean=True)
    if readout == "mean":
        return mean
    if potential is None:
        raise ValueError(
            "node_potential: expected [N, K] for readout='directional', got None; dgn.transforms.AddDirections adds it"
        )
    first = potential[:, :1].to(x.dtype)
    size = graph.sum_over_graph(first.abs())
    projected = graph.sum_over_graph(first * x).abs() / torch.where(size > 0, size, 1.0)
    return torch.cat([projected, mean], dim=1)


class Head(nn.Sequential):
    """Two halvings with ReLU, as published, or ``layers`` hidden layers of ``width`` channels; then the outputs.

    Shapes:
        [N, channels] to [N, targets].

    >>> Head(8, 8, targets=2)
    Head(
      (0): Linear(in_features=8, out_features=4, bias=True)
      (1): ReLU()
      (2): Linear(in_features=4, out_features=2, bias=True)
      (3): ReLU()
      (4): Linear(in_features=2, out_features=2, bias=True)
    )
    """

    def __init__(self, channels: int, width: int, targets: int, layers: int | None = None) -> None:
        inner = [max(width // 2, 1), max(width // 4, 1)] if layers is None else [width] * layers
        widths = [channels, *inner]
        hidden = [part for a, b in pairwise(widths) for part in (Linear(a, b), nn.ReLU())]
        super().__init__(*hidden, Linear(widths[-1], targets))
