"""Fields drawn into axes: one arrow per pair of nodes, the way the field points."""

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure
from matplotlib.quiver import Quiver

import dgn
from dgn.plot.field_view import draw_field, net_flow
from dgn.testing import grid, path

PLACE = np.array([[0.0, 0.0], [1.0, 0.0], [2.0, 0.0]])


def quiver(figure: Figure) -> Quiver:
    return next(child for child in figure.axes[0].get_children() if isinstance(child, Quiver))


def test_arrows_point_uphill() -> None:
    edges, _ = path(3)
    figure = Figure()
    draw_field(figure.subplots(), edges, PLACE, dgn.gradient(torch.tensor([3.0, 1.0, 2.0]), edges))
    arrows = quiver(figure)
    assert np.sign(arrows.U).tolist() == [-1, 1]
    assert np.allclose(arrows.V, 0)


def test_stronger_flows_are_darker() -> None:
    edges, _ = path(3)
    figure = Figure()
    draw_field(figure.subplots(), edges, PLACE, dgn.gradient(torch.tensor([0.0, 1.0, 4.0]), edges))
    weak, strong = quiver(figure).get_facecolor()[:, 3]
    assert weak < strong == 1


def test_nothing_flows_where_the_field_is_zero() -> None:
    edges, _ = path(3)
    figure = Figure()
    draw_field(figure.subplots(), edges, PLACE, torch.zeros(edges.size(1)))
    assert quiver(figure).U.size == 0


def test_the_flow_of_a_gradient_is_its_positive_part() -> None:
    edges, n = grid(4, 3)
    potential = torch.randn(n, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    pairs, flow = net_flow(edges, dgn.gradient(potential, edges))
    assert torch.allclose(flow, potential[pairs[1]] - potential[pairs[0]])
    assert pairs.size(1) == edges.size(1) // 2


def test_an_edge_listed_once_flows_half() -> None:
    pairs, flow = net_flow(torch.tensor([[1], [0]]), torch.tensor([-2.0]))
    assert (pairs.tolist(), flow.tolist()) == ([[1], [0]], [1.0])


def test_a_field_of_another_graph_is_refused() -> None:
    edges, _ = path(3)
    with pytest.raises(ValueError, match="field: expected"):
        draw_field(Figure().subplots(), edges, PLACE, torch.ones(3))
