"""The run of one seed: its replica, history, best weights and folder."""

import hashlib
import math
import platform
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import dgn
from dgn.training.build import count_parameters
from dgn.training.checkpoint import load_checkpoint, save_checkpoint
from dgn.training.errors import DivergedError
from dgn.training.evaluate import SOFT_TARGETS, Scores, Split
from dgn.training.experiment import Experiment, read_experiment
from dgn.training.model_card import write_card
from dgn.training.model_io import FOLDER, StoredModel, write_model
from dgn.training.replica import Replica
from dgn.training.schedule import Schedule
from dgn.training.shared_data import SharedData
from dgn.training.versions import collect_versions


@dataclass(frozen=True)
class EpochReport:
    """One epoch of one seed. ``metrics`` are those of the validation split.

    ``best`` is the main metric of the best epoch so far, including epochs before an interruption; ``None`` with
    ``training.checkpoint: last``, or where this epoch diverged.
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
    """The result of one seed; ``metrics`` of the selected model by split and name; ``history`` one row per epoch."""

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
    """A replica with its history."""

    def __init__(self, replica: Replica, experiment: Experiment, folder: Path | None, shared: SharedData) -> None:
        self.replica, self.experiment, self.settings = replica, experiment, experiment.training
        self.shared = shared
        self.checkpoint = None if folder is None else folder / f"seed-{replica.seed}" / "checkpoint.safetensors"
        self.history: list[dict[str, float]] = []
        self.best: dict[str, Tensor] = {}
        self.best_score = -math.inf
        self.steps, self.seconds = 0, 0.0
        self.saved = 0  # the epoch of the last checkpoint
        self.devices: list[str] = []  # on which it was trained
        self.failure: DivergedError | None = None

    @property
    def active(self) -> bool:
        return not self.replica.schedule.stopped and self.failure is None

    def finish_epoch(self, split: Split, seconds: float, graphs: int) -> EpochReport:
        """Wait for an epoch, record its scores, and advance the schedule."""
        scores = split.scores()
        loss = self.replica.train_loss()
        schedule, epoch_seconds = self.replica.schedule, seconds - self.seconds
        self.seconds = seconds
        if device_name(self.replica.device) not in self.devices:
            self.devices.append(device_name(self.replica.device))
        if not (math.isfinite(loss) and math.isfinite(scores.loss)):
            hint = f"; {self.checkpoint} holds an earlier epoch" if self.saved else ""
            self.failure = DivergedError(
                f"loss: expected a finite number, got train {loss} and validation {scores.loss} in epoch "
                f"{schedule.epoch + 1} of seed {self.replica.seed}; lower training.learning_rate{hint}"
            )
        row = {"epoch": schedule.epoch + 1, "learning_rate": schedule.rate, "train_loss": loss, "val_loss": scores.loss}
        self.history.append({**row, **scores.metrics, "seconds": seconds})
        monitored = scores.loss if self.settings.monitor == "loss" else -self._score(scores)
        if self.settings.checkpoint == "best" and self._score(scores) > self.best_score:
            self.best_score = self._score(scores)
            self.best = self.replica.state.scored()
        self.replica.schedule = schedule.after(monitored, self.settings)
        throughput = graphs / epoch_seconds if epoch_seconds > 0 else math.inf
        sign = 1 if self.replica.objective.higher_is_better else -1
        best = sign * self.best_score if self.settings.checkpoint == "best" and self.failure is None else None
        return EpochReport(
            self.replica.seed, schedule.epoch + 1, self.settings.epochs, schedule.rate, loss, scores.loss,
            scores.metrics, seconds, throughput, best,
        )  # fmt: skip

    def finish(self, splits: dict[str, Split]) -> RunResult:
        """Score the selected model on every split."""
        self.replica.state.finalize(self.best)
        metrics = {}
        for name, split in splits.items():
            self.replica.evaluate(split)
            metrics[name] = split.scores().metrics
        schedule = self.replica.schedule
        if self.checkpoint is not None and self.replica.fabric.is_global_zero:
            self._write_model(self.checkpoint.with_name(FOLDER), metrics)
        return RunResult(
            self.replica.seed, count_parameters(self.replica.network), schedule.epoch, self.steps, self.seconds,
            schedule.stopped, metrics, self.history, ", then ".join(self.devices),
        )  # fmt: skip

    def _write_model(self, folder: Path, metrics: dict[str, dict[str, float]]) -> None:
        """Write the folder of the model, which needs neither this run nor its graphs."""
        facts = {
            "seed": self.replica.seed,
            "metrics": metrics,
            self.shared.counted: self.shared.sizes,
            "data": self.shared.note,
            "parameters": count_parameters(self.replica.network),
            "epochs": self.replica.schedule.epoch,
            "date": datetime.now(UTC).date().isoformat(),
            "versions": collect_versions(),
        }
        weights = [self.replica.network.state_dict()]
        stored = StoredModel(self.experiment, self.shared.signature, weights, facts)
        write_model(folder, stored, write_card(stored))

    def save(self) -> None:
        """Write a checkpoint for :meth:`resume`."""
        if self.checkpoint is None or not self.replica.fabric.is_global_zero or self.failure is not None:
            return
        tensors = {**self.replica.state.tensors(), **{f"best.{name}": tensor for name, tensor in self.best.items()}}
        state = {
            "experiment": self.experiment.to_dict(),
            "schedule": asdict(self.replica.schedule),
            "history": self.history,
            "best_score": self.best_score,
            "steps": self.steps,
            "seconds": self.seconds,
            "devices": self.devices,
            "machine": self._machine,
        }
        save_checkpoint(self.checkpoint, tensors, state)
        self.saved = self.replica.schedule.epoch

    def resume(self, report: Callable[[str], None]) -> None:
        """Load a checkpoint, if there is one, and report whether the result will be bitwise identical."""
        if self.checkpoint is None:
            return
        # Read by the process that wrote it: others may be on machines that do not see the folder.
        exists = self.replica.fabric.is_global_zero and self.checkpoint.exists()
        loaded = self.replica.fabric.broadcast(load_checkpoint(self.checkpoint) if exists else None)
        if loaded is None:
            return
        tensors, state = loaded
        changed = self.experiment.format_diff(self.experiment.extend(read_experiment(state["experiment"])))
        if changed:
            raise ValueError(
                f"{self.checkpoint}: expected a checkpoint of this experiment, got one that differs in "
                f"{changed}; choose another --out folder or remove it"
            )
        self.replica.state.load({name: tensor for name, tensor in tensors.items() if not name.startswith("best.")})
        self.best = {name.removeprefix("best."): t for name, t in tensors.items() if name.startswith("best.")}
        self.replica.schedule = Schedule(**state["schedule"]).extended(self.settings)
        self.history, self.best_score = state["history"], state["best_score"]
        self.steps, self.seconds = state["steps"], state["seconds"]
        self.devices = state.get("devices", [state["machine"]["device"]])
        report(f"seed {self.replica.seed}: {self._resume_message(state['machine'])}")

    def _resume_message(self, before: dict[str, Any]) -> str:
        """How training continues from a checkpoint that was written on the machine ``before``."""
        schedule = self.replica.schedule
        if schedule.stopped:
            return f"already trained ({schedule.epoch} epoch{'s' * (schedule.epoch != 1)})"
        if not schedule.epoch:
            return "restarts, as no epoch was saved before it was stopped"
        changed = [
            f"{key} {before.get(key)} -> {value}" for key, value in self._machine.items() if before.get(key) != value
        ]
        if not changed and self.replica.device.type == "cpu":
            return f"resuming after epoch {schedule.epoch}, bitwise identical to an uninterrupted run"
        reason = ", ".join(changed) or "sums on a GPU have no fixed order"
        return f"resuming after epoch {schedule.epoch}, not bitwise identical to an uninterrupted run: {reason}"

    @cached_property
    def _machine(self) -> dict[str, Any]:
        """What the bits of the result depend on, soft targets of teachers included."""
        soft_targets, info = self.replica.dataset.graphs.get(SOFT_TARGETS), machine(self.replica.device)
        if soft_targets is None:
            return info
        digest = hashlib.blake2b(soft_targets.cpu().numpy().tobytes(), digest_size=4).hexdigest()
        return {**info, SOFT_TARGETS: digest}

    def _score(self, scores: Scores) -> float:
        """The main metric, negated where lower is better."""
        value = scores.metrics[self.replica.objective.metric_name]
        return value if self.replica.objective.higher_is_better else -value


def device_name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else f"cpu, {torch.get_num_threads()} threads"


def machine(device: torch.device) -> dict[str, Any]:
    """What the bits of a result depend on, apart from the experiment and the seed."""
    return {
        "device": device_name(device),
        "processor": platform.machine(),
        "torch": torch.__version__,
        "dgn": dgn.__version__,
    }
