"""Plans: frozen, cached, with one column of weights for all outputs that share it."""

from dataclasses import FrozenInstanceError

import pytest
import torch

import dgn
from dgn.aggregation import make_plan
from dgn.aggregation.plan import Code
from dgn.testing import path, star

GRAPH = dgn.as_graph(*star(3))
ONE_GRAPH = torch.zeros(4, dtype=torch.long)


def field(columns=2):
    return torch.randn(GRAPH.num_edges, columns, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def test_the_same_names_give_the_same_object():
    assert make_plan(["mean", "dx1"]) is make_plan(("mean", "dx1"))
    assert make_plan(["mean", "dx1"]) != make_plan(["dx1", "mean"])


def test_a_plan_cannot_be_changed():
    with pytest.raises(FrozenInstanceError):
        make_plan(["mean"]).codes = ()
    assert hash(make_plan(["mean"])) == hash(make_plan(["mean"]))


def test_each_name_becomes_its_code():
    names = ["sum", "mean", "max", "min", "var", "std", "dx1-signed", "dx1"]
    assert make_plan(names).codes == tuple(Code)
    assert len(make_plan(names)) == 8


def test_the_absolute_value_shares_the_weights():
    plan = make_plan(["dx1", "mean", "dx1-signed", "av1", "dx2"])
    assert len(plan.weights) == 3
    assert plan.columns == (0, 0, 0, 1, 2)
    edge, node = plan.compute_weights(field(), GRAPH)
    assert (edge.shape, node.shape) == ((6, 3), (4, 3))


def test_a_derivative_along_a_group_has_a_sum_for_each_direction():
    plan = make_plan(["mean", "dx1-group3", "av1", "av1-group3", "dx1"])
    assert plan.codes == (Code.MEAN, *[Code.SIGNED] * 5, Code.ABSOLUTE)
    assert plan.columns == (0, 0, 1, 2, 3, 4, 5)
    assert (len(plan), plan.num_columns, plan.spans, plan.num_directions) == (5, 6, (1, 3, 1, 1, 1), 3)
    assert (plan.has_groups, plan.needs_gap) == (True, True)
    plan = make_plan(["mean", "av1-group3"])
    assert (plan.has_groups, plan.needs_gap) == (False, True)


def test_norms_of_half_precision_do_not_overflow():
    sums = torch.full((2, 3, 4), 300.0, dtype=torch.float16)  # the largest number is 65504, below 300 squared
    assert make_plan(["dx1-group3"]).join(sums).tolist() == [[[519.5] * 4]] * 2


@pytest.mark.parametrize("gap", [None, torch.zeros(4, 2), torch.zeros(6, 3), torch.zeros(3)])
def test_a_group_needs_the_gaps_of_its_directions(gap):
    with pytest.raises(ValueError, match=r"gap: expected shape \[4, K\].*AddDirections adds them"):
        make_plan(["dx1-group3"]).compute_weights(field(3), GRAPH, gap)


@pytest.mark.parametrize(
    ("names", "directions", "has_self"),
    [(["mean"], 0, False), (["av2"], 2, False), (["mean", "dx1", "av7"], 7, True), (["fwd3-hard"], 3, False)],
)
def test_needs_of_a_plan(names, directions, has_self):
    plan = make_plan(names)
    assert (plan.num_directions, plan.has_self) == (directions, has_self)


@pytest.mark.parametrize(
    ("name", "operator", "options"),
    [
        ("av2", dgn.smoothing, {}),
        ("dx2-signed", dgn.derivative, {}),
        ("av2-center", dgn.smoothing, {"balance": "center"}),
        ("dx2-center", dgn.derivative, {"balance": "center"}),
        ("av2-pad", dgn.smoothing, {"padding": "zero"}),
        ("dx2-pad", dgn.derivative, {"padding": "zero"}),
        ("av2-global", dgn.smoothing, {"scope": "graph", "batch": ONE_GRAPH}),
        ("dx2-global", dgn.derivative, {"scope": "graph", "batch": ONE_GRAPH}),
    ],
)
def test_weights_are_those_of_the_operators(name, operator, options):
    weights = make_plan([name]).compute_weights(field(), GRAPH)
    expected = operator(field()[:, 1], GRAPH.edge_index, GRAPH.num_nodes, **options)
    assert torch.equal(weights.edge, expected.edge_weight[GRAPH.by_target.order])
    assert torch.equal(weights.self, expected.self_weight)


def test_one_sided_and_hardened_fields_are_shaped_first():
    plan = make_plan(["fwd1", "bwd1", "av1-hard", "dx1-soft2"])
    shaped = [
        dgn.smoothing(dgn.forward_field(field()[:, 0]), GRAPH),
        dgn.smoothing(dgn.backward_field(field()[:, 0]), GRAPH),
        dgn.smoothing(dgn.harden(field()[:, 0], GRAPH), GRAPH),
        dgn.derivative(dgn.harden(field()[:, 0], GRAPH, temperature=2.0), GRAPH),
    ]
    weights = plan.compute_weights(field(), GRAPH)
    expected = torch.cat([operator.edge_weight for operator in shaped], dim=1)
    assert torch.equal(weights.edge, expected[GRAPH.by_target.order])
    assert torch.equal(weights.self, torch.cat([operator.self_weight for operator in shaped], dim=1))


def test_both_sides_of_a_field_are_hardened_separately():
    plan = make_plan(["av1-split", "dx1-hard-split", "dx1-split-soft2", "av1-global-split"])
    hard, soft = (dgn.harden(field()[:, 0], GRAPH, temperature=t, split=True) for t in (None, 2.0))
    shaped = [
        dgn.smoothing(hard, GRAPH),
        dgn.derivative(hard, GRAPH),
        dgn.derivative(soft, GRAPH),
        dgn.smoothing(hard, GRAPH.edge_index, 4, scope="graph", batch=ONE_GRAPH),
    ]
    weights = plan.compute_weights(field(), GRAPH)
    expected = torch.cat([operator.edge_weight for operator in shaped], dim=1)
    assert torch.equal(weights.edge, expected[GRAPH.by_target.order])
    assert torch.equal(weights.self, torch.cat([operator.self_weight for operator in shaped], dim=1))


def test_the_norm_is_that_of_each_graph():
    two = dgn.as_graph(torch.cat([GRAPH.edge_index, GRAPH.edge_index + 4], dim=1), 8, torch.arange(8) // 4)
    fields = torch.cat([field(), 5 * field()])
    weights = make_plan(["av1-global", "dx2-global"]).compute_weights(fields, two)
    alone = make_plan(["av1-global", "dx2-global"]).compute_weights(field(), GRAPH)
    torch.testing.assert_close(weights.edge, torch.cat([alone.edge, alone.edge]))
    torch.testing.assert_close(weights.self, torch.cat([alone.self, alone.self]))
    torch.testing.assert_close(alone.edge[:, :1].abs().sum(), torch.tensor(1.0).double())


def test_two_directions_are_added_before_anything_else():
    first, second = field()[:, :1], field()[:, 1:2]
    both = torch.cat([first + second, first - second], dim=1)
    names, alone = ["fwd1+2", "dx1-2", "bwd1-2-hard"], ["fwd1", "dx2", "bwd2-hard"]
    weights, expected = make_plan(names).compute_weights(field(), GRAPH), make_plan(alone).compute_weights(both, GRAPH)
    assert torch.equal(weights.edge, expected.edge)
    assert torch.equal(weights.self, expected.self)
    assert make_plan(names).num_directions == 2


def test_without_directions_no_field_is_needed():
    edge, node = make_plan(["mean", "max"]).compute_weights(None, GRAPH)
    assert (edge.shape, node.shape) == ((6, 0), (4, 0))


@pytest.mark.parametrize("names", [[], "mean", (), ""])
def test_no_list_of_names_is_refused(names):
    with pytest.raises(ValueError, match="aggregators: expected a list of one or more names"):
        make_plan(names)


@pytest.mark.parametrize("names", [["mean", "mean"], ["av1", "dir1-av"], ["av1-soft1", "av1-soft1.0"]])
def test_repeated_names_are_refused(names):
    with pytest.raises(ValueError, match="expected each one once"):
        make_plan(names)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (None, r"field: expected shape \[6, K\].*got None; dgn.transforms.AddDirections adds one"),
        (torch.ones(5, 2), r"field: expected shape \[6, K\].*got shape \[5, 2\]"),
        (torch.ones(6), r"got shape \[6\]"),
        (
            torch.ones(6, 1),
            "at least 2 columns for aggregators mean, dx2, got 1; pass k=2 to AddDirections or dgn.directions",
        ),
    ],
)
def test_a_field_that_does_not_fit_is_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        make_plan(["mean", "dx2"]).compute_weights(wrong, GRAPH)


def test_weights_of_an_empty_graph():
    edge, node = make_plan(["av1", "dx1"]).compute_weights(torch.zeros(0, 1), dgn.as_graph(*path(0)))
    assert (edge.shape, node.shape) == ((0, 2), (0, 2))
