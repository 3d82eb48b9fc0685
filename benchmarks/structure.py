"""Structural numbers of whole datasets: how long they take, and how many kinds of edges there are.

python benchmarks/structure.py [--data DIR] [--patterns 10]

With ``--data``, the kinds of edges of ZINC and MolHIV and how long walks and rings take there. Then how long cliques
and affinities of edges take in PATTERN, drawn anew from its recipe: each pattern makes 140 graphs, and 100 patterns all
of it.
"""

import argparse
import time

import torch

from dgn.data.benchmark import load_benchmark
from dgn.data.datasets.pattern import generate_pattern
from dgn.encodings import Kinds, clique_counts, edge_affinities, return_probabilities, ring_counts

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
    parser.add_argument("--data", help="a folder with the files of ZINC and MolHIV")
    parser.add_argument("--patterns", type=int, default=10, help="of PATTERN, 140 graphs each")
    given = parser.parse_args()
    torch.set_num_threads(1)
    if given.data:
        molecules(given.data)
    dense(given.patterns)


def dense(patterns):
    """How long counting takes in dense graphs, and how much a node counts at most."""
    graphs = generate_pattern(patterns)
    graph = graphs.graph
    print(f"pattern: {len(graphs)} graphs, {graph.num_nodes} nodes, {graph.num_edges} edges")
    for sizes in ((3,), (3, 4), (3, 4, 5)):
        took = seconds(lambda s=sizes: clique_counts(graph, s))
        most = clique_counts(graph, sizes).nodes.amax(dim=0).tolist()
        print(f"  cliques of {sizes}: {took:.2f} s, at most {most} with a node")
    print(f"  rings of 3: {seconds(lambda: ring_counts(graph, (3,))):.2f} s")
    print(f"  affinities of edges, 4 steps: {seconds(lambda: edge_affinities(graph, 4)):.2f} s")


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
        every, seen = (Kinds.find(part, benchmark.edge_sizes, 10**6) for part in (attributes, attributes[training]))
        kept = Kinds.find(attributes[training], benchmark.edge_sizes)
        changed = (kept.attributes[kept.number(attributes)] != attributes).any(dim=1)
        print(
            f"{name}: {len(graphs)} graphs, walks {walks:.2f} s, rings {rings:.2f} s, {len(seen)} kinds in training, "
            f"{len(every)} in all, {int(changed.sum())} of {len(changed)} edges taken for another kind"
        )


if __name__ == "__main__":
    main()
