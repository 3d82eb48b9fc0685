"""The settings of an experiment, section by section, with what each one means."""

from dataclasses import dataclass
from typing import Literal

from dgn.aggregation import Plan, make_plan
from dgn.training.config_parser import check_ranges, setting

Scaler = Literal["identity", "amplification", "attenuation"]


@dataclass(frozen=True, kw_only=True)
class DataSettings:
    """Which graphs."""

    dataset: str = setting("name of the benchmark")
    path: str | None = setting("a file or folder to read it from; none: the usual place of the benchmark", None)
    directions: int | None = setting(
        "how many eigenvectors to compute; none: as many as the network needs", None, least=0
    )
    normalization: Literal["rw", "sym"] | None = setting("of the Laplacian (none: L = D - A)", None)
    random_walk: int = setting(
        "add return probabilities of random walks of up to so many steps to the input", 0, least=0
    )
    rings: tuple[int, ...] = setting("add numbers of rings of these sizes to the input of nodes and edges", ())
    train_fraction: float = setting("train on the first part of the training graphs", 1.0, above=0, most=1)

    def __post_init__(self) -> None:
        check_ranges(self, "data")
        if self.rings and (len(set(self.rings)) < len(self.rings) or min(self.rings) < 3):
            raise ValueError(
                f"data.rings: expected different numbers from 3, got {list(self.rings)}; for example [3, 4, 5]"
            )

    @property
    def structural(self) -> bool:
        """Whether nodes have structural numbers.

        >>> DataSettings(dataset="zinc", rings=(6,)).structural
        True
        """
        return bool(self.random_walk or self.rings)


@dataclass(frozen=True, kw_only=True)
class NetworkSettings:
    """Which network; see :class:`dgn.nn.DGN`."""

    hidden: int = setting("width of the layers", least=1)
    last: int | None = setting("width behind the last layer; none: the same", None, least=1)
    layers: int = setting("number of layers", 4, least=0)
    aggregators: tuple[str, ...] = setting("names of aggregators, in order")
    scalers: tuple[Scaler, ...] = setting("degree scalers", ("identity",))
    message: Literal["simple", "complex"] = setting("what a neighbour sends", "simple")
    edge_dim: int | None = setting("width of encoded edge features; none: they are not used", None, least=1)
    towers: int = setting("split the channels into so many parts", 1, least=1)
    readout: Literal["mean", "sum", "sum-mean", "max", "directional", "nodes"] = setting("from nodes to graphs", "mean")
    dropout: float = setting("share of features set to 0 in training", 0.0, least=0, below=1)
    inner_dropout: float | None = setting(
        "the same inside the perceptrons of feed_forward; none: as dropout", None, least=0, below=1
    )
    batch_norm: bool = setting("normalise over the batch in each layer", True)
    residual: bool = setting("add the input of a layer to its output", True)
    size_norm: bool = setting("multiply by 1 / sqrt(nodes of the graph) before each batch norm", True)
    virtual_node: bool = setting("join all nodes of a graph between layers", False)
    feed_forward: int = setting("behind each layer, a perceptron so many times as wide; 0: none", 0, least=0)
    positional: int = setting("add a linear map of the first so many potentials to the input", 0, least=0)
    branches: int = setting("so many networks side by side, each trained for itself; their mean counts", 1, least=1)
    both_sides: bool = setting("answer for graphs and their mirror images, as augmentation.mirror; means count", False)
    derivative: Literal["paper", "authors"] = setting("what dx subtracts with complex messages", "authors")
    initialization: Literal["pytorch", "authors"] = setting("first weights of the layers", "pytorch")

    def __post_init__(self) -> None:
        check_ranges(self, "network")
        make_plan(self.aggregators)  # refuses unknown names
        if not self.scalers:
            raise ValueError("network.scalers: expected at least one, got none; write [identity]")
        if self.edge_dim is not None and self.message == "simple":
            raise ValueError(
                f"network.edge_dim: expected none with simple messages, got {self.edge_dim}; set network.message: "
                "complex, or leave edge_dim out"
            )
        for name, width in (("hidden", self.hidden), ("last", self.last)):
            if width is not None and width % self.towers:
                raise ValueError(
                    f"network.{name}: expected a multiple of the {self.towers} towers, got {width}; change either"
                )

    @property
    def plan(self) -> Plan:
        """What is aggregated."""
        return make_plan(self.aggregators)

    @property
    def num_directions(self) -> int:
        """How many potentials the network reads.

        >>> NetworkSettings(hidden=8, aggregators=("mean", "dx2")).num_directions
        2
        """
        pool = 1 if self.readout == "directional" else 0
        return max(self.plan.num_directions, self.positional, pool)

    @property
    def reads_potential(self) -> bool:
        """Whether potentials of the nodes are needed, not their differences alone."""
        return self.positional > 0 or self.readout == "directional" or self.both_sides


