"""Networks that predict the change of a scalar until the next frame, for ``transport.py``."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

import dgn
from benchmarks.fields.node_regression import DirectionalLayer, NodeBatch
from dgn.nn import DGNConv

INPUTS = 6  # of the coefficients of a scheme


class Invariant(nn.Module):
    """A network on the scalar of mean 0 and standard deviation 1; the change that it predicts conserves the integral.

    The equation is linear, ignores constants and conserves the integral of the scalar, hence so may every network.
    """

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, batch: NodeBatch) -> Tensor:
        graph, area = batch.graph, batch.extra["area"]
        scalar = batch.x[:, :1]
        centered = scalar - _integral(graph, scalar, area)
        deviation = _integral(graph, centered.square(), area).sqrt().clamp(min=1e-6)
        x = torch.cat([centered / deviation, batch.x[:, 1:]], dim=1)
        change = self.network(NodeBatch(x, batch.y, graph, batch.field, batch.edge_attr, batch.extra)) * deviation
        return change - _integral(graph, change, area)


def _integral(graph: dgn.Graph, values: Tensor, area: Tensor) -> Tensor:
    """The mean of ``values`` [N, 1] over the area of each graph, at its nodes. [N, 1]"""
    return (graph.sum_over_graph(values * area) / graph.sum_over_graph(area))[graph.batch]


class Directional(nn.Module):
    """Encoder, ``DGNConv`` layers with a residual connection and a norm, decoder: no state on edges."""

    def __init__(self, width: int, depth: int, make_layer: Callable[[int], nn.Module]) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(4, width), nn.ReLU(), nn.Linear(width, width))
        self.layers = nn.ModuleList([make_layer(width) for _ in range(depth)])
        self.mix = nn.ModuleList([nn.Sequential(nn.ReLU(), nn.Linear(width, width)) for _ in range(depth)])
        self.norms = nn.ModuleList([nn.LayerNorm(width) for _ in range(depth)])
        self.decoder = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1))

    def forward(self, batch: NodeBatch) -> Tensor:
        h = self.encoder(batch.x)
        for layer, mix, norm in zip(self.layers, self.mix, self.norms, strict=True):
            h = h + norm(mix(layer(h, batch)))
        return self.decoder(h)


class MeshGraphNet(nn.Module):
    """Encoder, blocks that update edges and nodes by perceptrons, decoder (Pfaff et al. 2021, arXiv:2010.03409)."""

    def __init__(self, width: int, depth: int) -> None:
        super().__init__()

        def perceptron(inputs: int, outputs: int = width, norm: bool = True) -> nn.Sequential:
            layers = [nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, outputs)]
            return nn.Sequential(*layers, *([nn.LayerNorm(outputs)] if norm else []))

        self.nodes, self.edges = perceptron(4), perceptron(3)
        self.edge_updates = nn.ModuleList([perceptron(3 * width) for _ in range(depth)])
        self.node_updates = nn.ModuleList([perceptron(2 * width) for _ in range(depth)])
        self.decoder = perceptron(width, 1, norm=False)

    def forward(self, batch: NodeBatch) -> Tensor:
        assert batch.edge_attr is not None
        h, e = self.nodes(batch.x), self.edges(batch.edge_attr)
        source, target = batch.graph.edge_index
        for edge_update, node_update in zip(self.edge_updates, self.node_updates, strict=True):
            e = e + edge_update(torch.cat([h[source], h[target], e], dim=1))
            h = h + node_update(torch.cat([h, batch.graph.sum_to_target(e)], dim=1))
        return self.decoder(h)


class Scheme(nn.Module):
    r"""A learned numerical scheme: linear in the scalar, with coefficients that depend on mesh and wind.

    .. math::
        e_i = \text{MLP}(s_i), \quad z^0 = c \, A e, \quad
        z^{l+1} = z^l + B_l e \odot U_l \Big(\bigoplus_{(j,i)} A_l e_j \odot z^l_j\Big), \quad
        \Delta c = \langle C e, z^L \rangle

    :math:`\bigoplus` are directional aggregators without absolute values along :func:`wind_gradient`, hence linear in
    z; coefficients are affine maps of e, which sees :func:`mesh_numbers`. Turned with its wind, a mesh has the same
    coefficients. If not ``consistent``, the field is the wind projected on the edges.
    """

    def __init__(self, width: int, depth: int, aggregators: Sequence[str], consistent: bool = True) -> None:
        super().__init__()
        self.consistent = consistent
        self.encoder = nn.Sequential(nn.Linear(INPUTS, width), nn.ReLU(), nn.Linear(width, width), nn.Tanh())
        self.first, self.last = nn.Linear(width, width), nn.Linear(width, width)
        self.before = nn.ModuleList([nn.Linear(width, width) for _ in range(depth)])
        self.convs = nn.ModuleList([DGNConv(width, width, list(aggregators)) for _ in range(depth)])
        self.behind = nn.ModuleList([nn.Linear(width, width) for _ in range(depth)])
        for conv in self.convs:
            conv.update.bias.requires_grad_(False).zero_()  # nothing comes of nothing
        for coefficients in (self.first, *self.before, *self.behind):
            nn.init.ones_(coefficients.bias)

    def forward(self, batch: NodeBatch) -> Tensor:
        field = wind_gradient(batch) if self.consistent else batch.field
        assert field is not None
        e = self.encoder(mesh_numbers(batch, field))
        z = batch.x[:, :1] * self.first(e)
        for before, conv, behind in zip(self.before, self.convs, self.behind, strict=True):
            z = z + behind(e) * conv(before(e) * z, batch.graph, edge_field=field)
        return (z * self.last(e)).sum(dim=1, keepdim=True) / z.size(1) ** 0.5


def wind_gradient(batch: NodeBatch) -> Tensor:
    r"""Fields whose derivatives are consistent on an irregular mesh: least squares along the wind and across it. [E, 2]

    .. math::
        F_{ij} = \frac{u_i \cdot M_i^{-1} (p_j - p_i)}{|p_j - p_i|^2}, \qquad
        M_i = \sum_j \frac{(p_j - p_i)(p_j - p_i)^T}{|p_j - p_i|^2}

    with the unit vector u of the wind, or the same turned by 90 degrees: :math:`\sum_j F_{ij} (c_j - c_i)` is the
    derivative of a c that is linear.
    """
    if "wind gradient" not in batch.extra:
        assert batch.edge_attr is not None
        target, step = batch.graph.edge_index[1], batch.edge_attr[:, :2]
        scaled = step / step.square().sum(dim=1, keepdim=True)
        moments = batch.graph.sum_to_target((scaled[:, :, None] * step[:, None]).flatten(1)).view(-1, 2, 2)
        moments = moments + 1e-4 * torch.eye(2, device=step.device)
        weights = torch.linalg.solve(moments[target], scaled)
        along = nn.functional.normalize(batch.x[:, 1:3], dim=1)
        across = torch.stack([-along[:, 1], along[:, 0]], dim=1)
        fields = [(direction[target] * weights).sum(dim=1) for direction in (along, across)]
        batch.extra["wind gradient"] = torch.stack(fields, dim=1)
    return batch.extra["wind gradient"]


def mesh_numbers(batch: NodeBatch, field: Tensor) -> Tensor:
    """Numbers of mesh and wind at each node, none of which depends on how the mesh is turned. [N, INPUTS]

    The mean length h of its edges; the log of the Courant number, speed / h; the sums of the absolute field times h;
    boundary or not; the degree.
    """
    key = ("mesh numbers", id(field))  # which lives as long as the batch
    if key not in batch.extra:
        assert batch.edge_attr is not None
        degree = batch.graph.sum_to_target(torch.ones_like(batch.edge_attr[:, :1])).clamp(min=1)
        length = batch.graph.sum_to_target(batch.edge_attr[:, 2:]) / degree
        slope = batch.graph.sum_to_target(field.abs()) * length / 2
        courant = batch.x[:, 1:3].norm(dim=1, keepdim=True) / length
        columns = [length, (courant + 0.1).log(), slope, batch.x[:, 3:4], degree / 6]
        batch.extra[key] = torch.cat(columns, dim=1)
    return batch.extra[key]


def limit(graph: dgn.Graph, before: Tensor, after: Tensor, hops: int = 2) -> Tensor:
    """``after`` between the least and the largest value of ``before`` within some hops, as the solution nearly is. [N]

    A scheme with this limiter is stable: no value leaves the range of the first frame.
    """
    source, target = graph.edge_index
    low = high = before
    for _ in range(hops):
        low = low.scatter_reduce(0, target, low[source], "amin")
        high = high.scatter_reduce(0, target, high[source], "amax")
    return after.clamp(low, high)


EDGES = {"message": "complex", "edge_dim": 3}
SIGNED = ("mean", "dx1-signed", "dx2-signed", "av1")
BOTH_SIDES = ("mean", "fwd1", "bwd1", "fwd2", "bwd2")


def _directional(*aggregators: str, **more: object) -> Callable[[int, int], nn.Module]:
    return lambda width, depth: Directional(width, depth, lambda w: DirectionalLayer(w, aggregators, **more))


NETWORKS: dict[str, Callable[[int, int], nn.Module]] = {
    "mean max min std": _directional("mean", "max", "min", "std"),
    "mean max min std, edges": _directional("mean", "max", "min", "std", **EDGES),
    "mean dx1 dx2 av1 (absolute)": _directional("mean", "dx1", "dx2", "av1"),
    "mean dx1-signed dx2-signed av1": _directional(*SIGNED),
    "mean dx1-signed dx2-signed av1, edges": _directional(*SIGNED, **EDGES),
    "scheme of mean": lambda width, depth: Scheme(width, depth, ["mean"]),
    "scheme of mean dx1-signed dx2-signed av1": lambda width, depth: Scheme(width, depth, SIGNED),
    "scheme of mean fwd1 bwd1 fwd2 bwd2": lambda width, depth: Scheme(width, depth, BOTH_SIDES),
    "MeshGraphNets-like, edges": MeshGraphNet,
    "scheme of mean fwd1 bwd1 fwd2 bwd2, projected wind": lambda width, depth: Scheme(
        width, depth, BOTH_SIDES, consistent=False
    ),
}


def make_network(name: str, width: int, depth: int) -> nn.Module:
    return Invariant(NETWORKS[name](width, depth))
