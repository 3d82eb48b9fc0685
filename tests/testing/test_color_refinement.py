"""Colour refinement distinguishes exactly the graphs that 1-WL does."""

import pytest
import torch

from dgn.testing import (
    cycle,
    disjoint_union,
    grid,
    path,
    random_graph,
    same_to_weisfeiler_leman,
    star,
    weisfeiler_leman,
)


def relabelled(edge_index, num_nodes, seed=0):
    label = torch.randperm(num_nodes, generator=torch.Generator().manual_seed(seed))
    return (label[edge_index], num_nodes), label


def test_colours_are_permutation_equivariant():
    graph = random_graph(9, 0.4, torch.Generator().manual_seed(3))
    moved, label = relabelled(*graph)
    colour, moved_colour = weisfeiler_leman(*graph), weisfeiler_leman(*moved)
    assert [moved_colour[new] for new in label.tolist()] == colour
    assert len(set(colour)) > 1


def test_colours_of_a_path_are_distances_to_its_ends():
    assert [weisfeiler_leman(*path(7)).index(colour) for colour in weisfeiler_leman(*path(7))] == [0, 1, 2, 3, 2, 1, 0]


@pytest.mark.parametrize(("rounds", "classes"), [(0, 1), (1, 2), (2, 3), (3, 4), (9, 4)])
def test_each_round_sees_one_step_further(rounds, classes):
    assert len(set(weisfeiler_leman(*path(7), rounds=rounds))) == classes


def test_first_colours_are_the_features():
    marked = torch.tensor([1.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    assert len(set(weisfeiler_leman(*cycle(6)))) == 1
    assert len(set(weisfeiler_leman(*cycle(6), x=marked))) == 4
    assert len(set(weisfeiler_leman(*cycle(6), x=marked[:, None]))) == 4


def test_colours_follow_in_edges():
    chain = torch.tensor([[0, 1], [1, 2]])
    assert len(set(weisfeiler_leman(chain, 3))) == 3


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        (cycle(6), disjoint_union(cycle(3), cycle(3))[:2], True),
        (cycle(6), cycle(7), False),
        (path(4), star(3), False),
        (grid(2, 3), relabelled(*grid(2, 3))[0], True),
        (path(0), path(0), True),
        (path(1), path(0), False),
    ],
)
def test_known_pairs(first, second, same):
    assert same_to_weisfeiler_leman(first, second) is same


def test_features_can_distinguish_what_the_structure_cannot():
    triangles = disjoint_union(cycle(3), cycle(3))[:2]
    pair = torch.tensor([1.0, 0.0, 0.0, 1.0, 0.0, 0.0])
    assert not same_to_weisfeiler_leman(cycle(6), triangles, pair, torch.tensor([1.0, 1.0, 0.0, 0.0, 0.0, 0.0]))
    assert same_to_weisfeiler_leman(cycle(6), triangles, pair, pair)


def test_features_of_the_wrong_length_are_refused():
    with pytest.raises(ValueError, match="x: expected 3 rows, one per node, got 2; give a colour to each node"):
        weisfeiler_leman(*path(3), x=torch.ones(2))
