"""The running average of weights: what it is, what is scored and saved, and taking up a run that has one."""

import pytest
import torch
from safetensors.torch import load_file

from dgn.training.ema import Averaging
from dgn.training.trainer import own_stream, train
from tests.training.small import make_benchmark, make_experiment
from tests.training.test_replica import epoch, make_replica, needs_cuda

DEVICES = ["cpu", pytest.param("cuda", marks=[pytest.mark.gpu, needs_cuda])]


def test_the_average_follows_the_weights():
    weight, expected = torch.tensor([2.0, 4.0]), torch.tensor([7.0, 7.0])  # where it begins is forgotten at once
    averaging = Averaging([weight], 0.8)
    for step in range(12):
        weight.add_(step)
        averaging.step()
        expected = expected + max(0.2, 1 / (step + 1)) * (weight - expected)
    before = weight.clone()
    with averaging.in_place():
        torch.testing.assert_close(weight, expected)
    assert torch.equal(weight, before)


def test_weights_come_back_after_an_error():
    weight = torch.ones(1)
    averaging = Averaging([weight], 0.5)
    weight.fill_(3.0)
    with pytest.raises(RuntimeError, match="inside"), averaging.in_place():
        raise RuntimeError("inside")
    assert float(weight) == 3.0


@pytest.mark.parametrize("device", DEVICES)
def test_the_average_of_a_member_is_that_of_its_steps(device):
    member, numbers = make_replica(device=device, training={"ema_decay": 0.9})
    expected = {name: tensor.detach().clone() for name, tensor in member.network.named_parameters()}
    steps = 0
    with own_stream(member.device):
        for _ in member.train_epoch(numbers):
            steps += 1
            for name, parameter in member.network.named_parameters():
                expected[name] = expected[name] + (parameter.detach() - expected[name]) / steps
        assert steps == 4
        for name, value in expected.items():
            torch.testing.assert_close(member.state.averages[f"average.{name}"], value, rtol=1e-5, atol=1e-6)
            torch.testing.assert_close(member.state.scored()[f"model.{name}"], value, rtol=1e-5, atol=1e-6)


def test_a_member_with_the_past_of_another_has_its_average():
    given = {"training": {"ema_decay": 0.9}}
    (member, numbers), (twin, _) = make_replica(**given), make_replica(seed=3, **given)
    epoch(member, numbers)
    twin.state.load(member.state.tensors())
    torch.testing.assert_close(member.state.scored(), twin.state.scored(), rtol=0, atol=0)


@pytest.mark.parametrize("report", ["last", "best"])
def test_what_is_saved_is_what_was_scored(tmp_path, report):
    experiment = make_experiment(training={"ema_decay": 0.7, "checkpoint": report, "epochs": 4})
    plain = make_experiment(training={"checkpoint": report, "epochs": 4})
    (result,) = train(experiment, make_benchmark("regression"), (0,), tmp_path, "cpu")
    (other,) = train(plain, make_benchmark("regression"), (0,), None, "cpu")
    assert [row["train_loss"] for row in result.history] == [row["train_loss"] for row in other.history]
    assert result.metrics["val"] != other.metrics["val"]
    scores = [row["mae"] for row in result.history]
    assert result.metrics["val"]["mae"] == pytest.approx(scores[-1] if report == "last" else min(scores), rel=1e-6)
    assert load_file(tmp_path / "seed-0" / "model.safetensors")
