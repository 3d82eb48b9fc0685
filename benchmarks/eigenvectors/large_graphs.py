"""One large graph: time, memory and accuracy of six directions against SciPy's lobpcg with pyamg, growth, updates.

``pip install pyamg``, then ``python -m benchmarks.eigenvectors.large_graphs [graph.npz ...]``; a file holds
``edge_index`` [2, E] and ``num_nodes``. ``--growth`` also draws docs/figures/large_graphs.png (needs matplotlib).
"""

import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.sparse import csr_array
from scipy.sparse.linalg import cg, lobpcg

import dgn
from benchmarks.costs import LIMIT, Cost, apart, measured
from dgn.graph.components import components
from dgn.spectral.laplacians import adjacency, normalized
from dgn.spectral.solvers import lobpcg as dgn_lobpcg
from dgn.spectral.solvers.shift_invert import solve_shift_invert
from dgn.testing import collaboration, grid

K = 6
FIGURE = Path(__file__).parents[2] / "docs" / "figures" / "large_graphs.png"
Edges = tuple[torch.Tensor, int]


def stored(path: Path) -> Edges:
    with np.load(path) as arrays:
        return torch.from_numpy(arrays["edge_index"].astype(np.int64)), int(arrays["num_nodes"])


def largest_component(edges: torch.Tensor, n: int) -> csr_array:
    """Its adjacency matrix."""
    matrix = adjacency(dgn.as_graph(edges, n))
    label = components(matrix)
    nodes = np.flatnonzero(label == np.bincount(label).argmax())
    return csr_array(matrix[nodes, :][:, nodes])


def residual(laplacian: csr_array, vectors: np.ndarray) -> float:
    """The largest ||Lv - (v, Lv) v|| over twice the largest degree, of unit vectors."""
    vectors = vectors / np.linalg.norm(vectors, axis=0)
    image = laplacian @ vectors
    value = np.einsum("nk,nk->k", vectors, image)
    return float(np.linalg.norm(image - vectors * value, axis=0).max() / (2 * laplacian.diagonal().max()))


def with_pyamg(matrix: csr_array) -> tuple[float, float, np.ndarray]:
    """Seconds of set-up and of iteration, and the vectors."""
    import pyamg

    laplacian = normalized(matrix, None)
    n = laplacian.shape[0]
    start = time.perf_counter()
    hierarchy = pyamg.smoothed_aggregation_solver(laplacian.tocsr(), B=np.ones((n, 1)))
    middle = time.perf_counter()
    block = np.random.default_rng(0).standard_normal((n, K))
    accuracy = 1e-8 * 2 * float(laplacian.diagonal().max())
    options = {"M": hierarchy.aspreconditioner(), "Y": np.ones((n, 1)), "tol": accuracy, "maxiter": 200}
    _, vectors = lobpcg(laplacian, block, largest=False, **options)
    return middle - start, time.perf_counter() - middle, vectors


def theirs(matrix: csr_array) -> tuple[float, float, float, float]:
    """Seconds of set-up, seconds of iteration, residual, seconds of all threads."""
    warnings.simplefilter("ignore")
    set_up, iteration, vectors = with_pyamg(matrix)
    processor = time.process_time()
    return set_up, iteration, residual(normalized(matrix, None), vectors), processor


def ours(edges: torch.Tensor, n: int, repeats: int) -> tuple[float, float, float, float]:
    """Seconds, seconds of all threads, peak MB and residual; the best time, the largest memory."""
    dgn.directions(*collaboration(6000, 30000), k=K)  # loads compiled kernels
    costs = [measured(lambda: dgn.directions(edges, n, k=K)) for _ in range(repeats)]
    best = min(costs, key=lambda cost: cost.seconds)
    in_largest = (best.result.component == best.result.component.bincount().argmax()).numpy()
    laplacian = normalized(largest_component(edges, n), None)
    error = residual(laplacian, best.result.potential.numpy()[in_largest])
    return best.seconds, best.processor, max(cost.megabytes for cost in costs), error


def compare(name: str, edges: torch.Tensor, n: int) -> None:
    matrix = largest_component(edges, n)
    print(f"\n{name}: {n} nodes, {edges.size(1)} edges; largest component {matrix.shape[0]}, {matrix.nnz // 2}")
    print("| method | seconds | CPU seconds | peak MB | residual |\n|---|---:|---:|---:|---:|", flush=True)
    seconds, processor, memory, error = apart(ours, edges, n, 3)
    row = f"{seconds:.1f} | {processor:.1f} | {memory:.0f} | {error:.0e} |"
    print(f"| dgn.directions, all components, best of 3 | {row}", flush=True)
    peer = apart(theirs, matrix)
    if peer is None:
        print(f"| scipy lobpcg + pyamg | not done in {LIMIT} | | | |")
        return
    print(f"| scipy lobpcg + pyamg | {peer[0]:.1f} + {peer[1]:.1f} | {peer[3]:.1f} | | {peer[2]:.0e} |")
    print(
        f"\n{(peer[0] + peer[1]) / seconds:.1f} times in seconds, {peer[3] / processor:.1f} in CPU seconds", flush=True
    )


def changed(edges: torch.Tensor, n: int, share: float) -> torch.Tensor:
    """The edges with a share of them removed at random, and as many added that close triangles, as in real networks."""
    draw = torch.Generator().manual_seed(1)
    count = max(1, int(share * edges.size(1)))
    order = torch.randperm(edges.size(1), generator=draw)
    both = torch.cat([edges, edges.flip(0)], dim=1)
    both = both[:, both[0].argsort(stable=True)]
    degree = both[0].bincount(minlength=n)
    first = degree.cumsum(0) - degree
    source, middle = edges[:, order[:count]]
    target = both[1, first[middle] + (torch.rand(count, generator=draw) * degree[middle]).long()]
    return torch.cat([edges[:, order[count:]], torch.stack([source, target])[:, source != target]], dim=1)


