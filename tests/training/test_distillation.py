"""What is learnt from teachers, and who can be one."""

import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from dgn.data.benchmark import with_fraction
from dgn.data.precompute.encodings import with_encodings
from dgn.training.distillation import find_teacher_runs, teach
from dgn.training.inference import load_trained, predict_graphs, predict_split
from dgn.training.shared_data import prepare
from dgn.training.trainer import train
from tests.training.small import make_benchmark, make_experiment

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The folder of two networks that know the classes a little."""
    out = tmp_path_factory.mktemp("teachers")
    train(make_experiment(), make_benchmark("classification"), [1, 2], out, "cpu")
    return out


def taught_by(run):
    return make_experiment(training={"distill_from": str(run)})


def taught(run, **training):
    return teach_small(make_experiment(training={"distill_from": str(run), **training}))


def teach_small(experiment, benchmark=None):
    benchmark = benchmark or make_benchmark("classification")
    return teach(prepare(experiment, benchmark, CPU), experiment, benchmark, None, CPU)


def test_a_lesson_is_the_label_in_part_and_the_mean_of_the_teachers(run):
    benchmark = make_benchmark("classification")
    graphs = benchmark.graphs.select((benchmark.graphs.graphs["split"] == 0).nonzero()[:, 0])
    said = torch.stack(
        [
            predict_graphs(load_trained(folder, benchmark), graphs, "cpu").softmax(dim=1)
            for folder in find_teacher_runs(taught_by(run))
        ]
    )
    assert (said[0] - said[1]).abs().max() > 1e-3
    label = 0.8 * torch.eye(3)[graphs.graphs["y"]] + 0.2 / 3
    material = taught(run, label_smoothing=0.2, distill_weight=0.3)
    lessons = material.store.graphs["lessons"]
    torch.testing.assert_close(lessons[material.training], 0.7 * label + 0.3 * said.mean(dim=0))
    torch.testing.assert_close(lessons[material.training].sum(dim=1), torch.ones(24))
    assert material.objective.smoothing == 0  # it is in the lessons
    assert not lessons[24:].any()  # of graphs that nobody is trained with


def test_the_loss_is_that_of_the_lessons_and_scores_are_those_of_the_labels(run):
    material = taught(run, distill_weight=1.0)
    prediction = torch.randn(24, 3)
    lessons = material.store.graphs["lessons"][:24]
    numerator, denominator = material.objective.loss(prediction, lessons, torch.ones(24))
    torch.testing.assert_close(numerator, -(lessons * prediction.log_softmax(dim=1)).sum())
    assert float(denominator) == 24
    assert not material.splits["val"].target.is_floating_point()
    padded = torch.cat([torch.ones(23), torch.zeros(1)])
    lost = prediction.clone()
    lost[-1] = torch.nan  # a row of padding counts for nothing
    found, _ = material.objective.loss(lost, lessons, padded)
    torch.testing.assert_close(found, -(lessons * prediction.log_softmax(dim=1))[:-1].sum())


def test_teachers_change_what_is_learnt(run, tmp_path):
    benchmark, found = make_benchmark("classification"), []
    for settings in ({}, {"distill_from": str(run)}):
        experiment = make_experiment(training={**settings, "epochs": 2}, network={"ensemble_size": 2})
        (result,) = train(experiment, benchmark, [3], tmp_path / str(len(settings)), "cpu")
        found.append([row["train_loss"] for row in result.history])
        trained = load_trained(tmp_path / str(len(settings)) / "seed-3", benchmark)  # without its teachers
        assert trained.metrics == result.metrics
    assert found[0] != found[1]


def test_a_graph_without_a_label_is_told_what_its_teachers_say(tmp_path):
    benchmark = make_benchmark("classification")
    y = benchmark.graphs.graphs["y"].clone()
    y[5] = -1
    hidden = replace(benchmark, graphs=benchmark.graphs.with_values(graphs={"y": y}))
    train(make_experiment(), hidden, [1], tmp_path, "cpu")
    partly, wholly = (
        teach_small(
            make_experiment(training={"distill_from": str(tmp_path), "distill_weight": share}), hidden
        ).store.graphs
        for share in (0.1, 1.0)
    )
    torch.testing.assert_close(partly["lessons"][5], wholly["lessons"][5])
    assert (partly["lessons"][4] - wholly["lessons"][4]).abs().max() > 0.01


def test_a_part_of_the_training_graphs_has_the_lessons_of_all(run):
    experiment = make_experiment(data={"train_fraction": 0.5}, training={"distill_from": str(run)})
    whole, half = taught(run), teach_small(experiment)
    torch.testing.assert_close(half.store.graphs["lessons"][:12], whole.store.graphs["lessons"][:12])


@pytest.mark.parametrize("shift", [1, 2])
def test_teachers_of_other_labels_are_refused(run, shift):
    known = make_benchmark("classification")
    y = (known.graphs.graphs["y"] + shift) % 3
    other = replace(known, graphs=known.graphs.with_values(graphs={"y": y}))
    with pytest.raises(ValueError, match=r"training\.teachers: expected .* these labels, got .*seed-1, whose"):
        teach_small(taught_by(run), other)


def test_teachers_that_read_something_else_are_named(run):
    rings = with_encodings(make_benchmark("classification"), 0, (3,))
    with pytest.raises(ValueError, match=r"training\.teachers: expected .* these graphs, got .*seed-1: data: expected"):
        teach_small(make_experiment(data={"ring_sizes": [3]}, training={"distill_from": str(run)}), rings)
    half = with_fraction(make_benchmark("classification"), 0.5)
    with pytest.raises(ValueError, match=r"training\.teachers: expected .* these graphs, got .*seed-1: fraction"):
        teach_small(make_experiment(data={"train_fraction": 0.5}, training={"distill_from": str(run)}), half)


def test_teachers_may_be_branches_and_see_both_sides(tmp_path):
    benchmark = make_benchmark("classification", coordinates=True)
    train(make_experiment(network={"ensemble_size": 2, "tta_mirror": True}), benchmark, [1], tmp_path, "cpu")
    lessons = teach_small(make_experiment(training={"distill_from": str(tmp_path), "distill_weight": 1.0}), benchmark)
    (trained,) = (load_trained(folder, benchmark) for folder in find_teacher_runs(taught_by(tmp_path)))
    said = predict_split(trained, "train", "cpu").said.softmax(dim=1)
    torch.testing.assert_close(lessons.store.graphs["lessons"][:24], said)


def test_other_teachers_are_noticed_when_a_run_goes_on(run, tmp_path):
    class StopError(Exception):
        pass

    def stop(report):
        if report.epoch == 2:
            raise StopError

    teachers = shutil.copytree(run, tmp_path / "teachers")
    experiment, benchmark, told = taught_by(teachers), make_benchmark("classification"), []
    with pytest.raises(StopError):
        train(experiment, benchmark, [3], tmp_path / "same", "cpu", stop, save_every=0)
    shutil.copytree(tmp_path / "same", tmp_path / "other")
    train(experiment, benchmark, [3], tmp_path / "same", "cpu", on_resume=told.append)
    train(make_experiment(), benchmark, [9], teachers, "cpu")
    train(experiment, benchmark, [3], tmp_path / "other", "cpu", on_resume=told.append)
    same, other = told
    assert same == "seed 3: going on after epoch 1, to the bit as without the interruption"
    assert re.search(r"not to the bit .*: lessons [0-9a-f]{8} -> [0-9a-f]{8}$", other)


def test_numbers_have_no_teachers(run):
    experiment = make_experiment(training={"distill_from": str(run)})
    with pytest.raises(ValueError, match=r"training\.teachers: expected graphs with classes, got regression; leave it"):
        train(experiment, make_benchmark(), [1], device="cpu")


def test_runs_are_found_beside_each_other(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    experiment = replace(make_experiment(training={"distill_from": "some/teachers"}), name="some/learner")
    found = {}
    for place in ("runs/some/teachers", "there/some/teachers", "some/teachers"):
        (tmp_path / place / "seed-2").mkdir(parents=True)
        (tmp_path / place / "seed-2" / "model.safetensors").touch()
    for out in (None, "there/some/learner", "there/other"):
        (found[out],) = find_teacher_runs(experiment, None if out is None else Path(out))
    assert found[None] == found["there/other"] == Path("runs/some/teachers/seed-2")
    assert found["there/some/learner"] == Path("there/some/teachers/seed-2")
    shutil.rmtree("runs")
    assert find_teacher_runs(experiment) == [Path("some/teachers/seed-2")]


def test_teachers_are_trained_first():
    experiment = make_experiment(training={"distill_from": "some/run"})
    with pytest.raises(FileNotFoundError, match=r"got none in runs/some/run nor in some/run; train it .* some/run, or"):
        find_teacher_runs(experiment)
