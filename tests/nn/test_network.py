"""The network: published sizes, batches, shared weights, initial values, and learning."""

import pytest
import torch
from torch import nn
from torch_geometric.data import Batch, Data

from dgn.aggregation import Plan, average_log_degree
from dgn.nn import ATOM_SIZES, BOND_SIZES, DGN, CategoryEncoder, Ensemble, NetworkSettings
from dgn.testing import complete, grid, path, random_graph, star
from dgn.transforms import AddDirections
from tests.networks import make_dgn

SCALERS = ["identity", "amplification", "attenuation"]


def zinc(hidden, aggregators, message, **options):
    encoder = CategoryEncoder((28,), hidden)
    return make_dgn(encoder, hidden, aggregators=aggregators, scalers=SCALERS, delta=1.0, message=message, **options)


def zinc_bonds():
    return {"edge_encoder": CategoryEncoder((4,), 10), "edge_dim": 10}


PUBLISHED = {
    "ZINC simple, mean": (84_081, lambda: zinc(80, ["mean"], "simple")),
    "ZINC simple, mean dx1": (100_256, lambda: zinc(63, ["mean", "dx1"], "simple")),
    "ZINC complex, mean": (106_917, lambda: zinc(65, ["mean"], "complex")),
    "ZINC complex-E, mean dx1": (103_495, lambda: zinc(52, ["mean", "dx1"], "complex", **zinc_bonds())),
    "ZINC complex, mean dx1 av1": (100_457, lambda: zinc(45, ["mean", "dx1", "av1"], "complex")),
    "ZINC tuned": (
        98_035,
        lambda: zinc(75, ["mean", "dx1", "max", "min"], "complex", last=70, towers=5, readout="sum", **zinc_bonds()),
    ),
    "PATTERN tuned": (
        108_317,
        lambda: make_dgn(CategoryEncoder((3,), 47), 47, out_channels=2, aggregators=["mean", "av1", "dx1"],
                         scalers=SCALERS, delta=1.0, message="complex", readout="nodes"),
    ),
    "CIFAR10 tuned": (
        106_981,
        lambda: make_dgn(nn.Linear(5, 100), 100, out_channels=10, last=95, aggregators=["mean", "dx1", "dx2", "max"],
                         message="complex", towers=5, edge_encoder=nn.Linear(1, 10), edge_dim=10, dropout=0.3,
                         readout="sum"),
    ),
    "MolHIV tuned": (
        114_065,
        lambda: make_dgn(CategoryEncoder(ATOM_SIZES, 70), 70, aggregators=["mean", "max", "min", "av1", "dx1"],
                         dropout=0.3, size_norm=False),
    ),
    "MolPCBA tuned": (
        6_732_696,
        lambda: make_dgn(CategoryEncoder(ATOM_SIZES, 480), 480, out_channels=128, message="complex",
                         aggregators=["mean", "sum", "max", "dx1"], edge_encoder=CategoryEncoder(BOND_SIZES, 16),
                         edge_dim=16, dropout=0.2, readout="sum"),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("count", "build"), PUBLISHED.values(), ids=PUBLISHED)
def test_parameters_are_as_many_as_published(count, build):
    assert sum(parameter.numel() for parameter in build().parameters()) == count


def data(graph, seed=0, k=2):
    edge_index, num_nodes = graph
    draw = torch.Generator().manual_seed(seed)
    x, y = torch.randn(num_nodes, 3, generator=draw), torch.randn(1, 1, generator=draw)
    kinds = torch.randint(4, (edge_index.size(1),), generator=draw)
    return AddDirections(k)(Data(x=x, edge_index=edge_index, edge_attr=kinds, y=y, num_nodes=num_nodes))


GRAPHS = [data(graph, seed) for seed, graph in enumerate([grid(3, 4), path(5), star(4), path(1), complete(4)])]
KINDS = {
    "simple": {},
    "complex": {"message": "complex", "scalers": SCALERS, "delta": 1.1},
    "complex-E": {"message": "complex", "edge_encoder": True},
    "towers": {"message": "complex", "edge_encoder": True, "towers": 4},
}
every_kind = pytest.mark.parametrize("options", KINDS.values(), ids=KINDS)


def network(**options):
    torch.manual_seed(0)
    if options.get("edge_encoder"):
        options = options | {"edge_encoder": CategoryEncoder((4,), 5), "edge_dim": 5}
    settings = {"num_layers": 3, "aggregators": ["mean", "max", "av1", "dx2"]} | options
    return make_dgn(nn.Linear(3, 16), 16, **settings)


@every_kind
@pytest.mark.parametrize("readout", ["mean", "sum", "sum-mean", "max", "directional", "nodes"])
@pytest.mark.parametrize("virtual_node", [False, True])
def test_a_batch_gives_what_its_graphs_give_alone(options, readout, virtual_node):
    net = network(readout=readout, virtual_node=virtual_node, num_eigenvector_features=2, **options).double().eval()
    graphs = [graph.clone().apply(lambda t: t.double() if t.is_floating_point() else t) for graph in GRAPHS]
    together = net(Batch.from_data_list(graphs))
    torch.testing.assert_close(together, torch.cat([net(graph) for graph in graphs]))


@pytest.mark.parametrize("options", [{"virtual_node": True}, {"ffn_expansion": 2}, {"edge_dim": 5}])
def test_a_network_goes_on_with_synchronised_batch_norms(options):
    if "edge_dim" in options:
        options = {"message": "complex", "edge_encoder": CategoryEncoder((4,), 5)} | options
    net, batch = network(**options).eval(), Batch.from_data_list(GRAPHS)
    expected = net(batch)
    torch.testing.assert_close(nn.SyncBatchNorm.convert_sync_batchnorm(net)(batch), expected)


def test_without_batch_norm_graphs_do_not_see_each_other_in_training():
    edges = {"message": "complex", "edge_dim": 5, "edge_encoder": CategoryEncoder((4,), 5)}
    net = network(batch_norm=False, virtual_node=True, ffn_expansion=2, **edges).train()
    assert not any(isinstance(part, nn.BatchNorm1d) for part in net.modules())
    torch.testing.assert_close(net(Batch.from_data_list(GRAPHS)), torch.cat([net(graph) for graph in GRAPHS]))


def test_a_batch_of_fields_of_very_different_size_gives_what_its_graphs_give_alone():
    net = network().eval()
    small = data(path(5))
    small.edge_field = 1e-9 * small.edge_field
    pair = [data(grid(3, 3)), small]
    torch.testing.assert_close(net(Batch.from_data_list(pair)), torch.cat([net(graph) for graph in pair]))


def test_data_and_its_parts_give_the_same():
    net, batch = network(readout="directional", num_eigenvector_features=1).eval(), Batch.from_data_list(GRAPHS)
    parts = net(
        batch.x, batch.edge_index, edge_field=batch.edge_field, batch=batch.batch, node_potential=batch.node_potential
    )
    assert torch.equal(net(batch), parts)


def test_data_give_embeddings_as_its_parts_do():
    graph, net = data(path(5)), network().eval()
    parts = {name: graph[name] for name in ("edge_field", "edge_attr", "node_potential") if name in graph}
    for returns in ("embedding", "node-embedding"):
        expected = net(graph.x, graph.edge_index, **parts, returns=returns)
        torch.testing.assert_close(net(graph, returns=returns), expected)
        torch.testing.assert_close(Ensemble([net, net])(graph, returns=returns), torch.cat([expected] * 2, dim=1))


def test_inputs_beside_data_are_refused():
    graph = data(path(5))
    with pytest.raises(TypeError, match=r"DGN: expected a Data alone, got edge_field beside it; set data.edge_field"):
        network()(graph, edge_field=graph.edge_field)
    with pytest.raises(TypeError, match=r"got edge_index, node_mask beside it"):
        network()(graph, graph.edge_index, node_mask=torch.ones(5, 1))


def test_graphs_without_nodes_count():
    net, one = network().eval(), GRAPHS[0]
    out = net(one.x, one.edge_index, edge_field=one.edge_field, batch=torch.ones(one.num_nodes).long(), num_graphs=3)
    assert out.shape == (3, 1)
    torch.testing.assert_close(out[1:2], net(one))
    assert torch.equal(out[0], out[2])


def test_the_weights_of_the_field_are_computed_once(monkeypatch):
    calls = []
    compute = Plan.compute_weights
    monkeypatch.setattr(Plan, "compute_weights", lambda *arguments: calls.append(1) or compute(*arguments))
    network(num_layers=5)(GRAPHS[0].clone())
    assert len(calls) == 1


@every_kind
def test_relabelling_nodes_does_not_change_a_prediction(options):
    net, one = network(**options).double().eval(), data(random_graph(8, 0.5, torch.Generator().manual_seed(0)))
    label = torch.randperm(8, generator=torch.Generator().manual_seed(0))
    order = torch.randperm(one.num_edges, generator=torch.Generator().manual_seed(1))
    x, field = one.x.double(), one.edge_field.double()
    moved = net(
        x[label.argsort()], label[one.edge_index[:, order]], edge_field=field[order], edge_attr=one.edge_attr[order]
    )
    torch.testing.assert_close(moved, net(x, one.edge_index, edge_field=field, edge_attr=one.edge_attr))


def test_the_sign_of_a_direction_does_not_matter_to_av_and_dx():
    net, one = network().eval(), GRAPHS[0]
    assert torch.equal(
        net(one.x, one.edge_index, edge_field=-one.edge_field), net(one.x, one.edge_index, edge_field=one.edge_field)
    )


def test_the_positional_baseline_adds_a_linear_map_of_the_potential():
    net, one = network(num_eigenvector_features=1, aggregators=["mean"], num_layers=0).eval(), GRAPHS[0]
    h = net.node_encoder(one.x) + one.node_potential[:, :1] @ net.positional.weight.T + net.positional.bias
    torch.testing.assert_close(net(one), net.head(h.mean(dim=0, keepdim=True)))


def test_graph_size_norm_is_one_over_the_root_of_the_nodes():
    net, seen = network(num_layers=2), []
    for layer in net.layers:
        layer.register_forward_hook(lambda _layer, arguments, _out: seen.append(arguments[4]))
    net(Batch.from_data_list(GRAPHS[:2]))
    expected = torch.tensor([12**-0.5] * 12 + [5**-0.5] * 5)[:, None]
    assert len(seen) == 2
    for size in seen:
        torch.testing.assert_close(size, expected)
    net(GRAPHS[0])  # one graph: kernels read a number for each node all the same
    torch.testing.assert_close(seen[2], expected[:12])


def test_the_initial_values_of_the_authors():
    net = network(message="complex", towers=4, initialization="authors")
    for layer in net.layers:
        linears = [layer.mix, layer.conv.message, layer.conv.update]
        for linear in linears:
            out, inputs = linear.weight.shape[-2:]
            bound = (6 / (out + inputs)) ** 0.5 / inputs
            assert 0.8 * bound < float(linear.weight.detach().abs().max()) <= bound
            assert not linear.bias.any()
        assert torch.equal(layer.norm.weight, torch.ones(16))
    assert net.head[0].bias.any()
    assert net.node_encoder.bias.any()


@pytest.mark.parametrize("initialization", ["pytorch", "authors"])
def test_reset_draws_again_and_keeps_the_initialization(initialization):
    net = network(message="complex", virtual_node=True, num_eigenvector_features=1, initialization=initialization)
    before = {name: parameter.clone() for name, parameter in net.named_parameters()}
    net.reset_parameters()
    changed = {name for name, parameter in net.named_parameters() if not torch.equal(before[name], parameter)}
    constant = {name for name in before if ".norm." in name}
    zero = {name for name in before if ".conv." in name and "bias" in name} if initialization == "authors" else set()
    assert changed == set(before) - constant - zero


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"readout": "average"}, "readout: expected one of 'mean', 'sum'"),
        ({"readout": "directionnal"}, "did you mean 'directional'"),
        ({"initialization": "author"}, "did you mean 'authors'"),
        ({"message": "towers", "towers": 4}, "message: expected one of"),
    ],
)
def test_unknown_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        network(**options)


