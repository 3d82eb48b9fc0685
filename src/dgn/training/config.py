"""The settings of an experiment by section, with their meanings, defaults and ranges."""

from dataclasses import dataclass
from typing import Literal

from dgn.nn.settings import NetworkSettings, check_ranges, setting

__all__ = ["AugmentationSettings", "DataSettings", "NetworkSettings", "Published", "TrainingSettings"]


@dataclass(frozen=True, kw_only=True)
class DataSettings:
    """The graphs."""

    dataset: str = setting("name of the benchmark")
    path: str | None = setting("file or folder of the dataset; none: the default location of the benchmark", None)
    directions: int | None = setting(
        "number of eigenvectors to compute; none: as many as the network needs", None, least=0, most=1000
    )
    normalization: Literal["rw", "sym"] | None = setting("normalization of the Laplacian (none: L = D - A)", None)
    arcsine: bool = setting("take the arcsine of each eigenvector over its largest entry, of nearly even slope", False)
    rwse_steps: int = setting(
        "random-walk structural encoding: return probabilities of walks of 1 to this many steps; 0: none",
        0,
        least=0,
        most=1000,
    )
    ring_sizes: tuple[int, ...] = setting("structural encoding: counts of rings of these sizes, of nodes and edges", ())
    train_fraction: float = setting("fraction of the training graphs to train on, the first ones", 1.0, above=0, most=1)

    def __post_init__(self) -> None:
        check_ranges(self, "data")
        if self.ring_sizes and (len(set(self.ring_sizes)) < len(self.ring_sizes) or min(self.ring_sizes) < 3):
            raise ValueError(
                f"data.ring_sizes: expected distinct sizes of at least 3, got {list(self.ring_sizes)}; for example "
                "[3, 4, 5]"
            )

    @property
    def structural(self) -> bool:
        """Whether graphs have structural encodings.

        >>> DataSettings(dataset="zinc", ring_sizes=(6,)).structural
        True
        """
        return bool(self.rwse_steps or self.ring_sizes)


@dataclass(frozen=True, kw_only=True)
class TrainingSettings:
    """Optimization, distillation, fine-tuning and model selection."""

    batch_size: int = setting("graphs per step", 128, least=1)
    epochs: int = setting("maximal number of epochs", 1000, least=1)
    learning_rate: float = setting("initial learning rate of Adam", 1e-3, above=0)
    weight_decay: float = setting("coupled L2 penalty of Adam", 0.0, least=0)
    schedule: Literal["plateau", "cosine"] = setting("learning rate schedule", "plateau")
    lr_decay_factor: float = setting("plateau: factor of each learning rate decay", 0.5, above=0, below=1)
    patience: int = setting("plateau: epochs without improvement before a decay", 20, least=0)
    min_learning_rate: float = setting("plateau: training stops below it; cosine: final learning rate", 1e-5, least=0)
    warmup: int = setting("cosine: epochs of linear warm-up", 0, least=0)
    ema_decay: float = setting(
        "decay of the exponential moving average (EMA) of the weights, which is scored; 0: none", 0.0, least=0, below=1
    )
    precise_bn: int = setting(
        "precise batch norm: training batches whose mean statistics replace the running ones before each evaluation; "
        "0: running statistics",
        0,
        least=0,
    )
    label_smoothing: float = setting("label smoothing of class labels in training", 0.0, least=0, below=1)
    distill_from: str | None = setting(
        "distillation: name or folder of a run on the same graphs whose seeds are the teachers (classification)", None
    )
    distill_weight: float = setting("distillation: weight of the teachers in the soft targets", 0.5, above=0, most=1)
    from_: str | None = setting(
        "fine-tuning: name of a pretrained network, or folder of a model, whose weights except the head are the first",
        None,
    )
    freeze: bool = setting("fine-tuning: train the head alone", False)
    metric: (
        Literal["mae", "accuracy", "balanced-accuracy", "balanced-accuracy-old", "roc-auc", "average-precision"] | None
    ) = setting("main metric (none: that of the benchmark)", None)
    monitor: Literal["loss", "metric"] = setting("plateau: monitored quantity of the validation split", "loss")
    checkpoint: Literal["last", "best"] = setting("epoch whose weights are reported (best: by validation)", "last")
    seeds: tuple[int, ...] = setting("seeds, one run each", (41, 95, 12, 35))
    precision: Literal["32-true", "tf32-true", "bf16-mixed"] = setting("floating-point precision", "32-true")

    def __post_init__(self) -> None:
        check_ranges(self, "training")
        if self.freeze and self.from_ is None:
            raise ValueError("training.freeze: expected a network to start from, got none; set training.from")
        if self.min_learning_rate > self.learning_rate:
            raise ValueError(
                f"training.min_learning_rate: expected at most the learning rate {self.learning_rate}, got "
                f"{self.min_learning_rate}; lower it"
            )
        if not self.seeds or len(set(self.seeds)) < len(self.seeds) or not all(0 <= n < 1 << 64 for n in self.seeds):
            raise ValueError(
                f"training.seeds: expected distinct integers from 0, below 2**64, got {list(self.seeds)}; for "
                "example [41, 95]"
            )


@dataclass(frozen=True, kw_only=True)
class AugmentationSettings:
    """Augmentation of the field and the inputs of training graphs."""

    reflection: bool = setting("flip the sign of each direction of each connected component at random", False)
    rotation: float = setting(
        "rotate the first two directions by a random angle of up to this many degrees", 0.0, least=0, most=180
    )
    distortion: float = setting("noise, in multiples of the mean absolute value of what it is added to", 0.0, least=0)
    distortion_of: Literal["field", "potential"] = setting(
        "what the noise is added to: the field (definition 6) or the potential, whose gradient is the field", "field"
    )
    resample: bool = setting("draw a random basis of each repeated eigenspace, of all of its vectors", False)
    mirror: bool = setting("mirror each graph along its last coordinate with probability 1/2", False)
    cutout: float = setting(
        "cutout: mask inputs, except coordinates, in a square of this fraction of width and height",
        0.0,
        least=0,
        most=1,
    )
    input_noise: float = setting(
        "noise on inputs, constant over a graph, in multiples of their standard deviations", 0.0, least=0
    )

    def __post_init__(self) -> None:
        check_ranges(self, "augmentation")


@dataclass(frozen=True, kw_only=True)
class Published:
    """The published result of the run, in the units of the paper."""

    score: float = setting("test score; percent, except mean absolute errors")
    deviation: float | None = setting("standard deviation over the seeds", None, least=0)
    parameters: int | None = setting("number of parameters", None, least=1)
    seeds: int | None = setting("number of runs", None, least=1)
    table: Literal["table1", "table2"] | None = setting("table of the paper", None)
    assumed: tuple[str, ...] = setting("unpublished settings, chosen here", ())
    changed: tuple[str, ...] = setting("settings that differ from the published ones", ())

    def __post_init__(self) -> None:
        check_ranges(self, "published")
