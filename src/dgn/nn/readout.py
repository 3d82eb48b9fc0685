"""From nodes to graphs."""

from typing import Literal

import torch
from torch import Tensor

Readout = Literal["mean", "sum", "max", "directional", "nodes"]
READOUTS = ("mean", "sum", "max", "directional", "nodes")


def read_out(readout: Readout, x: Tensor, batch: Tensor, num_graphs: int, potential: Tensor | None = None) -> Tensor:
    r"""Combine the nodes of each graph.

    ``"directional"`` joins to the mean the projection on the first potential, blind to its sign:
    :math:`\big|\sum_i \phi_1(i) x_i\big| / \sum_i |\phi_1(i)|`. ``"nodes"`` keeps every node.

    Shapes:
        ``x`` [N, C], ``batch`` [N], ``potential`` [N, K]; returns [G, C] ([G, 2 C] directional, [N, C] nodes).
    """
    if readout == "nodes":
        return x
    if readout == "max":
        index = batch[:, None].expand_as(x)
        return x.new_zeros(num_graphs, x.size(1)).scatter_reduce(0, index, x, reduce="amax", include_self=False)
    total = _total(x, batch, num_graphs)
    if readout == "sum":
        return total
    mean = total / _total(torch.ones_like(x[:, :1]), batch, num_graphs).clamp(min=1)
    if readout == "mean":
        return mean
    if potential is None:
        raise ValueError(
            "potential: expected [N, K] for readout='directional', got None; add it with dgn.transforms.AddDirections"
        )
    first = potential[:, :1].to(x.dtype)
    size = _total(first.abs(), batch, num_graphs)
    projected = _total(first * x, batch, num_graphs).abs() / torch.where(size > 0, size, 1.0)
    return torch.cat([projected, mean], dim=1)


def _total(values: Tensor, batch: Tensor, num_graphs: int) -> Tensor:
    return values.new_zeros(num_graphs, values.size(1)).index_add(0, batch, values)