@pytest.mark.parametrize("options", [{"num_eigenvector_features": 1}, {"readout": "directional"}], ids=str)
def test_a_missing_potential_is_refused(options):
    one = GRAPHS[0]
    with pytest.raises(ValueError, match=r"potential: expected .*got None; .*dgn.transforms.AddDirections"):
        network(**options)(one.x, one.edge_index, edge_field=one.edge_field)


def test_missing_edge_features_are_refused():
    one = GRAPHS[0]
    with pytest.raises(ValueError, match=r"edge_attr: expected .* rows of width .*, got None"):
        network(message="complex", edge_encoder=True)(one.x, one.edge_index, edge_field=one.edge_field)


@every_kind
def test_training_lowers_the_loss(options):
    net, batch = network(**options), Batch.from_data_list(GRAPHS)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    losses = []
    for _ in range(30):
        loss = (net(batch) - batch.y).abs().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.3 * losses[0]
    assert all(parameter.grad is not None for parameter in net.parameters())


def test_a_number_of_inputs_stands_for_a_linear_map():
    torch.manual_seed(0)
    net = DGN(5, NetworkSettings(hidden=8, num_layers=1, aggregators=["mean"]))
    torch.manual_seed(0)
    same = DGN(nn.Linear(5, 8), NetworkSettings(hidden=8, num_layers=1, aggregators=["mean"]))
    assert torch.equal(net.node_encoder.weight, same.node_encoder.weight)
    assert net.state_dict().keys() == same.state_dict().keys()


