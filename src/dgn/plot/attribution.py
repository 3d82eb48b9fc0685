"""Attribution of a prediction to nodes and edges by integrated gradients."""

from collections.abc import Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from dgn.nn import DGN, Ensemble


@dataclass(frozen=True, eq=False)
class Attribution:
    """The shares of nodes and edges in ``prediction - baseline``, to which they add up.

    ``members`` are those of which it is the mean, if any.

    Shapes:
        ``nodes`` [N], ``edges`` [E].
    """

    nodes: Tensor
    edges: Tensor
    prediction: float
    baseline: float
    members: tuple["Attribution", ...] = ()

    @property
    def rest(self) -> float:
        """The quadrature error, prediction - baseline - sum of shares."""
        return self.prediction - self.baseline - float(self.nodes.sum() + self.edges.sum())


class Baseline(NamedTuple):
    """Encoded features of a node [C] and of an edge [C'], from which an attribution starts."""

    nodes: Tensor
    edges: Tensor


def mean_features(network: DGN, graphs: Iterable[Any]) -> Baseline:
    """The mean encoded features of the nodes and edges of graphs: a typical node, and a typical edge."""
    encoded = [_encoded(network, data)[1:] for data in graphs]
    nodes, edges = (torch.cat(parts) for parts in zip(*encoded, strict=True))
    return Baseline(nodes.mean(dim=0), edges.mean(dim=0) if len(edges) else edges.new_zeros(edges.size(1)))


def attribute(
    network: DGN | Ensemble, data: Any, target: int = 0, steps: int = 256, baseline: Baseline | None = None
) -> Attribution:
    r"""Integrated gradients (Sundararajan, Taly and Yan 2017) over the encoded features of nodes and edges.

    .. math:: a_i = (h_i - \bar h) \cdot \int_0^1 \frac{\partial f}{\partial h_i}(\bar h + t (h - \bar h),
              \bar e + t (e - \bar e)) \, dt

    :math:`h` and :math:`e` are the encoded node and edge features, :math:`a_i` the share of node i, summed over its
    channels, and likewise for edges. The baseline :math:`f(\bar h, \bar e)` is the same graph with the same field, and
    the features ``baseline`` at all nodes and edges: by default zero, or typical ones (:func:`mean_features`).
    The integral uses Gauss-Legendre quadrature with ``steps`` points, in one batch, in float64. The network is
    evaluated in eval mode and not modified. Shares of ensemble members are averaged.

    Laws: shares add up to prediction minus baseline, up to ``rest`` (completeness); an input that the network does not
    read has share 0; a network that is linear in its inputs gives its own terms.

    ``data`` is one graph as a PyG ``Data``, such as ``PackedGraphs[index]``, with the network's inputs: ``x``,
    ``edge_index``, ``edge_field``, ``edge_attr``, ``node_potential``, ``structure``, ``graph_attr``, which is the same
    in the baseline. ``target`` is the column of the output.
    """
    if isinstance(network, Ensemble):
        if baseline is not None:
            raise ValueError("baseline: expected none for an ensemble, got one; attribute each member with its own")
        return average([attribute(member, data, target, steps) for member in network.members])
    if network.settings.readout == "nodes":
        raise ValueError("network: expected one with graph-level predictions, got readout='nodes'")
    open_network, nodes, edges = _encoded(network, data)
    point, weight = np.polynomial.legendre.leggauss(steps)
    path = torch.from_numpy((point + 1) / 2).to(nodes)
    # The batch also holds the ends of the path, the prediction and the baseline.
    path = torch.cat([path, path.new_tensor([1.0, 0.0])])
    start = baseline or Baseline(nodes.new_zeros(nodes.size(1)), edges.new_zeros(edges.size(1)))
    pairs = list(zip(start, (nodes, edges), strict=True))
    inputs = [_interpolate(path, base, values).requires_grad_() for base, values in pairs]
    outputs = _forward_copies(open_network, data, inputs, len(path))
    if not 0 <= target < outputs.size(1):
        raise ValueError(f"target: expected a column from 0 to {outputs.size(1) - 1}, got {target}")
    gradients = torch.autograd.grad(outputs[:steps, target].sum(), inputs, allow_unused=True)
    weights = torch.from_numpy(weight / 2).to(nodes)[:, None, None]
    shares = []
    for (base, values), gradient in zip(pairs, gradients, strict=True):
        # No gradient: the network does not read these inputs.
        slope = 0.0 if gradient is None else (weights * gradient.view(len(path), *values.shape)[:steps]).sum(dim=0)
        shares.append(((values - base) * slope).sum(dim=1).cpu())
    return Attribution(shares[0], shares[1], *outputs[steps:, target].tolist())


