"""Distillation: soft targets are the mean of teachers and labels, and teachers of another task are refused."""

import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from dgn.data.benchmark import with_fraction
from dgn.data.precompute.encodings import with_encodings
from dgn.training.distillation import add_soft_targets, find_teacher_runs
from dgn.training.evaluate import SOFT_TARGETS
from dgn.training.model import load_trained, predict_split
from dgn.training.shared_data import prepare
from dgn.training.trainer import train
from tests.training.small import make_benchmark, make_experiment

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The run folder of two teachers."""
    out = tmp_path_factory.mktemp("teachers")
    train(make_experiment(), make_benchmark("classification"), [1, 2], out, "cpu")
    return out


def student(run):
    return make_experiment(training={"distill_from": str(run)})


def distilled(run, **training):
    return distill(make_experiment(training={"distill_from": str(run), **training}))


def distill(experiment, benchmark=None):
    benchmark = benchmark or make_benchmark("classification")
    return add_soft_targets(prepare(experiment, benchmark, CPU), experiment, benchmark, None, CPU)


def test_soft_targets_mix_the_label_and_the_mean_of_the_teachers(run):
    benchmark = make_benchmark("classification")
    graphs = benchmark.graphs.select((benchmark.graphs.graphs["split"] == 0).nonzero()[:, 0])
    probability = torch.stack(
        [load_trained(folder, "cpu").outputs(graphs)[0].softmax(dim=1) for folder in find_teacher_runs(student(run))]
    )
    assert (probability[0] - probability[1]).abs().max() > 1e-3
    label = 0.8 * torch.eye(3)[graphs.graphs["y"]] + 0.2 / 3
    shared = distilled(run, label_smoothing=0.2, distill_weight=0.3)
    soft_targets = shared.store.graphs[SOFT_TARGETS]
    torch.testing.assert_close(soft_targets[shared.training], 0.7 * label + 0.3 * probability.mean(dim=0))
    torch.testing.assert_close(soft_targets[shared.training].sum(dim=1), torch.ones(24))
    assert shared.objective.smoothing == 0  # the soft targets are smoothed already
    assert not soft_targets[24:].any()  # validation and test graphs have none


def test_the_loss_is_of_soft_targets_and_scores_are_of_labels(run):
    shared = distilled(run, distill_weight=1.0)
    prediction = torch.randn(24, 3)
    soft_targets = shared.store.graphs[SOFT_TARGETS][:24]
    numerator, denominator = shared.objective.loss(prediction, soft_targets, torch.ones(24))
    torch.testing.assert_close(numerator, -(soft_targets * prediction.log_softmax(dim=1)).sum())
    assert float(denominator) == 24
    assert not shared.splits["val"].target.is_floating_point()
    padded = torch.cat([torch.ones(23), torch.zeros(1)])
    with_padding = prediction.clone()
    with_padding[-1] = torch.nan  # padding changes no loss
    loss, _ = shared.objective.loss(with_padding, soft_targets, padded)
    torch.testing.assert_close(loss, -(soft_targets * prediction.log_softmax(dim=1))[:-1].sum())


def test_teachers_change_the_training_loss_and_are_not_needed_at_inference(run, tmp_path):
    benchmark, losses = make_benchmark("classification"), []
    for settings in ({}, {"distill_from": str(run)}):
        experiment = make_experiment(training={**settings, "epochs": 2}, network={"ensemble_size": 2})
        (result,) = train(experiment, benchmark, [3], tmp_path / str(len(settings)), "cpu")
        losses.append([row["train_loss"] for row in result.history])
        trained = load_trained(tmp_path / str(len(settings)) / "seed-3", "cpu")  # without its teachers
        assert trained.metrics == result.metrics
    assert losses[0] != losses[1]


def test_the_soft_target_of_an_unlabelled_graph_is_the_teachers_alone(tmp_path):
    benchmark = make_benchmark("classification")
    y = benchmark.graphs.graphs["y"].clone()
    y[5] = -1
    hidden = replace(benchmark, graphs=benchmark.graphs.with_values(graphs={"y": y}))
    train(make_experiment(), hidden, [1], tmp_path, "cpu")
    mixed, pure = (
        distill(
            make_experiment(training={"distill_from": str(tmp_path), "distill_weight": weight}), hidden
        ).store.graphs
        for weight in (0.1, 1.0)
    )
    torch.testing.assert_close(mixed[SOFT_TARGETS][5], pure[SOFT_TARGETS][5])
    assert (mixed[SOFT_TARGETS][4] - pure[SOFT_TARGETS][4]).abs().max() > 0.01


def test_a_fraction_of_the_training_graphs_has_the_same_soft_targets(run):
    experiment = make_experiment(data={"train_fraction": 0.5}, training={"distill_from": str(run)})
    full, half = distilled(run), distill(experiment)
    torch.testing.assert_close(half.store.graphs[SOFT_TARGETS][:12], full.store.graphs[SOFT_TARGETS][:12])
    half = distill(experiment, with_fraction(make_benchmark("classification"), 0.5))
    torch.testing.assert_close(half.store.graphs[SOFT_TARGETS][:12], full.store.graphs[SOFT_TARGETS][:12])


@pytest.mark.parametrize("shift", [1, 2])
def test_teachers_trained_with_other_labels_are_refused(run, shift):
    benchmark = make_benchmark("classification")
    y = (benchmark.graphs.graphs["y"] + shift) % 3
    other = replace(benchmark, graphs=benchmark.graphs.with_values(graphs={"y": y}))
    with pytest.raises(ValueError, match=r"training\.distill_from: expected .* these labels, got .*seed-1, whose"):
        distill(student(run), other)


def test_teachers_trained_with_other_graphs_are_refused(run):
    rings = with_encodings(make_benchmark("classification"), 0, (3,))
    with pytest.raises(
        ValueError, match=r"training\.distill_from: expected .* these graphs, got .*seed-1: data: expected"
    ):
        distill(make_experiment(data={"ring_sizes": [3]}, training={"distill_from": str(run)}), rings)
    other = replace(make_benchmark("classification"), num_targets=4)
    with pytest.raises(
        ValueError, match=r"seed-1: objective: expected classification with 4 classes, got .* 3 outputs"
    ):
        distill(student(run), other)


def test_teachers_may_be_ensembles_with_mirrored_inference(tmp_path):
    benchmark = make_benchmark("classification", coordinates=True)
    train(make_experiment(network={"ensemble_size": 2, "tta_mirror": True}), benchmark, [1], tmp_path, "cpu")
    shared = distill(make_experiment(training={"distill_from": str(tmp_path), "distill_weight": 1.0}), benchmark)
    (trained,) = (load_trained(folder, "cpu") for folder in find_teacher_runs(student(tmp_path)))
    expected = predict_split(trained, benchmark, "train").prediction.softmax(dim=1)
    torch.testing.assert_close(shared.store.graphs[SOFT_TARGETS][:24], expected)


def test_changed_teachers_are_reported_when_a_run_resumes(run, tmp_path):
    class StopError(Exception):
        pass

    def stop(report):
        if report.epoch == 2:
            raise StopError

    teachers = shutil.copytree(run, tmp_path / "teachers")
    experiment, benchmark, messages = student(teachers), make_benchmark("classification"), []
    with pytest.raises(StopError):
        train(experiment, benchmark, [3], tmp_path / "same", "cpu", stop, save_every=0)
    shutil.copytree(tmp_path / "same", tmp_path / "other")
    train(experiment, benchmark, [3], tmp_path / "same", "cpu", on_resume=messages.append)
    train(make_experiment(), benchmark, [9], teachers, "cpu")
    train(experiment, benchmark, [3], tmp_path / "other", "cpu", on_resume=messages.append)
    same, other = messages
    assert same == "seed 3: resuming after epoch 1, bitwise identical to an uninterrupted run"
    assert re.search(r"not bitwise identical .*: soft_targets [0-9a-f]{8} -> [0-9a-f]{8}$", other)


def test_distillation_of_regression_is_refused(run):
    experiment = make_experiment(training={"distill_from": str(run)})
    with pytest.raises(
        ValueError, match=r"training\.distill_from: expected graphs with classes, got regression; leave it"
    ):
        train(experiment, make_benchmark(), [1], device="cpu")


def test_teacher_runs_are_found_under_the_same_root(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    experiment = replace(make_experiment(training={"distill_from": "some/teachers"}), name="some/student")
    folders = {}
    for path in ("runs/some/teachers", "there/some/teachers", "some/teachers"):
        (tmp_path / path / "seed-2" / "model").mkdir(parents=True)
        (tmp_path / path / "seed-2" / "model" / "model.json").touch()
    for out in (None, "there/some/student", "there/other"):
        (folders[out],) = find_teacher_runs(experiment, None if out is None else Path(out))
    assert folders[None] == folders["there/other"] == Path("runs/some/teachers/seed-2")
    assert folders["there/some/student"] == Path("there/some/teachers/seed-2")
    shutil.rmtree("runs")
    assert find_teacher_runs(experiment) == [Path("some/teachers/seed-2")]


def test_missing_teacher_runs_are_refused():
    experiment = make_experiment(training={"distill_from": "some/run"})
    with pytest.raises(FileNotFoundError, match=r"got none in runs/some/run nor in some/run; train it .* some/run, or"):
        find_teacher_runs(experiment)
