"""A replica: its random index depend on seed and epoch alone, its state resumes, captured steps equal eager ones."""

from contextlib import nullcontext

import pytest
import torch

from dgn.training.build import build_network
from dgn.training.cuda_graphs import EpochBuffer
from dgn.training.devices import make_fabric
from dgn.training.replica import Replica, cut
from dgn.training.shared_data import prepare
from dgn.training.trainer import train, train_replicas
from tests.training.small import make_benchmark, make_experiment

AUGMENTED = {"augmentation": {"reflection": True, "distortion": 0.2}}
needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")


def make_replica(seed=0, objective="regression", device="cpu", **sections):
    """A replica and the indices of its training graphs."""
    experiment, benchmark = make_experiment(**sections), make_benchmark(objective)
    fabric = make_fabric(device, experiment.training.precision)
    shared = prepare(experiment, benchmark, fabric.device)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = build_network(experiment.network, benchmark, shared.delta)
    return Replica(seed, network, experiment, shared.objective, shared.store, fabric), shared.training


def epoch(replica, index):
    for _ in replica.train_epoch(index):
        pass
    loss = replica.train_loss()
    replica.schedule = replica.schedule.after(loss, replica.settings)
    return loss


def test_an_epoch_takes_each_graph_once_in_a_random_order():
    replica, index = make_replica()
    plans = [replica._plan_epoch(index, epoch_index).batches for epoch_index in range(3)]
    for batches in plans:
        assert batches.shape == (4, 7)
        assert sorted(batches.flatten().tolist()) == [-1] * 4 + index.tolist()
    assert not torch.equal(plans[0], plans[1])
    assert torch.equal(plans[1], make_replica()[0]._plan_epoch(index, 1).batches)
    assert not torch.equal(plans[1], make_replica(seed=1)[0]._plan_epoch(index, 1).batches)


def test_weights_of_an_epoch_depend_on_seed_and_epoch_alone():
    (replica, index), (twin, _), (other, _) = (make_replica(seed, **AUGMENTED) for seed in (0, 0, 1))
    first = replica._plan_epoch(index, 0).dataset.weights.edge
    again, second = (one._plan_epoch(index, epoch).dataset.weights.edge for one, epoch in ((twin, 5), (replica, 1)))
    assert torch.equal(second, twin._plan_epoch(index, 1).dataset.weights.edge)
    for different in (again, second, other._plan_epoch(index, 0).dataset.weights.edge, replica.dataset.weights.edge):
        assert not torch.equal(first, different)
    plain, _ = make_replica()
    assert plain._plan_epoch(index, 0).dataset is plain.dataset


@pytest.mark.parametrize("sections", [{}, {"network": {"dropout": 0.5}, **AUGMENTED}], ids=["plain", "random"])
def test_a_replica_with_the_state_of_another_continues_bitwise_identically(sections):
    replica, index = make_replica(**sections)
    epoch(replica, index)
    state = {name: tensor.clone() for name, tensor in replica.state.tensors().items()}
    twin, _ = make_replica(seed=0, **sections)
    twin.network.load_state_dict({name: value * 0 for name, value in twin.network.state_dict().items()})
    twin.state.load(state)
    twin.schedule = replica.schedule
    assert epoch(replica, index) == epoch(twin, index)
    torch.testing.assert_close(replica.state.tensors(), twin.state.tensors(), rtol=0, atol=0)
    assert not torch.equal(state["model.head.0.weight"], replica.state.tensors()["model.head.0.weight"])


def test_loading_the_initial_state_undoes_all_steps():
    replica, index = make_replica()
    start = replica.state.tensors()
    assert not any(name.startswith("optimizer") for name in start)
    losses = [epoch(replica, index) for _ in range(2)]
    replica.state.load(start)
    replica.schedule = type(replica.schedule).start(replica.settings)
    assert [epoch(replica, index) for _ in range(2)] == losses


def test_the_training_loss_is_the_mean_over_all_graphs():
    replica, index = make_replica(training={"learning_rate": 1e-12, "min_learning_rate": 0.0})
    replica.network.eval()
    (batch,) = cut(index, len(index))
    graphs = make_benchmark().graphs.select(batch)
    with torch.no_grad():
        prediction = replica.network(graphs.nodes["x"], graphs.graph, edge_field=graphs.edges["edge_field"])
    expected = (prediction[:, 0] - graphs.graphs["y"]).abs().mean()
    replica.network.train = lambda *_: replica.network  # the statistics of batches would differ
    assert epoch(replica, index) == pytest.approx(float(expected), rel=1e-5)


def test_a_step_is_coupled_adam():
    settings = {"batch_size": 24, "weight_decay": 0.3, "learning_rate": 0.01}
    replica, index = make_replica(training=settings)
    twin, _ = make_replica(training=settings)
    epoch(replica, index)
    adam = torch.optim.Adam(twin.network.parameters(), 0.01, weight_decay=0.3)
    batches = twin._plan_epoch(index, 0).batches
    (batch,) = twin.dataset.gather(batches, twin.dataset.smallest_shape(batches))
    prediction = twin.network.train()(batch.nodes["x"], batch.graph, weights=batch.weights)
    (prediction[:24, 0] - batch.graphs["y"][:24]).abs().mean().backward()
    adam.step()
    torch.testing.assert_close(
        dict(replica.network.named_parameters()), dict(twin.network.named_parameters()), rtol=1e-5, atol=1e-7
    )


