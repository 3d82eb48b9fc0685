"""Structural encodings of ZINC and MolHIV: the time of walks and rings, and the number of edge types.

python -m benchmarks.training.encodings DIR
"""

import argparse
import time

import torch

from dgn.data.benchmark import load_benchmark
from dgn.encodings import EdgeTypes, return_probabilities, ring_counts

SIZES = range(3, 9)


def seconds(function, repeats=3):
    """The minimal processor time of a few calls, the first of which may compile."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        function()
        times.append(time.process_time() - start)
    return min(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", help="a folder with the files of ZINC and MolHIV")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    molecules(arguments.data)


def molecules(folder):
    """Print the time of walks and rings, and the number of edge types."""
    for name in ("zinc", "molhiv"):
        benchmark = load_benchmark(name, folder)
        graphs, graph = benchmark.graphs, benchmark.graphs.graph
        assert graph.by_target is not None  # sorted before the clock runs
        walks, rings = seconds(lambda g=graph: return_probabilities(g)), seconds(lambda g=graph: ring_counts(g, SIZES))
        bonds = graphs.edges["edge_attr"].reshape(graph.num_edges, -1).long()
        attributes = torch.cat([bonds, ring_counts(graph, SIZES).edges.long()], dim=1)
        training = (graphs.graphs["split"] == 0)[graph.batch[graph.target]]
        in_all, in_training = (
            EdgeTypes.find(rows, benchmark.edge_categories, 10**6) for rows in (attributes, attributes[training])
        )
        edge_types = EdgeTypes.find(attributes[training], benchmark.edge_categories)
        changed = (edge_types.attributes[edge_types.assign(attributes)] != attributes).any(dim=1)
        print(
            f"{name}: {len(graphs)} graphs, walks {walks:.2f} s, rings {rings:.2f} s, {len(in_training)} edge types "
            f"in training, {len(in_all)} in all, {int(changed.sum())} of {len(changed)} edges with another type"
        )


if __name__ == "__main__":
    main()
