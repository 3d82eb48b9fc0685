"""Directions of many small graphs: microseconds per graph and accuracy, in one run, against what else can do it.

    python benchmarks/directions.py [PACKED.npz ...]

One thread, one process, first four directions. Medians of processor time, taken in turns: other work on the machine
disturbs it less than the time on the wall, and on an idle one they are the same. The graphs are molecule-like ones
(random trees of 23 nodes with three rings), PATTERN drawn anew from its recipe, and those of packed files, 1,000 of
each. We take all of them in one call and start from the list of edges; the others take one graph at a time, the first
100 only, and get the matrix or the object that they want before the clock starts.

The residual is the largest |L v - lambda v| over 2 d_max. "right" is the share of connected graphs whose four vectors
belong to the first four non-trivial eigenvalues. PyG knows the symmetric Laplacian only, and is judged by that.
"""

import statistics
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import networkx
import numpy as np
import scipy.linalg
import torch
from numpy.typing import NDArray
from scipy.sparse.linalg import eigsh
from sklearn.manifold import spectral_embedding
from threadpoolctl import threadpool_limits
from torch_geometric.data import Data
from torch_geometric.transforms import AddLaplacianEigenvectorPE

import dgn
from dgn.data.datasets.pattern import generate_pattern
from dgn.data.packed import PackedGraphs
from dgn.spectral.laplacians import adjacency, normalized
from dgn.spectral.solvers import select

Edges = tuple[torch.Tensor, int]
Found = list[NDArray[np.float64]]
K, COUNT, FEW = 4, 1000, 100
# The function of that name hides the module.


def molecules() -> list[Edges]:
    generator = np.random.default_rng(0)
    rings = ([tuple(generator.integers(0, 23, 2)) for _ in range(3)] for _ in range(COUNT))
    return [_both([(int(generator.integers(max(0, i - 3), i)), i) for i in range(1, 23)] + ring, 23) for ring in rings]


def _both(pairs: list[tuple[int, int]], n: int) -> Edges:
    once = {(min(a, b), max(a, b)) for a, b in pairs if a != b}
    forward = torch.tensor(sorted(once)).T
    return torch.cat([forward, forward.flip(0)], dim=1), n


def patterns() -> list[Edges]:
    """Every second graph of 15 planted patterns, so that many patterns take part."""
    return unpacked(generate_pattern(patterns=15))[::2][:COUNT]


def unpacked(graphs: PackedGraphs) -> list[Edges]:
    sizes = graphs.node_pointer.diff().tolist()
    return list(zip(graphs.edge_index.long().split(graphs.edge_pointer.diff().tolist(), dim=1), sizes, strict=True))


def joined(graphs: list[Edges]) -> Edges:
    """All graphs side by side, as a batch stores them."""
    sizes = torch.tensor([n for _, n in graphs])
    shift = (sizes.cumsum(0) - sizes).tolist()
    return torch.cat([edges + offset for (edges, _), offset in zip(graphs, shift, strict=True)], dim=1), int(
        sizes.sum()
    )


def ours(batch: Edges, direct: bool) -> torch.Tensor:
    select.MANY_NODES = 0 if direct else float("inf")
    return dgn.directions(*batch, k=K).potential


def with_eigsh(laplacian: Any) -> NDArray[np.float64]:
    """ARPACK to rounding; a graph too small for it is solved densely."""
    n = laplacian.shape[0]
    if n <= K + 1:
        return np.linalg.eigh(laplacian.toarray())[1][:, 1 : K + 1]
    values, vectors = eigsh(laplacian, k=K + 1, which="SM", tol=0, v0=np.ones(n) + np.arange(n) / n)
    return vectors[:, values.argsort()[1 : K + 1]]


def with_lapack(laplacian: NDArray[np.float64]) -> NDArray[np.float64]:
    last = min(K, len(laplacian) - 1)
    return scipy.linalg.eigh(laplacian, subset_by_index=(1, last), check_finite=False)[1]


def with_pyg(data: Data) -> NDArray[np.float64]:
    return AddLaplacianEigenvectorPE(K, attr_name="pe", is_undirected=True)(data).pe.double().numpy()


