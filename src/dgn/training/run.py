"""The run of one seed: its history, its best model, and its folder."""

import hashlib
import math
import platform
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import dgn
from dgn.training.build import count_parameters
from dgn.training.checkpoint import MODEL, load_checkpoint, save_checkpoint
from dgn.training.errors import DivergedError
from dgn.training.evaluate import SOFT_TARGETS, Scores, Split
from dgn.training.experiment import Experiment, read_experiment
from dgn.training.replica import Replica
from dgn.training.schedule import Schedule


@dataclass(frozen=True)
class EpochReport:
    """An epoch of one seed, as soon as it is over. ``metrics`` are those of the validation graphs.

    ``best`` is the main one of the best epoch so far, also of those before an interruption; nothing where the last
    epoch counts, or where this one diverged.
    """

    seed: int
    epoch: int
    epochs: int
    learning_rate: float
    train_loss: float
    val_loss: float
    metrics: dict[str, float]
    seconds: float
    graphs_per_second: float
    best: float | None = None


@dataclass(frozen=True)
class RunResult:
    """What a seed came to; ``metrics`` of the model that counts, by split and name; ``history`` one row per epoch."""

    seed: int
    parameters: int
    epochs: int
    steps: int
    seconds: float
    stopped: str
    metrics: dict[str, dict[str, float]]
    history: list[dict[str, float]]
    device: str


