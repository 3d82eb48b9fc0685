"""From settings to a network: encoders that fit the data, then the layers."""

from dataclasses import dataclass

from torch import Tensor, nn

from dgn.data.benchmarks import TASKS, Benchmark
from dgn.graph.checks import check_option
from dgn.nn import DGN, CategoryEncoder, Linear
from dgn.training.settings import NetworkSettings

Columns = tuple[int, ...] | int
WIDTHS: dict[str, tuple[int, int | None]] = {"cifar10": (5, 1), "digits": (1, None)}  # numbers of nodes and edges


@dataclass(frozen=True)
class Inputs:
    """What goes into a network and how much comes out.

    ``nodes`` and ``edges`` are the categories of each column, or the number of columns with numbers; ``edges`` is
    ``None`` without features.
    """

    nodes: Columns
    edges: Columns | None
    targets: int

    @classmethod
    def of(cls, benchmark: Benchmark) -> "Inputs":
        """The inputs of graphs in memory."""
        nodes, edges = benchmark.graphs.nodes["x"], benchmark.graphs.edges.get("edge_attr")
        return cls(
            benchmark.node_sizes or _width(nodes),
            benchmark.edge_sizes or (None if edges is None else _width(edges)),
            benchmark.targets,
        )


def known_inputs(dataset: str) -> Inputs:
    """The inputs of a benchmark by its name, without opening it.

    >>> known_inputs("zinc")
    Inputs(nodes=(28,), edges=(4,), targets=1)
    """
    check_option("data.dataset", dataset, tuple(TASKS))
    task, (nodes, edges) = TASKS[dataset], WIDTHS.get(dataset, (0, None))
    return Inputs(task.node_sizes or nodes, task.edge_sizes or edges, task.targets)


def build_network(settings: NetworkSettings, benchmark: Benchmark, delta: float) -> DGN:
    """The network of an experiment for the graphs it is trained on.

    ``delta`` is the mean of log(degree + 1) over the training nodes.
    """
    return build_for_inputs(settings, Inputs.of(benchmark), delta)


def build_for_inputs(settings: NetworkSettings, inputs: Inputs, delta: float = 1.0) -> DGN:
    """The network of an experiment for a inputs.

    >>> network = build_for_inputs(NetworkSettings(hidden=8, aggregators=("mean",)), known_inputs("zinc"))
    >>> network.node_encoder, network.head[-1].out_features
    (CategoryEncoder((28,), 8), 1)
    """
    if settings.edge_dim is not None and inputs.edges is None:
        raise ValueError(
            f"network.edge_dim: expected none, for the graphs have no edge features, got {settings.edge_dim}; "
            "leave it out"
        )
    return DGN(
        _encoder(inputs.nodes, settings.hidden),
        settings.hidden,
        inputs.targets,
        settings.layers,
        settings.last,
        settings.aggregators,
        settings.scalers,
        delta,
        settings.message,
        None if settings.edge_dim is None else _encoder(inputs.edges, settings.edge_dim),
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
        feed_forward=settings.feed_forward,
    )


def count_parameters(network: nn.Module) -> int:
    """The number of trained parameters.

    >>> count_parameters(nn.Linear(2, 3))
    9
    """
    return sum(parameter.numel() for parameter in network.parameters() if parameter.requires_grad)


def _encoder(columns: Columns | None, channels: int) -> nn.Module:
    assert columns is not None
    return Linear(columns, channels) if isinstance(columns, int) else CategoryEncoder(columns, channels)


def _width(values: Tensor) -> int:
    return 1 if values.dim() == 1 else int(values.size(1))
