"""Products, gradient, divergence, norms and the directional derivative, against matrices."""

import pytest
import torch

import dgn
from dgn.testing import (
    assert_antisymmetric,
    assert_batch_independent,
    assert_linear,
    assert_permutation_equivariant,
    complete,
    cycle,
    disjoint_union,
    edge_cases,
    grid,
    star,
)
from tests.small_graphs import random

DTYPES = [torch.float64, torch.float32]
UNDIRECTED = {"grid": grid(3, 4), "cycle": cycle(5), "complete": complete(4), "star": star(4)}
GRAPHS = {**UNDIRECTED, **edge_cases()}
UNDIRECTED |= {name: graph for name, graph in edge_cases().items() if name != "directed"}
every_graph = pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)
undirected = pytest.mark.parametrize("graph", UNDIRECTED.values(), ids=UNDIRECTED)
both_dtypes = pytest.mark.parametrize("dtype", DTYPES, ids=["float64", "float32"])


def dense(field, edge_index, num_nodes):
    """The paper's matrix F: row i, column j. Parallel edges add up."""
    matrix = torch.zeros(num_nodes, num_nodes, dtype=field.dtype)
    return matrix.index_put((edge_index[1], edge_index[0]), field, accumulate=True)


@both_dtypes
@every_graph
def test_gradient_is_the_difference_along_each_edge(graph, dtype):
    edge_index, num_nodes = graph
    potential = random(num_nodes, 2, dtype=dtype)
    field = dgn.gradient(potential, edge_index)
    expected = [[potential[j, k] - potential[i, k] for k in range(2)] for j, i in edge_index.T.tolist()]
    assert torch.equal(field, torch.tensor(expected, dtype=dtype).view(-1, 2))
    assert torch.equal(dgn.gradient(potential[:, 0], edge_index), field[:, 0])
    assert_antisymmetric(field, edge_index)


@every_graph
def test_gradient_is_linear_and_0_for_a_constant(graph):
    edge_index, num_nodes = graph
    assert_linear(lambda potential: dgn.gradient(potential, edge_index), (num_nodes, 2))
    assert not dgn.gradient(torch.full((num_nodes,), 3.7), edge_index).any()


@both_dtypes
@every_graph
def test_divergence_is_the_row_sum_of_the_matrix(graph, dtype):
    field = random(graph[0].size(1), dtype=dtype)
    torch.testing.assert_close(dgn.divergence(field, *graph), dense(field, *graph).sum(dim=1))
    assert_linear(lambda field: dgn.divergence(field, *graph), (graph[0].size(1), 2), dtype)


@both_dtypes
@undirected
def test_divergence_of_the_gradient_is_minus_the_laplacian(graph, dtype):
    edge_index, num_nodes = graph
    x = random(num_nodes, dtype=dtype)
    laplacian = dgn.laplacian(edge_index, num_nodes).to_dense().to(dtype)
    torch.testing.assert_close(dgn.divergence(dgn.gradient(x, edge_index), edge_index, num_nodes), -laplacian @ x)


@both_dtypes
@undirected
def test_divergence_of_a_weighted_gradient_is_minus_the_weighted_laplacian(graph, dtype):
    edge_index, num_nodes = graph
    potential, pair = random(num_nodes, 2, dtype=dtype), edge_index.sort(dim=0).values.sum(dim=0)
    weight = 0.5 + pair.to(dtype) % 3  # the same in both directions
    divergence = dgn.divergence(dgn.gradient(potential, edge_index, edge_weight=weight), *graph)
    laplacian = dgn.laplacian(*graph, edge_weight=weight.double()).to(dtype)
    torch.testing.assert_close(divergence, -(laplacian @ potential), atol=1e-4, rtol=1e-4)


