"""Batches gathered from a store against PyG's ``Batch``: every array, and the predictions for them."""

import pytest
import torch
from torch import nn
from torch_geometric.data import Batch as PyGBatch

from dgn.aggregation import Weights
from dgn.data import PackedGraphs
from dgn.data.loader.device_dataset import DeviceDataset
from dgn.data.loader.static_batch import BatchShape, StaticBatches
from dgn.graph import as_graph
from dgn.nn import DGN, CategoryEncoder, NetworkSettings
from dgn.training.evaluate import predict
from tests.networks import make_dgn

NAMES = {"nodes": ["x", "level", "node_potential"], "edges": ["bond", "length"], "graphs": ["y"]}


def collection(seed=0):
    """Directed graphs with parallel edges and loops; some without edges, of one node, or of none."""
    draw = torch.Generator().manual_seed(seed)
    sizes = [5, 1, 0, 9, 3, 12, 1, 7, 4, 2]
    edges = [12, 0, 0, 30, 0, 25, 3, 11, 1, 4]
    packed = PackedGraphs.pack(
        (torch.randint(n, (2, count), generator=draw) if count else torch.empty(2, 0, dtype=torch.long), n)
        for n, count in zip(sizes, edges, strict=True)
    )
    n, e, g = packed.num_nodes, packed.num_edges, len(packed)
    return packed.with_values(
        nodes={
            "x": torch.randint(7, (n, 2), generator=draw).to(torch.uint8),
            "level": torch.randn(n, generator=draw),
            "node_potential": torch.randn(n, 2, generator=draw),
        },
        edges={
            "bond": torch.randint(4, (e,), generator=draw).to(torch.uint8),
            "length": torch.randn(e, 2, generator=draw, dtype=torch.float64),
            "edge_field": torch.randn(e, 2, generator=draw),
        },
        graphs={"y": torch.randn(g, 3, generator=draw)},
    )


GRAPHS = collection()
NONE = -1
DRAWS = {
    "one, exact": (torch.tensor([[5, 0, 2, 9]]), None),
    "one, with shape": (torch.tensor([[5, 0, 2, 9]]), BatchShape(4, 64, 128)),
    "all of them": (torch.arange(10)[None], None),
    "several, the last one partly filled": (torch.tensor([[3, 1, 7], [0, 5, 8], [6, NONE, NONE]]), None),
    "several, with shape": (torch.tensor([[3, 1, 7], [0, 5, 8], [6, NONE, NONE]]), BatchShape(3, 50, 99)),
    "empty slots, and an empty batch": (torch.tensor([[NONE, 3, NONE, 3], [NONE] * 4]), None),
    "no edges": (torch.tensor([[1, 4, 2], [4, 4, 1]]), None),
    "no nodes": (torch.tensor([[2, NONE], [NONE, 2]]), None),
}
every_draw = pytest.mark.parametrize(("indices", "shape"), DRAWS.values(), ids=DRAWS)


def make_store(graphs=GRAPHS):
    return DeviceDataset(graphs, NAMES, "cpu")


def by_pyg(graphs, row):
    """PyG's batch of the graphs of a row."""
    return PyGBatch.from_data_list([graphs[index] for index in row.tolist() if index != NONE])


