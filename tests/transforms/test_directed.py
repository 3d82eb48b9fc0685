"""Fields of directed graphs as a PyG transform, alone and in batches."""

import pytest
import torch
from torch_geometric.data import Batch, Data
from torch_geometric.loader import DataLoader
from torch_geometric.transforms import RandomLinkSplit

pytest.importorskip("numba", reason="Numba is not installed")

import dgn
from dgn.testing import edge_cases
from dgn.transforms import AddDirectedFields

DAG = (torch.tensor([[0, 0, 1, 2, 3, 3, 1], [1, 2, 3, 3, 4, 5, 5]]), 6)
ALL = ["orientation", "potential", "magnetic"]


def data(graph, **attributes):
    return Data(edge_index=graph[0], num_nodes=graph[1], **attributes)


@pytest.mark.parametrize("graph", edge_cases().values(), ids=edge_cases())
def test_columns_are_the_fields_of_the_library_in_the_order_of_their_names(graph):
    oriented = dgn.orientation(*graph)
    got = AddDirectedFields(["magnetic", "orientation", "potential"], k=2, q=0.2)(data(graph))
    assert torch.equal(got.edge_index, oriented.edge_index)
    assert (got.edge_field.shape, got.edge_field.dtype) == ((oriented.edge_index.size(1), 4), torch.float32)
    assert torch.equal(got.edge_field[:, 2], oriented.field)
    potential = dgn.flow_potential(oriented.field, oriented.edge_index, graph[1])
    torch.testing.assert_close(got.node_potential[:, 0], potential.float())
    both = dgn.as_graph(oriented.edge_index, graph[1])
    torch.testing.assert_close(got.edge_field[:, 3], dgn.gradient(potential, both).float())
    directions = dgn.magnetic_directions(*graph, k=2, q=0.2)
    phases = dgn.phase_difference(directions.potential, both, directions.component)
    torch.testing.assert_close(got.edge_field[:, :2], phases.float())


def test_edge_attributes_get_the_reverse_edges_and_nodes_stay():
    attributes = torch.arange(14.0).view(7, 2)
    graph = data(DAG, edge_attr=attributes, edge_weight=torch.arange(7.0), x=torch.ones(6, 3))
    got = AddDirectedFields()(graph)
    assert torch.equal(got.edge_attr, attributes.repeat(2, 1))
    assert torch.equal(got.edge_weight, torch.arange(7.0).repeat(2))
    assert got.x.shape == (6, 3)
    assert graph.edge_index.size(1) == 7  # the input is left alone
    assert "node_potential" not in got


def test_the_label_of_a_graph_of_one_edge_stays():
    got = AddDirectedFields()(Data(edge_index=torch.tensor([[0], [1]]), num_nodes=2, y=torch.tensor([3.5])))
    assert got.y.tolist() == [3.5]


def test_labels_of_a_link_split_stay():
    draw = torch.Generator().manual_seed(0)
    graph = Data(x=torch.ones(30, 3), edge_index=torch.randint(30, (2, 60), generator=draw))
    split = RandomLinkSplit(is_undirected=False, add_negative_train_samples=False)(graph)[0]
    got = AddDirectedFields()(split)
    assert got.edge_index.size(1) > split.edge_index.size(1) == split.edge_label_index.size(1)
    assert torch.equal(got.edge_label_index, split.edge_label_index)
    assert torch.equal(got.edge_label, split.edge_label)


def test_other_attributes_of_edges_follow_along_their_dimension():
    graph = Data(edge_index=torch.tensor([[0, 1, 0], [1, 2, 2]]), num_nodes=3, edge_name=["a", "b", "c"])
    graph.edge_pair_index, graph.current = torch.tensor([[5, 6, 7], [8, 9, 10]]), torch.tensor([1.0, 2.0, 3.0])
    got = AddDirectedFields(flow="current")(graph)
    assert got.edge_name == list("abcabc")
    assert torch.equal(got.edge_pair_index, graph.edge_pair_index.repeat(1, 2))
    assert torch.equal(got.current, graph.current.repeat(2))  # also with as many nodes as edges


def test_a_named_flow_is_taken():
    flow = torch.randn(7, 2, generator=torch.Generator().manual_seed(0))
    got = AddDirectedFields(["orientation", "potential"], flow="edge_current")(data(DAG, edge_current=flow))
    assert torch.equal(got.edge_field[:, :2], torch.cat([-flow, flow]))
    assert got.node_potential.shape == (6, 2)
    assert got.edge_current.shape == (14, 2)
    with pytest.raises(ValueError, match=r"data: expected a flow in 'edge_current', got .*AddDirectedFields\(flow="):
        AddDirectedFields(flow="edge_current")(data(DAG))


def test_batches_are_the_graphs_side_by_side():
    graphs = [data(graph) for graph in (DAG, *edge_cases().values())]
    transform = AddDirectedFields(ALL)
    batch = next(iter(DataLoader([transform(graph) for graph in graphs], batch_size=len(graphs))))
    assert batch.edge_field.shape == (batch.num_edges, 3)
    together = transform(Batch.from_data_list(graphs))
    dense = [
        torch.zeros(batch.num_nodes, batch.num_nodes, 3).index_put(
            (b.edge_index[0], b.edge_index[1]), b.edge_field, accumulate=True
        )
        for b in (batch, together)
    ]
    torch.testing.assert_close(*dense, atol=1e-6, rtol=1e-5)


def test_a_layer_reads_successors_and_predecessors_apart():
    got = AddDirectedFields()(data(DAG, x=torch.randn(6, 3, generator=torch.Generator().manual_seed(0))))
    conv = dgn.nn.DGNConv(3, 4, aggregators=["fwd1", "bwd1"])
    out = conv(got.x, got.edge_index, edge_field=got.edge_field)
    reversed_graph = AddDirectedFields()(data((DAG[0].flip(0), 6), x=got.x))
    assert out.shape == (6, 4)
    assert not torch.allclose(out, conv(got.x, reversed_graph.edge_index, edge_field=reversed_graph.edge_field))


def test_names_are_checked_and_shown():
    with pytest.raises(ValueError, match="did you mean 'magnetic'"):
        AddDirectedFields(["magnetc"])
    with pytest.raises(ValueError, match="fields: expected one or more different names"):
        AddDirectedFields(["orientation", "orientation"])
    assert repr(AddDirectedFields("potential")) == "AddDirectedFields(fields=['potential'], flow=None, k=1, q=0.25)"
