"""Values of nodes on the edges between them, and their gradients."""

import torch

import dgn
from dgn.aggregation import Messages
from dgn.data import PackedGraphs
from dgn.data.loader.device_dataset import Store
from dgn.data.loader.static_batch import Room
from dgn.nn.fused.edge_gather import build_messages, by_segments, to_edges

EDGES = torch.tensor([[3, 0, 2, 2, 1, 2], [0, 2, 0, 0, 1, 3]])  # unsorted, with a loop and a parallel edge


def random(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_both_ways_give_what_each_edge_says_and_the_same_gradients():
    graph, a, b = dgn.as_graph(EDGES, 5), random(5, 3).requires_grad_(), random(5, 3, seed=1).requires_grad_()
    expected = torch.stack([a[j] + b[i] for j, i in EDGES.T.tolist()])
    for function in (to_edges, by_segments):
        assert torch.equal(function(a, b, graph), expected)
        assert torch.equal(function(a, None, graph), a[EDGES[0]])
        assert torch.autograd.gradcheck(lambda a, b, function=function: function(a, b, graph), (a, b))
        assert torch.autograd.gradcheck(lambda a, function=function: function(a, None, graph), (a,))
        assert torch.autograd.gradgradcheck(lambda a, b, function=function: function(a, b, graph), (a, b))


def test_padding_gives_no_gradient():
    packed = PackedGraphs.pack([(EDGES, 4), (EDGES[:, :2], 4)])
    (batch,) = Store(packed, {}, "cpu").gather(torch.tensor([[1, 0]]), Room(2, 12, 20))
    a, b = random(12, 3).requires_grad_(), random(12, 3, seed=1).requires_grad_()
    weight = random(20, 3, seed=2)
    weight[8:] = 0  # what a layer says of padding
    both = [torch.autograd.grad((weight * f(a, b, batch.graph)).sum(), (a, b)) for f in (to_edges, by_segments)]
    torch.testing.assert_close(*both)
    assert not both[1][0][8:].any()


def test_messages_are_built_in_the_order_of_edge_index():
    graph, kinds = dgn.as_graph(EDGES, 5), torch.tensor([1, 0, 1, 1, 0, 0])
    a, b, table = random(5, 3), random(5, 3, seed=1), random(2, 3, seed=2)
    by_kind = Messages(a, b, table, kinds[graph.by_target.order])
    expected = a[EDGES[0]] + b[EDGES[1]] + table[kinds]
    torch.testing.assert_close(build_messages(by_kind, graph), expected)
    torch.testing.assert_close(build_messages(Messages(a, b, table[kinds]), graph), expected)
    torch.testing.assert_close(build_messages(Messages(table=table[kinds]), graph), table[kinds])
