"""One network in training: what its random numbers depend on, taking up its past, and captured steps."""

from contextlib import nullcontext

import pytest
import torch

from dgn.training.build import build_network
from dgn.training.devices import make_fabric
from dgn.training.epoch_buffer import EpochBuffer
from dgn.training.replica import Replica, cut
from dgn.training.shared_data import prepare
from dgn.training.trainer import side_by_side, train
from tests.training.small import make_benchmark, make_experiment

AUGMENTED = {"augmentation": {"reflection": True, "distortion": 0.2}}
needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")


def make_replica(seed=0, objective="regression", device="cpu", **sections):
    """A member and the numbers of its training graphs."""
    experiment, benchmark = make_experiment(**sections), make_benchmark(objective)
    fabric = make_fabric(device, experiment.training.precision)
    material = prepare(experiment, benchmark, fabric.device)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = build_network(experiment.network, benchmark, material.delta)
    return Replica(seed, network, experiment, material.objective, material.store, fabric), material.training


def epoch(member, numbers):
    for _ in member.train_epoch(numbers):
        pass
    loss = member.train_loss()
    member.schedule = member.schedule.after(loss, member.settings)
    return loss


def test_an_epoch_takes_every_graph_once_in_an_order_of_its_own():
    member, numbers = make_replica()
    draws = [member._draw(numbers, number).mine for number in range(3)]
    for mine in draws:
        assert mine.shape == (4, 7)
        assert sorted(mine.flatten().tolist()) == [-1] * 4 + numbers.tolist()
    assert not torch.equal(draws[0], draws[1])
    assert torch.equal(draws[1], make_replica()[0]._draw(numbers, 1).mine)
    assert not torch.equal(draws[1], make_replica(seed=1)[0]._draw(numbers, 1).mine)


def test_weights_of_an_epoch_depend_on_seed_and_epoch_alone():
    (member, numbers), (twin, _), (other, _) = (make_replica(seed, **AUGMENTED) for seed in (0, 0, 1))
    first = member._draw(numbers, 0).store.weights.edge
    again, second = (one._draw(numbers, epoch).store.weights.edge for one, epoch in ((twin, 5), (member, 1)))
    assert torch.equal(second, twin._draw(numbers, 1).store.weights.edge)
    for different in (again, second, other._draw(numbers, 0).store.weights.edge, member.store.weights.edge):
        assert not torch.equal(first, different)
    plain, _ = make_replica()
    assert plain._draw(numbers, 0).store is plain.store


@pytest.mark.parametrize("sections", [{}, {"network": {"dropout": 0.5}, **AUGMENTED}], ids=["plain", "random"])
def test_a_member_with_the_past_of_another_goes_on_like_it(sections):
    member, numbers = make_replica(**sections)
    epoch(member, numbers)
    past = {name: tensor.clone() for name, tensor in member.state.tensors().items()}
    twin, _ = make_replica(seed=0, **sections)
    twin.network.load_state_dict({name: value * 0 for name, value in twin.network.state_dict().items()})
    twin.state.load(past)
    twin.schedule = member.schedule
    assert epoch(member, numbers) == epoch(twin, numbers)
    torch.testing.assert_close(member.state.tensors(), twin.state.tensors(), rtol=0, atol=0)
    assert not torch.equal(past["model.head.0.weight"], member.state.tensors()["model.head.0.weight"])


def test_going_back_to_the_start_forgets_all_steps():
    member, numbers = make_replica()
    start = member.state.tensors()
    assert not any(name.startswith("optimizer") for name in start)
    losses = [epoch(member, numbers) for _ in range(2)]
    member.state.load(start)
    member.schedule = type(member.schedule).start(member.settings)
    assert [epoch(member, numbers) for _ in range(2)] == losses


