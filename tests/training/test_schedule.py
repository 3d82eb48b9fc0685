"""Learning rates: PyTorch's plateau rule, negative values, cosines, and why training ends."""

import math

import pytest
import torch
from torch.optim.lr_scheduler import ReduceLROnPlateau

from dgn.training.config import TrainingSettings
from dgn.training.schedule import Schedule, cosine


def rates(settings, watched):
    """The learning rate after each value."""
    schedule, learning_rates = Schedule.start(settings), []
    for value in watched:
        schedule = schedule.after(value, settings)
        learning_rates.append(schedule.rate)
    return learning_rates


def random_course(seed, length=300):
    """Values that fall and level off, some of them by a little less or more than what counts as better."""
    draw = torch.Generator().manual_seed(seed)
    noise = torch.rand(length, generator=draw)
    course = 0.3 + torch.exp(-torch.arange(length) / 60) + 0.05 * noise
    course[1::3] = course[::3][: len(course[1::3])] * (1 - 2e-4 * noise[1::3])
    return course.double().tolist()


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("patience", "factor"), [(0, 0.5), (3, 0.5), (10, 0.1)])
def test_plateau_as_in_pytorch(seed, patience, factor):
    settings = TrainingSettings(
        patience=patience, lr_decay_factor=factor, learning_rate=1.0, min_learning_rate=0.0, epochs=1000
    )
    adam = torch.optim.Adam([torch.zeros(1)], 1.0)
    theirs = ReduceLROnPlateau(adam, factor=factor, patience=patience, threshold=1e-4, eps=0.0)
    expected, watched = [], random_course(seed)
    for value in watched:
        theirs.step(value)
        expected.append(adam.param_groups[0]["lr"])
    assert expected[-1] < 1.0
    assert rates(settings, watched) == pytest.approx(expected)


def test_negative_values_must_improve_as_well():
    settings = TrainingSettings(patience=0, learning_rate=1.0, min_learning_rate=0.0)
    # A score turned round: by PyTorch's rule, best * (1 - threshold), an equal value would count as better.
    assert rates(settings, [-0.8, -0.8, -0.80001, -0.81, -0.8100001]) == [1.0, 0.5, 0.25, 0.25, 0.125]
    still = [-0.8 + 1e-5 * number for number in range(5)]
    assert rates(settings, still) == [1.0, 0.5, 0.25, 0.125, 0.0625]


def test_training_ends_below_the_smallest_rate_or_after_all_epochs():
    settings = TrainingSettings(patience=0, learning_rate=1e-3, min_learning_rate=3e-4, epochs=5)
    schedule = Schedule.start(settings)
    stopped = []
    for _ in range(3):
        schedule = schedule.after(1.0, settings)
        stopped.append(schedule.stopped)
    assert stopped == ["", "", "the learning rate fell below 0.0003"]
    falling = Schedule.start(settings)
    for epoch in range(5):
        assert not falling.stopped
        falling = falling.after(1.0 - 0.1 * epoch, settings)
    assert (falling.stopped, falling.epoch, falling.rate) == ("all 5 epochs done", 5, 1e-3)


def test_a_rate_equal_to_the_smallest_goes_on():
    settings = TrainingSettings(patience=0, lr_decay_factor=0.5, learning_rate=1.0, min_learning_rate=0.5)
    assert Schedule.start(settings).after(1.0, settings).after(1.0, settings).stopped == ""


@pytest.mark.parametrize("warmup", [0, 1, 4])
def test_cosine_grows_then_falls_to_the_end(warmup):
    settings = TrainingSettings(
        schedule="cosine", epochs=20, warmup=warmup, learning_rate=1.0, min_learning_rate=0.1, patience=0
    )
    course = [Schedule.start(settings).rate, *rates(settings, [1.0] * 20)]
    assert course[:warmup] == [(epoch + 1) / max(1, warmup) for epoch in range(warmup)]
    half = range(20 - warmup + 1)
    expected = [0.1 + 0.45 * (1 + math.cos(math.pi * epoch / (20 - warmup))) for epoch in half]
    assert course[warmup:] == pytest.approx(expected)
    assert course[-1] == pytest.approx(0.1)


def test_cosine_stops_for_nothing_but_its_end():
    settings = TrainingSettings(schedule="cosine", epochs=3, patience=0, learning_rate=1.0)
    schedule = Schedule.start(settings)
    for _ in range(2):
        schedule = schedule.after(math.pi, settings)
        assert not schedule.stopped
    assert schedule.after(math.pi, settings).stopped == "all 3 epochs done"


def test_a_warm_up_longer_than_training_only_grows():
    settings = TrainingSettings(schedule="cosine", epochs=2, warmup=5, learning_rate=1.0, min_learning_rate=0.0)
    assert [cosine(epoch, settings) for epoch in range(3)] == pytest.approx([0.2, 0.4, 0.6])
