"""Training end to end: resumed, distributed over processes, several seeds at once, and failures."""

import json
import math
import os
import signal
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file

from dgn.training.checkpoint import load_checkpoint, save_checkpoint
from dgn.training.errors import DivergedError, NoDeviceError, OutOfMemoryError
from dgn.training.replica import Replica
from dgn.training.trainer import train
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
    return load_file(folder / f"seed-{seed}" / "model" / "weights.safetensors")


def start(jobs, pause=0.0, **environment):
    """Run ``small.py`` in a subprocess with as many threads as this process."""
    variables = {
        **os.environ,
        "OMP_NUM_THREADS": str(torch.get_num_threads()),
        "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}",
        **environment,
    }
    command = [sys.executable, "-W", "error::FutureWarning", small.__file__, json.dumps(jobs), str(pause)]
    return subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def interrupt_after(epochs, experiment, objective, out, seeds=(0, 1)):
    """Leave a run with checkpoints of its first epochs."""

    def interrupt(report):
        if report.epoch > epochs:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(experiment, make_benchmark(objective), seeds, out, "cpu", interrupt, save_every=0)


@pytest.mark.slow
def test_a_killed_run_resumes_bitwise_identically(tmp_path):
    experiment = make_experiment(training={"epochs": 12, "checkpoint": "best"}, **RANDOM)
    killed, uninterrupted = tmp_path / "killed", tmp_path / "uninterrupted"
    job = {"experiment": experiment.to_dict(), "objective": "regression", "seeds": [0, 7], "out": str(killed)}
    process = start([job], pause=0.1)
    for line in process.stdout:
        if line == "epoch 4\n":
            process.send_signal(signal.SIGKILL)
            break
    _, errors = process.communicate()
    assert process.returncode == -signal.SIGKILL, errors
    messages = []
    resumed = train(experiment, make_benchmark(), [0, 7], killed, "cpu", on_resume=messages.append)
    expected = train(experiment, make_benchmark(), [0, 7], uninterrupted, "cpu")
    epochs = [int(line.split("after epoch ")[1].split(",")[0]) for line in messages]
    assert all(3 <= epoch < 12 for epoch in epochs)
    assert all(line.endswith(", bitwise identical to an uninterrupted run") for line in messages)
    assert without_seconds(resumed) == without_seconds(expected)
    assert [result.metrics for result in resumed] == [result.metrics for result in expected]
    for result, other in zip(resumed, expected, strict=True):
        assert (result.steps, result.stopped) == (other.steps, other.stopped)
    for seed in (0, 7):
        torch.testing.assert_close(weights(killed, seed), weights(uninterrupted, seed), rtol=0, atol=0)


@pytest.mark.parametrize(("objective", "choose"), [("regression", min), ("multi-label", max)])
def test_epoch_reports_have_the_best_score_so_far(tmp_path, objective, choose):
    experiment = make_experiment(training={"epochs": 12, "learning_rate": 0.05, "checkpoint": "best"})
    interrupt_after(10, experiment, objective, tmp_path, [5])
    reports = []
    (done,) = train(experiment, make_benchmark(objective), [5], tmp_path, "cpu", reports.append)
    course = [row[small.METRICS[objective]] for row in done.history]
    assert [report.best for report in reports] == [choose(course[:11]), choose(course)]
    assert choose(course[10:]) != choose(course)  # the best was before the interruption


