"""Theorem 2.5: one directional layer distinguishes graphs that 1-WL, and mean, sum and max with degree scalers, cannot.

The pair is decalin, two hexagons that share an edge, and bicyclopentyl, two pentagons joined by a bond.
"""

import pytest
import torch

import dgn
from dgn.testing import same_to_weisfeiler_leman


def bonds(*pairs):
    one_way = torch.tensor(pairs).T
    return torch.cat([one_way, one_way.flip(0)], dim=1), int(one_way.max()) + 1


def ring(*nodes):
    return list(zip(nodes, [*nodes[1:], nodes[0]], strict=True))


DECALIN = bonds(*ring(*range(10)), (0, 5))
BICYCLOPENTYL = bonds(*ring(*range(5)), *ring(*range(5, 10)), (0, 5))
both_dtypes = pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["float64", "float32"])


def degree(edge_index, num_nodes, dtype=torch.float64):
    return edge_index[1].bincount(minlength=num_nodes).to(dtype)


def scaled(columns, edge_index, num_nodes):
    """Identity, amplification and attenuation of every column: the degree scalers of the paper."""
    scale = (degree(edge_index, num_nodes, columns.dtype) + 1).log()[:, None]
    return torch.cat([columns, columns * scale, columns / scale], dim=1)


def undirected_layer(x, edge_index, num_nodes):
    messages, target = x[edge_index[0]], edge_index[1]
    empty = torch.zeros(num_nodes, dtype=x.dtype)
    columns = [empty.scatter_reduce(0, target, messages, how, include_self=False) for how in ("mean", "sum", "amax")]
    return scaled(torch.stack([x, *columns], dim=1), edge_index, num_nodes)


def directional_columns(x, edge_index, num_nodes):
    potential = dgn.directions(edge_index, num_nodes, k=1).potential
    field = dgn.gradient(potential.to(x.dtype), edge_index)
    return {
        "av": dgn.smoothing(field, edge_index, num_nodes)(x)[:, 0],
        "dx": dgn.derivative(field, edge_index, num_nodes)(x)[:, 0].abs(),
    }


def multiset(rows):
    """The rows in an order of their own, so that two multisets can be compared."""
    return torch.tensor(sorted(rows.double().round(decimals=4).tolist()))


def test_1_wl_cannot_distinguish_them():
    assert same_to_weisfeiler_leman(DECALIN, BICYCLOPENTYL)
    assert same_to_weisfeiler_leman(DECALIN, BICYCLOPENTYL, degree(*DECALIN), degree(*BICYCLOPENTYL))


@both_dtypes
def test_mean_sum_and_max_with_degree_scalers_cannot_distinguish_them(dtype):
    first, second = (undirected_layer(degree(*graph, dtype), *graph) for graph in (DECALIN, BICYCLOPENTYL))
    torch.testing.assert_close(multiset(first), multiset(second))


@pytest.mark.parametrize("graph", [DECALIN, BICYCLOPENTYL], ids=["decalin", "bicyclopentyl"])
def test_their_first_direction_is_unique(graph):
    assert not dgn.directions(*graph, k=1).repeated().any()


@both_dtypes
@pytest.mark.parametrize("operator", ["av", "dx"])
def test_one_directional_operator_distinguishes_them(operator, dtype):
    first, second = (
        directional_columns(degree(*graph, dtype), *graph)[operator].sort().values for graph in (DECALIN, BICYCLOPENTYL)
    )
    assert (first - second).abs().max() > 0.05


@both_dtypes
@pytest.mark.parametrize("operator", ["av", "dx"])
def test_so_does_a_layer_of_mean_and_one_directional_operator(operator, dtype):
    def pooled(graph):
        x = degree(*graph, dtype)
        mean = undirected_layer(x, *graph)[:, 1]
        columns = torch.stack([mean, directional_columns(x, *graph)[operator]], dim=1)
        return scaled(columns, *graph).sum(dim=0)

    assert (pooled(DECALIN) - pooled(BICYCLOPENTYL)).abs().max() > 0.05
