"""The choice of a route, as a table, and what it is decided by."""

import pytest
import torch
from torch import nn

import dgn
from dgn.nn.fused.select import MOST_EDGE_TYPES, WIDEST, LayerTraits, Route, choose_route, kernels_apply, layer_route
from dgn.nn.norm import BatchNorm

USUAL = LayerTraits(kernels_apply=True, width=64, edge_types=4)
TABLE = [  # what differs from the usual layer in training on a GPU: route
    ({}, Route.LAYER),
    ({"backend": "triton"}, Route.LAYER),
    ({"width": WIDEST}, Route.LAYER),
    ({"edge_types": MOST_EDGE_TYPES}, Route.LAYER),
    ({"width": WIDEST + 1}, Route.EPILOGUE),
    ({"edge_types": MOST_EDGE_TYPES + 1}, Route.EPILOGUE),
    ({"backend": "reference"}, Route.EPILOGUE),
    ({"linear_messages": False}, Route.EPILOGUE),
    ({"one_pass": False}, Route.EPILOGUE),
    ({"constant_field": False}, Route.EPILOGUE),
    ({"kernels_apply": False}, Route.PLAIN),
    ({"kernels_apply": False, "width": WIDEST + 1}, Route.PLAIN),
]


@pytest.mark.parametrize(("changes", "route"), TABLE)
def test_the_table_of_routes(changes: dict[str, object], route: Route) -> None:
    assert choose_route(USUAL._replace(**changes)) == route


def test_a_layer_on_the_cpu_is_plain() -> None:
    conv = dgn.nn.DGNConv(8, 8, aggregators=["mean", "dx1"], message="complex")
    assert layer_route(torch.zeros(3, 8), conv, BatchNorm(8)) == Route.PLAIN


@pytest.mark.parametrize(
    "norm", [nn.BatchNorm1d(4), BatchNorm(4).eval(), BatchNorm(4, momentum=None), BatchNorm(4, affine=False)]
)
def test_kernels_leave_other_norms_to_pytorch(norm: nn.Module, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dgn.nn.fused.select.runs_on_triton", lambda _: True)
    assert kernels_apply(torch.zeros(2, 4), BatchNorm(4))
    assert not kernels_apply(torch.zeros(2, 4), norm)


def test_what_is_read_from_a_layer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dgn.nn.fused.select.kernels_apply", lambda *_: True)
    x, edge_index = torch.zeros(2, 8), torch.tensor([[0, 1], [1, 0]])
    conv = dgn.nn.DGNConv(8, 8, aggregators=["mean", "dx1"], message="complex")
    field = torch.ones(2, 1, requires_grad=True)
    weights = conv.plan.compute_weights(field, dgn.as_graph(edge_index))
    assert layer_route(x, conv, BatchNorm(8)) == Route.LAYER
    assert layer_route(x, conv, BatchNorm(8), weights) == Route.EPILOGUE  # the field is learned
    with torch.no_grad():
        assert layer_route(x, conv, BatchNorm(8), weights) == Route.LAYER
    assert layer_route(x, dgn.nn.DGNConv(8, 8, message=nn.Linear(16, 8)), BatchNorm(8)) == Route.EPILOGUE
    assert layer_route(x, conv, None) == Route.PLAIN