def updates(edges: torch.Tensor, n: int) -> None:
    print(
        "\n| edges changed | cold: CPU seconds, iterations | update: CPU seconds, iterations | change of eigenvalues |"
    )
    print("|---|---:|---:|---:|", flush=True)
    before = dgn.directions(edges, n, k=K)
    for share in (1e-4, 1e-3, 1e-2):
        after = changed(edges, n, share)
        cold, cold_steps = counted(lambda after=after: dgn.directions(after, n, k=K))
        warm, warm_steps = counted(lambda after=after: before.update(after, n))
        big = cold.result.component.bincount().argmax()
        old = before.eigenvalues[before.component.bincount().argmax()]
        moved = float((cold.result.eigenvalues[big] / old - 1).abs().max())
        print(
            f"| {share:.2%} | {cold.processor:.1f}, {cold_steps} | {warm.processor:.1f}, {warm_steps} | {moved:.1e} |",
            flush=True,
        )


def counted(function: Callable[[], Any]) -> tuple[Cost, int]:
    """The cost of a call, and its number of iterations."""
    steps = 0
    original = dgn_lobpcg._improve

    def improve(*arguments: Any) -> Any:
        nonlocal steps
        steps += 1
        return original(*arguments)

    dgn_lobpcg._improve = improve  # type: ignore[assignment]
    try:
        return measured(function), steps
    finally:
        dgn_lobpcg._improve = original


def against_exact() -> None:
    """The iteration and the exact factorisation on the same component."""
    print("\n| graph | iteration: CPU seconds | exact factorisation: CPU seconds |\n|---|---:|---:|", flush=True)
    graphs = {"grid, 90,000 nodes": grid(300, 300), "collaboration, 15,000 nodes": collaboration(15_000, 75_000)}
    for name, (edges, n) in graphs.items():
        matrix = largest_component(edges, n)
        task = matrix, normalized(matrix, None), np.full(matrix.shape[0], matrix.shape[0] ** -0.5), K + 1
        costs = [
            measured(lambda solve=solve, task=task: solve(*task))
            for solve in (dgn_lobpcg.solve_lobpcg, solve_shift_invert)
        ]
        print(f"| {name} | {costs[0].processor:.1f} | {costs[1].processor:.1f} |", flush=True)


def poisson(edges: torch.Tensor, n: int) -> None:
    """L x = b with one right-hand side, on the largest component."""
    matrix = largest_component(edges, n)
    laplacian = normalized(matrix, None)
    row, column = matrix.nonzero()
    graph = dgn.as_graph(torch.from_numpy(np.stack([row, column]).astype(np.int64)), matrix.shape[0])
    source = torch.randn(matrix.shape[0], generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    source -= source.mean()
    solved = measured(lambda: dgn.solve_laplacian(graph, source))
    jacobi = csr_array((1 / laplacian.diagonal(), (np.arange(len(source)),) * 2), shape=laplacian.shape)
    plain = measured(lambda: cg(laplacian, source.numpy(), rtol=1e-8, maxiter=5000, M=jacobi))
    print(
        f"\nL x = b to 1e-8: dgn {solved.processor:.1f} CPU seconds, scipy cg with Jacobi {plain.processor:.1f}",
        flush=True,
    )


def growth() -> None:
    print(
        "\n| nodes | edges | seconds | CPU seconds | peak MB | residual |\n|---:|---:|---:|---:|---:|---:|", flush=True
    )
    rows = []
    for n in (10_000, 30_000, 100_000, 300_000, 1_000_000):
        edges, _ = collaboration(n, 5 * n)
        seconds, processor, memory, error = apart(ours, edges, n, 1)
        rows.append((n, seconds, processor, memory))
        row = f"{seconds:.1f} | {processor:.1f} | {memory:.0f} | {error:.0e} |"
        print(f"| {n} | {edges.size(1)} | {row}", flush=True)
    plot(np.array(rows))


def plot(rows: np.ndarray) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.6, 2.9), layout="constrained")
    labels = ("seconds", "CPU seconds, all threads", "peak MB beyond the graph")
    for axes, values, label in zip(figure.subplots(1, 3), rows[:, 1:].T, labels, strict=True):
        axes.loglog(rows[:, 0], values, "o-", color="#4b2e83", label="measured")
        linear = values[-1] * rows[:, 0] / rows[-1, 0]
        axes.loglog(rows[:, 0], linear, ":", color="#8a8d94", label="linear")
        axes.set_xlabel("nodes (five edges for each)")
        axes.set_title(label, fontsize=10)
        axes.grid(visible=True, which="major", color="#e4e6ea")
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False)
    temporary = FIGURE.with_name(f".{FIGURE.name}.part")
    figure.savefig(temporary, dpi=110, format="png", facecolor="white", metadata={"Software": None})
    temporary.replace(FIGURE)


def main() -> None:
    dgn.directions(*collaboration(6000, 30000), k=K)  # compiles
    arguments = sys.argv[1:]
    print(f"{torch.get_num_threads()} threads")
    edges, n = collaboration(236_000, 1_200_000)
    if "--growth" in arguments:
        growth()
    against_exact()
    updates(edges, n)
    poisson(edges, n)
    compare("small collaboration", *collaboration(20_000, 100_000))
    compare("collaboration", edges, n)
    for path in (Path(argument) for argument in arguments if argument != "--growth"):
        compare(path.stem, *stored(path))


if __name__ == "__main__":
    main()
