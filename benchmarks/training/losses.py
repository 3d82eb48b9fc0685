"""Differences of the losses of ours and PyG, for `benchmarks/training/against_pyg.py`."""

import argparse
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from benchmarks.training.ours import SEEDS, make_replica, stream, wait
from benchmarks.training.pyg import PyG, loader, order
from benchmarks.training.pyg_baseline import make_baseline
from dgn.data.benchmark import Benchmark
from dgn.training.experiment import Experiment
from dgn.training.shared_data import SharedData


def compare_losses(
    experiment: Experiment,
    benchmark: Benchmark,
    shared: SharedData,
    device: torch.device,
    arguments: argparse.Namespace,
) -> dict[str, Any]:
    """Largest relative differences of the first losses, without dropout.

    Rounding errors grow from step to step until two runs diverge. Losses of independent runs are therefore accompanied
    by those of PyG at our weights before every step, and by those of PyG in float32 against itself in float64.
    """
    plain = replace(experiment, network=replace(experiment.network, dropout=0.0))
    indices = order(shared, plain, arguments.compare)
    ours = make_replica(SEEDS[0], plain, benchmark, shared, device)
    baselines = [make_baseline(plain, benchmark, shared.delta) for _ in range(3)]
    for network in baselines:
        network.load_dgn(ours.network)
    free, double, synced = (
        PyG(network, plain, benchmark, device) for network in (baselines[0], baselines[1].double(), baselines[2])
    )
    losses: list[list[Tensor]] = [[], [], [], []]
    queue = stream(device)
    for row, batch in zip(indices, loader(plain, benchmark, indices, 0, device), strict=True):
        baselines[2].load_dgn(ours.network)
        batch64 = batch.clone().apply(lambda value: value.double() if value.is_floating_point() else value)
        with torch.no_grad():
            losses[0].append(synced.loss(batch))
        losses[1].append(free.step(batch))
        losses[2].append(double.step(batch64))
        wait(device)
        with queue:
            for _ in ours.train_epoch(row[row >= 0]):
                pass
            losses[3].append(ours.terms[0] / ours.terms[1])
        wait(device)
    at_our_weights, independent, exact, ours_loss = (torch.stack(values).double().cpu() for values in losses)
    return {"difference at our weights": difference(ours_loss, at_our_weights),
            "difference, first 10": difference(ours_loss[:10], independent[:10]),
            "difference": difference(ours_loss, independent),
            "PyG from its float64": difference(independent, exact)}  # fmt: skip


def difference(one: Tensor, other: Tensor) -> float:
    return float(((one - other).abs() / other.abs()).max())