@every_draw
def test_without_padding_a_batch_equals_that_of_pyg(indices, shape):
    store = make_store()
    shape = shape or store.smallest_shape(indices)
    batches = store.gather(indices, shape)
    assert len(batches) == len(indices)
    for batch, row in zip(batches, indices, strict=True):
        if (row == NONE).all():
            assert not batch.node_mask.any()
            assert not batch.graph_mask.any()
            continue
        expected = by_pyg(GRAPHS, row)
        n, e, filled = expected.num_nodes, expected.num_edges, row != NONE
        expected_graph = as_graph(expected)
        order = expected_graph.by_target.order.long()
        ordered = as_graph(expected.edge_index[:, order], n)
        assert torch.equal(batch.graph.edge_index[:, :e], ordered.edge_index)
        assert torch.equal(batch.graph.by_target.pointer[: n + 1], expected_graph.by_target.pointer)
        assert torch.equal(batch.graph.by_target.neighbor[:e], expected_graph.by_target.neighbor)
        assert torch.equal(batch.graph.by_target.order, torch.arange(shape.edges, dtype=torch.int32))
        assert torch.equal(batch.graph.source_pointer[: n + 1], ordered.source_pointer)
        assert torch.equal(batch.graph.target_to_source[:e], ordered.target_to_source)
        assert torch.equal(batch.graph.in_degree[:n], expected_graph.in_degree)
        slot = filled.nonzero()[:, 0]
        assert torch.equal(batch.graph.batch[:n], slot[expected.batch])
        for name in NAMES["nodes"]:
            assert torch.equal(batch.nodes[name][:n], wide(expected[name]))
        for name in NAMES["edges"]:
            assert torch.equal(batch.edges[name][:e], wide(expected[name])[order])
        assert torch.equal(batch.graphs["y"][:-1][filled], GRAPHS.graphs["y"][row[filled]])
        assert batch.node_mask[:, 0].tolist() == [1.0] * n + [0.0] * (shape.nodes - n)
        assert batch.graph_mask[:, 0].tolist() == [*filled.float().tolist(), 0.0]


def wide(values):
    return values.float() if values.is_floating_point() else values.long()


@every_draw
def test_padding_is_a_separate_graph_without_edges_to_others(indices, shape):
    store = make_store()
    shape = shape or store.smallest_shape(indices)
    for batch, row in zip(store.gather(indices, shape), indices, strict=True):
        chosen = row[row != NONE]
        n, e = int(GRAPHS.node_pointer.diff()[chosen].sum()), int(GRAPHS.edge_pointer.diff()[chosen].sum())
        graph = batch.graph
        assert (graph.num_nodes, graph.num_edges, graph.num_graphs) == (shape.nodes, shape.edges, shape.graphs + 1)
        assert (graph.batch[n:] == shape.graphs).all()
        assert (graph.by_target.pointer[n:] == e).all()
        assert (graph.source_pointer[n:] == e).all()
        assert (graph.in_degree[n:] == 0).all()
        assert torch.equal(graph.target_to_source.sort().values, torch.arange(shape.edges, dtype=torch.int32))
        pointer = graph.parts.node_pointer
        assert torch.equal(pointer.diff(), graph.batch.bincount(minlength=shape.graphs + 1))
        if shape.edges > e:  # padding edges join padding nodes only
            assert graph.edge_index[:, e:].min() >= n
            assert graph.edge_index[:, e:].max() < shape.nodes


@pytest.mark.parametrize("own", [True, False], ids=["of the store", "of the call"])
def test_weights_follow_their_edges_and_nodes(own):
    store, indices = make_store(), torch.tensor([[3, 0, 8], [5, NONE, 1]])
    weights = Weights(torch.randn(GRAPHS.num_edges, 3), torch.randn(GRAPHS.num_nodes, 3))
    labelled = GRAPHS.with_values(nodes={"w": weights.self}, edges={"w": weights.edge})
    sort = GRAPHS.graph.by_target.order.long()
    weights = Weights(weights.edge[sort], weights.self)
    if own:
        store.weights = weights
    batches = (store if own else store.replaced(weights)).gather(indices, store.smallest_shape(indices))
    for batch, row in zip(batches, indices, strict=True):
        part = labelled.select(row[row != NONE])
        order = part.graph.by_target.order.long()
        assert torch.equal(batch.weights.self[: part.num_nodes], part.nodes["w"])
        assert torch.equal(batch.weights.edge[: part.num_edges], part.edges["w"][order])


def test_one_batch_needs_no_padding_and_several_do():
    store = make_store()
    assert store.smallest_shape(torch.tensor([[0, 3, NONE]])) == BatchShape(3, 14, 42, padded=False)
    assert store.smallest_shape(torch.tensor([[0, 3], [5, 1]])) == BatchShape(2, 15, 42, padded=True)


