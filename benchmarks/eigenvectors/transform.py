"""Eigenvectors as a PyG transform: milliseconds of processor time a molecule, PyG and ours in one run.

    python -m benchmarks.eigenvectors.transform [--data ZINC] [--graphs 2000]

``AddLaplacianEigenvectorPE`` and ``AddDirections`` are called graph by graph, as a dataset calls its transform;
``AddDirections.transform_all`` is one call for all of them. One thread, two eigenvectors, the median over rounds that
are taken in turns. Without ``--data`` the graphs are random trees of 15 to 31 nodes with a few rings.
"""

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from random import Random

import torch
from torch_geometric.data import Data
from torch_geometric.transforms import AddLaplacianEigenvectorPE

from dgn.data import load_benchmark
from dgn.transforms import AddDirections

K, ROUNDS = 2, 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data", help="the folder or file of ZINC")
    parser.add_argument("--graphs", type=int, default=2000)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    graphs = zinc(arguments.data, arguments.graphs) if arguments.data else trees(arguments.graphs)
    theirs, ours = AddLaplacianEigenvectorPE(K, is_undirected=True), AddDirections(K)
    ways: dict[str, Callable[[], object]] = {
        "`AddLaplacianEigenvectorPE` of PyG": lambda: [theirs(graph) for graph in graphs],
        "`AddDirections`": lambda: [ours(graph) for graph in graphs],
        "`AddDirections.transform_all`": lambda: ours.transform_all(graphs),
    }
    ours(graphs[0])  # compiles the kernels, or loads them
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(ROUNDS):
        for name, run in ways.items():
            seconds[name].append(timed(run))
    print(f"{len(graphs)} graphs, {datetime.now(UTC):%d %B %Y}, torch {torch.__version__}\n")
    print("| | ms a graph | of PyG |\n|---|---:|---:|")
    first = statistics.median(next(iter(seconds.values())))
    for name, rounds in seconds.items():
        median = statistics.median(rounds)
        print(f"| {name} | {1000 * median / len(graphs):.3f} | {median / first:.2f} |")


def timed(run: Callable[[], object]) -> float:
    begin = time.process_time()
    run()
    return time.process_time() - begin


def zinc(path: str, count: int) -> list[Data]:
    """The first molecules of ZINC."""
    graphs = load_benchmark("zinc", path).graphs
    return [Data(edge_index=graphs[i].edge_index.long(), num_nodes=graphs[i].num_nodes) for i in range(count)]


def trees(count: int) -> list[Data]:
    """Random trees with rings of six."""
    draw = Random(0)
    return [tree(draw.randint(15, 31), draw) for _ in range(count)]


def tree(nodes: int, draw: Random) -> Data:
    bonds: Sequence[tuple[int, int]] = [(draw.randrange(max(0, i - 3), i), i) for i in range(1, nodes)]
    bonds = [*bonds, *((i, i + 5) for i in range(0, nodes - 5, 9))]
    edges = torch.tensor(bonds).T
    return Data(edge_index=torch.cat([edges, edges.flip(0)], dim=1), num_nodes=nodes)


if __name__ == "__main__":
    main()
