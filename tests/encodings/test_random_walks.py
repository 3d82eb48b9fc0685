"""Return probabilities against powers of the dense matrix, and their laws."""

import numpy as np
import pytest
import torch

from dgn import Graph, as_graph
from dgn.encodings import return_probabilities
from dgn.testing import (
    assert_batch_independent,
    assert_permutation_equivariant,
    complete,
    cycle,
    disjoint_union,
    edge_cases,
    grid,
    path,
    random_graph,
    star,
)

GRAPHS = {
    **edge_cases(),
    "grid": grid(3, 4),
    "random": random_graph(30, 0.2, torch.Generator().manual_seed(1)),
    "more nodes than the initial capacity": path(600),
}


def dense_powers(edge_index: torch.Tensor, num_nodes: int, steps: int) -> np.ndarray:
    """The first powers of D^-1 A, [steps, N, N]."""
    a = np.zeros((num_nodes, num_nodes))
    np.add.at(a, (edge_index[1].numpy(), edge_index[0].numpy()), 1.0)
    p = a / np.maximum(a.sum(axis=1, keepdims=True), 1)
    powers = [np.eye(num_nodes)]
    for _ in range(steps):
        powers.append(powers[-1] @ p)
    return np.stack(powers[1:])


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("small", [0, 256], ids=["node by node", "as a whole"])
def test_return_probabilities_are_diagonals_of_powers(name: str, small: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dgn.encodings.random_walks.SMALL", small)
    edge_index, num_nodes = GRAPHS[name]
    for steps in (16, 5):
        probability = return_probabilities(edge_index, steps, num_nodes)
        assert probability.dtype == torch.float32
        powers = dense_powers(edge_index, num_nodes, steps)
        np.testing.assert_allclose(probability.numpy(), np.diagonal(powers, axis1=1, axis2=2).T, atol=1e-7)


def test_walks_may_reach_more_nodes_than_the_initial_capacity() -> None:
    edge_index, num_nodes = star(400)
    probability = return_probabilities(edge_index, 4, num_nodes)
    torch.testing.assert_close(probability[0], torch.tensor([0.0, 1.0, 0.0, 1.0]))
    torch.testing.assert_close(probability[1:, 1], torch.full((num_nodes - 1,), 1 / (num_nodes - 1)))


def test_the_result_does_not_depend_on_threads() -> None:
    edge_index, num_nodes, _ = disjoint_union(*[cycle(5 + n % 7) for n in range(300)])
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        alone = return_probabilities(edge_index, 5, num_nodes)
        torch.set_num_threads(3)
        shared = return_probabilities(edge_index, 5, num_nodes)
    finally:
        torch.set_num_threads(before)
    torch.testing.assert_close(shared, alone)


def test_laws() -> None:
    def encode(graph: Graph) -> torch.Tensor:
        return return_probabilities(graph, 6)

    union = as_graph(*disjoint_union(grid(2, 3), complete(4), path(1), cycle(5)))
    assert_permutation_equivariant(encode, union)
    assert_batch_independent(encode, union)


def test_walks_follow_edges_between_graphs() -> None:
    edges, batch = torch.tensor([[0, 1, 2, 3], [3, 2, 1, 0]]), torch.tensor([0, 0, 1, 1])
    assert return_probabilities(as_graph(edges, 4, batch), 2).tolist() == [[0.0, 1.0]] * 4


def test_no_steps_are_refused() -> None:
    with pytest.raises(ValueError, match="steps: expected 1 or more, got 0"):
        return_probabilities(path(2)[0], 0)
