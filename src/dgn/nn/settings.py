"""The settings of a network: one record that networks, experiments and searches share."""

from dataclasses import MISSING, dataclass, field, fields
from typing import Any, Literal

from dgn.aggregation import Plan, make_plan
from dgn.graph.checks import check_option
from dgn.nn.readout import READOUTS, Readout

__all__ = ["NetworkSettings"]

Scaler = Literal["identity", "amplification", "attenuation"]
MOST = 2**31 - 1  # of any number but a seed
RANGES = ("least", "above", "most", "below")
OPTIONS: dict[str, tuple[object, ...]] = {
    "readout": READOUTS,
    "message": ("simple", "complex"),
    "dx_reference": ("node", "message"),
    "initialization": ("pytorch", "authors"),
}


def setting(meaning: str, default: Any = MISSING, **limits: float) -> Any:
    """A field of a configuration: what it means, its default, and limits ``least above most below``."""
    assert set(limits) <= set(RANGES)
    return field(default=default, metadata={"meaning": meaning, **limits})


def check_ranges(settings: Any, where: str) -> None:
    """Hold every number of a dataclass against the limits of its :func:`setting`."""
    for each in fields(settings):
        value, limits = getattr(settings, each.name), each.metadata
        numbers = [n for n in (value if isinstance(value, tuple) else (value,)) if isinstance(n, int | float)]
        if any(abs(number) > MOST for number in numbers) and each.name != "seeds":
            raise ValueError(f"{where}.{each.name}: expected numbers of at most {MOST}, got {value}; change it")
        if value is None or not set(RANGES) & set(limits):
            continue
        fits = (
            value >= limits.get("least", value)
            and value <= limits.get("most", value)
            and not ("above" in limits and value <= limits["above"])
            and not ("below" in limits and value >= limits["below"])
        )
        if not fits:
            words = {"least": "at least", "above": "above", "most": "at most", "below": "below"}
            wanted = " and ".join(f"{words[name]} {limits[name]:g}" for name in RANGES if name in limits)
            raise ValueError(f"{where}.{each.name}: expected a number {wanted}, got {value}; change it")


@dataclass(frozen=True, kw_only=True)
class NetworkSettings:
    """Which network; see :class:`dgn.nn.DGN`."""

    hidden: int = setting("width of the layers", least=1)
    last: int | None = setting("width behind the last layer; none: the same", None, least=1)
    num_layers: int = setting("number of layers", 4, least=0, most=1000)
    aggregators: tuple[str, ...] = setting("names of aggregators, in order", ("mean", "dx1"))
    scalers: tuple[Scaler, ...] = setting("degree scalers", ("identity",))
    message: Literal["simple", "complex"] = setting("what a neighbour sends", "simple")
    edge_dim: int | None = setting("width of encoded edge features; none: they are not used", None, least=1)
    towers: int = setting("split the channels into this many independent convolutions", 1, least=1)
    readout: Readout = setting("from nodes to graphs", "mean")  # noqa: RUF009, a field as the others
    dropout: float = setting("share of features set to 0 in training", 0.0, least=0, below=1)
    ffn_dropout: float | None = setting(
        "dropout inside the feed-forward blocks; none: as dropout", None, least=0, below=1
    )
    head_layers: int | None = setting(
        "hidden layers of the head, as wide as the last layer; none: two, each half as wide as the one before",
        None,
        least=0,
        most=1000,
    )
    batch_norm: bool = setting("normalise over the batch in each layer", True)
    residual: bool = setting("add the input of a layer to its output", True)
    size_norm: bool = setting("multiply by 1 / sqrt(nodes of the graph) before each batch norm", True)
    virtual_node: bool = setting("join all nodes of a graph between layers", False)
    ffn_expansion: int = setting(
        "width of the feed-forward block behind each layer, in multiples of the layer's; 0: none", 0, least=0, most=1000
    )
    num_eigenvector_features: int = setting(
        "add a linear map of the first eigenvectors to the input, this many", 0, least=0, most=1000
    )
    ensemble_size: int = setting(
        "networks trained side by side with independent losses; their mean is the prediction", 1, least=1, most=1000
    )
    tta_mirror: bool = setting(
        "test-time augmentation: average over each graph and its mirror image (augmentation.mirror)", False
    )
    dx_reference: Literal["node", "message"] = setting(
        "what dx subtracts with complex messages: features of the node, or its message to itself", "node"
    )
    initialization: Literal["pytorch", "authors"] = setting("first weights of the layers", "pytorch")

    def __post_init__(self) -> None:
        object.__setattr__(self, "aggregators", tuple(self.aggregators))
        object.__setattr__(self, "scalers", tuple(self.scalers))
        check_ranges(self, "network")
        for name, options in OPTIONS.items():
            check_option(name, getattr(self, name), options)
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
        return max(self.plan.num_directions, self.num_eigenvector_features, pool)

    @property
    def reads_potential(self) -> bool:
        """Whether potentials of the nodes are needed, not their differences alone."""
        return self.num_eigenvector_features > 0 or self.readout == "directional" or self.tta_mirror