def test_an_edge_of_weight_3_is_three_parallel_edges():
    edge_index, num_nodes = grid(2, 3)
    weight = torch.arange(edge_index.size(1)) % 4
    potential, x = random(num_nodes, 1), random(num_nodes, 2, seed=1)
    weighted = dgn.gradient(potential, edge_index, edge_weight=weight.double())
    parallel = edge_index.repeat_interleave(weight, dim=1)
    for operator in (dgn.smoothing, dgn.derivative):
        expected = operator(dgn.gradient(potential, parallel), parallel, num_nodes)(x)
        torch.testing.assert_close(operator(weighted, edge_index, num_nodes)(x), expected)


def test_weights_that_do_not_fit_are_refused():
    edge_index, num_nodes = star(2)
    for weight in (torch.ones(3), -torch.ones(4), torch.full((4,), torch.nan)):
        with pytest.raises(ValueError, match="edge_weight: expected"):
            dgn.gradient(torch.zeros(num_nodes), edge_index, edge_weight=weight)


@undirected
def test_gradient_and_divergence_are_adjoint_on_antisymmetric_fields(graph):
    edge_index, num_nodes = graph
    x, field = random(num_nodes), dgn.gradient(random(num_nodes, seed=1), edge_index)
    field = dgn.distort(field, edge_index, 0.5, generator=torch.Generator().manual_seed(2))
    along_edges = dgn.edge_product(dgn.gradient(x, edge_index), field)
    torch.testing.assert_close(along_edges, -2 * dgn.node_product(x, dgn.divergence(field, edge_index, num_nodes)))


@both_dtypes
def test_products_are_those_of_vectors(dtype):
    x, y = random(7, 3, dtype=dtype), random(7, 3, seed=1, dtype=dtype)
    for product in (dgn.node_product, dgn.edge_product):
        torch.testing.assert_close(product(x, y), (x.T @ y).diagonal())
        torch.testing.assert_close(product(x[:, 0], y[:, 0]), x[:, 0] @ y[:, 0])


@every_graph
def test_inner_products_of_all_nodes_sum_to_the_product_of_the_fields(graph):
    field, other = random(graph[0].size(1), 2), random(graph[0].size(1), 2, seed=1)
    pointwise = dgn.inner_product(field, other, *graph)
    assert pointwise.shape == (graph[1], 2)
    torch.testing.assert_close(pointwise.sum(dim=0), dgn.edge_product(field, other))


@pytest.mark.parametrize("graph", [grid(3, 4), star(4), *list(edge_cases().values())[:6], edge_cases()["directed"]])
def test_inner_product_is_that_of_the_rows_of_the_matrices(graph):
    field, other = random(graph[0].size(1)), random(graph[0].size(1), seed=1)
    expected = (dense(field, *graph) * dense(other, *graph)).sum(dim=1)
    torch.testing.assert_close(dgn.inner_product(field, other, *graph), expected)


@both_dtypes
@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("graph", [grid(3, 4), star(4), edge_cases()["isolated node"], edge_cases()["directed"]])
def test_row_norm_is_that_of_the_rows_of_the_matrix(graph, p, dtype):
    field = random(graph[0].size(1), dtype=dtype)
    expected = torch.linalg.vector_norm(dense(field, *graph), ord=p, dim=1)
    torch.testing.assert_close(dgn.row_norm(field, *graph, p=p), expected)


def test_row_norm_has_gradient_0_where_the_field_is_0():
    edge_index, num_nodes = star(2)
    field = torch.tensor([0.0, 3.0, 0.0, 4.0], requires_grad=True)
    dgn.row_norm(field, edge_index, num_nodes, p=2).sum().backward()
    assert field.grad is not None
    assert field.grad.tolist() == [0.0, 1.0, 0.0, 1.0]


@both_dtypes
@every_graph
def test_directional_derivative_is_the_projected_gradient(graph, dtype):
    edge_index, num_nodes = graph
    x, field = random(num_nodes, 3, dtype=dtype), random(edge_index.size(1), 2, seed=1, dtype=dtype)
    expected = torch.zeros(num_nodes, 2, 3, dtype=dtype)
    for (j, i), along in zip(edge_index.T.tolist(), field, strict=True):
        expected[i] += along[:, None] * (x[j] - x[i])
    torch.testing.assert_close(dgn.directional_derivative(x, field, edge_index), expected)
    torch.testing.assert_close(dgn.directional_derivative(x[:, 0], field, edge_index), expected[:, :, 0])


