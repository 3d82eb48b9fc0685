"""Training from one end to the other: resumed, spread over processes, side by side, and when it fails."""

import json
import math
import os
import signal
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file

from dgn.training.checkpoint import load_checkpoint, save_checkpoint
from dgn.training.errors import DivergedError, NoDeviceError, OutOfMemoryError
from dgn.training.loop import train
from dgn.training.member import Member
from tests.training import small
from tests.training.small import make_benchmark, make_experiment

ROOT = Path(__file__).parents[2]
NODES = {"readout": "nodes"}
RANDOM = {
    "network": {"dropout": 0.3},
    "augmentation": {"reflection": True, "rotation": 90.0, "distortion": 0.2, "resample": True},
    "data": {"directions": 2},
}


def without_seconds(results):
    return [[{k: v for k, v in row.items() if k != "seconds"} for row in result.history] for result in results]


def weights(folder, seed=0):
    return load_file(folder / f"seed-{seed}" / "model.safetensors")


def start(asked, pause=0.0, **environment):
    """The program of ``small.py`` in a process of its own, with as many threads as this one."""
    own = {**os.environ, "OMP_NUM_THREADS": str(torch.get_num_threads()), "PYTHONPATH": str(ROOT), **environment}
    command = [sys.executable, small.__file__, json.dumps(asked), str(pause)]
    return subprocess.Popen(command, env=own, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def interrupt_after(epochs, experiment, objective, out, seeds=(0, 1)):
    """Leave a run with checkpoints of its first epochs."""

    def interrupt(report):
        if report.epoch > epochs:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(experiment, make_benchmark(objective), seeds, out, "cpu", interrupt, save_every=0)


@pytest.mark.slow
def test_a_killed_run_goes_on_to_the_same_bits(tmp_path):
    experiment = make_experiment(training={"epochs": 12, "report": "best"}, **RANDOM)
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    asked = {"experiment": experiment.to_dict(), "objective": "regression", "seeds": [0, 7], "out": str(killed)}
    process = start([asked], pause=0.1)
    for line in process.stdout:
        if line == "epoch 4\n":
            process.send_signal(signal.SIGKILL)
            break
    _, errors = process.communicate()
    assert process.returncode == -signal.SIGKILL, errors
    said = []
    resumed = train(experiment, make_benchmark(), [0, 7], killed, "cpu", on_resume=said.append)
    expected = train(experiment, make_benchmark(), [0, 7], whole, "cpu")
    epochs = [int(line.split("after epoch ")[1].split(",")[0]) for line in said]
    assert all(3 <= epoch < 12 for epoch in epochs)
    assert all(line.endswith(", to the bit as without the interruption") for line in said)
    assert without_seconds(resumed) == without_seconds(expected)
    assert [each.metrics for each in resumed] == [each.metrics for each in expected]
    assert [(each.steps, each.stopped) for each in resumed] == [(each.steps, each.stopped) for each in expected]
    for seed in (0, 7):
        torch.testing.assert_close(weights(killed, seed), weights(whole, seed), rtol=0, atol=0)


@pytest.mark.slow
def test_two_processes_learn_what_one_learns_from_the_joint_batch(tmp_path):
    # Of 24 training graphs a batch of 23 leaves one: the second process has none of it.
    # The bias of a virtual node has no gradient but rounding, of which Adam makes whole steps: decay outweighs it.
    cases = [
        ("regression", {"network": {"virtual_node": True}, "training": {"weight_decay": 0.01}}),
        ("node-classification", {"network": NODES, "training": {"batch_size": 23}}),
        ("multi-label", {"network": {"batch_norm": False}, "training": {"batch_size": 8, "report": "best"}}),
    ]
    asked = [
        {"experiment": make_experiment(**sections).to_dict(), "objective": name, "seeds": [0, 1], "out": name}
        for name, sections in cases
    ]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
    shared |= {"TORCHELASTIC_RUN_ID": "test", "GROUP_RANK": "0"}  # as torchrun sets them
    folders = [tmp_path / "rank0", tmp_path / "rank1"]
    interrupt_after(1, make_experiment(**cases[2][1]), "multi-label", folders[0] / "multi-label")
    processes = []
    for rank, folder in enumerate(folders):
        own = [{**each, "out": str(folder / each["out"])} for each in asked]
        processes.append(start(own, RANK=str(rank), LOCAL_RANK=str(rank), **shared))
    outputs = [process.communicate(timeout=300) for process in processes]
    assert [process.returncode for process in processes] == [0, 0], outputs
    found = [
        [json.loads(line.removeprefix("history ")) for line in out.splitlines() if line.startswith("history")]
        for out, _ in outputs
    ]
    for number, (name, sections) in enumerate(cases):
        alone = tmp_path / "alone" / name
        expected = train(make_experiment(**sections), make_benchmark(name), [0, 1], alone, "cpu")
        for histories in (each[number] for each in found):
            for history, result in zip(histories, expected, strict=True):
                for row, other in zip(history, result.history, strict=True):
                    assert {**row, "seconds": 0} == pytest.approx({**other, "seconds": 0}, rel=2e-5, abs=1e-6)
        for seed in (0, 1):
            torch.testing.assert_close(weights(folders[0] / name, seed), weights(alone, seed), rtol=1e-4, atol=2e-6)
    assert not folders[1].exists()