@pytest.mark.slow
def test_two_processes_train_as_one_with_the_joint_batch(tmp_path):
    # Of 24 training graphs a batch of 23 leaves one: the second process has none of it.
    # The gradient of a virtual node's bias is rounding, which Adam scales to full steps: weight decay outweighs it.
    cases = [
        ("regression", {"network": {"virtual_node": True}, "training": {"weight_decay": 0.01}}),
        ("node-classification", {"network": NODES, "training": {"batch_size": 23}}),
        ("multi-label", {"network": {"batch_norm": False}, "training": {"batch_size": 8, "checkpoint": "best"}}),
    ]
    jobs = [
        {"experiment": make_experiment(**sections).to_dict(), "objective": name, "seeds": [2, 3], "out": name}
        for name, sections in cases
    ]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
    shared |= {"TORCHELASTIC_RUN_ID": "test", "GROUP_RANK": "0"}  # as torchrun sets them
    folders = [tmp_path / "rank0", tmp_path / "rank1"]
    interrupt_after(1, make_experiment(**cases[2][1]), "multi-label", folders[0] / "multi-label", [2, 3])
    processes = []
    for rank, folder in enumerate(folders):
        rank_jobs = [{**job, "out": str(folder / job["out"])} for job in jobs]
        processes.append(start(rank_jobs, RANK=str(rank), LOCAL_RANK=str(rank), **shared))
    outputs = [process.communicate(timeout=300) for process in processes]
    assert [process.returncode for process in processes] == [0, 0], outputs
    outputs_by_rank = [
        [json.loads(line.removeprefix("history ")) for line in out.splitlines() if line.startswith("history")]
        for out, _ in outputs
    ]
    for number, (name, sections) in enumerate(cases):
        alone = tmp_path / "alone" / name
        expected = train(make_experiment(**sections), make_benchmark(name), [2, 3], alone, "cpu")
        for histories in (output[number] for output in outputs_by_rank):
            for history, result in zip(histories, expected, strict=True):
                for row, other in zip(history, result.history, strict=True):
                    assert {**row, "seconds": 0} == pytest.approx({**other, "seconds": 0}, rel=2e-5, abs=1e-6)
        for seed in (2, 3):
            torch.testing.assert_close(weights(folders[0] / name, seed), weights(alone, seed), rtol=1e-4, atol=2e-6)
    assert not folders[1].exists()


def test_seeds_trained_at_once_equal_single_ones_and_stop_independently(tmp_path):
    training = {"epochs": 12, "patience": 0, "lr_decay_factor": 0.3, "min_learning_rate": 0.002}
    experiment, seeds = make_experiment(training=training, **RANDOM), [0, 1, 2]
    together = train(experiment, make_benchmark(), seeds, tmp_path / "together", "cpu")
    for seed, result in zip(seeds, together, strict=True):
        (alone,) = train(experiment, make_benchmark(), [seed], tmp_path / "alone", "cpu")
        assert without_seconds([result]) == without_seconds([alone])
        assert replace(result, history=[], seconds=0) == replace(alone, history=[], seconds=0)
        both = (weights(tmp_path / folder, seed) for folder in ("together", "alone"))
        torch.testing.assert_close(*both, rtol=0, atol=0)
    assert len({result.epochs for result in together}) > 1
    for result in together:
        early = result.history[-1]["learning_rate"] * 0.3 < 0.002 and result.epochs < 12
        assert result.stopped == ("the learning rate fell below 0.002" if early else "all 12 epochs done")
    assert all(result.steps == 4 * result.epochs == 4 * len(result.history) for result in together)


def test_another_machine_is_reported_on_resuming(tmp_path):
    experiment = make_experiment()
    interrupt_after(1, experiment, "regression", tmp_path, seeds=[0])
    path = tmp_path / "seed-0" / "checkpoint.safetensors"
    tensors, state = load_checkpoint(path)
    save_checkpoint(path, tensors, {**state, "machine": {**state["machine"], "torch": "1.0"}})
    messages = []
    train(experiment, make_benchmark(), [0], tmp_path, "cpu", on_resume=messages.append)
    assert messages == [
        "seed 0: resuming after epoch 1, not bitwise identical to an uninterrupted run: torch 1.0 -> "
        f"{torch.__version__}"
    ]


def test_a_finished_run_is_scored_again_and_can_be_restarted(tmp_path):
    experiment, reports, messages = make_experiment(), [], []
    (first,) = train(experiment, make_benchmark(), [0], tmp_path, "cpu")
    (again,) = train(experiment, make_benchmark(), [0], tmp_path, "cpu", reports.append, on_resume=messages.append)
    assert again == first
    assert not reports
    assert messages == ["seed 0: already trained (3 epochs)"]
    train(experiment, make_benchmark(), [0], tmp_path, "cpu", reports.append, resume=False)
    assert [report.epoch for report in reports] == [1, 2, 3]


def test_reports_equal_the_history():
    reports = []
    (result,) = train(make_experiment(), make_benchmark("multi-label"), [5], None, "cpu", reports.append)
    assert [report.seed for report in reports] == [5, 5, 5]
    for report, row in zip(reports, result.history, strict=True):
        expected = {
            "epoch": report.epoch, "learning_rate": report.learning_rate, "train_loss": report.train_loss,
            "val_loss": report.val_loss, **report.metrics, "seconds": report.seconds,
        }  # fmt: skip
        assert row == expected
        assert report.graphs_per_second > 0
        assert report.epochs == 3
    assert result.seconds == reports[-1].seconds
    assert result.device == f"cpu, {torch.get_num_threads()} threads"
    assert set(result.metrics) == {"train", "val", "test"}