@dataclass(frozen=True, kw_only=True)
class TrainingSettings:
    """How to train and what to report."""

    batch_size: int = setting("graphs in a step", 128, least=1)
    epochs: int = setting("at most so many passes over the training graphs", 1000, least=1)
    learning_rate: float = setting("of Adam, at the start", 1e-3, above=0)
    weight_decay: float = setting("coupled L2 decay of Adam", 0.0, least=0)
    schedule: Literal["plateau", "cosine"] = setting("how the learning rate falls", "plateau")
    factor: float = setting("plateau: multiply the learning rate by it", 0.5, above=0, below=1)
    patience: int = setting("plateau: after so many epochs without improvement", 20, least=0)
    min_learning_rate: float = setting("plateau: stop below it; cosine: end there", 1e-5, least=0)
    warmup: int = setting("cosine: epochs of linear growth at the start", 0, least=0)
    averaging: float = setting(
        "score a running average of the weights that decays by this factor", 0.0, least=0, below=1
    )
    label_smoothing: float = setting(
        "share of the label that is spread over all classes in training", 0.0, least=0, below=1
    )
    teachers: str | None = setting(
        "a run of the same graphs, by name or folder: what its networks say becomes part of the labels of classes",
        None,
    )
    teaching: float = setting("with teachers: the share of a label that is theirs", 0.5, above=0, most=1)
    metric: (
        Literal["mae", "accuracy", "balanced-accuracy", "balanced-accuracy-old", "roc-auc", "average-precision"] | None
    ) = setting("the score that counts (none: that of the benchmark)", None)
    monitor: Literal["loss", "metric"] = setting("what the plateau watches on the validation graphs", "loss")
    report: Literal["last", "best"] = setting("the epoch whose model counts", "last")
    seeds: tuple[int, ...] = setting("one run for each", (41, 95, 12, 35))
    precision: Literal["32-true", "tf32-true", "bf16-mixed"] = setting("of the arithmetic", "32-true")

    def __post_init__(self) -> None:
        check_ranges(self, "training")
        if self.min_learning_rate > self.learning_rate:
            raise ValueError(
                f"training.min_learning_rate: expected at most the learning rate {self.learning_rate}, got "
                f"{self.min_learning_rate}; lower it"
            )
        if not self.seeds or len(set(self.seeds)) < len(self.seeds) or not all(0 <= n < 1 << 64 for n in self.seeds):
            raise ValueError(
                f"training.seeds: expected different whole numbers from 0, below 2**64, got {list(self.seeds)}; for "
                "example [41, 95]"
            )


@dataclass(frozen=True, kw_only=True)
class AugmentationSettings:
    """What happens to the field and the inputs of a training graph."""

    reflection: bool = setting("flip the sign of each direction of each graph at random", False)
    rotation: float = setting("turn the first two directions by up to so many degrees", 0.0, least=0, most=180)
    distortion: float = setting("noise of so many mean absolute values of the field", 0.0, least=0)
    resample: bool = setting("draw another basis of each repeated eigenspace", False)
    mirror: bool = setting("mirror each graph along its last coordinate with probability 1/2", False)
    hide: float = setting(
        "hide inputs, not coordinates, in a square of this share of width and height", 0.0, least=0, most=1
    )
    shift: float = setting("noise on inputs, the same for a whole graph, in their standard deviations", 0.0, least=0)

    def __post_init__(self) -> None:
        check_ranges(self, "augmentation")


@dataclass(frozen=True, kw_only=True)
class Published:
    """What the paper reports for the run, in the units of the paper."""

    score: float = setting("on the test graphs; percent, except mean absolute errors")
    deviation: float | None = setting("standard deviation over the seeds", None, least=0)
    parameters: int | None = setting("number of parameters", None, least=1)
    seeds: int | None = setting("number of runs", None, least=1)
    table: Literal["table1", "table2"] | None = setting("of the paper", None)
    assumed: tuple[str, ...] = setting("settings that nobody published, chosen here", ())
    changed: tuple[str, ...] = setting("settings that were published, and are others here", ())

    def __post_init__(self) -> None:
        check_ranges(self, "published")