def test_the_typical_shape_holds_almost_any_draw():
    draw = torch.Generator().manual_seed(0)
    packed = PackedGraphs.pack((torch.empty(2, 0, dtype=torch.long), n) for n in range(200))
    store = DeviceDataset(packed, {}, "cpu")
    indices = torch.stack([torch.randperm(200, generator=draw)[:50] for _ in range(500)])
    shape, need = store.typical_shape(50, torch.arange(200)), store.smallest_shape(indices)
    assert need.nodes < shape.nodes < 1.5 * need.nodes
    assert shape.nodes % 64 == 0


def test_reading_a_batch_copies_nothing():
    arrays = {
        "a": torch.arange(6).view(2, 3),
        "b": torch.rand(2, 3),
        "c": torch.rand(2, 0),
        "d": torch.arange(4).view(2, 2),
    }
    batches = StaticBatches.of(arrays, BatchShape(1, 1, 1))
    for index, row in enumerate(batches.buffer):
        for name, array in arrays.items():
            assert torch.equal(batches.slots[name].view(row), array[index])
    batches.slots["d"].view(batches.buffer[1])[0] = 77
    assert batches.buffer[1, batches.slots["d"].start] == 77


NETWORKS = {
    "simple": {},
    "complex, scalers": {"message": "complex", "scalers": ["identity", "amplification", "attenuation"], "delta": 1.2},
    "edge table": {"message": "complex", "edge_encoder": lambda: CategoryEncoder((4,), 5), "edge_dim": 5},
    "edge table, node reference": {
        "message": "complex", "edge_encoder": lambda: CategoryEncoder((4,), 5), "edge_dim": 5, "dx_reference": "node"
    },
    "towers": {"message": "complex", "towers": 4},
    "virtual node": {"virtual_node": True},
    "feed forward": {"ffn_expansion": 2, "message": "complex"},
    "num_eigenvector_features": {"num_eigenvector_features": 2, "size_norm": False},
    **{readout: {"readout": readout} for readout in ("sum", "max", "directional", "nodes")},
}  # fmt: skip
AGGREGATORS = ["mean", "sum", "max", "min", "std", "av1", "dx1", "dx2-signed"]


