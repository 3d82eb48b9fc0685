"""Alternating steps of ours and PyG, for `against_pyg.py` on a CPU: other load then affects both alike."""

import statistics
import time
from typing import Any

import torch

from benchmarks.training.ours import SEEDS, make_replica
from benchmarks.training.pyg import PyG, loader, order
from benchmarks.training.pyg_baseline import make_baseline
from dgn.data.benchmark import Benchmark
from dgn.training.experiment import Experiment
from dgn.training.shared_data import SharedData

STEPS = 8  # of a turn


def in_turns(
    experiment: Experiment, benchmark: Benchmark, shared: SharedData, device: torch.device, turns: int
) -> dict[str, Any]:
    """Milliseconds per step of both on the same batches in alternating turns: the median, and the minimum."""
    ours = make_replica(SEEDS[0], experiment, benchmark, shared, device)
    baseline = PyG(make_baseline(experiment, benchmark, shared.delta), experiment, benchmark, device)
    times: dict[str, list[float]] = {"ours": [], "PyG": []}
    for indices in order(shared, experiment, STEPS * (turns + 1)).split(STEPS):
        batches, start = loader(experiment, benchmark, indices, 0, device), time.perf_counter()
        for _ in ours.train_epoch(indices.flatten()):
            pass
        middle = time.perf_counter()
        for batch in batches:
            baseline.step(batch)
        times["ours"].append(1e3 * (middle - start) / STEPS)
        times["PyG"].append(1e3 * (time.perf_counter() - middle) / STEPS)
    row: dict[str, Any] = {"turns": turns, "threads": torch.get_num_threads()}
    for name, choose in (("median", statistics.median), ("least", min)):
        our_time, pyg_time = (choose(values[1:]) for values in times.values())  # the first turn warms up
        row |= {f"ours ms/step, {name}": our_time, f"PyG ms/step, {name}": pyg_time}
        row[f"PyG / ours, {name}"] = pyg_time / our_time
    return row
