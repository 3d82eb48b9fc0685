"""Degree scalers and their delta."""

import math

import pytest
import torch
from torch_geometric.data import Batch, Data

import dgn
from dgn.aggregation import SCALERS, degree_scalers
from dgn.testing import complete, path, star

DEGREE = torch.tensor([0, 1, 2, 5, 100_000])


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize(("scaler", "power"), list(zip(SCALERS, (0, 1, -1), strict=True)))
def test_formula_of_the_paper(scaler, power, dtype):
    got = degree_scalers(DEGREE, [scaler], 1.3, dtype)
    expected = [(math.log(d + 1) / 1.3) ** power for d in DEGREE.tolist()[1:]]
    assert (got.dtype, got.shape) == (dtype, (5, 1))
    torch.testing.assert_close(got[1:, 0], torch.tensor(expected, dtype=dtype))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_every_scaler_is_finite_at_degree_0(dtype):
    got = degree_scalers(DEGREE[:1], SCALERS, 0.7, dtype)
    assert got.tolist() == [[1.0, 0.0, 1.0]]


def test_one_column_per_scaler_in_order():
    order = ["attenuation", "identity", "amplification"]
    both = degree_scalers(DEGREE, order, 1.0, torch.float64)
    for column, scaler in enumerate(order):
        assert torch.equal(both[:, column], degree_scalers(DEGREE, [scaler], 1.0, torch.float64)[:, 0])


def test_an_unknown_scaler_is_refused():
    with pytest.raises(ValueError, match=r"scaler.*did you mean 'attenuation'"):
        degree_scalers(DEGREE, ["atenuation"], 1.0, torch.float32)


def data(graph):
    return Data(edge_index=graph[0], num_nodes=graph[1])


def test_delta_is_the_mean_over_all_nodes_not_over_graphs():
    dataset = [data(star(3)), data(path(1)), data(complete(6))]
    degrees = [3, 1, 1, 1, 0] + 6 * [5]
    expected = sum(math.log(d + 1) for d in degrees) / len(degrees)
    assert dgn.average_log_degree(dataset) == pytest.approx(expected)
    assert dgn.average_log_degree([Batch.from_data_list(dataset)]) == pytest.approx(expected)
    assert dgn.average_log_degree(iter(dataset)) == pytest.approx(expected)


def test_delta_counts_in_edges():
    assert dgn.average_log_degree([Data(edge_index=torch.tensor([[0, 1], [2, 2]]), num_nodes=3)]) == pytest.approx(
        math.log(3) / 3
    )


@pytest.mark.parametrize("dataset", [[], [data(path(0))]], ids=["no graph", "no node"])
def test_delta_of_nothing_is_refused(dataset):
    with pytest.raises(ValueError, match="expected at least one node, got none; pass the training graphs"):
        dgn.average_log_degree(dataset)


def test_packed_graphs_are_many_graphs():
    packed = dgn.data.PackedGraphs.pack([path(3)] * 50)
    one = dgn.average_log_degree([Data(edge_index=path(3)[0], num_nodes=3)])
    assert dgn.average_log_degree(packed) == pytest.approx(one)