def test_the_training_loss_is_that_of_all_graphs():
    member, numbers = make_replica(training={"learning_rate": 1e-12, "min_learning_rate": 0.0})
    member.network.eval()
    (batch,) = cut(numbers, len(numbers))
    whole = make_benchmark().graphs.select(batch)
    with torch.no_grad():
        prediction = member.network(whole.nodes["x"], whole.graph, field=whole.edges["field"])
    expected = (prediction[:, 0] - whole.graphs["y"]).abs().mean()
    member.network.train = lambda *_: member.network  # the statistics of batches would differ
    assert epoch(member, numbers) == pytest.approx(float(expected), rel=1e-5)


def test_a_step_is_coupled_adam():
    settings = {"batch_size": 24, "weight_decay": 0.3, "learning_rate": 0.01}
    member, numbers = make_replica(training=settings)
    twin, _ = make_replica(training=settings)
    epoch(member, numbers)
    adam = torch.optim.Adam(twin.network.parameters(), 0.01, weight_decay=0.3)
    mine = twin._draw(numbers, 0).mine
    (batch,) = twin.store.gather(mine, twin.store.needs(mine))
    prediction = twin.network.train()(batch.nodes["x"], batch.graph, weights=batch.weights)
    (prediction[:24, 0] - batch.graphs["y"][:24]).abs().mean().backward()
    adam.step()
    torch.testing.assert_close(
        dict(member.network.named_parameters()), dict(twin.network.named_parameters()), rtol=1e-5, atol=1e-7
    )


def captured_or_not(monkeypatch, captures, store="cuda", **sections):
    """The history and the last weights of two seeds on a GPU."""
    honest, found = Replica.__init__, []

    def init(self, *given):
        honest(self, *given)
        assert self.captures
        self.captures, self.side = captures, self.side if captures else None
        found.append(self)

    with monkeypatch.context() as patch:
        patch.setattr(Replica, "__init__", init)
        patch.setattr("dgn.training.shared_data.dataset_device", lambda _, device: device if store == "cuda" else "cpu")
        objective = sections.pop("objective", "regression")
        benchmark = make_benchmark(objective, numbers=sections.pop("numbers", False))
        results = train(make_experiment(**sections), benchmark, [0, 1], device="cuda")
    rows = [[(row["train_loss"], row["val_loss"]) for row in result.history] for result in results]
    return torch.tensor(rows), [dict(member.network.named_parameters()) for member in found]


GPU_CASES = {
    "simple": {},
    "complex": {
        "network": {"message": "complex", "edge_dim": 3, "aggregators": ["mean", "dx1", "max"], "virtual_node": True}
    },
    "towers": {"network": {"message": "complex", "towers": 2, "hidden": 16, "dropout": 0.0}, **AUGMENTED},
    "numbers": {
        "numbers": True,
        "network": {"message": "complex", "edge_dim": 3, "towers": 2, "aggregators": ["mean", "dx1", "max"]},
    },
    "feed forward": {"network": {"ffn_expansion": 2, "message": "complex", "edge_dim": 3}},
    "nodes": {"objective": "node-classification", "network": {"readout": "nodes"}},
    "labels": {"objective": "multi-label", "network": {"readout": "directional", "num_eigenvector_features": 1}},
}
STEPS = {"epochs": 5, "learning_rate": 1e-3, "weight_decay": 1e-3}  # of four batches each


@pytest.mark.gpu
@needs_cuda
@pytest.mark.parametrize("sections", GPU_CASES.values(), ids=GPU_CASES)
def test_captured_steps_are_the_steps(sections, monkeypatch):
    losses, weights = captured_or_not(monkeypatch, True, training=STEPS, **sections)
    expected, others = captured_or_not(monkeypatch, False, training=STEPS, **sections)
    torch.testing.assert_close(losses, expected, rtol=2e-5, atol=1e-6)
    torch.testing.assert_close(weights, others, rtol=1e-3, atol=1e-5)


@pytest.mark.gpu
@needs_cuda
@pytest.mark.parametrize("name", ["simple", "complex", "towers", "nodes"])
def test_captured_steps_in_half_precision(name, monkeypatch):
    training = {**STEPS, "precision": "bf16-mixed"}
    losses, weights = captured_or_not(monkeypatch, True, training=training, **GPU_CASES[name])
    expected, others = captured_or_not(monkeypatch, False, training=training, **GPU_CASES[name])
    torch.testing.assert_close(losses, expected, rtol=1e-2, atol=1e-3)
    torch.testing.assert_close(weights, others, rtol=1e-2, atol=1e-3)