def with_sklearn(matrix: Any) -> NDArray[np.float64]:
    return spectral_embedding(matrix, n_components=K, norm_laplacian=False, drop_first=True, random_state=0)


def with_networkx(graph: networkx.Graph) -> NDArray[np.float64]:
    """Its layout is the vectors, moved and scaled."""
    place = networkx.spectral_layout(graph, dim=K)
    return np.stack([place[node] for node in range(len(graph))])


def quality(graphs: list[Edges], found: Found, symmetric: bool) -> tuple[float, float]:
    """The largest residual, and the share of connected graphs with the right vectors."""
    worst, right, counted = 0.0, 0, 0
    for (edges, n), vectors in zip(graphs, found, strict=True):
        laplacian = normalized(adjacency(dgn.as_graph(edges, n)), "sym" if symmetric else None).toarray()
        values = np.linalg.eigvalsh(laplacian)
        if n <= K + 1 or values[1] < 1e-9:
            continue
        unit = vectors / np.maximum(np.linalg.norm(vectors, axis=0), 1e-300)
        rayleigh = np.einsum("nk,nk->k", unit, laplacian @ unit)
        worst = max(worst, np.linalg.norm(laplacian @ unit - unit * rayleigh, axis=0).max() / (2 * laplacian.max()))
        right += bool((np.abs(rayleigh - values[1 : K + 1]) < 1e-6).all())
        counted += 1
    return worst, right / max(counted, 1)


def one_by_one(function: Callable[[Any], NDArray[np.float64]], items: list[Any]) -> Callable[[], Found]:
    return lambda: [function(item) for item in items]


def measured(functions: Sequence[Callable[[], object]], repeats: int = 7) -> list[float]:
    """Median microseconds of the processor, taken in turns."""
    times: list[list[float]] = [[] for _ in functions]
    for _ in range(1 + repeats):
        for function, mine in zip(functions, times, strict=True):
            start = time.process_time()
            function()
            mine.append(1e6 * (time.process_time() - start))
    return [statistics.median(mine[1:]) for mine in times]  # the first one compiles and fills caches


def compare(name: str, graphs: list[Edges]) -> None:
    few = [dgn.as_graph(*graph) for graph in graphs[:FEW]]
    matrices = [adjacency(graph) for graph in few]
    laplacians = [normalized(matrix, None) for matrix in matrices]
    batch, sizes = joined(graphs), [n for _, n in graphs]
    data = [Data(edge_index=graph.edge_index, num_nodes=graph.num_nodes) for graph in few]
    methods = {
        "scipy eigsh, tol=0": one_by_one(with_eigsh, laplacians),
        "scipy eigh (LAPACK subset)": one_by_one(with_lapack, [matrix.toarray() for matrix in laplacians]),
        "PyG AddLaplacianEigenvectorPE": one_by_one(with_pyg, data),
        "scikit-learn spectral_embedding": one_by_one(with_sklearn, [matrix.toarray() for matrix in matrices]),
        "networkx spectral_layout": one_by_one(with_networkx, [networkx.from_scipy_sparse_array(m) for m in matrices]),
        "dgn.directions, torch eigh": lambda: ours(batch, direct=False),
        "dgn.directions, direct": lambda: ours(batch, direct=True),
    }
    micros = measured(list(methods.values()))
    print(f"\n{name}: {len(graphs)} graphs, {np.mean(sizes):.0f} nodes")
    print("| method | us per graph | times eigsh | residual | right |\n|---|---:|---:|---:|---:|")
    base = micros[0] / len(few)
    for (method, function), total in zip(methods.items(), micros, strict=True):
        found = function()
        if isinstance(found, torch.Tensor):
            found = [part.numpy() for part in found.split(sizes)]
        worst, right = quality(graphs[: len(found)], found, method.startswith("PyG"))
        print(f"| {method} | {total / len(found):.1f} | {base * len(found) / total:.1f} | {worst:.0e} | {right:.0%} |")


def main() -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    threadpool_limits(1)
    compare("molecule-like", molecules())
    compare("PATTERN", patterns())
    for path in map(Path, sys.argv[1:]):
        compare(path.stem, unpacked(PackedGraphs.load(path))[:COUNT])


if __name__ == "__main__":
    main()
