"""PATTERN: find the nodes of a planted graph in a stochastic block model, from its recipe."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from dgn.data.packed import PackedGraphs
from dgn.data.precompute.progress import progress_bar

BLOCKS = 5
SMALLEST, LARGEST = 5, 34  # nodes of a block, and of a pattern
INSIDE, ACROSS, TO_PATTERN = 0.5, 0.35, 0.5  # chances of an edge
SIGNALS = 3
SPLIT = (100, 20, 20)  # graphs of each pattern in training, validation and test
PATTERNS, SEED = 100, 41
SOURCE = f"pattern generator 1, patterns={PATTERNS}, seed={SEED}"

Matrix = NDArray[np.bool_]
Numbers = NDArray[np.uint8]


class Pattern(NamedTuple):
    """A planted graph: who is joined to whom, and the signal of each node."""

    joined: Matrix
    signal: Numbers


class Planted(NamedTuple):
    """One graph: edges, signals, and which nodes belong to the pattern."""

    edge_index: Numbers
    signal: Numbers
    label: Numbers


def generate_pattern(patterns: int = PATTERNS, seed: int = SEED, progress: bool = False) -> PackedGraphs:
    r"""Draw the benchmark anew: ``patterns`` planted graphs, each in 100 training, 20 validation and 20 test graphs.

    A pattern has 5 to 34 nodes, joined with chance 1/2, with signals 0, 1 or 2; its 140 graphs share both. Each graph
    adds five blocks of 5 to 34 nodes, joined with chance 0.5 inside a block, 0.35 across blocks and 0.5 to the
    pattern, and hides the order of the nodes. The published graphs came from this recipe without a seed, so only their
    distribution can be had again; the same ``seed`` gives the same graphs on every machine.

    Shapes:
        ``nodes["x"]`` [N] uint8 in 0..2, ``nodes["y"]`` [N] uint8, 1 in the pattern, ``graphs["split"]`` [G] uint8;
        every edge stands in both directions, sorted by source.

    >>> graphs = generate_pattern(patterns=1, seed=0)
    >>> len(graphs), graphs.graphs["split"].bincount().tolist()
    (140, [100, 20, 20])
    """
    if patterns < 1:
        raise ValueError(f"patterns: expected 1 or more, got {patterns}; the benchmark has 100")
    random = np.random.default_rng(seed)
    drawn: list[Planted] = []
    with progress_bar("drawing PATTERN", patterns * sum(SPLIT), show=progress) as advance:
        for _ in range(patterns):
            drawn += _draw_instance(random)
            advance(sum(SPLIT))
    split = np.tile(np.repeat(np.arange(3, dtype=np.uint8), SPLIT), patterns)
    return PackedGraphs(
        _pointer([len(graph.label) for graph in drawn]),
        _pointer([graph.edge_index.shape[1] for graph in drawn]),
        torch.from_numpy(np.concatenate([graph.edge_index for graph in drawn], axis=1)),
        nodes={
            "x": torch.from_numpy(np.concatenate([graph.signal for graph in drawn])),
            "y": torch.from_numpy(np.concatenate([graph.label for graph in drawn])),
        },
        graphs={"split": torch.from_numpy(split)},
        info={"note": f"generated from the published recipe, seed {seed}"},
    )


def _draw_instance(random: np.random.Generator) -> Iterator[Planted]:
    size = int(random.integers(SMALLEST, LARGEST + 1))
    chance = np.full((size, size), INSIDE, dtype=np.float32)
    pattern = Pattern(_symmetric(chance, random), random.integers(SIGNALS, size=size, dtype=np.uint8))
    for _ in range(sum(SPLIT)):
        yield _draw_graph(pattern, random)


def _draw_graph(pattern: Pattern, random: np.random.Generator) -> Planted:
    sizes = random.integers(SMALLEST, LARGEST + 1, size=BLOCKS)
    m, n = len(pattern.signal), int(sizes.sum()) + len(pattern.signal)
    block = np.repeat(np.arange(BLOCKS), sizes)
    chance = np.full((n, n), TO_PATTERN, dtype=np.float32)
    chance[m:, m:] = np.where(block[:, None] == block, np.float32(INSIDE), np.float32(ACROSS))
    joined = _symmetric(chance, random)
    joined[:m, :m] = pattern.joined
    signal = np.concatenate([pattern.signal, random.integers(SIGNALS, size=n - m, dtype=np.uint8)])
    order = random.permutation(n)
    source, target = joined[order][:, order].nonzero()
    edge_index = np.stack([source, target]).astype(np.uint8)  # at most 204 nodes
    return Planted(edge_index, signal[order], (order < m).astype(np.uint8))


def _symmetric(chance: NDArray[np.float32], random: np.random.Generator) -> Matrix:
    """Join each pair once with its chance, and nobody to itself."""
    upper = np.triu(random.random(chance.shape, dtype=np.float32) < chance, k=1)
    return upper | upper.T


def _pointer(counts: list[int]) -> torch.Tensor:
    return torch.nn.functional.pad(torch.tensor(counts).cumsum(0), (1, 0))