@pytest.mark.gpu
@needs_cuda
@pytest.mark.parametrize("sections", [{}, AUGMENTED], ids=["plain", "augmented"])
def test_small_parts_and_rooms_that_grow_change_nothing(sections, monkeypatch):
    expected, weights = captured_or_not(monkeypatch, True, training=STEPS, **sections)
    with monkeypatch.context() as patch:
        patch.setattr("dgn.training.replica.LARGEST_CHUNK", 1)  # one batch at a time
        parts, others = captured_or_not(monkeypatch, True, training=STEPS, **sections)
    torch.testing.assert_close(parts, expected, rtol=2e-5, atol=1e-6)
    torch.testing.assert_close(others, weights, rtol=1e-3, atol=1e-5)
    with monkeypatch.context() as patch:
        made = []
        patch.setattr("dgn.training.replica.EpochBuffer", lambda *given: made.append(given) or EpochBuffer(*given))
        patch.setattr(
            "dgn.data.loader.device_dataset.SPREAD", -9.0
        )  # no room to spare: larger epochs are captured again
        patch.setattr("dgn.data.loader.device_dataset.MULTIPLE", 1)
        grown, others = captured_or_not(monkeypatch, True, training=STEPS, **sections)
        assert len(made) > 2  # of two seeds
    torch.testing.assert_close(grown, expected, rtol=2e-5, atol=1e-6)
    torch.testing.assert_close(others, weights, rtol=1e-3, atol=1e-5)


@pytest.mark.gpu
@needs_cuda
def test_graphs_that_do_not_fit_the_device_give_the_same(monkeypatch):
    expected, weights = captured_or_not(monkeypatch, True, training=STEPS)
    losses, others = captured_or_not(monkeypatch, True, "cpu", training=STEPS)
    torch.testing.assert_close(losses, expected, rtol=2e-5, atol=1e-6)
    torch.testing.assert_close(others, weights, rtol=1e-3, atol=1e-5)


@pytest.mark.gpu
@needs_cuda
def test_dropout_draws_the_same_in_every_replay_of_an_epoch():
    member, numbers = make_replica(device="cuda", network={"dropout": 0.5})
    torch.cuda.synchronize()
    with torch.cuda.stream(torch.cuda.Stream()):
        start = member.state.tensors()
        first = [epoch(member, numbers) for _ in range(3)]
        member.state.load(start)
        member.schedule = type(member.schedule).start(member.settings)
        member.ahead = None
        assert [epoch(member, numbers) for _ in range(3)] == pytest.approx(first, rel=1e-5)
    assert len(set(first)) == 3


@pytest.mark.gpu
@needs_cuda
def test_four_members_at_once_are_as_alone():
    sections = {"network": {"dropout": 0.2}, "training": STEPS, **AUGMENTED}
    results = train(make_experiment(**sections), make_benchmark(), [0, 1, 2, 3], device="cuda")
    for result in results:
        (alone,) = train(make_experiment(**sections), make_benchmark(), [result.seed], device="cuda")
        for row, other in zip(result.history, alone.history, strict=True):
            assert row["train_loss"] == pytest.approx(other["train_loss"], rel=2e-5)
            assert row["val_loss"] == pytest.approx(other["val_loss"], rel=2e-5)


def test_members_take_turns():
    order = []

    class Pretended:
        def __init__(self, name, steps):
            self.name, self.steps = name, steps

        def train_epoch(self, _):
            for step in range(self.steps):
                order.append(f"{self.name}{step}")
                yield

    side_by_side([Pretended("a", 3), Pretended("b", 1)], [nullcontext(), nullcontext()], torch.arange(1))
    assert order == ["a0", "b0", "a1", "a2"]