def network(options, dtype):
    torch.manual_seed(3)
    made = {name: value() if name == "edge_encoder" else value for name, value in options.items()}
    made |= {"out_channels": 2, "num_layers": 3, "aggregators": AGGREGATORS}
    return make_dgn(CategoryEncoder((7, 7), 8), 8, **made).to(dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("options", NETWORKS.values(), ids=NETWORKS)
def test_padding_does_not_change_predictions_and_gradients(options, dtype):
    """Outputs, gradients and statistics of batch norm are those of PyG's batch."""
    if options.get("backend") == "cpu":
        pytest.importorskip("numba")
    indices = torch.tensor([[3, 1, NONE, 0, 5], [7, 4, 9, NONE, 6]])
    store = make_store()
    padded, alone = network(options, dtype), network(options, dtype)
    field = GRAPHS.edges["edge_field"][GRAPHS.graph.by_target.order.long()]
    weights = padded.plan.compute_weights(field, store.graph)
    batches = store.replaced(weights).gather(indices, BatchShape(5, 60, 150))
    for batch, row in zip(batches, indices, strict=True):
        inputs = batch._replace(
            weights=Weights(*(part.to(dtype) for part in batch.weights)),
            nodes={"x": batch.nodes["x"], "node_potential": batch.nodes["node_potential"].to(dtype)},
            edges={"edge_attr": batch.edges["bond"]},
        )
        out = predict(padded, inputs)
        real = batch.node_mask if options.get("readout") == "nodes" else batch.graph_mask
        expected = alone_on(alone, by_pyg(GRAPHS, row), dtype)
        close(out[real[:, 0] > 0], expected, dtype)
        (out * real).square().sum().backward()
        expected.square().sum().backward()
    for (name, actual), (_, expected) in zip(padded.named_parameters(), alone.named_parameters(), strict=True):
        close(actual.grad, expected.grad, dtype, name)
    for (name, actual), (_, expected) in zip(padded.named_buffers(), alone.named_buffers(), strict=True):
        close(actual, expected, dtype, name)


def alone_on(net, batch, dtype):
    """Predictions for a PyG batch, with the weights of its field in single precision as in a device dataset."""
    graph = as_graph(batch)
    weights = Weights(*(part.to(dtype) for part in net.plan.compute_weights(batch.edge_field, graph)))
    return net(batch.x, graph, edge_attr=batch.bond, node_potential=batch.node_potential.to(dtype), weights=weights)


def close(actual, expected, dtype, name=""):
    if not actual.is_floating_point():
        assert torch.equal(actual, expected), name
        return
    tolerance = 1e-4 if dtype == torch.float32 else 1e-10
    size = max(1.0, float(expected.detach().abs().max()) if expected.numel() else 1.0)
    torch.testing.assert_close(
        actual, expected, rtol=tolerance, atol=tolerance * size, msg=lambda text: f"{name}: {text}"
    )


def test_a_batch_without_padding_has_the_predictions_of_pygs():
    net, store = network({}, torch.float32).eval(), make_store()
    indices = torch.tensor([[3, 0, 5, 7]])
    weights = net.plan.compute_weights(GRAPHS.edges["edge_field"][GRAPHS.graph.by_target.order.long()], store.graph)
    (batch,) = store.replaced(weights).gather(indices, store.smallest_shape(indices))
    assert not batch.padded
    close(predict(net, batch)[:-1], alone_on(net, by_pyg(GRAPHS, indices[0]), torch.float32), torch.float32)


def test_gradients_of_empty_slots_are_finite():
    net, store = network({}, torch.float32), make_store()
    indices = torch.tensor([[NONE, 3], [2, 5]])
    weights = net.plan.compute_weights(GRAPHS.edges["edge_field"][GRAPHS.graph.by_target.order.long()], store.graph)
    for batch in store.replaced(weights).gather(indices, store.smallest_shape(indices)):
        (predict(net, batch) * batch.graph_mask).sum().backward()
    assert all(torch.isfinite(parameter.grad).all() for parameter in net.parameters())
    assert all(torch.isfinite(value).all() for value in net.buffers())


def test_continuous_features_are_read_in_single_precision():
    store, indices = make_store(), torch.tensor([[0, 5]])
    net = DGN(
        nn.Linear(2, 4),
        NetworkSettings(hidden=4, aggregators=["mean"], message="complex", edge_dim=3),
        edge_encoder=nn.Linear(2, 3),
    )
    (batch,) = store.gather(indices, store.smallest_shape(indices))
    out = predict(
        net, batch._replace(nodes={"x": batch.nodes["node_potential"]}, edges={"edge_attr": batch.edges["length"]})
    )
    expected = by_pyg(GRAPHS, indices[0])
    alone = net(expected.node_potential, expected.edge_index, edge_attr=expected.length.float(), batch=expected.batch)
    close(out[:-1], alone, torch.float32)


def test_cached_parts_of_a_batch_are_not_recomputed(monkeypatch):
    """Whatever a loader fills in is read by the graph under the same field: a part that is recomputed fails."""
    packed = PackedGraphs.pack([(torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), 3), (torch.tensor([[0, 1], [1, 0]]), 2)])
    dataset = DeviceDataset(packed, {}, "cpu")
    monkeypatch.setattr("dgn.graph.graph.group_edges", lambda *_: pytest.fail("edges were sorted again"))
    monkeypatch.setattr("dgn.graph.graph.invert", lambda *_: pytest.fail("the transpose was computed again"))
    indices = torch.tensor([[0, 1]])
    (batch,) = dataset.gather(indices, dataset.smallest_shape(indices)._replace(padded=True))
    graph, parts = batch.graph, batch.graph.parts
    assert graph.by_target is parts.by_target
    assert graph.target_to_source is parts.target_to_source
    assert graph.source_pointer is parts.source_pointer
    assert graph.graph_size(torch.float32) is parts.graph_size[torch.float32]
    assert graph.graph_norm(torch.float32) is parts.graph_norm[torch.float32]
    assert graph.num_graphs == 3
