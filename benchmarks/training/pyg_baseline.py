"""The directional network in plain PyG: what `benchmarks/training/against_pyg.py` compares with.

A straightforward implementation: a DataLoader of ``Batch``, messages built edge by edge, one scatter
per aggregator, towers in a loop, ``nn.BatchNorm1d``. It takes the parameters of :class:`dgn.nn.DGN`, so that both start
equal and give the same losses.
"""

import re
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.data import Data
from torch_geometric.nn import global_add_pool, global_max_pool, global_mean_pool
from torch_geometric.utils import degree, scatter

import dgn
from dgn.data import PackedGraphs
from dgn.data.benchmark import Benchmark
from dgn.training.build import Inputs
from dgn.training.config import NetworkSettings
from dgn.training.experiment import Experiment

POOLS = {"mean": global_mean_pool, "sum": global_add_pool, "max": global_max_pool}
DIRECTIONAL = re.compile(r"(av|dx)([1-9])(-signed)?")


class Encoder(nn.Module):
    """One embedding per column of categories, added up."""

    def __init__(self, sizes: tuple[int, ...], channels: int) -> None:
        super().__init__()
        self.columns = nn.ModuleList([nn.Embedding(size, channels) for size in sizes])

    def forward(self, categories: Tensor) -> Tensor:
        categories = categories.view(-1, len(self.columns))
        return torch.stack([column(categories[:, i]) for i, column in enumerate(self.columns)]).sum(dim=0)


def aggregate(name: str, message: Tensor, x_i: Tensor, target: Tensor, field: Tensor | None, n: int) -> Tensor:
    """One aggregator; dx subtracts the node's own features, as in the code behind the published numbers."""
    if name in ("mean", "sum", "max", "min"):
        return scatter(message, target, 0, n, name)
    if name in ("var", "std"):
        mean = scatter(message, target, 0, n, "mean")
        variance = scatter((message - mean[target]).square(), target, 0, n, "mean")
        return variance if name == "var" else (variance.clamp(min=1e-5).sqrt() * (variance > 1e-5))
    match = DIRECTIONAL.fullmatch(name)
    if match is None or field is None:
        raise ValueError(f"aggregator {name!r}: expected mean, sum, max, min, var, std, av or dx with a field")
    direction = field[:, int(match[2]) - 1, None]
    if match[1] == "av":
        return scatter(message * direction.abs(), target, 0, n, "sum")
    change = scatter((message - x_i) * direction, target, 0, n, "sum")
    return change if match[3] else change.abs()


class Tower(nn.Module):
    """A directional convolution of a slice of the channels."""

    def __init__(self, channels: int, out: int, settings: NetworkSettings, delta: float) -> None:
        super().__init__()
        self.aggregators, self.scalers, self.delta = settings.aggregators, settings.scalers, delta
        self.message = None
        if settings.message == "complex":
            self.message = nn.Linear(2 * channels + (settings.edge_dim or 0), channels)
        copies = len(self.aggregators) * len(self.scalers) + (self.message is not None)
        self.update = nn.Linear(copies * channels, out)

    def forward(self, x: Tensor, edge_index: Tensor, edge: Tensor | None, field: Tensor | None) -> Tensor:
        source, target = edge_index
        n = x.size(0)
        x_j, x_i = x[source], x[target]
        message = x_j
        if self.message is not None:
            message = self.message(torch.cat([x_j, x_i] if edge is None else [x_j, x_i, edge], dim=1))
        aggregates = torch.cat([aggregate(name, message, x_i, target, field, n) for name in self.aggregators], dim=1)
        amplification = torch.log(degree(target, n).clamp(min=1) + 1)[:, None] / self.delta
        scale = {"identity": 1.0, "amplification": amplification, "attenuation": 1 / amplification}
        scaled = [aggregates * scale[name] for name in self.scalers]
        return self.update(torch.cat(scaled if self.message is None else [x, *scaled], dim=1))


