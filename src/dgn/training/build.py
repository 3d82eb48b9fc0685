"""Building a network from its settings and the inputs of its graphs."""

from dataclasses import dataclass, replace

from torch import Tensor, nn

from dgn.data.benchmark import GRAPH_ATTR, TASKS, Benchmark, graphs_in_split, load_benchmark
from dgn.data.precompute.encodings import with_encodings
from dgn.encodings import Standardization, Structure
from dgn.graph.checks import check_option
from dgn.graph.columns import as_columns
from dgn.nn import DGN, CategoryEncoder, EdgeTypeEncoder, Ensemble, GraphEncoder, Linear, StructuralEncoder
from dgn.training.config import DataSettings, NetworkSettings

Columns = tuple[int, ...] | int


@dataclass(frozen=True)
class Inputs:
    """The inputs of a network and the number of its outputs.

    ``nodes`` and ``edges`` are the numbers of categories of each column, or the number of continuous columns; ``edges``
    is ``None`` without edge features. ``structure`` describes structural encodings; its edge types, if it has any,
    replace ``edges``. ``features`` standardizes those of whole graphs.
    """

    nodes: Columns
    edges: Columns | None
    targets: int
    structure: Structure | None = None
    features: Standardization | None = None

    @classmethod
    def of(cls, benchmark: Benchmark) -> "Inputs":
        """The inputs of graphs in memory."""
        graphs = benchmark.graphs
        nodes, edges, features = graphs.nodes["x"], graphs.edges.get("edge_attr"), graphs.graphs.get(GRAPH_ATTR)
        return cls(
            benchmark.node_categories or _width(nodes),
            benchmark.edge_categories or (None if edges is None else _width(edges)),
            benchmark.num_targets,
            benchmark.structure,
            None if features is None else Standardization.find(as_columns(features)[graphs_in_split(graphs, 0)]),
        )


def known_inputs(dataset: str) -> Inputs:
    """The inputs of a benchmark by its name, without loading it.

    >>> known_inputs("zinc")
    Inputs(nodes=(28,), edges=(4,), targets=1, structure=None, features=None)
    """
    check_option("data.dataset", dataset, (*TASKS, "own"))
    task = TASKS[dataset]
    nodes, edges = task.node_categories or task.node_features, task.edge_categories or task.edge_features
    return Inputs(nodes, edges, task.num_targets)


def inputs_for(data: DataSettings) -> Inputs:
    """The inputs of an experiment, enough to count parameters; only the dataset ``own`` is loaded.

    >>> inputs_for(DataSettings(dataset="zinc", rwse_steps=16, ring_sizes=(5, 6))).structure.scale.shape
    torch.Size([18])
    """
    if data.dataset == "own":
        return Inputs.of(with_encodings(load_benchmark("own", data.path), data.rwse_steps, data.ring_sizes))
    inputs = known_inputs(data.dataset)
    if data.structural:
        is_continuous = isinstance(inputs.edges, int)
        edges = inputs.edges + len(data.ring_sizes) if isinstance(inputs.edges, int) else inputs.edges
        sizes = None if is_continuous else TASKS[data.dataset].edge_categories or ()
        blank = Structure.blank(data.rwse_steps, data.ring_sizes, sizes)
        inputs = replace(inputs, edges=edges, structure=blank)
    return inputs


def build_network(settings: NetworkSettings, benchmark: Benchmark, delta: float) -> DGN | Ensemble:
    """The network of an experiment for its training graphs.

    ``delta`` is the mean of log(degree + 1) over the training nodes.
    """
    return build_for_inputs(settings, Inputs.of(benchmark), delta)


def build_for_inputs(settings: NetworkSettings, inputs: Inputs, delta: float | None = None) -> DGN | Ensemble:
    """The network of an experiment for the inputs of its graphs; scalers need ``delta``, as in :class:`DGN`.

    >>> network = build_for_inputs(NetworkSettings(hidden=8, aggregators=("mean",)), known_inputs("zinc"))
    >>> network.node_encoder, network.head[-1].out_features
    (CategoryEncoder((28,), 8), 1)
    """
    if settings.ensemble_size == 1:
        return build_member(settings, inputs, delta)
    return Ensemble([build_member(settings, inputs, delta) for _ in range(settings.ensemble_size)])


def build_member(settings: NetworkSettings, inputs: Inputs, delta: float | None) -> DGN:
    """A single network, or one ensemble member."""
    node_encoder, edge_encoder = _encoder(inputs.nodes, settings.hidden), _edge_encoder(settings, inputs)
    structure, features = inputs.structure, inputs.features
    if settings.edge_dim is not None and edge_encoder is None:
        raise ValueError(
            f"network.edge_dim: expected none for graphs without edge features, got {settings.edge_dim}; leave it out"
        )
    encoder = None if structure is None else StructuralEncoder(structure.scale, structure.offset, settings.hidden)
    graph_encoder = None
    if features is not None:
        channels = settings.last or settings.hidden
        graph_encoder = GraphEncoder(features.scale, features.offset, channels, settings.dropout)
    return DGN(
        node_encoder,
        settings,
        inputs.targets,
        delta=delta,
        edge_encoder=edge_encoder,
        structural_encoder=encoder,
        graph_encoder=graph_encoder,
    )


def count_parameters(network: nn.Module) -> int:
    """The number of parameters, frozen ones included.

    >>> count_parameters(nn.Linear(2, 3))
    9
    """
    return sum(parameter.numel() for parameter in network.parameters())


def _edge_encoder(settings: NetworkSettings, inputs: Inputs) -> nn.Module | None:
    """The encoder of edge features, if the network reads them and there are any."""
    if settings.edge_dim is None:
        return None
    edge_types = None if inputs.structure is None else inputs.structure.edge_types
    if edge_types is not None:
        return EdgeTypeEncoder(edge_types, settings.edge_dim)
    return None if inputs.edges is None else _encoder(inputs.edges, settings.edge_dim)


def _encoder(columns: Columns, channels: int) -> nn.Module:
    return Linear(columns, channels) if isinstance(columns, int) else CategoryEncoder(columns, channels)


def _width(values: Tensor) -> int:
    return 1 if values.dim() == 1 else int(values.size(1))
