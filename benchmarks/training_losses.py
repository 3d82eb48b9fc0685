"""The losses of `benchmarks/training.py`: how far ours and PyG's are apart."""

import argparse
from dataclasses import replace
from typing import Any

import torch
from pyg_baseline import make_baseline
from torch import Tensor
from training_ours import SEEDS, member, stream, wait
from training_pyg import PyG, loader, order

from dgn.data.benchmark import Benchmark
from dgn.training.experiment import Experiment
from dgn.training.shared_data import SharedData


def losses(
    experiment: Experiment,
    benchmark: Benchmark,
    material: SharedData,
    device: torch.device,
    arguments: argparse.Namespace,
) -> dict[str, Any]:
    """Largest relative differences of the first losses, without dropout.

    Rounding grows from step to step until two runs are strangers. So beside the losses of both, each on its own way,
    stand those of PyG at our weights before every step, and those of PyG in float32 against itself in float64.
    """
    plain = replace(experiment, network=replace(experiment.network, dropout=0.0))
    numbers = order(material, plain, arguments.compare)
    ours = member(SEEDS[0], plain, benchmark, material, device)
    ways = [make_baseline(plain, benchmark, material.delta) for _ in range(3)]
    for network in ways:
        network.load_dgn(ours.network)
    alone, exact, led = (PyG(network, plain, benchmark, device) for network in (ways[0], ways[1].double(), ways[2]))
    found: list[list[Tensor]] = [[], [], [], []]
    queue = stream(device)
    for row, batch in zip(numbers, loader(plain, benchmark, numbers, 0, device), strict=True):
        ways[2].load_dgn(ours.network)
        wide = batch.clone().apply(lambda value: value.double() if value.is_floating_point() else value)
        with torch.no_grad():
            found[0].append(led.loss(batch))
        found[1].append(alone.step(batch))
        found[2].append(exact.step(wide))
        wait(device)
        with queue:
            for _ in ours.train_epoch(row[row >= 0]):
                pass
            found[3].append(ours.terms[0] / ours.terms[1])
        wait(device)
    led_by_us, free, true, mine = (torch.stack(each).double().cpu() for each in found)
    return {"apart at our weights": apart(mine, led_by_us), "apart, first 10": apart(mine[:10], free[:10]),
            "apart": apart(mine, free), "PyG from its float64": apart(free, true)}  # fmt: skip


def apart(one: Tensor, other: Tensor) -> float:
    return float(((one - other).abs() / other.abs()).max())
