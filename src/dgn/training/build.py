"""From settings to a network: encoders that fit the data, then the layers."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch import nn

from dgn.graph.checks import check_option
from dgn.nn import ATOM_SIZES, BOND_SIZES, DGN, CategoryEncoder
from dgn.training.settings import NetworkSettings

if TYPE_CHECKING:
    from dgn.data.benchmarks import Benchmark


@dataclass(frozen=True)
class Task:
    """What goes into a network and what it is asked for.

    ``nodes`` and ``edges`` are the categories of each column, or the number of columns with numbers; ``edges`` is
    ``None`` without features. ``objective`` and ``metric`` are names of :mod:`dgn.training.objectives`.
    """

    nodes: tuple[int, ...] | int
    edges: tuple[int, ...] | int | None
    targets: int
    objective: str
    metric: str

    @classmethod
    def of(cls, benchmark: "Benchmark") -> "Task":
        """The task of graphs in memory."""
        nodes, edges = benchmark.graphs.nodes["x"], benchmark.graphs.edges.get("edge_attr")
        return cls(
            benchmark.node_sizes or _width(nodes),
            benchmark.edge_sizes or (None if edges is None else _width(edges)),
            benchmark.targets,
            benchmark.objective,
            benchmark.metric,
        )


#: The benchmarks, known without opening them.
KNOWN_TASKS = {
    "zinc": Task((28,), (4,), 1, "regression", "mae"),
    "pattern": Task((3,), None, 2, "node-classification", "balanced-accuracy"),
    "cifar10": Task(5, 1, 10, "classification", "accuracy"),
    "molhiv": Task(ATOM_SIZES, BOND_SIZES, 1, "multi-label", "roc-auc"),
    "molpcba": Task(ATOM_SIZES, BOND_SIZES, 128, "multi-label", "average-precision"),
    "digits": Task(1, None, 10, "classification", "accuracy"),
}


def known_task(dataset: str) -> Task:
    """The task of a benchmark by its name."""
    check_option("data.dataset", dataset, tuple(KNOWN_TASKS))
    return KNOWN_TASKS[dataset]


def build_network(settings: NetworkSettings, benchmark: "Benchmark", delta: float) -> DGN:
    """The network of an experiment for the graphs it is trained on.

    ``delta`` is the mean of log(degree + 1) over the training nodes.
    """
    return build_for_task(settings, Task.of(benchmark), delta)


def build_for_task(settings: NetworkSettings, task: Task, delta: float = 1.0) -> DGN:
    """The network of an experiment for a task.

    >>> network = build_for_task(NetworkSettings(hidden=8, aggregators=("mean",)), known_task("zinc"))
    >>> network.node_encoder, network.head[-1].out_features
    (CategoryEncoder((28,), 8), 1)
    """
    if settings.edge_dim is not None and task.edges is None:
        raise ValueError(
            f"network.edge_dim: expected none, for the graphs have no edge features, got {settings.edge_dim}; "
            "leave it out"
        )
    return DGN(
        _encoder(task.nodes, settings.hidden),
        settings.hidden,
        task.targets,
        settings.layers,
        settings.last,
        settings.aggregators,
        settings.scalers,
        delta,
        settings.message,
        None if settings.edge_dim is None else _encoder(task.edges, settings.edge_dim),
        settings.edge_dim,
        settings.towers,
        settings.derivative,
        settings.dropout,
        settings.batch_norm,
        settings.residual,
        settings.size_norm,
        settings.virtual_node,
        settings.positional,
        settings.readout,
        settings.initialization,
    )


def count_parameters(network: nn.Module) -> int:
    """The number of trained parameters.

    >>> count_parameters(nn.Linear(2, 3))
    9
    """
    return sum(parameter.numel() for parameter in network.parameters() if parameter.requires_grad)


def _encoder(columns: tuple[int, ...] | int | None, channels: int) -> nn.Module:
    assert columns is not None
    return nn.Linear(columns, channels) if isinstance(columns, int) else CategoryEncoder(columns, channels)


def _width(values: Any) -> int:
    return 1 if values.dim() == 1 else int(values.size(1))
