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
class Columns:
    """What a network sees of a dataset: categories per column, or the number of columns with numbers.

    ``nodes`` and ``edges`` are a tuple for categories, an int for numbers; ``edges`` is ``None`` without features.
    """

    nodes: tuple[int, ...] | int
    edges: tuple[int, ...] | int | None
    targets: int

    @classmethod
    def of(cls, benchmark: "Benchmark") -> "Columns":
        """The columns of graphs in memory."""
        nodes, edges = benchmark.graphs.nodes["x"], benchmark.graphs.edges.get("edge_attr")
        return cls(
            benchmark.node_sizes or _width(nodes),
            benchmark.edge_sizes or (None if edges is None else _width(edges)),
            benchmark.targets,
        )


#: The benchmarks, known without opening them.
KNOWN_COLUMNS = {
    "zinc": Columns((28,), (4,), 1),
    "pattern": Columns((3,), None, 2),
    "cifar10": Columns(5, 1, 10),
    "molhiv": Columns(ATOM_SIZES, BOND_SIZES, 1),
    "molpcba": Columns(ATOM_SIZES, BOND_SIZES, 128),
    "digits": Columns(1, None, 10),
}


def known_columns(dataset: str) -> Columns:
    """The columns of a benchmark by its name."""
    check_option("data.dataset", dataset, tuple(KNOWN_COLUMNS))
    return KNOWN_COLUMNS[dataset]


def build_network(settings: NetworkSettings, benchmark: "Benchmark", delta: float) -> DGN:
    """The network of an experiment for the graphs it is trained on.

    ``delta`` is the mean of log(degree + 1) over the training nodes.
    """
    return build_for_columns(settings, Columns.of(benchmark), delta)


def build_for_columns(settings: NetworkSettings, columns: Columns, delta: float = 1.0) -> DGN:
    """The network of an experiment for columns of a known kind.

    >>> network = build_for_columns(NetworkSettings(hidden=8, aggregators=("mean",)), known_columns("zinc"))
    >>> network.node_encoder, network.head[-1].out_features
    (CategoryEncoder((28,), 8), 1)
    """
    if settings.edge_dim is not None and columns.edges is None:
        raise ValueError(
            f"network.edge_dim: expected none, for the graphs have no edge features, got {settings.edge_dim}; "
            "leave it out"
        )
    return DGN(
        _encoder(columns.nodes, settings.hidden),
        settings.hidden,
        columns.targets,
        settings.layers,
        settings.last,
        settings.aggregators,
        settings.scalers,
        delta,
        settings.message,
        None if settings.edge_dim is None else _encoder(columns.edges, settings.edge_dim),
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
