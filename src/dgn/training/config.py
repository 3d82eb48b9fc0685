"""The settings of an experiment, section by section, with what each one means."""

from dataclasses import dataclass
from typing import Literal

from dgn.nn.settings import NetworkSettings, check_ranges, setting

__all__ = ["AugmentationSettings", "DataSettings", "NetworkSettings", "Published", "TrainingSettings"]


@dataclass(frozen=True, kw_only=True)
class DataSettings:
    """Which graphs."""

    dataset: str = setting("name of the benchmark")
    path: str | None = setting("a file or folder to read it from; none: the usual place of the benchmark", None)
    directions: int | None = setting(
        "how many eigenvectors to compute; none: as many as the network needs", None, least=0
    )
    normalization: Literal["rw", "sym"] | None = setting("of the Laplacian (none: L = D - A)", None)
    rwse_steps: int = setting(
        "add return probabilities of random walks of up to so many steps to the input", 0, least=0
    )
    ring_sizes: tuple[int, ...] = setting("add numbers of rings of these sizes to the input of nodes and edges", ())
    train_fraction: float = setting("train on the first part of the training graphs", 1.0, above=0, most=1)

    def __post_init__(self) -> None:
        check_ranges(self, "data")
        if self.ring_sizes and (len(set(self.ring_sizes)) < len(self.ring_sizes) or min(self.ring_sizes) < 3):
            raise ValueError(
                f"data.ring_sizes: expected different numbers from 3, got {list(self.ring_sizes)}; for example [3, 4, "
                "5]"
            )

    @property
    def structural(self) -> bool:
        """Whether nodes have structural numbers.

        >>> DataSettings(dataset="zinc", rings=(6,)).structural
        True
        """
        return bool(self.rwse_steps or self.ring_sizes)


@dataclass(frozen=True, kw_only=True)
class TrainingSettings:
    """How to train and what to report."""

    batch_size: int = setting("graphs in a step", 128, least=1)
    epochs: int = setting("at most so many passes over the training graphs", 1000, least=1)
    learning_rate: float = setting("of Adam, at the start", 1e-3, above=0)
    weight_decay: float = setting("coupled L2 decay of Adam", 0.0, least=0)
    schedule: Literal["plateau", "cosine"] = setting("how the learning rate falls", "plateau")
    lr_decay_factor: float = setting("plateau: multiply the learning rate by it", 0.5, above=0, below=1)
    patience: int = setting("plateau: after so many epochs without improvement", 20, least=0)
    min_learning_rate: float = setting("plateau: stop below it; cosine: end there", 1e-5, least=0)
    warmup: int = setting("cosine: epochs of linear growth at the start", 0, least=0)
    ema_decay: float = setting(
        "score a running average of the weights that decays by this factor", 0.0, least=0, below=1
    )
    label_smoothing: float = setting(
        "share of the label that is spread over all classes in training", 0.0, least=0, below=1
    )
    distill_from: str | None = setting(
        "a run of the same graphs, by name or folder: what its networks say becomes part of the labels of classes",
        None,
    )
    distill_weight: float = setting("with teachers: the share of a label that is theirs", 0.5, above=0, most=1)
    metric: (
        Literal["mae", "accuracy", "balanced-accuracy", "balanced-accuracy-old", "roc-auc", "average-precision"] | None
    ) = setting("the score that counts (none: that of the benchmark)", None)
    monitor: Literal["loss", "metric"] = setting("what the plateau watches on the validation graphs", "loss")
    checkpoint: Literal["last", "best"] = setting("the epoch whose model counts", "last")
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
    cutout: float = setting(
        "hide inputs, not coordinates, in a square of this share of width and height", 0.0, least=0, most=1
    )
    input_noise: float = setting(
        "noise on inputs, the same for a whole graph, in their standard deviations", 0.0, least=0
    )

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
