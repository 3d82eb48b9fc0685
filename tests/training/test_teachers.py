"""What is learnt from teachers, and who can be one."""

import pytest
import torch

from dgn.data.benchmarks import with_fraction
from dgn.training.loop import train
from dgn.training.material import prepare
from dgn.training.teachers import find_teachers, teach
from dgn.training.trained import load_trained, predict_graphs
from tests.training.small import make_benchmark, make_experiment

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The folder of two networks that know the classes a little."""
    out = tmp_path_factory.mktemp("teachers")
    train(make_experiment(), make_benchmark("classification"), [1, 2], out, "cpu")
    return out


def taught(run, **training):
    experiment = make_experiment(training={"teachers": str(run), **training})
    benchmark = make_benchmark("classification")
    return teach(prepare(experiment, benchmark, CPU), experiment, benchmark, "cpu")


def test_a_lesson_is_the_label_in_part_and_the_mean_of_the_teachers(run):
    benchmark = make_benchmark("classification")
    graphs = benchmark.graphs.select((benchmark.graphs.graphs["split"] == 0).nonzero()[:, 0])
    said = torch.stack(
        [predict_graphs(load_trained(folder, benchmark), graphs, "cpu").softmax(dim=1) for folder in find_teachers(run)]
    )
    assert (said[0] - said[1]).abs().max() > 1e-3
    label = 0.8 * torch.eye(3)[graphs.graphs["y"]] + 0.2 / 3
    material = taught(run, label_smoothing=0.2, teaching=0.3)
    lessons = material.store.graphs["lessons"]
    torch.testing.assert_close(lessons[material.training], 0.7 * label + 0.3 * said.mean(dim=0))
    torch.testing.assert_close(lessons[material.training].sum(dim=1), torch.ones(24))
    assert material.objective.smoothing == 0  # it is in the lessons
    assert not lessons[24:].any()  # of graphs that nobody is trained with


def test_the_loss_is_that_of_the_lessons_and_scores_are_those_of_the_labels(run):
    material = taught(run, teaching=1.0)
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
    for settings in ({}, {"teachers": str(run)}):
        experiment = make_experiment(training={**settings, "epochs": 2}, network={"branches": 2})
        (result,) = train(experiment, benchmark, [3], tmp_path / str(len(settings)), "cpu")
        found.append([row["train_loss"] for row in result.history])
        trained = load_trained(tmp_path / str(len(settings)) / "seed-3", benchmark)  # without its teachers
        assert trained.metrics == result.metrics
    assert found[0] != found[1]


def test_a_graph_without_a_label_is_told_what_its_teachers_say(run):
    benchmark = make_benchmark("classification")
    y = benchmark.graphs.graphs["y"].clone()
    y[5] = -1
    hidden = benchmark.__class__(**{**vars(benchmark), "graphs": benchmark.graphs.with_values(graphs={"y": y})})
    experiment = make_experiment(training={"teachers": str(run), "teaching": 0.1})
    material = teach(prepare(experiment, hidden, CPU), experiment, hidden, "cpu")
    alone = taught(run, teaching=1.0)
    torch.testing.assert_close(material.store.graphs["lessons"][5], alone.store.graphs["lessons"][5])


def test_a_part_of_the_training_graphs_has_the_lessons_of_all(run):
    experiment = make_experiment(data={"train_fraction": 0.5}, training={"teachers": str(run)})
    benchmark, whole = make_benchmark("classification"), taught(run)
    half = teach(prepare(experiment, benchmark, CPU), experiment, benchmark, "cpu")
    torch.testing.assert_close(half.store.graphs["lessons"][:12], whole.store.graphs["lessons"][:12])


def test_teachers_of_graphs_that_are_not_here_are_named(run):
    half = with_fraction(make_benchmark("classification"), 0.5)
    experiment = make_experiment(data={"train_fraction": 0.5}, training={"teachers": str(run)})
    with pytest.raises(ValueError, match=r"training\.teachers: expected networks trained with at most 0\.5 .* got 1 "):
        train(experiment, half, [1], device="cpu")


def test_numbers_have_no_teachers(run):
    experiment = make_experiment(training={"teachers": str(run)})
    with pytest.raises(ValueError, match=r"training\.teachers: expected graphs with classes, got regression; leave it"):
        train(experiment, make_benchmark(), [1], device="cpu")


def test_teachers_are_trained_first():
    with pytest.raises(FileNotFoundError, match=r"got runs/some/run without any; train .* dgn train some/run$"):
        find_teachers("runs/some/run")
