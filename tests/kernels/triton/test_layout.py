"""Edges sorted by kernels, against two sorts of PyTorch."""

import pytest
import torch

from dgn.graph import as_graph
from tests.interpreter import DEVICE, check_in_interpreter, somewhere

pytest.importorskip("triton", reason="Triton is not installed")

from dgn.kernels.triton.layout import all_below, sort_edges

SIZES = [(1, 3), (9, 60), (40, 60), (700, 900)]


@pytest.mark.gpu
@somewhere
@pytest.mark.parametrize(("nodes", "edges"), SIZES)
def test_kernels_sort_as_two_sorts_do(nodes, edges):
    edge_index = torch.randint(0, max(nodes - 1, 1), (2, edges), generator=torch.Generator().manual_seed(nodes))
    graph, got = as_graph(edge_index, nodes), sort_edges(edge_index.to(DEVICE), nodes)
    expected = {
        "pointer": graph.by_target.pointer,
        "source_pointer": graph.by_source.pointer,
        "order": graph.by_target.order,
        "neighbor": graph.by_target.neighbor,
        "source_order": graph.by_source.order,
        "edge_to_source": graph.by_source.order.argsort().int(),
    }
    for name, value in expected.items():
        actual = getattr(got, name).cpu()
        assert actual.dtype == value.dtype, name
        assert torch.equal(actual, value), name


@pytest.mark.gpu
@somewhere
@pytest.mark.parametrize(("values", "answer"), [([0, 6], True), ([-1, 6], False), ([0, 7], False), ([5] * 9000, True)])
def test_kernels_check_a_range(values, answer):
    assert all_below(torch.tensor(values, device=DEVICE), 7).item() is answer


@pytest.mark.slow
def test_layouts_in_the_interpreter():
    check_in_interpreter(__file__, "kernels", len(SIZES) + 4)