@pytest.mark.parametrize("objective", ["regression", "multi-label"])
def test_the_reported_model_is_the_last_or_the_best(objective, tmp_path):
    training, metric = {"epochs": 12, "learning_rate": 0.05}, make_benchmark(objective).metric
    results = {}
    for checkpoint in ("last", "best"):
        experiment = make_experiment(training={**training, "checkpoint": checkpoint})
        (results[checkpoint],) = train(experiment, make_benchmark(objective), [8], tmp_path / checkpoint, "cpu")
    assert without_seconds([results["last"]]) == without_seconds([results["best"]])
    course = [row[metric] for row in results["last"].history]
    best = min(course) if metric == "mae" else max(course)
    assert best != course[-1]
    assert results["last"].metrics["val"][metric] == course[-1]
    assert results["best"].metrics["val"][metric] == best
    folder = tmp_path / "best" / "seed-8" / "model"
    with safe_open(folder / "weights.safetensors", framework="pt") as file:  # no code of ours
        assert all(name.startswith("0.") for name in file.keys())  # noqa: SIM118, neither optimizer nor best
    state = json.loads((folder / "model.json").read_text(), parse_constant=pytest.fail)
    assert state["facts"]["metrics"] == results["best"].metrics
    assert state["facts"]["seed"] == 8
    assert state["experiment"]["training"]["checkpoint"] == "best"


def test_a_fraction_of_the_training_graphs_is_its_first_graphs():
    benchmark = make_benchmark()
    split = benchmark.graphs.graphs["split"].clone()
    split[12:24] = 9  # in no split
    fewer = replace(benchmark, graphs=benchmark.graphs.with_values(graphs={"split": split}))
    half = train(make_experiment(data={"train_fraction": 0.5}), benchmark, [0], device="cpu")
    expected = train(make_experiment(), fewer, [0], device="cpu")
    assert without_seconds(half) == without_seconds(expected)
    assert half[0].metrics == expected[0].metrics
    assert half[0].steps == 3 * 2


@pytest.mark.parametrize("monitor", ["loss", "metric"])
def test_the_schedule_follows_the_monitored_value(monitor):
    training = {"epochs": 10, "patience": 0, "learning_rate": 0.05, "monitor": monitor}
    (result,) = train(make_experiment(training=training), make_benchmark("multi-label"), [1], device="cpu")
    best, rate = math.inf, 0.05
    for row in result.history:
        assert row["learning_rate"] == pytest.approx(rate)
        monitored = row["val_loss"] if monitor == "loss" else -row["roc-auc"]
        better = monitored < best - 1e-4 * abs(best) if best < math.inf else True
        best, rate = (monitored, rate) if better else (best, rate / 2)
    assert rate < 0.05


CASES = {
    "missing labels": ("multi-label", {}),
    "classes": ("classification", {"readout": "sum"}),
    "nodes": ("node-classification", NODES),
    "positions": ("regression", {"aggregators": ["mean"], "num_eigenvector_features": 2}),
    "directional readout": ("regression", {"readout": "directional"}),
    "virtual node": ("regression", {"virtual_node": True, "num_layers": 3}),
    "edge features and towers": (
        "regression",
        {"message": "complex", "edge_dim": 3, "towers": 2, "scalers": ["identity", "amplification", "attenuation"]},
    ),
}


@pytest.mark.parametrize(("objective", "network"), CASES.values(), ids=CASES)
@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed"])
def test_the_training_loss_falls(objective, network, precision):
    experiment = make_experiment(network={"hidden": 16, **network}, training={"epochs": 8, "precision": precision})
    (result,) = train(experiment, make_benchmark(objective), [0], device="cpu")
    assert result.history[-1]["train_loss"] < 0.95 * result.history[0]["train_loss"]
    assert all(math.isfinite(value) for scores in result.metrics.values() for value in scores.values())


def test_half_precision_keeps_single_precision_weights(monkeypatch):
    used = []
    linear = torch.nn.functional.linear
    monkeypatch.setattr(
        "torch.nn.functional.linear",
        lambda *arguments: used.append(torch.is_autocast_enabled("cpu")) or linear(*arguments),
    )
    train(make_experiment(training={"precision": "bf16-mixed", "epochs": 1}), make_benchmark(), [0], device="cpu")
    assert set(used) == {True, False}  # training, then scores


