"""Molecules for which a network says something else when the basis of repeated eigenspaces is drawn again.

    python benchmarks/bases.py molhiv.npz [--draws 3] [--weight-noise 1e-6]

Untrained networks of the shape of ``molhiv/tuned`` with other aggregators, in double precision. An answer has changed
if it moved by more than a millionth of the standard deviation over molecules. Bases are drawn of whole eigenspaces, of
which the network then sees the first directions. All other molecules have the same directions to the bit, and are not
asked. "Noise" gives all bonds weights of 1 up to ``--weight-noise``, and counts answers that move by a hundredth.
"""

import argparse
from pathlib import Path

import torch
from torch import Tensor

import dgn
from dgn.data.benchmark import load_benchmark
from dgn.data.packed import PackedGraphs
from dgn.nn import DGN
from dgn.training.build import build_for_inputs, known_inputs
from dgn.training.experiment import load_experiment

AGGREGATORS = (("dx1",), ("dx1-group",), ("av1",), ("av1-group",), ("dx1", "dx2"), ("dx1-group", "dx2-group"))
COLUMNS = 4  # directions that these read
SOLVED = 8  # directions that are found, so that eigenspaces are whole when they are drawn
CHUNK = 1024  # molecules at once
BASIS, NOISE = 1e-6, 1e-2  # standard deviations by which an answer moves to count as changed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--weight-noise", type=float, default=1e-6)
    asked = parser.parse_args()
    graphs = load_benchmark("molhiv", asked.file).graphs
    found = dgn.directions(graphs.graph, k=SOLVED)
    repeated = of_graphs(graphs, found, found.repeated()[:, :COLUMNS].any(dim=1))
    first = of_graphs(graphs, found, found.repeated()[:, 0])
    cut = of_graphs(graphs, found, (found.gap[:, :3] <= 1e-8).all(dim=1))
    counts = [f"{int(part.sum()):,}" for part in (first, cut, repeated)]
    print(f"{len(graphs):,} molecules: {counts[0]} with a repeated lambda_1, {counts[1]} of them four times or more;")
    print(f"{counts[2]} with a repeat among the first {COLUMNS}, which are asked\n")
    chosen = graphs.select(repeated.nonzero()[:, 0])
    print("| aggregators | another basis changes | of all | largest change | noise changes | though no row vanishes |")
    print("|---|---:|---:|---:|---:|---:|")
    for names in AGGREGATORS:
        basis, noise, vanishes = changes(chosen, names, asked.draws, asked.weight_noise)
        turned, shaken = int((basis > BASIS).sum()), noise > NOISE
        print(f"| `{' '.join(('mean', *names))}` | {turned:,} | {turned / len(graphs):.1%} | {basis.max():.0e} "
              f"| {int(shaken.sum()):,} | {int((shaken & ~vanishes).sum()):,} |")  # fmt: skip


def of_graphs(graphs: PackedGraphs, found: dgn.Directions, of_component: Tensor) -> Tensor:
    """Whether anything holds for any component of each graph."""
    return torch.zeros(len(graphs)).index_add(0, graphs.graph.batch, of_component[found.component].float()) > 0


def changes(graphs: PackedGraphs, names: tuple[str, ...], draws: int, noise: float) -> tuple[Tensor, Tensor, Tensor]:
    """How far the answer of each graph moves at most, in standard deviations: for another basis, and other weights.

    The third says of each graph whether the field, or that of the group, vanishes at any of its nodes.
    """
    overrides = [f"network.aggregators=[{', '.join(('mean', *names))}]", "network.dropout=0"]
    torch.manual_seed(0)
    network = build_for_inputs(load_experiment("molhiv/tuned", overrides).network, known_inputs("molhiv"))
    network = network.double().eval()
    generator = torch.Generator().manual_seed(0)
    before, turned, shaken, vanishes = [], [], [], []
    for part in torch.split(torch.arange(len(graphs)), CHUNK):
        some = graphs.select(part)
        found = dgn.directions(some.graph, k=SOLVED)
        before.append(ask(network, some, found))
        vanishes.append(has_empty_rows(network, some, found))
        turned.append(torch.stack([ask(network, some, found.resample(generator)) for _ in range(draws)]))
        shaken.append(
            ask(network, some, dgn.directions(some.graph, k=SOLVED, edge_weight=other(some, noise, generator)))
        )
    answer = torch.cat(before)
    moved = (torch.cat(turned, dim=1) - answer).abs().amax(dim=0), (torch.cat(shaken) - answer).abs()
    return moved[0] / answer.std(), moved[1] / answer.std(), torch.cat(vanishes)


def has_empty_rows(network: DGN, graphs: PackedGraphs, found: dgn.Directions) -> Tensor:
    """Whether any aggregator has no direction at some node of each graph."""
    graph, kept, plan = graphs.graph, slice(0, COLUMNS), network.plan
    gap = found.gap[found.component][:, kept]
    weights = plan.compute_weights(dgn.gradient(found.potential[:, kept], graph), graph, gap)
    groups = torch.split(weights.edge, [weight.columns for weight in plan.weights], dim=1)
    rows = torch.stack([graph.sum_sorted(group.norm(dim=1)) for group in groups], dim=1)
    empty = ((rows == 0).any(dim=1) & (graph.in_degree > 0)).float()
    return torch.zeros(len(graphs)).index_add(0, graph.batch, empty) > 0


def other(graphs: PackedGraphs, noise: float, generator: torch.Generator) -> Tensor:
    """Weights of edges that are 1 up to some noise, the same for both ways of an edge."""
    source, target = graphs.graph.edge_index
    pair = torch.minimum(source, target) * graphs.graph.num_nodes + torch.maximum(source, target)
    _, number = torch.unique(pair, return_inverse=True)
    return 1 + noise * (2 * torch.rand(int(number.max()) + 1, generator=generator, dtype=torch.float64) - 1)[number]


@torch.no_grad()
def ask(network: DGN, graphs: PackedGraphs, found: dgn.Directions) -> Tensor:
    graph, kept = graphs.graph, slice(0, COLUMNS)
    answer: Tensor = network(
        graphs.nodes["x"].long(),
        graph,
        dgn.gradient(found.potential[:, kept], graph),
        graphs.edges["edge_attr"].long(),
        graph.batch,
        gap=found.gap[found.component][:, kept],
    )
    return answer[:, 0]


if __name__ == "__main__":
    with torch.no_grad():
        main()