def average(shares: Sequence[Attribution], scale: float = 1.0, center: float = 0.0) -> Attribution:
    """The attribution of the mean of several networks, of which a prediction is center + scale * output.

    >>> one = Attribution(torch.tensor([1.0, 2.0]), torch.zeros(2), 3.0, 0.0)
    >>> both = average([one, Attribution(torch.tensor([3.0, 0.0]), torch.zeros(2), 4.0, 1.0)], scale=2.0, center=1.0)
    >>> both.nodes.tolist(), both.prediction, both.baseline
    ([4.0, 2.0], 8.0, 2.0)
    """
    if not shares:
        raise ValueError("shares: expected the attributions of one or more networks, got none")
    members = tuple(
        Attribution(
            scale * share.nodes, scale * share.edges, center + scale * share.prediction, center + scale * share.baseline
        )
        for share in shares
    )
    return Attribution(
        torch.stack([member.nodes for member in members]).mean(dim=0),
        torch.stack([member.edges for member in members]).mean(dim=0),
        fmean(member.prediction for member in members),
        fmean(member.baseline for member in members),
        members,
    )


def _encoded(network: DGN, data: Any) -> tuple[DGN, Tensor, Tensor]:
    """A copy of the network without encoders, and the encoded node and edge features."""
    copy = deepcopy(network).double().eval()
    with torch.no_grad():
        nodes = copy.node_encoder(_floats(data.x))
        if copy.structure is not None:
            nodes = nodes + copy.structure(data.structure)
        edges = nodes.new_zeros(data.edge_index.size(1), copy.settings.edge_dim or 0)
        if copy.settings.edge_dim is not None and getattr(data, "edge_attr", None) is not None:
            edges = _floats(data.edge_attr)
            edges = edges if copy.edge_encoder is None else copy.edge_encoder(edges)
    copy.node_encoder, copy.structure = nn.Identity(), None
    copy.edge_encoder = None
    return copy, nodes, edges


def _floats(values: Tensor) -> Tensor:
    return values.double() if values.is_floating_point() else values


def _interpolate(path: Tensor, start: Tensor, end: Tensor) -> Tensor:
    """Points from ``start`` [C] to ``end`` [R, C] at each position of the path, concatenated."""
    return (start + path[:, None, None] * (end - start)).flatten(0, 1)


def _forward_copies(network: DGN, data: Any, inputs: Sequence[Tensor], copies: int) -> Tensor:
    """Outputs for copies of one graph with different features. [copies, T]"""
    nodes, edges = inputs
    size = data.x.size(0)
    index = torch.arange(copies, device=nodes.device)
    shift = (index * size).repeat_interleave(data.edge_index.size(1))
    fields = [getattr(data, name, None) for name in ("edge_field", "node_potential", "gap")]
    field, potential, gap = (None if values is None else values.double().repeat(copies, 1) for values in fields)
    features = getattr(data, "graph_attr", None)
    outputs: Tensor = network(
        nodes,
        data.edge_index.repeat(1, copies) + shift,
        edge_field=field,
        edge_attr=edges if network.settings.edge_dim is not None else None,
        batch=index.repeat_interleave(size),
        node_potential=potential,
        num_graphs=copies,
        gap=gap,
        graph_attr=None if features is None else features.double().repeat(copies, 1),
    )
    return outputs
