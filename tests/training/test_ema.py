"""The exponential moving average of weights: its recursion, what is scored and saved, and resuming with one."""

import pytest
import torch
from safetensors.torch import load_file

from dgn.training.ema import EMA
from dgn.training.trainer import new_stream, train
from tests.training.small import make_benchmark, make_experiment
from tests.training.test_replica import epoch, make_replica, needs_cuda

DEVICES = ["cpu", pytest.param("cuda", marks=[pytest.mark.gpu, needs_cuda])]


def test_the_average_follows_the_weights():
    weight, expected = torch.tensor([2.0, 4.0]), torch.tensor([7.0, 7.0])  # the first step replaces the initial value
    ema = EMA([weight], 0.8)
    for step in range(12):
        weight.add_(step)
        ema.step()
        expected = expected + max(0.2, 1 / (step + 1)) * (weight - expected)
    live = weight.clone()
    with ema.in_place():
        torch.testing.assert_close(weight, expected)
    assert torch.equal(weight, live)


def test_weights_are_restored_after_an_error():
    weight = torch.ones(1)
    ema = EMA([weight], 0.5)
    weight.fill_(3.0)
    with pytest.raises(RuntimeError, match="inside"), ema.in_place():
        raise RuntimeError("inside")
    assert float(weight) == 3.0


@pytest.mark.parametrize("device", DEVICES)
def test_the_average_of_a_replica_is_that_of_its_steps(device):
    replica, index = make_replica(device=device, training={"ema_decay": 0.9})
    expected = {name: tensor.detach().clone() for name, tensor in replica.network.named_parameters()}
    steps = 0
    with new_stream(replica.device):
        for _ in replica.train_epoch(index):
            steps += 1
            for name, parameter in replica.network.named_parameters():
                expected[name] = expected[name] + (parameter.detach() - expected[name]) / steps
        assert steps == 4
        for name, value in expected.items():
            torch.testing.assert_close(replica.state.averages[f"average.{name}"], value, rtol=1e-5, atol=1e-6)
            torch.testing.assert_close(replica.state.scored()[f"model.{name}"], value, rtol=1e-5, atol=1e-6)


def test_a_replica_with_the_state_of_another_has_its_average():
    settings = {"training": {"ema_decay": 0.9}}
    (replica, index), (twin, _) = make_replica(**settings), make_replica(seed=3, **settings)
    epoch(replica, index)
    twin.state.load(replica.state.tensors())
    torch.testing.assert_close(replica.state.scored(), twin.state.scored(), rtol=0, atol=0)


@pytest.mark.parametrize("checkpoint", ["last", "best"])
def test_the_saved_weights_are_those_that_were_scored(tmp_path, checkpoint):
    experiment = make_experiment(training={"ema_decay": 0.7, "checkpoint": checkpoint, "epochs": 4})
    plain = make_experiment(training={"checkpoint": checkpoint, "epochs": 4})
    (result,) = train(experiment, make_benchmark("regression"), (0,), tmp_path, "cpu")
    (other,) = train(plain, make_benchmark("regression"), (0,), None, "cpu")
    assert [row["train_loss"] for row in result.history] == [row["train_loss"] for row in other.history]
    assert result.metrics["val"] != other.metrics["val"]
    scores = [row["mae"] for row in result.history]
    assert result.metrics["val"]["mae"] == pytest.approx(scores[-1] if checkpoint == "last" else min(scores), rel=1e-6)
    assert load_file(tmp_path / "seed-0" / "model" / "weights.safetensors")
