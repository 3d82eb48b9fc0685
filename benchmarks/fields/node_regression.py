"""Networks for targets of nodes, of equal numbers of parameters, and one loop that trains them.

Used by ``directed.py``, ``era5.py``, ``long_range.py`` and ``transport.py``: an encoder, layers with residual
connections, a head. Every network of a comparison has the same depth, input and output, and the largest width within
one budget of parameters.
"""

import dataclasses
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import dgn
from dgn.data.io.atomic import atomic_file
from dgn.nn import DGNConv


@dataclass
class NodeBatch:
    """Graphs side by side, with one row of inputs and targets per node."""

    x: Tensor
    y: Tensor
    graph: dgn.Graph
    field: Tensor | None = None
    edge_attr: Tensor | None = None
    extra: dict[Any, Any] = dataclasses.field(default_factory=dict)


MakeLayer = Callable[[int], nn.Module]


class DirectionalLayer(nn.Module):
    """``DGNConv`` on the field of the batch, or on some of its columns."""

    def __init__(
        self, width: int, aggregators: Sequence[str], columns: Sequence[int] | None = None, **more: Any
    ) -> None:
        super().__init__()
        self.conv = DGNConv(width, width, list(aggregators), **more)
        self.columns = columns

    def forward(self, h: Tensor, batch: NodeBatch) -> Tensor:
        field = batch.field
        if self.columns is not None and field is not None:
            key = ("columns", tuple(self.columns))
            field = batch.extra.setdefault(key, field[:, list(self.columns)])
        return self.conv(h, batch.graph, edge_field=field, edge_attr=batch.edge_attr if self.conv.edge_dim else None)


class EdgeLayer(nn.Module):
    """A PyG convolution, called with the features and the edges."""

    def __init__(self, conv: nn.Module) -> None:
        super().__init__()
        self.conv = conv

    def forward(self, h: Tensor, batch: NodeBatch) -> Tensor:
        return self.conv(h, batch.extra.get("edge_index", batch.graph.edge_index))


class Network(nn.Module):
    """Encoder, layers with residual connections and batch norm, and a perceptron that predicts for each node."""

    def __init__(self, inputs: int, outputs: int, width: int, depth: int, make_layer: MakeLayer) -> None:
        super().__init__()
        self.encoder = nn.Linear(inputs, width)
        self.layers = nn.ModuleList([make_layer(width) for _ in range(depth)])
        self.norms = nn.ModuleList([nn.BatchNorm1d(width) for _ in range(depth)])
        self.head = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, outputs))

    def forward(self, batch: NodeBatch) -> Tensor:
        h = self.encoder(batch.x)
        for layer, norm in zip(self.layers, self.norms, strict=True):
            h = h + norm(layer(h, batch)).relu()
        return self.head(h)


def count(network: nn.Module) -> int:
    return sum(parameter.numel() for parameter in network.parameters())


def widest(make: Callable[[int], nn.Module], budget: int, step: int = 1) -> int:
    """The largest width, a multiple of ``step``, whose network has at most ``budget`` parameters."""
    width = step
    while count(make(width + step)) <= budget:
        width += step
    return width


@dataclass(frozen=True)
class Recipe:
    """How all networks of a comparison are trained."""

    steps: int
    learning_rate: float = 3e-3
    weight_decay: float = 1e-5
    clip: float = 1.0


def fit(
    network: nn.Module,
    batch_of: Callable[[int], NodeBatch],
    loss_of: Callable[[nn.Module, NodeBatch], Tensor],
    recipe: Recipe,
) -> float:
    """Train with AdamW, a warm-up and a cosine; returns milliseconds a step. ``batch_of(step)`` gives each batch."""
    optimizer = torch.optim.AdamW(network.parameters(), recipe.learning_rate, weight_decay=recipe.weight_decay)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, recipe.learning_rate, recipe.steps, pct_start=0.05)
    network.train()
    device = next(network.parameters()).device
    begin = time.perf_counter()
    for step in range(recipe.steps):
        optimizer.zero_grad()
        loss_of(network, batch_of(step)).backward()
        nn.utils.clip_grad_norm_(network.parameters(), recipe.clip)
        optimizer.step()
        schedule.step()
    if device.type == "cuda":
        torch.cuda.synchronize()
    return 1000 * (time.perf_counter() - begin) / recipe.steps


class Cells:
    """Results of a comparison in one JSON file, written after every cell; what it holds is not computed again.

    A cell is named by its keys, for example task, network and seed. A file of other settings is refused.
    """

    def __init__(self, path: Path, settings: dict[str, Any]) -> None:
        self.path, self.settings = path, json.loads(json.dumps(settings))
        self.rows: list[dict[str, Any]] = []
        if path.exists():
            stored = json.loads(path.read_text())
            if stored["settings"] != self.settings:
                raise SystemExit(f"{path}: expected results of {self.settings}, got {stored['settings']}; move it away")
            self.rows = stored["rows"]

    def has(self, key: dict[str, Any]) -> bool:
        return any(all(row.get(name) == value for name, value in key.items()) for row in self.rows)

    def run(self, key: dict[str, Any], compute: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """The row of a cell, computed and written unless it is there."""
        for row in self.rows:
            if all(row.get(name) == value for name, value in key.items()):
                return row
        row = {**key, **compute()}
        self.rows.append(row)
        with atomic_file(self.path) as file:
            file.write_text(json.dumps({"settings": self.settings, "rows": self.rows}, indent=1) + "\n")
        print(json.dumps(row), flush=True)
        return row

    def summary(self, keys: Sequence[str], values: Sequence[str], digits: int = 3) -> str:
        """A Markdown table of means and standard deviations over seeds: a line for each combination of ``keys``."""
        text = [f"| {' | '.join([*keys, *values])} |", "|" + "---|" * (len(keys) + len(values))]
        for line in dict.fromkeys(tuple(row[name] for name in keys) for row in self.rows):
            here = [row for row in self.rows if tuple(row[name] for name in keys) == line]
            cells = [_mean([row[value] for row in here if value in row], digits) for value in values]
            text.append(f"| {' | '.join([*map(str, line), *cells])} |")
        return "\n".join(text)


def _mean(values: list[float], digits: int) -> str:
    """Mean and standard deviation; whole numbers as they are."""
    if not values:
        return ""
    if all(isinstance(value, int) for value in values):
        return f"{values[0]:,}"
    numbers = torch.tensor(values, dtype=torch.float64)
    spread = f" ± {float(numbers.std()):.{digits}f}" if len(values) > 1 else ""
    return f"{float(numbers.mean()):.{digits}f}{spread}"
