"""Molecules whose prediction changes with the basis of repeated eigenspaces.

    python -m benchmarks.eigenvectors.bases molhiv.npz [--draws 3] [--weight-noise 1e-6]

Untrained networks of the shape of ``molhiv/tuned`` with other aggregators, in double precision. A prediction has
changed if it moved by more than a millionth of the standard deviation over molecules. Bases are drawn of whole
eigenspaces, of which the network reads the first directions. All other molecules have bitwise identical directions and
are left out. "Noise" gives all bonds weights of 1 up to ``--weight-noise``, and counts predictions that move by a
hundredth.
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
SOLVED = 8  # directions that are computed, so that eigenspaces are complete when they are resampled
CHUNK = 1024  # molecules at once
BASIS, NOISE = 1e-6, 1e-2  # standard deviations by which a changed prediction moves


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--weight-noise", type=float, default=1e-6)
    arguments = parser.parse_args()
    graphs = load_benchmark("molhiv", arguments.file).graphs
    directions = dgn.directions(graphs.graph, k=SOLVED)
    repeated = of_graphs(graphs, directions, directions.repeated()[:, :COLUMNS].any(dim=1))
    first = of_graphs(graphs, directions, directions.repeated()[:, 0])
    cut = of_graphs(graphs, directions, (directions.gap[:, :3] <= 1e-8).all(dim=1))
    counts = [f"{int(mask.sum()):,}" for mask in (first, cut, repeated)]
    print(f"{len(graphs):,} molecules: {counts[0]} with a repeated lambda_1, {counts[1]} of them four times or more;")
    print(f"{counts[2]} with a repeat among the first {COLUMNS}, which are compared\n")
    chosen = graphs.select(repeated.nonzero()[:, 0])
    print("| aggregators | another basis changes | of all | largest change | noise changes | though no row vanishes |")
    print("|---|---:|---:|---:|---:|---:|")
    for names in AGGREGATORS:
        basis, noise, vanishes = changes(chosen, names, arguments.draws, arguments.weight_noise)
        changed, perturbed = int((basis > BASIS).sum()), noise > NOISE
        print(f"| `{' '.join(('mean', *names))}` | {changed:,} | {changed / len(graphs):.1%} | {basis.max():.0e} "
              f"| {int(perturbed.sum()):,} | {int((perturbed & ~vanishes).sum()):,} |")  # fmt: skip


def of_graphs(graphs: PackedGraphs, directions: dgn.Directions, component_mask: Tensor) -> Tensor:
    """Whether a property holds for any component of each graph."""
    return torch.zeros(len(graphs)).index_add(0, graphs.graph.batch, component_mask[directions.component].float()) > 0


def changes(graphs: PackedGraphs, names: tuple[str, ...], draws: int, noise: float) -> tuple[Tensor, Tensor, Tensor]:
    """The largest change of each prediction, in standard deviations, for another basis and for other edge weights.

    The third result is whether the field, or that of the group, vanishes at any node of a graph.
    """
    overrides = [f"network.aggregators=[{', '.join(('mean', *names))}]", "network.dropout=0"]
    torch.manual_seed(0)
    network = build_for_inputs(load_experiment("molhiv/tuned", overrides).network, known_inputs("molhiv"))
    network = network.double().eval()
    generator = torch.Generator().manual_seed(0)
    original, resampled, perturbed, vanishes = [], [], [], []
    for index in torch.split(torch.arange(len(graphs)), CHUNK):
        chunk = graphs.select(index)
        directions = dgn.directions(chunk.graph, k=SOLVED)
        original.append(predict(network, chunk, directions))
        vanishes.append(has_empty_rows(network, chunk, directions))
        resampled.append(torch.stack([predict(network, chunk, directions.resample(generator)) for _ in range(draws)]))
        perturbed.append(
            predict(
                network,
                chunk,
                dgn.directions(chunk.graph, k=SOLVED, edge_weight=noisy_weights(chunk, noise, generator)),
            )
        )
    prediction = torch.cat(original)
    basis_change = (torch.cat(resampled, dim=1) - prediction).abs().amax(dim=0) / prediction.std()
    noise_change = (torch.cat(perturbed) - prediction).abs() / prediction.std()
    return basis_change, noise_change, torch.cat(vanishes)


def has_empty_rows(network: DGN, graphs: PackedGraphs, directions: dgn.Directions) -> Tensor:
    """Whether any aggregator has no direction at some node of each graph."""
    graph, columns, plan = graphs.graph, slice(0, COLUMNS), network.plan
    gap = directions.gap[directions.component][:, columns]
    weights = plan.compute_weights(dgn.gradient(directions.potential[:, columns], graph), graph, gap)
    groups = torch.split(weights.edge, [weight.columns for weight in plan.weights], dim=1)
    rows = torch.stack([graph.sum_sorted(group.norm(dim=1)) for group in groups], dim=1)
    empty = ((rows == 0).any(dim=1) & (graph.in_degree > 0)).float()
    return torch.zeros(len(graphs)).index_add(0, graph.batch, empty) > 0


def noisy_weights(graphs: PackedGraphs, noise: float, generator: torch.Generator) -> Tensor:
    """Edge weights of 1 up to some noise, the same for both directions of an edge."""
    source, target = graphs.graph.edge_index
    pair = torch.minimum(source, target) * graphs.graph.num_nodes + torch.maximum(source, target)
    _, index = torch.unique(pair, return_inverse=True)
    return 1 + noise * (2 * torch.rand(int(index.max()) + 1, generator=generator, dtype=torch.float64) - 1)[index]


@torch.no_grad()
def predict(network: DGN, graphs: PackedGraphs, directions: dgn.Directions) -> Tensor:
    graph, columns = graphs.graph, slice(0, COLUMNS)
    prediction: Tensor = network(
        graphs.nodes["x"].long(),
        graph,
        dgn.gradient(directions.potential[:, columns], graph),
        graphs.edges["edge_attr"].long(),
        graph.batch,
        gap=directions.gap[directions.component][:, columns],
    )
    return prediction[:, 0]


if __name__ == "__main__":
    with torch.no_grad():
        main()
