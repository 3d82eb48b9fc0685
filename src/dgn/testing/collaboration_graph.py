"""Random graphs like co-authorship networks: large, clustered, with hubs and whiskers."""

import numpy as np
import torch
from torch import Tensor

CORE = 0.7  # fraction of the nodes in cliques; the rest are whiskers
LARGEST_CLIQUE = 100
OVERLAP = 1.22  # pairs drawn per edge: some are drawn more than once


def collaboration(num_nodes: int, num_edges: int, seed: int = 0) -> tuple[Tensor, int]:
    """A union of cliques with heavy-tailed sizes, and tree-like whiskers: ``edge_index`` [2, E] and node count.

    Core nodes lie on a ring. Each leads a clique, as long as edges are left, whose other members lie at heavy-tailed
    distances from it: most near, some anywhere. The other nodes form small trees attached to the core. Node
    indices are random. Each edge is listed once; their number is ``num_edges`` within a few per cent. Nearly all nodes
    are connected.

    >>> edge_index, n = collaboration(1000, 5000)
    >>> n, edge_index.size(0), 4000 < edge_index.size(1) < 6000
    (1000, 2, True)
    """
    draw = np.random.default_rng(seed)
    core = max(1, int(CORE * num_nodes))
    pairs = [_whiskers(draw, core, num_nodes)]
    size = _clique_sizes(draw, OVERLAP * (num_edges - (num_nodes - core)))
    leader = np.concatenate([np.arange(core), draw.integers(0, core, max(0, len(size) - core))])[: len(size)]
    for s in np.unique(size):
        leaders = leader[size == s][:, None]
        distance = np.rint(s * draw.standard_t(0.8, (len(leaders), s))).clip(-1e12, 1e12)
        distance[:, 0] = 0
        member = (leaders + distance.astype(np.int64)) % core
        i, j = np.triu_indices(s, 1)
        pairs.append(np.stack([member[:, i].ravel(), member[:, j].ravel()]))
    edges = np.sort(np.concatenate(pairs, axis=1), axis=0)
    key = np.unique((edges[0] * num_nodes + edges[1])[edges[0] != edges[1]])
    label = draw.permutation(num_nodes)
    return torch.from_numpy(label[np.stack([key // num_nodes, key % num_nodes])]), num_nodes


def _whiskers(draw: np.random.Generator, core: int, num_nodes: int) -> np.ndarray:
    """Half of the nodes outside the core are attached to a preceding node, the others to the core. [2, E]"""
    node = np.arange(core, num_nodes)
    offset = 1 + draw.integers(0, 3, len(node))
    chained = (draw.random(len(node)) < 0.5) & (node - offset >= core)
    return np.stack([np.where(chained, node - offset, draw.integers(0, core, len(node))), node])


def _clique_sizes(draw: np.random.Generator, pairs: float) -> np.ndarray:
    """Clique sizes whose numbers of pairs add up to ``pairs``."""
    size = np.minimum(2 + 0.9 * draw.pareto(2.0, max(0, int(pairs))), LARGEST_CLIQUE).astype(np.int64)
    return size[: np.searchsorted(np.cumsum(size * (size - 1) // 2), pairs)]