class Layer(nn.Module):
    """Towers, size norm, batch norm, then activation, dropout and residual as in the published networks."""

    def __init__(self, channels: int, out: int, settings: NetworkSettings, delta: float) -> None:
        super().__init__()
        towers = settings.towers
        self.towers = nn.ModuleList([Tower(channels // towers, out // towers, settings, delta) for _ in range(towers)])
        self.norm = nn.BatchNorm1d(out) if settings.batch_norm else nn.Identity()
        self.mix = nn.Linear(out, out) if towers > 1 else None
        self.dropout, self.residual = settings.dropout, settings.residual and channels == out

    def forward(self, x: Tensor, size: Tensor | None, *graph: Tensor | None) -> Tensor:
        chunks = x.chunk(len(self.towers), dim=1)
        y = torch.cat([tower(chunk, *graph) for tower, chunk in zip(self.towers, chunks, strict=True)], dim=1)
        y = self.norm(y if size is None else y * size)
        if self.mix is None:
            y = y.relu()
            return functional.dropout(x + y if self.residual else y, self.dropout, self.training)
        y = functional.leaky_relu(self.mix(functional.dropout(y, self.dropout, self.training)))
        return x + y if self.residual else y


class PyGNetwork(nn.Module):
    """Encoder, layers, pooling, head: the same function of its parameters as :class:`dgn.nn.DGN`."""

    def __init__(self, settings: NetworkSettings, inputs: Inputs, delta: float) -> None:
        super().__init__()
        if settings.virtual_node or settings.num_eigenvector_features or settings.readout == "directional":
            raise ValueError(
                "settings: expected no virtual node, eigenvector features or directional readout; not implemented here"
            )
        if settings.message == "complex" and settings.dx_reference != "node":
            raise ValueError(f"dx_reference: expected 'node', got {settings.dx_reference!r}; not implemented here")
        hidden, last = settings.hidden, settings.last or settings.hidden
        self.settings = settings
        self.node_encoder = _encoder(inputs.nodes, hidden)
        self.edge_encoder = None if settings.edge_dim is None else _encoder(inputs.edges, settings.edge_dim)
        widths = [*[hidden] * settings.num_layers, last] if settings.num_layers else [hidden]
        self.layers = nn.ModuleList([Layer(a, b, settings, delta) for a, b in pairwise(widths)])
        self.head = nn.Sequential(
            nn.Linear(last, last // 2), nn.ReLU(), nn.Linear(last // 2, last // 4), nn.ReLU(),
            nn.Linear(last // 4, inputs.targets),
        )  # fmt: skip

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_attr: Tensor | None,
        field: Tensor | None,
        batch: Tensor,
        num_graphs: int,
    ) -> Tensor:
        h = self.node_encoder(x)
        edge = None if self.edge_encoder is None else self.edge_encoder(edge_attr)
        size = degree(batch, num_graphs, h.dtype).rsqrt()[batch, None] if self.settings.size_norm else None
        for layer in self.layers:
            h = layer(h, size, edge_index, edge, field)
        if self.settings.readout != "nodes":
            h = POOLS[self.settings.readout](h, batch, num_graphs)
        return self.head(h)

    def load_dgn(self, network: dgn.nn.DGN) -> None:
        """Take the parameters and statistics of a :class:`dgn.nn.DGN` of the same settings."""
        self.load_state_dict(as_pyg_state(network))


def make_baseline(experiment: Experiment, benchmark: Benchmark, delta: float) -> PyGNetwork:
    """The network of an experiment for its graphs."""
    return PyGNetwork(experiment.network, Inputs.of(benchmark), delta)


def call(network: nn.Module, batch: Any) -> Tensor:
    """The prediction of the network, compiled or not, for a PyG ``Batch``."""
    edge_attr, field = batch.get("edge_attr"), batch.get("edge_field")
    return network(batch.x, batch.edge_index, edge_attr, field, batch.batch, batch.num_graphs)


def loss_of(objective: str, prediction: Tensor, y: Tensor) -> Tensor:
    """The published losses, for targets without missing values."""
    if objective == "regression":
        return functional.l1_loss(prediction, y.view(prediction.shape))
    if objective == "multi-label":
        return functional.binary_cross_entropy_with_logits(prediction, y.view(prediction.shape).to(prediction.dtype))
    if objective == "classification":
        return functional.cross_entropy(prediction, y)
    count = torch.bincount(y, minlength=prediction.size(1))
    weight = (len(y) - count) / len(y) * (count > 0)
    return functional.cross_entropy(prediction, y, weight=weight.to(prediction.dtype))


def as_data(graphs: PackedGraphs, with_edges: bool) -> list[Data]:
    """The graphs as a list of ``Data``; the field is normalised here once, as a ``pre_transform`` would."""
    tables = {"x": _wide(graphs.nodes["x"]), "edge_index": graphs.edge_index.long().T}
    if with_edges:
        tables["edge_attr"] = _wide(graphs.edges["edge_attr"])
    if "edge_field" in graphs.edges:
        tables["edge_field"] = dgn.normalize(graphs.edges["edge_field"], graphs.graph)
    on_nodes = "y" in graphs.nodes
    tables["y"] = _wide(graphs.nodes["y"] if on_nodes else graphs.graphs["y"])
    nodes, edges = graphs.node_pointer.diff().tolist(), graphs.edge_pointer.diff().tolist()
    rows = {"x": nodes, "y": nodes if on_nodes else [1] * len(graphs)}
    slices = {name: value.split(rows.get(name, edges)) for name, value in tables.items()}
    data = []
    for index in range(len(graphs)):
        values = {name: tensors[index] for name, tensors in slices.items()}
        data.append(Data(**{**values, "edge_index": values["edge_index"].T.contiguous()}))
    return data


def _wide(values: Tensor) -> Tensor:
    return values if values.is_floating_point() else values.long()


def _encoder(columns: tuple[int, ...] | int | None, channels: int) -> nn.Module:
    assert columns is not None
    return nn.Linear(columns, channels) if isinstance(columns, int) else Encoder(columns, channels)


def as_pyg_state(ours: dgn.nn.DGN) -> dict[str, Tensor]:
    """The state of a :class:`dgn.nn.DGN` under the names used here, with towers and columns as separate modules."""
    theirs: dict[str, Tensor] = {}
    for name, module in ours.named_modules():
        if isinstance(module, dgn.nn.CategoryEncoder):
            tables = module.weight.detach().split(list(module.sizes))
            theirs |= {f"{name}.columns.{i}.weight": table for i, table in enumerate(tables)}
        elif isinstance(module, dgn.nn.DGNConv):
            layer = name.removesuffix(".conv")
            for part in ("message", "update") if module.message is not None else ("update",):
                linear = getattr(module, part)
                for tower, (weight, bias) in enumerate(zip(linear.weight.detach(), linear.bias.detach(), strict=True)):
                    theirs |= {f"{layer}.towers.{tower}.{part}.{key}": value
                               for key, value in (("weight", weight), ("bias", bias))}  # fmt: skip
    renamed = (
        ".conv.",
        *(f"{name}." for name, child in ours.named_children() if isinstance(child, dgn.nn.CategoryEncoder)),
    )
    same = {name: value for name, value in ours.state_dict().items() if not any(part in name for part in renamed)}
    return same | theirs
