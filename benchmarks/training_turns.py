"""Ours and PyG in turns, for `benchmarks/training.py` on a CPU: what else the machine does then hits both alike."""

import statistics
import time
from typing import Any

import torch
from pyg_baseline import make_baseline
from training_ours import SEEDS, member
from training_pyg import PyG, loader, order

from dgn.data.benchmark import Benchmark
from dgn.training.experiment import Experiment
from dgn.training.shared_data import SharedData

STEPS = 8  # of a turn


def in_turns(
    experiment: Experiment, benchmark: Benchmark, material: SharedData, device: torch.device, turns: int
) -> dict[str, Any]:
    """Milliseconds of a step of both on the same batches, by turns of some steps: the median, and the least."""
    ours = member(SEEDS[0], experiment, benchmark, material, device)
    theirs = PyG(make_baseline(experiment, benchmark, material.delta), experiment, benchmark, device)
    times: dict[str, list[float]] = {"ours": [], "PyG": []}
    for numbers in order(material, experiment, STEPS * (turns + 1)).split(STEPS):
        batches, start = loader(experiment, benchmark, numbers, 0, device), time.perf_counter()
        for _ in ours.train_epoch(numbers.flatten()):
            pass
        middle = time.perf_counter()
        for batch in batches:
            theirs.step(batch)
        times["ours"].append(1e3 * (middle - start) / STEPS)
        times["PyG"].append(1e3 * (time.perf_counter() - middle) / STEPS)
    found: dict[str, Any] = {"turns": turns, "threads": torch.get_num_threads()}
    for word, choose in (("median", statistics.median), ("least", min)):
        mine, other = (choose(each[1:]) for each in times.values())  # the first turn warms up
        found |= {f"ours ms/step, {word}": mine, f"PyG ms/step, {word}": other, f"PyG / ours, {word}": other / mine}
    return found
