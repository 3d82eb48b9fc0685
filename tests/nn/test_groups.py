"""Layers and networks with groups of directions: what they say does not depend on the basis of an eigenspace."""

import pytest
import torch
from torch import nn
from torch_geometric.data import Batch, Data

import dgn
from dgn.nn import DGNConv
from dgn.testing import assert_basis_independent, complete, cycle, grid, hypercube, path
from dgn.transforms import AddDirections
from tests.networks import make_dgn

NAMES = ["mean", "dx1-group", "av1-group", "max", "dx2-group"]
KINDS = [{}, {"message": "complex"}, {"message": "complex", "towers": 2}]
REPEATED = [cycle(6), grid(3, 3), hypercube(3), complete(4)]
CHANNELS = 32


def random(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def solve(graph, k=4):
    d = dgn.directions(*graph, k=k)
    return d, dgn.gradient(d.potential, graph[0]), d.gap[d.component]


def make_conv(**options):
    torch.manual_seed(0)
    return DGNConv(CHANNELS, 16, NAMES, ["identity", "amplification"], delta=1.1, **options).double()


def make_network(names, **options):
    torch.manual_seed(0)
    return make_dgn(nn.Linear(3, CHANNELS), CHANNELS, num_layers=2, aggregators=names, **options)


def test_a_convolution_is_made_of_the_operators():
    edge_index, num_nodes = grid(3, 3)
    _, field, gap = solve((edge_index, num_nodes))
    conv, x = make_conv(), random(num_nodes, CHANNELS)
    neighbours = [x[edge_index[0][edge_index[1] == i]] for i in range(num_nodes)]
    parts = [
        torch.stack([rows.mean(dim=0) for rows in neighbours]),
        dgn.group_derivative(field[:, :3], gap[:, :3], edge_index)(x).norm(dim=1),
        dgn.group_smoothing(field[:, :3], gap[:, :3], edge_index)(x)[:, 0],
        torch.stack([rows.amax(dim=0) for rows in neighbours]),
        dgn.group_derivative(field, gap, edge_index, direction=2)(x).norm(dim=1),
    ]
    scale = torch.log(torch.bincount(edge_index[1]).double() + 1)[:, None] / 1.1
    plain, scaled = (torch.cat(parts, dim=1) @ conv.update.scaled[0].T).chunk(2, dim=1)
    torch.testing.assert_close(
        conv(x, edge_index, edge_field=field, gap=gap), plain + scale * scaled + conv.update.bias
    )


@pytest.mark.parametrize("options", KINDS, ids=str)
@pytest.mark.parametrize("graph", REPEATED)
def test_a_convolution_does_not_see_the_basis(graph, options):
    (edge_index, num_nodes), (d, _, gap) = graph, solve(graph)
    conv, x = make_conv(**options), random(num_nodes, CHANNELS)
    assert_basis_independent(lambda phi: conv(x, edge_index, edge_field=dgn.gradient(phi, edge_index), gap=gap), d)


@pytest.mark.parametrize("options", KINDS, ids=str)
def test_kernels_train_as_the_reference_does(options):
    pytest.importorskip("numba", reason="Numba is not installed")
    graph = grid(16, 16)  # as many messages as the kernels are worth
    (edge_index, num_nodes), (_, field, gap) = graph, solve(graph)
    x, results = random(num_nodes, 128), {}
    for backend in ("reference", "cpu"):
        torch.manual_seed(0)
        conv = DGNConv(128, 16, NAMES, backend=backend, **options).double()
        leaf = x.clone().requires_grad_()
        out = conv(leaf, edge_index, edge_field=field, gap=gap)
        results[backend] = [out, *torch.autograd.grad(out.square().sum(), [leaf, *conv.parameters()])]
    torch.testing.assert_close(results["cpu"], results["reference"])


def test_two_sets_of_nodes():
    edge_index = torch.tensor([[0, 1, 2, 2], [0, 0, 1, 0]])
    conv, gap = make_conv(), torch.tensor([[0.0, 1.0, torch.nan, torch.nan]] * 2)
    out = conv((random(3, CHANNELS), random(2, CHANNELS)), edge_index, edge_field=random(4, 4), gap=gap)
    assert out.shape == (2, 16)
    assert out.isfinite().all()


def batch(seed=None):
    """Graphs with repeated eigenvalues and one without, in a basis of the draw."""
    made = []
    for edge_index, num_nodes in [*REPEATED, path(5)]:
        data = Data(x=random(num_nodes, 3).float(), edge_index=edge_index, num_nodes=num_nodes)
        data = AddDirections(k=4)(data)
        if seed is not None:
            d = dgn.directions(edge_index, num_nodes, k=4).resample(torch.Generator().manual_seed(seed))
            data.node_potential = d.potential.float()
            data.edge_field = dgn.gradient(d.potential, edge_index).float()
        made.append(data)
    return Batch.from_data_list(made)


@pytest.mark.parametrize("names", [NAMES, ["mean", "dx1-group2", "av2-group4"]])
def test_a_network_does_not_see_the_basis(names):
    network = make_network(names).eval()
    with torch.no_grad():
        torch.testing.assert_close(network(batch(1)), network(batch()), rtol=1e-4, atol=1e-5)
        plain = make_network(["mean", "dx1"]).eval()
        assert ((plain(batch(1)) - plain(batch())).abs()[:4] > 1e-3).any()


def test_a_group_costs_no_parameters():
    group, plain = (make_network(["mean", name]) for name in ("dx1-group", "dx1"))
    assert [p.shape for p in group.parameters()] == [p.shape for p in plain.parameters()]


def test_without_gaps_a_network_says_what_is_missing():
    graphs = batch()
    del graphs.gap
    with pytest.raises(ValueError, match=r"gap: expected shape .* got None; dgn.transforms.AddDirections adds them"):
        make_network(NAMES)(graphs)
