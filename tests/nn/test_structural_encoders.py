"""Structural numbers as inputs of a network, and edges of few kinds."""

import pytest
import torch
from torch import nn
from torch_geometric.data import Batch, Data

from dgn.encodings import EdgeTypes
from dgn.nn import DGN, CategoryEncoder, EdgeTypeEncoder, GraphEncoder, NetworkSettings, StructuralEncoder
from dgn.testing import complete, cycle, path
from dgn.transforms import AddRandomWalkPE, AddRings
from tests.networks import make_dgn

SEEN = torch.tensor([[0, 1, 0], [0, 1, 0], [1, 0, 2], [1, 0, 0]])


def graphs() -> list[Data]:
    made = []
    for edge_index, num_nodes in (cycle(5), path(3), complete(4)):
        bond = torch.arange(edge_index.size(1)) % 2
        data = Data(x=torch.arange(num_nodes) % 3, edge_index=edge_index, edge_attr=bond, num_nodes=num_nodes)
        made.append(AddRings([3, 5])(AddRandomWalkPE(4)(data)))
    return made


def network() -> DGN:
    torch.manual_seed(0)
    kinds = EdgeTypes.find(torch.tensor([[0, 0, 1], [1, 0, 1], [0, 2, 0], [1, 2, 0], [0, 0, 0], [1, 0, 0]]), (2,))
    return make_dgn(
        CategoryEncoder((3,), 8), 8, num_layers=2, aggregators=("mean", "max"), message="complex", edge_dim=4,
        edge_encoder=EdgeTypeEncoder(kinds, 4),
        structural_encoder=StructuralEncoder(torch.ones(6), torch.zeros(6), 8),
    )  # fmt: skip


def test_numbers_are_scaled_and_mapped() -> None:
    encoder = StructuralEncoder(torch.tensor([2.0, 1.0]), torch.tensor([-1.0, 0.0]), 3)
    torch.testing.assert_close(
        encoder(torch.tensor([[1.0, 5.0]])), torch.tensor([[1.0, 5.0]]) @ encoder.linear.weight.T
    )
    assert {name for name, _ in encoder.named_parameters()} == {"linear.weight"}


def test_a_kind_is_the_sum_of_what_it_is_made_of() -> None:
    encoder = EdgeTypeEncoder(EdgeTypes.find(SEEN, (2,)), 5)
    category, rings = encoder.weight.split([2, 2])
    expected = torch.stack([category[0] + rings[0], category[1], category[1] + 2 * rings[1]])
    torch.testing.assert_close(encoder(torch.arange(3)), expected)
    table, row, *_ = encoder.as_table(torch.tensor([2, 0]))
    torch.testing.assert_close(table, expected)
    assert row.tolist() == [2, 0]
    assert "3 edge types, (2,) and 2 rings" in repr(encoder)


def test_kinds_are_kept_with_the_weights() -> None:
    encoder = EdgeTypeEncoder(EdgeTypes.find(SEEN, (2,)), 5)
    other = EdgeTypeEncoder(EdgeTypes(torch.zeros(3, 3, dtype=torch.long), (2,)), 5)
    other.load_state_dict(encoder.state_dict())
    assert torch.equal(other.edge_types.attributes, encoder.edge_types.attributes)


def test_graphs_of_a_batch_are_as_alone() -> None:
    net = network().eval()
    together = net(Batch.from_data_list(graphs()))
    torch.testing.assert_close(together, torch.cat([net(each) for each in graphs()]))


def test_kinds_and_numbers_made_before_give_the_same() -> None:
    net = network().eval()
    for data in graphs():
        attributes = torch.cat([data.edge_attr[:, None], data.edge_rings.long()], dim=1)
        assert isinstance(net.edge_encoder, EdgeTypeEncoder)
        made = {
            "edge_attr": net.edge_encoder.edge_types.assign(attributes),
            "structure": torch.cat([data.random_walk, data.rings], dim=1),
        }
        torch.testing.assert_close(net(data.x, data.edge_index, **made), net(data))
        torch.testing.assert_close(net(Data(x=data.x, edge_index=data.edge_index, **made)), net(data))


def test_everything_is_learnt() -> None:
    net = network()
    net(Batch.from_data_list(graphs())).square().sum().backward()
    for encoder in (net.structure, net.edge_encoder):
        assert isinstance(encoder, nn.Module)
        assert all(bool((parameter.grad != 0).any()) for parameter in encoder.parameters())
    before = [parameter.clone() for parameter in net.structure.parameters()] if net.structure else []
    net.reset_parameters()
    assert net.structure is not None
    assert not torch.equal(before[0], next(net.structure.parameters()))


def test_missing_numbers_are_named() -> None:
    data = graphs()[0]
    with pytest.raises(ValueError, match="structure: expected 6 numbers of each node, got none"):
        network()(data.x, data.edge_index, edge_attr=torch.zeros(10, dtype=torch.long))
    with pytest.raises(ValueError, match=r"structure: expected 6 numbers of each node, got shape \[5, 4\]"):
        network()(data.x, data.edge_index, edge_attr=torch.zeros(10, dtype=torch.long), structure=data.random_walk)


def test_a_graph_without_edges_has_no_kinds() -> None:
    kinds = EdgeTypes.find(SEEN, (2, 2))
    net = DGN(
        3,
        NetworkSettings(hidden=8, edge_dim=4, message="complex", aggregators=["mean"]),
        edge_encoder=EdgeTypeEncoder(kinds, 4),
    )
    nothing = {"edge_index": torch.zeros(2, 0).long(), "edge_attr": torch.zeros(0, 2).long()}
    assert net.eval()(Data(x=torch.randn(1, 3), edge_rings=torch.zeros(0, 1).long(), **nothing)).shape == (1, 1)


def test_features_of_graphs_are_standardized_clipped_and_may_be_missing() -> None:
    encoder = GraphEncoder(torch.tensor([2.0, 1.0]), torch.tensor([-1.0, 0.0]), 3, dropout=0.5).eval()
    values = torch.tensor([[1.0, 3.0], [1e30, -1e30], [torch.nan, 3.0]])
    read = torch.tensor([[1.0, 3.0], [5.0, -5.0], [0.0, 3.0]])
    torch.testing.assert_close(encoder(values), encoder.linear(read).relu())
    with pytest.raises(ValueError, match=r"graph_attr: expected 2 numbers of each graph, got none"):
        encoder(None)
    with pytest.raises(ValueError, match=r"graph_attr: expected 2 numbers of each graph, got shape \[3, 1\]"):
        encoder(values[:, :1])


def test_the_head_reads_features_of_graphs() -> None:
    torch.manual_seed(0)
    encoder = GraphEncoder(torch.ones(2), torch.zeros(2), 4)
    net = make_dgn(CategoryEncoder((3,), 8), 8, num_layers=1, aggregators=("mean",), graph_encoder=encoder).eval()
    made = graphs()[:2]
    for index, data in enumerate(made):
        data.graph_attr = torch.tensor([[1.0 + index, -index]])
    together = net(Batch.from_data_list(made))
    torch.testing.assert_close(together, torch.cat([net(data) for data in made]))
    other = made[0].clone()
    other.graph_attr = other.graph_attr + 1
    assert not torch.equal(net(other), net(made[0]))
    assert torch.equal(net(other, returns="embedding"), net(made[0], returns="embedding"))
    with pytest.raises(ValueError, match="graph_encoder: expected none for predictions of nodes"):
        make_dgn(CategoryEncoder((3,), 8), 8, aggregators=("mean",), readout="nodes", graph_encoder=encoder)
