"""A plan in two: together they give the weights of the whole."""

import pytest
import torch

import dgn
from dgn.aggregation import make_plan
from dgn.aggregation.split import split_plan
from dgn.testing import random_graph

GRAPH = dgn.as_graph(*random_graph(8, 0.5, torch.Generator().manual_seed(0)))
FIELD = torch.randn(GRAPH.num_edges, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
GAP = torch.rand(GRAPH.num_nodes, 4, generator=torch.Generator().manual_seed(2), dtype=torch.float64)


@pytest.mark.parametrize(
    ("names", "learned"),
    [
        (["mean", "dx1", "dx2"], 1),
        (["dx2", "max", "av1", "dx1", "av2-center", "dx2-signed"], 1),
        (["dx3", "av1", "av2", "fwd3"], 2),
        (["dx1", "av1"], 1),
        (["dx1", "mean"], 0),
        (["dx4", "dx1-group2", "av3"], 2),
        (["dx3", "fwd1+2", "dx1-2"], 1),
    ],
    ids=str,
)
def test_both_parts_make_the_whole(names, learned):
    plan = make_plan(names)
    split, first = split_plan(plan, learned), plan.num_directions - learned
    given = split.given.compute_weights(FIELD[:, :first], GRAPH, GAP[:, :first])
    whole = plan.compute_weights(FIELD, GRAPH, GAP)
    joined = split.join(given, split.learned.compute_weights(FIELD[:, first : plan.num_directions], GRAPH))
    torch.testing.assert_close(joined, whole)
    assert split.given.num_directions <= first


@pytest.mark.parametrize(
    ("names", "learned", "message"),
    [
        (
            ["mean", "dx1"],
            2,
            "expected the number of last directions, each named by an aggregator, got 2 for mean, dx1",
        ),
        (["mean"], 1, "got 1 for mean"),
        (["dx1", "dx3"], 2, "got 2 for dx1, dx3"),
        (["dx1-group2"], 1, "expected groups of the 1 given directions alone, got 1 for dx1-group2"),
        (["dx2", "fwd1+2"], 1, "expected sums of the 1 given directions alone, got 1 for dx2, fwd1.2"),
    ],
    ids=str,
)
def test_what_cannot_be_learned_is_refused(names, learned, message):
    with pytest.raises(ValueError, match=f"learned_directions: .*{message}"):
        split_plan(make_plan(names), learned)
