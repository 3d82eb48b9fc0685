"""Structural numbers of whole datasets: how long they take, and how many kinds of edges there are.

python benchmarks/structure.py DIR

The kinds of edges of ZINC and MolHIV, and how long walks and rings take there.
"""

import argparse
import time

import torch

from dgn.data.benchmark import load_benchmark
from dgn.encodings import EdgeTypes, return_probabilities, ring_counts

SIZES = range(3, 9)


def seconds(work, repeats=3):
    """The least processor time of a few calls, the first of which may compile."""
    best = []
    for _ in range(repeats):
        begin = time.process_time()
        work()
        best.append(time.process_time() - begin)
    return min(best)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", help="a folder with the files of ZINC and MolHIV")
    given = parser.parse_args()
    torch.set_num_threads(1)
    molecules(given.data)


def molecules(folder):
    """The time of walks and rings, and the kinds of bonds."""
    for name in ("zinc", "molhiv"):
        benchmark = load_benchmark(name, folder)
        graphs, graph = benchmark.graphs, benchmark.graphs.graph
        assert graph.by_target is not None  # sorted before the clock runs
        walks, rings = seconds(lambda g=graph: return_probabilities(g)), seconds(lambda g=graph: ring_counts(g, SIZES))
        bonds = graphs.edges["edge_attr"].reshape(graph.num_edges, -1).long()
        attributes = torch.cat([bonds, ring_counts(graph, SIZES).edges.long()], dim=1)
        training = (graphs.graphs["split"] == 0)[graph.batch[graph.target]]
        every, seen = (
            EdgeTypes.find(part, benchmark.edge_categories, 10**6) for part in (attributes, attributes[training])
        )
        kept = EdgeTypes.find(attributes[training], benchmark.edge_categories)
        changed = (kept.attributes[kept.number(attributes)] != attributes).any(dim=1)
        print(
            f"{name}: {len(graphs)} graphs, walks {walks:.2f} s, rings {rings:.2f} s, {len(seen)} kinds in training, "
            f"{len(every)} in all, {int(changed.sum())} of {len(changed)} edges taken for another kind"
        )


if __name__ == "__main__":
    main()
