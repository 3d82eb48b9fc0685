"""Our side of `against_pyg.py`: replicas as the training loop makes them, and the time of their epochs."""

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
from dgn.training.trainer import train_replicas

SEEDS = (41, 95, 12, 35)


def make_replica(
    seed: int, experiment: Experiment, benchmark: Benchmark, shared: SharedData, device: torch.device
) -> Replica:
    """A replica as the training loop makes it."""
    torch.manual_seed(seed)
    network = build_network(experiment.network, benchmark, shared.delta)
    return Replica(seed, network, experiment, shared.objective, shared.store, make_fabric(device.type))


def time_epochs(replicas: Sequence[Replica], shared: SharedData, epochs: int) -> tuple[int, float]:
    """Steps of an epoch, and its median milliseconds for all replicas, after a warm-up epoch."""
    streams = [stream(replica.device) for replica in replicas]
    times, steps = [], -(-len(shared.training) // replicas[0].settings.batch_size)
    for _ in range(1 + epochs):
        wait(replicas[0].device)
        start = time.perf_counter()
        train_replicas(replicas, streams, shared.training)
        wait(replicas[0].device)
        times.append(1e3 * (time.perf_counter() - start))
    return steps, statistics.median(times[1:])


def time_seeds(
    experiment: Experiment, benchmark: Benchmark, shared: SharedData, device: torch.device, epochs: int
) -> dict[str, Any]:
    """Four seeds at once compared with one."""
    one, four = (
        time_epochs([make_replica(seed, experiment, benchmark, shared, device) for seed in seeds], shared, epochs)[1]
        for seeds in (SEEDS[:1], SEEDS)
    )
    return {"data": "zinc", "seeds": len(SEEDS), "one s/epoch": one / 1e3, "four s/epoch": four / 1e3,
            "four / one": four / one}  # fmt: skip


def stream(device: torch.device) -> Any:
    """A CUDA stream other than the default one, so that steps can be captured."""
    return torch.cuda.stream(torch.cuda.Stream(device)) if device.type == "cuda" else nullcontext()


def wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