@pytest.mark.parametrize("before", ["highest", "medium"])
def test_tf32_lasts_as_long_as_training(before):
    precisions, initial = [], torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(before)
    try:
        experiment = make_experiment(training={"precision": "tf32-true", "epochs": 1})
        train(
            experiment, make_benchmark(), [0], device="cpu",
            on_epoch=lambda _: precisions.append(torch.get_float32_matmul_precision()),
        )  # fmt: skip
        assert torch.get_float32_matmul_precision() == before
    finally:
        torch.set_float32_matmul_precision(initial)
    assert precisions == ["high"]


def test_graphs_with_a_field_need_no_eigenvectors(monkeypatch):
    monkeypatch.setattr("dgn.data.benchmark.add_directions", lambda *_, **__: pytest.fail("computed eigenvectors"))
    benchmark = make_benchmark("regression", coordinates=True)
    expected = train(make_experiment(), make_benchmark(), [0], device="cpu")
    assert without_seconds(train(make_experiment(), benchmark, [0], device="cpu")) == without_seconds(expected)


def test_missing_directions_are_computed_and_cached(tmp_path, monkeypatch):
    monkeypatch.setenv("DGN_CACHE", str(tmp_path))
    graphs = make_benchmark().graphs
    bare = replace(graphs, nodes={"x": graphs.nodes["x"]}, edges={"edge_attr": graphs.edges["edge_attr"]})
    expected = train(make_experiment(data={"directions": 2}), make_benchmark(), [0], device="cpu")
    for _ in range(2):
        results = train(
            make_experiment(data={"directions": 2}), replace(make_benchmark(), graphs=bare), [0], device="cpu"
        )
        assert without_seconds(results) == without_seconds(expected)
    assert len(list((tmp_path / "directions").iterdir())) == 1


def test_a_seed_that_diverges_is_named_and_the_others_finish(tmp_path, monkeypatch):
    train_epoch = Replica.train_epoch

    def poisoned(self, index):
        if self.seed == 1 and self.schedule.epoch == 1:
            self.network.head[0].weight.data.fill_(torch.nan)
        return train_epoch(self, index)

    monkeypatch.setattr(Replica, "train_epoch", poisoned)
    with pytest.raises(DivergedError, match=r"in epoch 2 of seed 1; lower training.learning_rate") as caught:
        train(make_experiment(), make_benchmark(), [0, 1, 2], tmp_path, "cpu", save_every=0)
    assert [result.seed for result in caught.value.results] == [0, 2]
    assert [result.epochs for result in caught.value.results] == [3, 3]
    path = tmp_path / "seed-1" / "checkpoint.safetensors"
    assert str(path) in str(caught.value)
    assert not path.with_name("model.safetensors").exists()
    monkeypatch.undo()
    resumed = train(make_experiment(), make_benchmark(), [1], tmp_path, "cpu")
    assert len(resumed[0].history) == 3
    assert without_seconds(resumed) == without_seconds(train(make_experiment(), make_benchmark(), [1], device="cpu"))


@pytest.mark.parametrize("objective", ["regression", "classification", "multi-label", "node-classification"])
def test_a_huge_learning_rate_diverges(objective, monkeypatch):
    monkeypatch.setattr("dgn.nn.settings.MOST", 10**40)  # settings refuse such a rate
    network = NODES if objective.startswith("node") else {}
    experiment = make_experiment(training={"learning_rate": 1e30}, network=network)
    with pytest.raises(DivergedError, match=r"loss: expected a finite number, got .* of seed 0"):
        train(experiment, make_benchmark(objective), [0], device="cpu")


def test_features_that_overflow_diverge(tmp_path):
    benchmark = make_benchmark()
    x = torch.rand(benchmark.graphs.num_nodes, 2)
    x[0] = 3e38
    graphs = benchmark.graphs.with_values(nodes={"x": x})
    with pytest.raises(DivergedError, match=r"in epoch 1 of seed 4; lower training.learning_rate$") as caught:
        train(
            make_experiment(),
            replace(benchmark, graphs=graphs, node_categories=None),
            [4],
            tmp_path,
            "cpu",
            save_every=0,
        )
    assert caught.value.results == []


