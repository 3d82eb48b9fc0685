"""Learned directions against given ones with the same field, and their gradients."""

import pytest
import torch
from torch import nn
from torch_geometric.data import Batch, Data

import dgn
from dgn.aggregation import Messages, aggregate, make_plan
from dgn.nn import DGN
from dgn.nn.blocks.learned import LearnedDirections
from dgn.testing import cycle, random_graph
from dgn.training.trainer import train
from tests.training.small import make_benchmark, make_experiment

EDGES, N = random_graph(8, 0.5, torch.Generator().manual_seed(3))
EDGES = EDGES[:, torch.randperm(EDGES.size(1), generator=torch.Generator().manual_seed(0))]
GRAPH = dgn.as_graph(EDGES, N)
NAMES = ["mean", "dx2", "av1", "av2", "dx1-signed"]


def random(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


X, FIELD = random(N, 3), random(EDGES.size(1), 1, seed=1)


def network(learned, **options):
    torch.manual_seed(0)
    net = DGN(nn.Linear(3, 16), 16, num_layers=2, aggregators=NAMES, learned_directions=learned, **options)
    return net.double()


@pytest.mark.parametrize("message", ["simple", "complex"])
@pytest.mark.parametrize("learned", [1, 2])
def test_they_are_directions_like_any_other(message, learned):
    net, plain = network(learned, message=message), network(0, message=message)
    plain.load_state_dict({name: value for name, value in net.state_dict().items() if "learned" not in name})
    field = dgn.gradient(net.learned.map(net.node_encoder(X)).detach(), EDGES)
    given = FIELD[:, : 2 - learned]
    expected = plain(X, EDGES, torch.cat([given, field], dim=1))
    torch.testing.assert_close(net(X, EDGES, given), expected)


@pytest.mark.parametrize("backend", ["reference", "cpu"])
def test_gradients_reach_the_potential(backend):
    if backend == "cpu":
        pytest.importorskip("numba")
    plan = make_plan(NAMES)
    learned = LearnedDirections(plan, 3, 1).double()
    given = learned.given.compute_weights(FIELD, GRAPH)

    def run(h, weight):
        weights = torch.func.functional_call(learned, {"map.weight": weight}, (h, GRAPH, given))
        return aggregate(plan, Messages(source=h), weights, GRAPH, backend)

    inputs = X.clone().requires_grad_(), learned.map.weight.detach().clone().requires_grad_()
    assert torch.autograd.gradcheck(run, inputs)


def test_the_scale_of_a_potential_does_not_matter_and_equal_inputs_have_no_field():
    learned = LearnedDirections(make_plan(["dx1", "av1"]), 3, 1).double()
    none = learned.given.compute_weights(None, GRAPH)
    h = X.clone()
    h[:2] = 5.0
    h[1] += 1e-7  # by rounding
    before = learned(h, GRAPH, none)
    with torch.no_grad():
        learned.map.weight *= 1000
    torch.testing.assert_close(learned(h, GRAPH, none), before)
    between = ((EDGES < 2).all(dim=0))[GRAPH.by_target.order]
    assert between.any()
    assert not before.edge[between].any()


def test_nodes_that_are_all_alike_have_no_field_wherever_they_stand():
    torch.manual_seed(0)
    net = DGN(5, 65, num_layers=1, aggregators=["mean", "av1"], learned_directions=1).eval()
    h = net.node_encoder(torch.ones(1, 5)).detach().expand(6, -1)
    h = h * (1 + 2**-23 * torch.randint(-1, 2, h.shape, generator=torch.Generator().manual_seed(0)))  # by rounding
    ring = dgn.as_graph(*cycle(6))
    weights = net.learned(h, ring, net.plan.compute_weights(None, ring))
    assert net.learned.map(h).unique().numel() > 1
    assert not weights.edge.any()


def test_mixed_precision_takes_no_component_for_rounding():
    learned, graph = LearnedDirections(make_plan(["dx1"]), 64, 1), dgn.as_graph(EDGES, N)
    h, given = random(N, 64, seed=1).float(), learned.given.compute_weights(None, graph)
    plain = learned(h, graph, given)
    with torch.autocast("cpu", torch.bfloat16):
        mixed = learned(h, graph, given)
    assert torch.equal(mixed.edge, plain.edge)
    assert plain.edge.any(dim=1).all()


def test_graphs_of_a_batch_are_as_alone():
    net, graphs = network(1).eval(), []
    for seed in range(3):
        edge_index, n = random_graph(5 + seed, 0.5, torch.Generator().manual_seed(seed))
        field = random(edge_index.size(1), 1, seed=seed)
        graphs.append(Data(x=random(n, 3, seed=seed), edge_index=edge_index, field=field, num_nodes=n))
    torch.testing.assert_close(net(Batch.from_data_list(graphs)), torch.cat([net(graph) for graph in graphs]))


def test_relabelling_nodes_relabels_the_field():
    net, label = network(2).eval(), torch.randperm(N, generator=torch.Generator().manual_seed(5))
    torch.testing.assert_close(net(X[label.argsort()], label[EDGES]), net(X, EDGES))


def test_everything_is_learnt_and_reset():
    net = network(2)
    net(X, EDGES).square().sum().backward()
    assert bool((net.learned.map.weight.grad != 0).any(dim=1).all())
    assert not net.is_whole(torch.device("cpu"))
    before = net.learned.map.weight.clone()
    net.reset_parameters()
    assert not torch.equal(net.learned.map.weight, before)


def test_more_than_there_are_is_refused():
    with pytest.raises(ValueError, match="learned_directions: expected the number of last directions"):
        network(3)


@pytest.mark.parametrize(("learned", "given"), [(1, 1), (2, 0)])
def test_an_experiment_computes_the_given_directions_alone(learned, given):
    experiment = make_experiment(network={"aggregators": NAMES, "learned_directions": learned}, training={"epochs": 2})
    assert experiment.num_directions == given
    (result,) = train(experiment, make_benchmark(), [0], device="cpu")
    assert all(row["train_loss"] < 10 for row in result.history)
