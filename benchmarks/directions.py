"""Directions of many small graphs: microseconds per graph and accuracy, against SciPy and PyG, in one run.

    python benchmarks/directions.py [PACKED.npz ...]

One thread, one process, medians, first four directions. Without files the graphs are made: molecule-like ones (random
trees of 23 nodes with three rings) and PATTERN-like ones (random graphs of 118 nodes, 50 neighbours each). A packed
file holds node_ptr, edge_ptr and edge_index with node numbers local to each graph; its first 1,000 graphs are taken.
PyG's transform knows the symmetric Laplacian only, and is judged by that. The residual is the largest
|L v - lambda v| over 2 d_max; "phi_1" says how often direction 1 is the first non-trivial vector.
"""

import statistics
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse.linalg import eigsh
from torch_geometric.data import Data
from torch_geometric.transforms import AddLaplacianEigenvectorPE

import dgn
from dgn.spectral.laplacian import Normalization, adjacency, normalized

Edges = tuple[torch.Tensor, int]
Found = list[NDArray[np.float64]]
DIRECTIONS = sys.modules["dgn.spectral.directions"]  # the function of that name hides the module
K = 4


def molecules(count: int) -> list[Edges]:
    generator = np.random.default_rng(0)
    rings = ([tuple(generator.integers(0, 23, 2)) for _ in range(3)] for _ in range(count))
    return [_both(_tree(generator, 23) + ring, 23) for ring in rings]


def patterns(count: int) -> list[Edges]:
    generator = np.random.default_rng(1)
    dense = (np.triu(generator.random((118, 118)) < 50 / 118, 1) for _ in range(count))
    return [_both(_tree(generator, 118) + list(zip(*matrix.nonzero(), strict=True)), 118) for matrix in dense]


def packed(path: Path, count: int = 1000) -> list[Edges]:
    arrays = np.load(path)
    nodes, edges = arrays["node_ptr"][: count + 1].astype(int), arrays["edge_ptr"][: count + 1].astype(int)
    index = torch.from_numpy(arrays["edge_index"].astype(np.int64))
    return [(index[:, edges[g] : edges[g + 1]], int(nodes[g + 1] - nodes[g])) for g in range(len(nodes) - 1)]


def _tree(generator: np.random.Generator, n: int) -> list[tuple[int, int]]:
    return [(int(generator.integers(max(0, i - 3), i)), i) for i in range(1, n)]


def _both(pairs: list[tuple[int, int]], n: int) -> Edges:
    once = {(min(a, b), max(a, b)) for a, b in pairs if a != b}
    forward = torch.tensor(sorted(once)).T
    return torch.cat([forward, forward.flip(0)], dim=1), n


def ours(graphs: list[Edges], direct: bool) -> Found:
    """All graphs in one call, as a dataset is solved."""
    DIRECTIONS.DIRECT_NODES = 0 if direct else float("inf")
    sizes = torch.tensor([n for _, n in graphs])
    shift = (sizes.cumsum(0) - sizes).tolist()
    joined = torch.cat([edges + offset for (edges, _), offset in zip(graphs, shift, strict=True)], dim=1)
    potential = dgn.directions(joined, int(sizes.sum()), k=K).potential
    return [part.numpy() for part in potential.split(sizes.tolist())]


def with_eigsh(graphs: list[Edges]) -> Found:
    """SciPy's ARPACK to rounding; a component too small for it is solved densely."""
    found = []
    for edges, n in graphs:
        laplacian = normalized(adjacency(dgn.as_graph(edges, n)), None)
        if n > K + 1:
            values, vectors = eigsh(laplacian, k=K + 1, which="SM", tol=0, v0=np.ones(n) + np.arange(n) / n)
        else:
            values, vectors = np.linalg.eigh(laplacian.toarray())
        found.append(vectors[:, values.argsort()[1 : K + 1]])
    return found


def with_pyg(graphs: list[Edges]) -> Found:
    transform = AddLaplacianEigenvectorPE(K, attr_name="pe", is_undirected=True)
    return [transform(Data(edge_index=edges, num_nodes=n)).pe.double().numpy() for edges, n in graphs]


def quality(graphs: list[Edges], found: Found, normalization: Normalization) -> tuple[float, float]:
    """The largest residual, and the share of connected graphs whose direction 1 is the first non-trivial vector."""
    worst, right, counted = 0.0, 0, 0
    for (edges, n), vectors in zip(graphs, found, strict=True):
        laplacian = normalized(adjacency(dgn.as_graph(edges, n)), normalization).toarray()
        values = np.linalg.eigvalsh(laplacian)
        if n < 3 or values[1] < 1e-9:
            continue
        unit = vectors / np.maximum(np.linalg.norm(vectors, axis=0), 1e-300)
        rayleigh = np.einsum("nk,nk->k", unit, laplacian @ unit)
        worst = max(worst, np.linalg.norm(laplacian @ unit - unit * rayleigh, axis=0).max() / (2 * laplacian.max()))
        right += abs(rayleigh[0] - values[1]) < 1e-6
        counted += 1
    return worst, right / max(counted, 1)


def timed(function: Callable[[list[Edges]], Found], graphs: list[Edges], repeats: int) -> tuple[float, Found]:
    function(graphs)
    times, found = [], []
    for _ in range(repeats):
        start = time.perf_counter()
        found = function(graphs)
        times.append(time.perf_counter() - start)
    return 1e6 * statistics.median(times) / len(graphs), found


def compare(name: str, graphs: list[Edges]) -> None:
    few = graphs[:100]
    rows = {
        "scipy eigsh, tol=0": (with_eigsh, few),
        "PyG AddLaplacianEigenvectorPE": (with_pyg, few),
        "dgn.directions, torch eigh": (lambda g: ours(g, direct=False), graphs),
        "dgn.directions, direct solver": (lambda g: ours(g, direct=True), graphs),
    }
    print(f"\n{name}: {len(graphs)} graphs\n| method | us per graph | times eigsh | residual | phi_1 |")
    print("|---|---:|---:|---:|---:|")
    base = None
    for method, (function, chosen) in rows.items():
        micro, found = timed(function, chosen, 3 if chosen is few else 7)
        base = micro if base is None else base
        worst, right = quality(chosen[:100], found[:100], "sym" if function is with_pyg else None)
        print(f"| {method} | {micro:.1f} | {base / micro:.1f} | {worst:.0e} | {right:.0%} |")


def main() -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    compare("molecule-like", molecules(1000))
    compare("PATTERN-like", patterns(200))
    for path in map(Path, sys.argv[1:]):
        compare(path.stem, packed(path))


if __name__ == "__main__":
    main()