@every_graph
def test_directional_derivative_of_a_vector_field_of_one_column(graph):
    edge_index, num_nodes = graph
    x, field = random(num_nodes), random(edge_index.size(1), seed=1)
    one = dgn.directional_derivative(x, field, edge_index)
    torch.testing.assert_close(one, dgn.directional_derivative(x, field[:, None], edge_index))


def test_directional_derivative_of_no_fields_has_no_columns():
    edge_index, num_nodes = star(3)
    assert dgn.directional_derivative(random(num_nodes), torch.zeros(6, 0), edge_index).shape == (num_nodes, 0)


def test_calculus_is_equivariant():
    graph = dgn.as_graph(*disjoint_union(grid(3, 4), star(3), cycle(5)))
    x, field = random(graph.num_nodes, 2), random(graph.num_edges, 2)
    for law in (assert_permutation_equivariant, assert_batch_independent):
        law(lambda graph, x: dgn.gradient(x, graph), graph, [x], output="edge")
        law(lambda graph, field: dgn.divergence(field, graph), graph, [], [field])
        law(lambda graph, x, field: dgn.directional_derivative(x, field, graph), graph, [x], [field])


def test_calculus_passes_gradients():
    edge_index, num_nodes = grid(2, 3)
    x, field = random(num_nodes).requires_grad_(), random(edge_index.size(1), 2, seed=1).requires_grad_()
    assert torch.autograd.gradcheck(lambda x, field: dgn.directional_derivative(x, field, edge_index), (x, field))
    for p in (1, 2):
        assert torch.autograd.gradcheck(lambda field, p=p: dgn.row_norm(field, edge_index, num_nodes, p=p), (field,))


EDGES, NODES = star(2)
BAD = torch.tensor([0.0, 1.0, float("nan"), 2.0])


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: dgn.gradient([0.0, 1.0], EDGES), TypeError, r"potential: expected a tensor .*torch\.as_tensor"),
        (lambda: dgn.gradient(torch.tensor([0.0, torch.inf, 1.0]), EDGES), ValueError, r"potential: .*got inf.*nan_to"),
        (lambda: dgn.gradient(torch.arange(3), EDGES), TypeError, r"potential: .*got torch\.int64.*potential\.float"),
        (lambda: dgn.divergence(torch.ones(3), EDGES, NODES), ValueError, r"field: .*4 rows.*got shape \[3\]; give"),
        (lambda: dgn.divergence(BAD, EDGES, NODES), ValueError, r"field: .*got nan at index \[2\].*nan_to_num"),
        (lambda: dgn.row_norm(torch.ones(4), EDGES, NODES, p=3), ValueError, r"p: expected 1 or 2, got 3; 1 is the"),
        (lambda: dgn.inner_product(torch.ones(4), BAD, EDGES, NODES), ValueError, r"other: .*got nan"),
        (lambda: dgn.node_product(torch.ones(4), torch.ones(3)), ValueError, r"y: .*4 rows.*got shape \[3\]"),
        (lambda: dgn.edge_product(torch.ones(4), torch.ones(3)), ValueError, r"other: .*4 rows.*got shape \[3\]"),
        (lambda: dgn.directional_derivative(BAD[1:], torch.ones(4), EDGES), ValueError, r"x: .*got nan.*nan_to_num"),
        (lambda: dgn.directional_derivative(torch.ones(3), BAD, EDGES), ValueError, r"field: .*got nan.*nan_to_num"),
    ],
)  # fmt: skip
def test_wrong_input_is_refused_with_the_remedy(call, error, message):
    with pytest.raises(error, match=message):
        call()