class Run:
    """A member with its past."""

    def __init__(self, member: Replica, experiment: Experiment, folder: Path | None) -> None:
        self.member, self.experiment, self.settings = member, experiment, experiment.training
        self.checkpoint = None if folder is None else folder / f"seed-{member.seed}" / "checkpoint.safetensors"
        self.history: list[dict[str, float]] = []
        self.best: dict[str, Tensor] = {}
        self.best_score = -math.inf
        self.steps, self.seconds = 0, 0.0
        self.saved = 0  # the epoch of the last checkpoint
        self.devices: list[str] = []  # that it was trained on
        self.failure: DivergedError | None = None

    @property
    def active(self) -> bool:
        return not self.member.schedule.stopped and self.failure is None

    def finish_epoch(self, split: Split, seconds: float, graphs: int) -> EpochReport:
        """Wait for an epoch, write down what it gave, and go on with the schedule."""
        scores = split.scores()
        loss = self.member.train_loss()
        schedule, took = self.member.schedule, seconds - self.seconds
        self.seconds = seconds
        if device_name(self.member.device) not in self.devices:
            self.devices.append(device_name(self.member.device))
        if not (math.isfinite(loss) and math.isfinite(scores.loss)):
            kept = f"; {self.checkpoint} holds an earlier epoch" if self.saved else ""
            self.failure = DivergedError(
                f"loss: expected a number, got train {loss} and validation {scores.loss} in epoch {schedule.epoch + 1} "
                f"of seed {self.member.seed}; lower training.learning_rate{kept}"
            )
        row = {"epoch": schedule.epoch + 1, "learning_rate": schedule.rate, "train_loss": loss, "val_loss": scores.loss}
        self.history.append({**row, **scores.metrics, "seconds": seconds})
        watched = scores.loss if self.settings.monitor == "loss" else -self._score(scores)
        if self.settings.checkpoint == "best" and self._score(scores) > self.best_score:
            self.best_score = self._score(scores)
            self.best = self.member.state.scored()
        self.member.schedule = schedule.after(watched, self.settings)
        rate = graphs / took if took > 0 else math.inf
        sign = 1 if self.member.objective.higher_is_better else -1
        best = sign * self.best_score if self.settings.checkpoint == "best" and self.failure is None else None
        return EpochReport(
            self.member.seed, schedule.epoch + 1, self.settings.epochs, schedule.rate, loss, scores.loss,
            scores.metrics, seconds, rate, best,
        )  # fmt: skip

    def finish(self, splits: dict[str, Split]) -> RunResult:
        """Score the model that counts on every split."""
        self.member.state.conclude(self.best)
        found = {}
        for name, split in splits.items():
            self.member.evaluate(split)
            found[name] = split.scores().metrics
        schedule = self.member.schedule
        if self.checkpoint is not None and self.member.fabric.is_global_zero:
            about = {"experiment": self.experiment.to_dict(), "seed": self.member.seed, "metrics": found}
            about["delta"] = self.member.network.delta
            save_checkpoint(self.checkpoint.with_name(MODEL), self.member.network.state_dict(), about)
        return RunResult(
            self.member.seed, count_parameters(self.member.network), schedule.epoch, self.steps, self.seconds,
            schedule.stopped, found, self.history, ", then ".join(self.devices),
        )  # fmt: skip

    def save(self) -> None:
        """Write a checkpoint from which :meth:`resume` goes on."""
        if self.checkpoint is None or not self.member.fabric.is_global_zero or self.failure is not None:
            return
        tensors = {**self.member.state.tensors(), **{f"best.{name}": tensor for name, tensor in self.best.items()}}
        state = {
            "experiment": self.experiment.to_dict(),
            "schedule": asdict(self.member.schedule),
            "history": self.history,
            "best_score": self.best_score,
            "steps": self.steps,
            "seconds": self.seconds,
            "devices": self.devices,
            "machine": self._machine,
        }
        save_checkpoint(self.checkpoint, tensors, state)
        self.saved = self.member.schedule.epoch

    def resume(self, say: Callable[[str], None]) -> None:
        """Go on from a checkpoint, if there is one, and say so, and whether the result will be the same to the bit."""
        if self.checkpoint is None:
            return
        # Read by the process that wrote it: others may be on machines that do not see the folder.
        there = self.member.fabric.is_global_zero and self.checkpoint.exists()
        found = self.member.fabric.broadcast(load_checkpoint(self.checkpoint) if there else None)
        if found is None:
            return
        tensors, state = found
        changed = self.experiment.format_diff(read_experiment(state["experiment"]))
        if changed:
            raise ValueError(
                f"{self.checkpoint}: expected a checkpoint of this experiment, got one that differs in "
                f"{changed}; choose another --out folder or remove it"
            )
        self.member.state.load({name: tensor for name, tensor in tensors.items() if not name.startswith("best.")})
        self.best = {name.removeprefix("best."): t for name, t in tensors.items() if name.startswith("best.")}
        self.member.schedule = Schedule(**state["schedule"])
        self.history, self.best_score = state["history"], state["best_score"]
        self.steps, self.seconds = state["steps"], state["seconds"]
        self.devices = state.get("devices", [state["machine"]["device"]])
        say(f"seed {self.member.seed}: {self._tell_resumed(state['machine'])}")

    def _tell_resumed(self, before: dict[str, Any]) -> str:
        """What is left to do after a checkpoint of the machine ``before``."""
        schedule = self.member.schedule
        if schedule.stopped:
            return f"was trained before ({schedule.epoch} epoch{'s' * (schedule.epoch != 1)})"
        if not schedule.epoch:
            return "begins anew, for it was stopped before an epoch was saved"
        here = self._machine
        other = [f"{key} {before.get(key)} -> {value}" for key, value in here.items() if before.get(key) != value]
        if not other and self.member.device.type == "cpu":
            return f"going on after epoch {schedule.epoch}, to the bit as without the interruption"
        why = ", ".join(other) or "sums on a GPU have no fixed order"
        return f"going on after epoch {schedule.epoch}, not to the bit as without the interruption: {why}"

    @cached_property
    def _machine(self) -> dict[str, Any]:
        """What the bits of the result depend on; with teachers, on their lessons too."""
        lessons, here = self.member.store.graphs.get(SOFT_TARGETS), machine(self.member.device)
        if lessons is None:
            return here
        return {**here, "lessons": hashlib.blake2b(lessons.cpu().numpy().tobytes(), digest_size=4).hexdigest()}

    def _score(self, scores: Scores) -> float:
        """The main metric, turned so that more is better."""
        value = scores.metrics[self.member.objective.metric_name]
        return value if self.member.objective.higher_is_better else -value


def device_name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else f"cpu, {torch.get_num_threads()} threads"


def machine(device: torch.device) -> dict[str, Any]:
    """What the bits of a result depend on, beside the experiment and the seed."""
    return {
        "device": device_name(device),
        "processor": platform.machine(),
        "torch": torch.__version__,
        "dgn": dgn.__version__,
    }
