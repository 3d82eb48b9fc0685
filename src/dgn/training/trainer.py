"""Training: several seeds side by side, epoch by epoch, until the schedule of each one ends."""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from lightning.fabric import Fabric
from torch import Tensor

from dgn.data.benchmark import Benchmark
from dgn.training.build import build_network
from dgn.training.devices import make_fabric, matrix_precision
from dgn.training.distillation import teach
from dgn.training.errors import OutOfMemoryError, is_out_of_memory
from dgn.training.experiment import Experiment
from dgn.training.replica import Replica
from dgn.training.run import EpochReport, Run, RunResult
from dgn.training.shared_data import SharedData, prepare

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
    """Train an experiment once for each seed, all side by side, and score each on every split.

    Each seed has its own weights, random numbers, schedule and end, and gets the same result as alone. In ``out``
    each one leaves ``seed-N/checkpoint.safetensors``, from which an interrupted run goes on, and ``model.safetensors``.
    Started by ``torchrun``, all processes share the work of each step.
    """
    if not seeds or len(set(seeds)) < len(seeds):
        raise ValueError(f"seeds: expected different whole numbers, got {list(seeds)}; name each one once")
    say = on_resume or (lambda _: None)
    try:
        with matrix_precision(experiment.training.precision):
            fabric = make_fabric(device, experiment.training.precision)
            material = prepare(experiment, benchmark, fabric.device)
            material = teach(material, experiment, benchmark, out, fabric.device)
            runs = [Run(_member(seed, experiment, benchmark, material, fabric), experiment, out) for seed in seeds]
            for run in runs:
                if resume:
                    run.resume(say)
                run.save()
            streams = {run.member.seed: own_stream(fabric.device) for run in runs}
            _train(runs, streams, material, on_epoch, save_every)
            results = [_finish(run, streams, material) for run in runs if run.failure is None]
    except (RuntimeError, MemoryError) as problem:
        if not is_out_of_memory(problem):
            raise
        raise OutOfMemoryError(
            f"memory: expected a step of {experiment.training.batch_size} graphs and {len(seeds)} seeds to fit the "
            f"device, got {problem}; lower training.batch_size or train fewer seeds at once"
            + ("" if out is None else f"; {out} holds checkpoints to go on from")
        ) from problem
    failures = [run.failure for run in runs if run.failure is not None]
    if failures:
        raise type(failures[0])(str(failures[0]), results)
    return results


def _member(seed: int, experiment: Experiment, benchmark: Benchmark, material: SharedData, fabric: Fabric) -> Replica:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = build_network(experiment.network, benchmark, material.delta)
    return Replica(seed, network, experiment, material.objective, material.store, fabric)


def _train(
    runs: list[Run],
    streams: Mapping[int, Any],
    material: SharedData,
    on_epoch: Callable[[EpochReport], None] | None,
    save_every: float,
) -> None:
    """Epochs of all seeds: queue the work of each, then wait for each."""
    start, saved = time.perf_counter() - max(run.seconds for run in runs), time.perf_counter()
    validation = {run.member.seed: material.splits["val"].fork() for run in runs}
    while active := [run for run in runs if run.active]:
        side_by_side([run.member for run in active], [streams[run.member.seed] for run in active], material.training)
        for run in active:
            run.steps += -(-len(material.training) // run.settings.batch_size)
            with streams[run.member.seed]:
                run.member.evaluate(validation[run.member.seed])
        for run in active:
            with streams[run.member.seed]:
                report = run.finish_epoch(
                    validation[run.member.seed], time.perf_counter() - start, len(material.training)
                )
            if on_epoch is not None:
                on_epoch(report)
        if time.perf_counter() - saved > save_every or not all(run.active for run in active):
            for run in active:
                with streams[run.member.seed]:  # behind what is still queued there
                    run.save()
            saved = time.perf_counter()


def _finish(run: Run, streams: Mapping[int, Any], material: SharedData) -> RunResult:
    with streams[run.member.seed]:
        return run.finish(material.fork())


def side_by_side(members: Sequence[Replica], streams: Sequence[Any], numbers: Tensor) -> None:
    """An epoch of each member, a step of each in turn: queued whole, one after the other, they would not overlap."""
    going = [(stream, member.train_epoch(numbers)) for member, stream in zip(members, streams, strict=True)]
    while going:
        left = []
        for stream, steps in going:
            with stream:
                if next(steps, DONE) is not DONE:
                    left.append((stream, steps))
        going = left


def own_stream(device: torch.device) -> Any:
    """A queue of its own for a member, so that several run at once."""
    if device.type != "cuda":
        return nullcontext()
    stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
    stream.wait_stream(torch.cuda.current_stream(device))
    return torch.cuda.stream(stream)