def train_captured(monkeypatch, captures, dataset="cuda", **sections):
    """The history and the last weights of two seeds on a GPU."""
    original, replicas = Replica.__init__, []

    def init(self, *args):
        original(self, *args)
        assert self.captures
        self.captures, self.wgrad_stream = captures, self.wgrad_stream if captures else None
        replicas.append(self)

    with monkeypatch.context() as patch:
        patch.setattr(Replica, "__init__", init)
        patch.setattr(
            "dgn.training.shared_data.dataset_device", lambda _, device: device if dataset == "cuda" else "cpu"
        )
        objective = sections.pop("objective", "regression")
        benchmark = make_benchmark(objective, numbers=sections.pop("numbers", False))
        results = train(make_experiment(**sections), benchmark, [0, 1], device="cuda")
    rows = [[(row["train_loss"], row["val_loss"]) for row in result.history] for result in results]
    return torch.tensor(rows), [dict(replica.network.named_parameters()) for replica in replicas]


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
def test_captured_steps_equal_eager_steps(sections, monkeypatch):
    losses, weights = train_captured(monkeypatch, True, training=STEPS, **sections)
    expected, others = train_captured(monkeypatch, False, training=STEPS, **sections)
    torch.testing.assert_close(losses, expected, rtol=2e-5, atol=1e-6)
    torch.testing.assert_close(weights, others, rtol=1e-3, atol=1e-5)


@pytest.mark.gpu
@needs_cuda
@pytest.mark.parametrize("name", ["simple", "complex", "towers", "nodes"])
def test_captured_steps_in_half_precision(name, monkeypatch):
    """Over few steps: a bias in front of a norm has a gradient of rounding alone, of which Adam makes full steps.

    In float32 the norm takes them out again; in half precision they change how all that follows is rounded, so that
    after twenty steps every weight of a network with such a bias (of the virtual node) differs by some steps.
    """
    training = {**STEPS, "epochs": 1, "precision": "bf16-mixed"}
    losses, weights = train_captured(monkeypatch, True, training=training, **GPU_CASES[name])
    expected, others = train_captured(monkeypatch, False, training=training, **GPU_CASES[name])
    torch.testing.assert_close(losses, expected, rtol=1e-2, atol=1e-3)
    torch.testing.assert_close(weights, others, rtol=1e-2, atol=1e-3)


@pytest.mark.gpu
@needs_cuda
@pytest.mark.parametrize("sections", [{}, AUGMENTED], ids=["plain", "augmented"])
def test_small_chunks_and_growing_shapes_change_nothing(sections, monkeypatch):
    expected, weights = train_captured(monkeypatch, True, training=STEPS, **sections)
    with monkeypatch.context() as patch:
        patch.setattr("dgn.training.replica.LARGEST_CHUNK", 1)  # one batch at a time
        chunked, others = train_captured(monkeypatch, True, training=STEPS, **sections)
    torch.testing.assert_close(chunked, expected, rtol=2e-5, atol=1e-6)
    torch.testing.assert_close(others, weights, rtol=1e-3, atol=1e-5)
    with monkeypatch.context() as patch:
        buffers = []
        patch.setattr("dgn.training.replica.EpochBuffer", lambda *args: buffers.append(args) or EpochBuffer(*args))
        patch.setattr(
            "dgn.data.loader.device_dataset.SPREAD", -9.0
        )  # no room to spare: larger epochs are captured again
        patch.setattr("dgn.data.loader.device_dataset.MULTIPLE", 1)
        grown, others = train_captured(monkeypatch, True, training=STEPS, **sections)
        assert len(buffers) > 2  # of two seeds
    torch.testing.assert_close(grown, expected, rtol=2e-5, atol=1e-6)
    torch.testing.assert_close(others, weights, rtol=1e-3, atol=1e-5)


@pytest.mark.gpu
@needs_cuda
def test_a_dataset_in_main_memory_gives_the_same_result(monkeypatch):
    expected, weights = train_captured(monkeypatch, True, training=STEPS)
    losses, others = train_captured(monkeypatch, True, "cpu", training=STEPS)
    torch.testing.assert_close(losses, expected, rtol=2e-5, atol=1e-6)
    torch.testing.assert_close(others, weights, rtol=1e-3, atol=1e-5)


@pytest.mark.gpu
@needs_cuda
def test_dropout_draws_the_same_in_every_replay_of_an_epoch():
    replica, index = make_replica(device="cuda", network={"dropout": 0.5})
    torch.cuda.synchronize()
    with torch.cuda.stream(torch.cuda.Stream()):
        start = replica.state.tensors()
        first = [epoch(replica, index) for _ in range(3)]
        replica.state.load(start)
        replica.schedule = type(replica.schedule).start(replica.settings)
        replica.next_plan = None
        assert [epoch(replica, index) for _ in range(3)] == pytest.approx(first, rel=1e-5)
    assert len(set(first)) == 3


@pytest.mark.gpu
@needs_cuda
def test_four_replicas_at_once_equal_single_ones():
    sections = {"network": {"dropout": 0.2}, "training": STEPS, **AUGMENTED}
    results = train(make_experiment(**sections), make_benchmark(), [0, 1, 2, 3], device="cuda")
    for result in results:
        (alone,) = train(make_experiment(**sections), make_benchmark(), [result.seed], device="cuda")
        for row, other in zip(result.history, alone.history, strict=True):
            assert row["train_loss"] == pytest.approx(other["train_loss"], rel=2e-5)
            assert row["val_loss"] == pytest.approx(other["val_loss"], rel=2e-5)


def test_replicas_take_turns():
    order = []

    class FakeReplica:
        def __init__(self, name, steps):
            self.name, self.steps = name, steps

        def train_epoch(self, _):
            for step in range(self.steps):
                order.append(f"{self.name}{step}")
                yield

    train_replicas([FakeReplica("a", 3), FakeReplica("b", 1)], [nullcontext(), nullcontext()], torch.arange(1))
    assert order == ["a0", "b0", "a1", "a2"]
