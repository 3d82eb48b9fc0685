"""Training: replicas of several seeds at once, epoch by epoch, until the schedule of each one ends."""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from dgn.data.benchmark import Benchmark
from dgn.training.build import build_for_inputs
from dgn.training.devices import make_fabric, matrix_precision
from dgn.training.distillation import add_soft_targets
from dgn.training.errors import OutOfMemoryError, is_out_of_memory
from dgn.training.experiment import Experiment
from dgn.training.finetune import initialize
from dgn.training.replica import Replica
from dgn.training.run import EpochReport, Run, RunResult
from dgn.training.shared_data import SharedData, prepare

if TYPE_CHECKING:
    from lightning.fabric import Fabric

DONE = object()
SAVE_EVERY = 10.0  # seconds between checkpoints


def train(
    experiment: Experiment,
    benchmark: Benchmark,
    seeds: Sequence[int],
    out: Path | None = None,
    device: str = "auto",
    on_epoch: Callable[[EpochReport], None] | None = None,
    resume: bool = True,
    on_resume: Callable[[str], None] | None = None,
    save_every: float = SAVE_EVERY,
) -> list[RunResult]:
    """Results of training an experiment once for each seed, all at the same time, scored on every split.

    Each seed has its own weights, random numbers and schedule; its result is that of training it alone. ``out`` gets
    ``seed-N/checkpoint.safetensors``, from which an interrupted run resumes, and ``seed-N/model``, the folder of the
    trained model. Started by ``torchrun``, all processes share the work of each step.
    """
    if not seeds or len(set(seeds)) < len(seeds):
        raise ValueError(f"seeds: expected different whole numbers, got {list(seeds)}; name each one once")
    report = on_resume or (lambda _: None)
    try:
        with matrix_precision(experiment.training.precision):
            fabric = make_fabric(device, experiment.training.precision)
            shared = prepare(experiment, benchmark, fabric.device)
            shared = add_soft_targets(shared, experiment, benchmark, out, fabric.device)
            replicas = [_make_replica(seed, experiment, shared, fabric) for seed in seeds]
            runs = [Run(replica, experiment, out, shared) for replica in replicas]
            for run in runs:
                if resume:
                    run.resume(report)
                run.save()
            streams = {run.replica.seed: new_stream(fabric.device) for run in runs}
            _train(runs, streams, shared, on_epoch, save_every)
            results = [_finish(run, streams, shared) for run in runs if run.failure is None]
    except (RuntimeError, MemoryError) as problem:
        if not is_out_of_memory(problem):
            raise
        raise OutOfMemoryError(
            f"memory: expected a step of {experiment.training.batch_size} graphs and {len(seeds)} seeds to fit the "
            f"device, got {problem}; lower training.batch_size or train fewer seeds at once"
            + ("" if out is None else f"; {out} holds checkpoints to resume from")
        ) from problem
    failures = [run.failure for run in runs if run.failure is not None]
    if failures:
        raise type(failures[0])(str(failures[0]), results)
    return results


def _make_replica(seed: int, experiment: Experiment, shared: SharedData, fabric: "Fabric") -> Replica:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = build_for_inputs(experiment.network, shared.signature.inputs, shared.delta)
    if shared.initial is not None:
        initialize(network, shared.initial, experiment.training.freeze)
    return Replica(seed, network, experiment, shared.objective, shared.store, fabric)


def _train(
    runs: list[Run],
    streams: Mapping[int, Any],
    shared: SharedData,
    on_epoch: Callable[[EpochReport], None] | None,
    save_every: float,
) -> None:
    """Train all seeds epoch by epoch: queue the work of each, then wait for each."""
    start, saved = time.perf_counter() - max(run.seconds for run in runs), time.perf_counter()
    validation = {run.replica.seed: shared.splits["val"].fork() for run in runs}
    while active := [run for run in runs if run.active]:
        train_replicas([run.replica for run in active], [streams[run.replica.seed] for run in active], shared.training)
        for run in active:
            run.steps += -(-len(shared.training) // run.settings.batch_size)
            with streams[run.replica.seed]:
                run.replica.update_statistics(shared.training)
                run.replica.evaluate(validation[run.replica.seed])
        for run in active:
            with streams[run.replica.seed]:
                report = run.finish_epoch(
                    validation[run.replica.seed], time.perf_counter() - start, len(shared.training)
                )
            if on_epoch is not None:
                on_epoch(report)
        if time.perf_counter() - saved > save_every or not all(run.active for run in active):
            for run in active:
                with streams[run.replica.seed]:  # after what is still queued there
                    run.save()
            saved = time.perf_counter()


def _finish(run: Run, streams: Mapping[int, Any], shared: SharedData) -> RunResult:
    with streams[run.replica.seed]:
        return run.finish(shared.fork())


def train_replicas(replicas: Sequence[Replica], streams: Sequence[Any], index: Tensor) -> None:
    """Train each replica for one epoch, a step of each in turn: whole epochs, queued in sequence, would not overlap."""
    active = [(stream, replica.train_epoch(index)) for replica, stream in zip(replicas, streams, strict=True)]
    while active:
        unfinished = []
        for stream, steps in active:
            with stream:
                if next(steps, DONE) is not DONE:
                    unfinished.append((stream, steps))
        active = unfinished


def new_stream(device: torch.device) -> Any:
    """A CUDA stream for one replica, so that several overlap; a null context on the CPU."""
    if device.type != "cuda":
        return nullcontext()
    stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
    stream.wait_stream(torch.cuda.current_stream(device))
    return torch.cuda.stream(stream)
