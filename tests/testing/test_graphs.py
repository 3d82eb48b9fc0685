"""The named graphs are what they are called."""

import pytest
import torch

from dgn.testing import complete, cycle, disjoint_union, edge_cases, grid, hypercube, path, random_graph, star


def adjacency(edge_index, num_nodes):
    matrix = torch.zeros(num_nodes, num_nodes, dtype=torch.long)
    return matrix.index_put((edge_index[1], edge_index[0]), torch.tensor(1), accumulate=True)


@pytest.mark.parametrize(
    ("graph", "nodes", "edges"),
    [
        (path(0), 0, 0),
        (path(1), 1, 0),
        (path(5), 5, 4),
        (cycle(5), 5, 5),
        (complete(5), 5, 10),
        (complete(0), 0, 0),
        (star(4), 5, 4),
        (star(0), 1, 0),
        (hypercube(0), 1, 0),
        (hypercube(4), 16, 32),
        (grid(), 1, 0),
        (grid(4, 3), 12, 17),
        (grid(2, 3, 4), 24, 46),
        (grid(3, 0), 0, 0),
    ],
)
def test_simple_undirected_graph_of_the_right_size(graph, nodes, edges):
    matrix = adjacency(*graph)
    assert matrix.shape == (nodes, nodes)
    assert matrix.sum() == 2 * edges
    assert matrix.equal(matrix.T)
    assert not matrix.diagonal().any()
    assert matrix.sum() == (matrix > 0).sum()


def test_grid_is_row_major_and_joins_nodes_one_step_apart():
    shape = (3, 4, 2)
    place = torch.cartesian_prod(*map(torch.arange, shape))
    distance = (place[:, None] - place[None]).abs().sum(dim=2)
    assert adjacency(*grid(*shape)).equal((distance == 1).long())


def test_cycle_star_and_hypercube_have_their_degrees():
    assert adjacency(*cycle(6)).sum(0).tolist() == [2] * 6
    assert adjacency(*star(4)).sum(0).tolist() == [4, 1, 1, 1, 1]
    assert adjacency(*hypercube(3)).sum(0).tolist() == [3] * 8


def test_random_graph_follows_its_generator_and_its_probability():
    def draw(seed, p):
        return random_graph(40, p, torch.Generator().manual_seed(seed))[0]

    assert draw(0, 0.3).equal(draw(0, 0.3))
    assert not draw(0, 0.3).equal(draw(1, 0.3))
    assert draw(0, 0.0).size(1) == 0
    assert draw(0, 1.0).equal(complete(40)[0])
    assert abs(draw(0, 0.3).size(1) / (40 * 39) - 0.3) < 0.05


def test_disjoint_union_is_block_diagonal():
    parts = [path(3), star(2), path(0), path(1)]
    edge_index, num_nodes, batch = disjoint_union(*parts)
    assert adjacency(edge_index, num_nodes).equal(torch.block_diag(*(adjacency(*part) for part in parts)))
    assert batch.tolist() == [0, 0, 0, 1, 1, 1, 3]


def test_disjoint_union_of_nothing_is_the_empty_graph():
    edge_index, num_nodes, batch = disjoint_union()
    assert (edge_index.shape, num_nodes, batch.shape) == ((2, 0), 0, (0,))


def test_edge_cases_are_what_they_are_called():
    matrix = {name: adjacency(*graph) for name, graph in edge_cases().items()}
    assert [name for name, a in matrix.items() if a.diagonal().any()] == ["self-loops"]
    assert [name for name, a in matrix.items() if (a > 1).any()] == ["parallel edges"]
    assert [name for name, a in matrix.items() if not a.equal(a.T)] == ["directed"]
    assert [name for name, a in matrix.items() if not a.any()] == ["no nodes", "one node", "no edges"]


@pytest.mark.parametrize(("make", "size"), [(path, -1), (cycle, 2), (complete, -1), (star, -1), (hypercube, -1)])
def test_impossible_size_is_refused(make, size):
    with pytest.raises(ValueError, match=rf"expected \d or more, got {size}; choose a larger graph"):
        make(size)
