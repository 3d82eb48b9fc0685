"""PATTERN's generator follows the published recipe."""

import hashlib

import pytest
import torch

from dgn.data import PackedGraphs
from dgn.data.datasets.pattern import generate_pattern


@pytest.fixture(scope="module")
def drawn() -> PackedGraphs:
    return generate_pattern(patterns=4, seed=1)


def test_edges_are_symmetric_unique_and_without_self_loops(drawn: PackedGraphs) -> None:
    source, target = drawn.graph.edge_index
    forward, backward = source * drawn.num_nodes + target, target * drawn.num_nodes + source
    assert torch.equal(forward, backward.sort().values)
    assert torch.equal(forward.unique(), forward)
    assert (source != target).all()


def test_each_pattern_is_planted_in_140_graphs_with_its_signals(drawn: PackedGraphs) -> None:
    batch, label = drawn.graph.batch, drawn.nodes["y"].bool()
    planted = torch.bincount(batch[label], minlength=len(drawn)).view(4, 140)
    assert (planted == planted[:, :1]).all()
    assert planted.min() >= 5
    assert planted.max() <= 34
    source, target = drawn.graph.edge_index
    inside = torch.bincount(batch[source[label[source] & label[target]]], minlength=len(drawn)).view(4, 140)
    assert (inside == inside[:, :1]).all()
    signals = torch.zeros(len(drawn), 3).index_put_(
        (batch[label], drawn.nodes["x"][label].long()), torch.tensor(1.0), accumulate=True
    )
    assert (signals.view(4, 140, 3) == signals.view(4, 140, 3)[:, :1]).all()
    assert drawn.graphs["split"].view(4, 140).long().sum(dim=1).tolist() == [60] * 4


def test_densities_and_sizes_are_those_of_the_recipe(drawn: PackedGraphs) -> None:
    batch, label = drawn.graph.batch, drawn.nodes["y"].bool()
    source, target = drawn.graph.edge_index
    inside, outside = torch.bincount(batch[label]).double(), torch.bincount(batch[~label]).double()
    assert outside.mean().item() == pytest.approx(5 * 19.5, abs=3.5)
    assert outside.min() >= 25
    assert outside.max() <= 170
    to_pattern = (label[source] & ~label[target]).sum() / (inside * outside).sum()
    assert to_pattern.item() == pytest.approx(0.5, abs=0.01)
    # Five blocks of random sizes: a share of 0.221 of the pairs lies inside one.
    base = (~label[source] & ~label[target]).sum() / (outside * (outside - 1)).sum()
    assert base.item() == pytest.approx(0.35 + 0.15 * 0.221, abs=0.01)
    assert drawn.nodes["x"].bincount().div(drawn.num_nodes).sub(1 / 3).abs().max() < 0.02


def test_node_order_does_not_reveal_labels(drawn: PackedGraphs) -> None:
    position = torch.arange(drawn.num_nodes) - drawn.node_pointer[drawn.graph.batch]
    relative = position / drawn.node_pointer.diff()[drawn.graph.batch]
    assert relative[drawn.nodes["y"].bool()].mean().item() == pytest.approx(0.5, abs=0.02)


def test_a_seed_gives_the_same_graphs_on_every_machine() -> None:
    first, again, other = (generate_pattern(1, seed) for seed in (0, 0, 1))
    assert first.checksum() == again.checksum() != other.checksum()
    assert hashlib.sha256(first.edge_index.numpy().tobytes()).hexdigest().startswith("29f0262eed269a22")


def test_no_patterns_are_refused() -> None:
    with pytest.raises(ValueError, match="expected 1 or more, got 0"):
        generate_pattern(0)
