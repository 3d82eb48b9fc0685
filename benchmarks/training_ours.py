"""Our side of `benchmarks/training.py`: networks in training as the loop makes them, and the time of their epochs."""

import statistics
import time
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import torch

from dgn.data.benchmark import Benchmark
from dgn.training.build import build_network
from dgn.training.devices import make_fabric
from dgn.training.experiment import Experiment
from dgn.training.replica import Replica
from dgn.training.shared_data import SharedData
from dgn.training.trainer import side_by_side as train_side_by_side

SEEDS = (41, 95, 12, 35)


def member(
    seed: int, experiment: Experiment, benchmark: Benchmark, material: SharedData, device: torch.device
) -> Replica:
    """A network in training as the loop makes it."""
    torch.manual_seed(seed)
    network = build_network(experiment.network, benchmark, material.delta)
    return Replica(seed, network, experiment, material.objective, material.store, make_fabric(device.type))


def time_epochs(members: Sequence[Replica], material: SharedData, epochs: int) -> tuple[int, float]:
    """Steps of an epoch, and median milliseconds until all members are through it, after one to warm up."""
    streams = [stream(one.device) for one in members]
    times, steps = [], -(-len(material.training) // members[0].settings.batch_size)
    for _ in range(1 + epochs):
        wait(members[0].device)
        start = time.perf_counter()
        train_side_by_side(members, streams, material.training)
        wait(members[0].device)
        times.append(1e3 * (time.perf_counter() - start))
    return steps, statistics.median(times[1:])


def side_by_side(
    experiment: Experiment, benchmark: Benchmark, material: SharedData, device: torch.device, epochs: int
) -> dict[str, Any]:
    """Four seeds together against one alone."""
    one, four = (
        time_epochs([member(seed, experiment, benchmark, material, device) for seed in seeds], material, epochs)[1]
        for seeds in (SEEDS[:1], SEEDS)
    )
    return {"data": "zinc", "seeds": len(SEEDS), "one s/epoch": one / 1e3, "four s/epoch": four / 1e3,
            "four / one": four / one}  # fmt: skip


def stream(device: torch.device) -> Any:
    """A queue beside the default one, where steps can be captured."""
    return torch.cuda.stream(torch.cuda.Stream(device)) if device.type == "cuda" else nullcontext()


def wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
