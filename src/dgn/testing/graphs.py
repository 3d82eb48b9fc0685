"""Small named graphs for tests: ``edge_index [2, E]`` with both directions of every edge, and the number of nodes."""

import math

import torch
from torch import Tensor


def grid(*shape: int) -> tuple[Tensor, int]:
    """The lattice of the given lengths, nodes in row-major order, without diagonals; ``grid()`` is one node.

    >>> grid(2, 2)[0].tolist()
    [[0, 1, 0, 2, 2, 3, 1, 3], [2, 3, 1, 3, 0, 1, 0, 2]]
    """
    _check_size("shape", min(shape, default=0), 0)
    node = torch.arange(math.prod(shape)).view(shape)
    directed = [
        torch.stack([node.narrow(axis, 0, n - 1).flatten(), node.narrow(axis, 1, n - 1).flatten()])
        for axis, n in enumerate(shape)
        if n > 1
    ]
    return _undirected(torch.cat([torch.zeros(2, 0, dtype=torch.long), *directed], dim=1)), node.numel()


def path(n: int) -> tuple[Tensor, int]:
    """Nodes 0 to n - 1 in a row.

    >>> path(3)[0].tolist()
    [[0, 1, 1, 2], [1, 2, 0, 1]]
    """
    return grid(n)


def cycle(n: int) -> tuple[Tensor, int]:
    """Nodes 0 to n - 1 in a ring, n of 3 or more. Eigenvalues above 0 come in pairs.

    >>> cycle(3)[0].tolist()
    [[0, 1, 2, 1, 2, 0], [1, 2, 0, 0, 1, 2]]
    """
    _check_size("n", n, 3)
    node = torch.arange(n)
    return _undirected(torch.stack([node, node.roll(-1)])), n


def complete(n: int) -> tuple[Tensor, int]:
    """Every node joined to every other: one eigenvalue, n - 1 times.

    >>> complete(3)[0].tolist()
    [[0, 0, 1, 1, 2, 2], [1, 2, 2, 0, 0, 1]]
    """
    _check_size("n", n, 0)
    return _undirected(torch.triu_indices(n, n, offset=1)), n


def star(leaves: int) -> tuple[Tensor, int]:
    """Node 0 in the middle of the leaves.

    >>> star(2)[0].tolist()
    [[0, 0, 1, 2], [1, 2, 0, 0]]
    """
    _check_size("leaves", leaves, 0)
    leaf = torch.arange(1, leaves + 1)
    return _undirected(torch.stack([torch.zeros_like(leaf), leaf])), leaves + 1


def hypercube(d: int) -> tuple[Tensor, int]:
    """The corners of the d-dimensional cube: its first eigenvalue is 2, d times.

    >>> hypercube(3)[1], hypercube(3)[0].size(1)
    (8, 24)
    """
    _check_size("d", d, 0)
    return grid(*[2] * d)


def random_graph(n: int, p: float, generator: torch.Generator) -> tuple[Tensor, int]:
    """Each pair of n nodes joined with probability p, independently (Erdős and Rényi).

    >>> random_graph(4, 1.0, torch.Generator())[0].equal(complete(4)[0])
    True
    """
    _check_size("n", n, 0)
    pairs = torch.triu_indices(n, n, offset=1)
    joined = torch.rand(pairs.size(1), generator=generator, device=generator.device) < p
    return _undirected(pairs[:, joined.cpu()]), n


def disjoint_union(*graphs: tuple[Tensor, int]) -> tuple[Tensor, int, Tensor]:
    """A batch of graphs: ``edge_index``, the number of nodes, and the graph index of each node.

    >>> edge_index, num_nodes, batch = disjoint_union(path(2), path(1), path(2))
    >>> edge_index.tolist(), num_nodes, batch.tolist()
    ([[0, 1, 3, 4], [1, 0, 4, 3]], 5, [0, 0, 1, 2, 2])
    """
    sizes = torch.tensor([size for _, size in graphs], dtype=torch.long)
    starts = sizes.cumsum(0) - sizes
    shifted = [edge_index + start for (edge_index, _), start in zip(graphs, starts.tolist(), strict=True)]
    edge_index = torch.cat([torch.zeros(2, 0, dtype=torch.long), *shifted], dim=1)
    return edge_index, int(sizes.sum()), torch.arange(len(graphs)).repeat_interleave(sizes)


def edge_cases() -> dict[str, tuple[Tensor, int]]:
    """Graphs on which operators fail, by name: without edges, directed, or with parallel edges.

    >>> list(edge_cases())
    ['no nodes', 'one node', 'no edges', 'isolated node', 'two components', 'self-loops', 'parallel edges', 'directed']
    """
    return {
        "no nodes": path(0),
        "one node": path(1),
        "no edges": disjoint_union(path(1), path(1), path(1))[:2],
        "isolated node": disjoint_union(star(3), path(1))[:2],
        "two components": disjoint_union(path(4), complete(3))[:2],
        "self-loops": (torch.tensor([[0, 0, 1, 1, 2], [0, 1, 0, 2, 1]]), 3),
        "parallel edges": (torch.tensor([[0, 0, 1, 1, 1, 2], [1, 1, 0, 0, 2, 1]]), 3),
        "directed": (torch.tensor([[0, 1, 2, 3, 3], [1, 2, 0, 0, 2]]), 4),
    }


def _undirected(directed: Tensor) -> Tensor:
    return torch.cat([directed, directed.flip(0)], dim=1)


def _check_size(name: str, size: int, least: int) -> None:
    if size < least:
        raise ValueError(f"{name}: expected {least} or more, got {size}; choose a larger graph")