def on_a_gpu():
    raise torch.OutOfMemoryError("tried to allocate 8 GiB")


@pytest.mark.parametrize(
    ("fill", "message"),
    [
        (on_a_gpu, "allocate 8 GiB"),
        (lambda: torch.empty(1 << 60), "allocate memory"),
        (lambda: np.empty(1 << 60, np.int8), "Unable to allocate"),
    ],
    ids=["GPU", "CPU", "NumPy"],
)
def test_a_run_resumes_after_running_out_of_memory(tmp_path, monkeypatch, fill, message):
    step, calls = Replica._step, []

    def failing_step(self, *args):
        calls.append(1)
        if len(calls) == 6:
            fill()
        step(self, *args)

    monkeypatch.setattr(Replica, "_step", failing_step)
    with pytest.raises(OutOfMemoryError, match=f"a step of 7 graphs and 1 seeds .*{message}.*; lower") as caught:
        train(make_experiment(), make_benchmark(), [0], tmp_path, "cpu", save_every=0)
    assert str(tmp_path) in str(caught.value)
    monkeypatch.undo()
    messages = []
    resumed = train(make_experiment(), make_benchmark(), [0], tmp_path, "cpu", on_resume=messages.append)
    assert "after epoch 1," in messages[0]
    assert without_seconds(resumed) == without_seconds(train(make_experiment(), make_benchmark(), [0], device="cpu"))


def test_a_missing_device_is_refused():
    if torch.cuda.is_available():
        pytest.skip("there is one")
    with pytest.raises(NoDeviceError, match="device: expected a CUDA device for 'cuda', got 0"):
        train(make_experiment(), make_benchmark(), [0], device="cuda")


def test_more_epochs_resume_bitwise_identical_to_an_uninterrupted_run(tmp_path):
    few, more = (make_experiment(training={"epochs": epochs}) for epochs in (3, 5))
    train(few, make_benchmark(), [0], tmp_path / "grown", "cpu")
    messages = []
    (grown,) = train(more, make_benchmark(), [0], tmp_path / "grown", "cpu", on_resume=messages.append)
    (whole,) = train(more, make_benchmark(), [0], tmp_path / "whole", "cpu")
    assert messages == ["seed 0: resuming after epoch 3, bitwise identical to an uninterrupted run"]
    losses = [[row["train_loss"] for row in result.history] for result in (grown, whole)]
    assert losses[0] == losses[1]
    assert len(losses[0]) == 5
    assert grown.metrics == whole.metrics
    with pytest.raises(ValueError, match=r"differs in training.epochs \(5 there, 3 requested\)"):
        train(few, make_benchmark(), [0], tmp_path / "grown", "cpu")


def test_a_checkpoint_of_another_experiment_is_refused(tmp_path):
    train(make_experiment(), make_benchmark(), [0], tmp_path, "cpu")
    other = make_experiment(training={"learning_rate": 0.02, "epochs": 2})
    with pytest.raises(
        ValueError, match=r"differs in training.epochs \(\d+ there, 2 requested\), .*; choose another --out"
    ):
        train(other, make_benchmark(), [0], tmp_path, "cpu")


def test_augmentation_without_a_field_is_refused():
    experiment = make_experiment(network={"aggregators": ["mean"]}, augmentation={"reflection": True})
    graphs = make_benchmark().graphs
    bare = replace(graphs, edges={"edge_attr": graphs.edges["edge_attr"]})
    with pytest.raises(ValueError, match="augmentation: expected a network that reads a field, got aggregators mean"):
        train(experiment, replace(make_benchmark(), graphs=bare), [0], device="cpu")


def test_every_split_needs_graphs():
    graphs = make_benchmark().graphs.with_values(graphs={"split": torch.zeros(40, dtype=torch.uint8)})
    with pytest.raises(ValueError, match="got none for val"):
        train(make_experiment(), replace(make_benchmark(), graphs=graphs), [0], device="cpu")


@pytest.mark.parametrize("seeds", [[], [1, 1]])
def test_duplicate_or_missing_seeds_are_refused(seeds):
    with pytest.raises(ValueError, match="seeds: expected different whole numbers"):
        train(make_experiment(), make_benchmark(), seeds, device="cpu")


def test_large_seeds_are_accepted():
    (result,) = train(make_experiment(), make_benchmark(), [2**63 - 1], device="cpu")
    assert result.epochs == 3
