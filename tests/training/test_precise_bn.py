"""Precise batch norm: statistics of the scored weights, over training batches, before each evaluation."""

import pytest
import torch

from dgn.nn.norm import BatchNorm
from dgn.training.trainer import new_stream, train
from tests.training.small import make_benchmark, make_experiment
from tests.training.test_replica import make_replica, needs_cuda
from tests.training.test_trainer import interrupt_after, weights, without_seconds

DEVICES = ["cpu", pytest.param("cuda", marks=[pytest.mark.gpu, needs_cuda])]
PRECISE = {"precise_bn": 2}


def norms(network):
    return [module for module in network.modules() if isinstance(module, BatchNorm)]


@pytest.mark.parametrize("training", [PRECISE, {**PRECISE, "ema_decay": 0.9}])
@pytest.mark.parametrize("device", DEVICES)
def test_statistics_are_those_of_the_scored_weights_without_dropout(device, training):
    replica, index = make_replica(device=device, training=training, network={"dropout": 0.5})
    with new_stream(replica.device):
        for _ in replica.train_epoch(index):
            pass
        live = [norm.running_mean.clone() for norm in norms(replica.network)]
        replica.update_statistics(index)
        first = norms(replica.network)[0]
        inputs = []
        with replica.state.averaged():
            hook = first.register_forward_pre_hook(lambda _, arguments: inputs.append(arguments[0]))
            for batch in torch.split(replica._batches(index, 0)[:2], 1):
                replica.module.batches = replica.dataset.gather(batch, replica.dataset.smallest_shape(batch)).to(device)
                replica.network.eval()
                replica.module(replica.module.batches.buffer[0])
            hook.remove()
            mean = torch.stack([x.mean(0) for x in inputs]).mean(0)
            torch.testing.assert_close(first.running_mean, mean, rtol=1e-4, atol=1e-5)
            exact = {f"model.{name}": value.clone() for name, value in replica.network.state_dict().items()}
        scored = replica.state.scored()
        assert all(torch.equal(scored[name], exact[name]) for name in scored if "running" in name)
        averaged = "ema_decay" in training
        assert averaged == all(
            torch.equal(norm.running_mean, before) for norm, before in zip(norms(replica.network), live, strict=True)
        )
    assert all(norm.momentum == 0.1 and not norm.training for norm in norms(replica.network))


def test_weights_are_those_without(tmp_path):
    benchmark, plain = make_benchmark(), make_experiment()
    train(plain, benchmark, [0], tmp_path / "plain", "cpu")
    train(make_experiment(training=PRECISE), benchmark, [0], tmp_path / "precise", "cpu")
    one, other = weights(tmp_path / "plain"), weights(tmp_path / "precise")
    assert all(torch.equal(one[name], other[name]) == ("running" not in name) for name in one if "batches" not in name)


def test_a_resumed_run_is_bitwise_identical(tmp_path):
    benchmark, experiment = make_benchmark(), make_experiment(training=PRECISE)
    whole = train(experiment, benchmark, [0, 1], tmp_path / "whole", "cpu")
    interrupt_after(1, experiment, "regression", tmp_path / "cut")
    resumed = train(experiment, benchmark, [0, 1], tmp_path / "cut", "cpu")
    assert without_seconds(whole) == without_seconds(resumed)
    one, other = weights(tmp_path / "whole"), weights(tmp_path / "cut")
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_frozen_networks_keep_their_statistics():
    replica, index = make_replica(training=PRECISE)
    object.__setattr__(replica.settings, "freeze", True)
    before = [norm.running_mean.clone() for norm in norms(replica.network)]
    replica.update_statistics(index)
    assert all(torch.equal(norm.running_mean, old) for norm, old in zip(norms(replica.network), before, strict=True))