def test_scalers_without_a_delta_are_refused_with_the_way_to_compute_it():
    with pytest.raises(ValueError, match=r"delta: .* scalers identity, amplification, got None; pass delta=dgn.av"):
        DGN(5, NetworkSettings(hidden=8, aggregators=["mean"], scalers=["identity", "amplification"]))


def test_graphs_without_edges_can_be_learned_where_no_scaler_looks_at_degrees():
    single = [Data(x=torch.ones(1, 5), edge_index=torch.zeros(2, 0, dtype=torch.long))]
    net = DGN(5, NetworkSettings(hidden=8, num_layers=1, aggregators=["mean"]), delta=average_log_degree(single)).eval()
    assert net(single[0]).isfinite().all()


def test_a_message_module_is_given_encoded_categories_of_edges():
    torch.manual_seed(0)
    module, (edge_index, nodes) = nn.Sequential(nn.Linear(2 * 6 + 3, 6), nn.Tanh()), complete(4)
    options = {"aggregators": ["mean", "dx1"], "num_layers": 2, "message": module, "edge_dim": 3}
    net = make_dgn(2, 6, edge_encoder=CategoryEncoder((4,), 3), **options).eval()
    edge_index, kinds = edge_index[:, torch.randperm(12)], torch.arange(12) % 4
    x, field = torch.randn(nodes, 2), torch.randn(12, 1)
    out = net(x, edge_index, edge_field=field, edge_attr=kinds)
    encoder, net.edge_encoder = net.edge_encoder, None
    torch.testing.assert_close(out, net(x, edge_index, edge_field=field, edge_attr=encoder(kinds)))


def test_each_layer_has_a_message_module_of_its_own():
    module = nn.Linear(2 * 6, 6)
    first, second = (layer.conv.message for layer in make_dgn(2, 6, num_layers=2, message=module).layers)
    assert torch.equal(first.weight, second.weight)  # as it was given
    with torch.no_grad():
        first.weight.zero_()
    assert second.weight.abs().min() > 0
    assert module.weight.abs().min() > 0


def test_data_without_features_are_refused():
    with pytest.raises(ValueError, match=r"data: expected node features in 'x', got Data\(.*; set data.x"):
        DGN(3, NetworkSettings(hidden=8))(Data(edge_index=torch.tensor([[0], [1]]), num_nodes=2))


def test_an_encoder_of_another_width_is_refused():
    network = DGN(nn.Linear(3, 5), NetworkSettings(hidden=8, aggregators=["mean"]))
    with pytest.raises(ValueError, match="node_encoder: expected one that gives 8 channels, got 5; make it so wide"):
        network(torch.randn(2, 3), torch.tensor([[0], [1]]))
