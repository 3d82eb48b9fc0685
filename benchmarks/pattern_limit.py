"""How well PATTERN can be solved without knowing its patterns by heart: ``python benchmarks/pattern_limit.py``.

A graph is drawn by known rules: a node of the pattern is joined to any other with chance 1/2; any other one with chance
1/2 to the pattern and to its own block, and .35 across blocks. Blocks are hard to tell apart, so that a pair of
nodes outside is joined with chance q, the mean over pairs. The evidence that node i belongs to the pattern is then

    l_i = sum over j != i of (1 - p_j) log(P(A_ij | 1/2) / P(A_ij | q)),

with p_j the probability that j does. Rows of the table, by how p is known:

- degree: only the share of the other nodes that i is joined to;
- mean field: p_j = sigmoid(l_j + log odds of a node), iterated to a fixed point;
- told: p_j are the true labels of all the others, which no method has: a bound for those that see no blocks.

Scores are balanced accuracies over all test nodes, the threshold chosen on the validation nodes.
"""

import numpy as np
import torch
from numpy.typing import NDArray

from dgn.data import load_benchmark
from dgn.data.pattern import ACROSS, BLOCKS, INSIDE, TO_PATTERN
from dgn.training.metrics import balanced_accuracy

Array = NDArray[np.float64]
ROUNDS, DAMPING = 30, 0.5


def evidence(joined: Array, chance: float) -> Array:
    """What each pair says for its first node being in the pattern, if the second is outside; nothing of itself."""
    found = np.where(joined > 0, np.log(TO_PATTERN / chance), np.log((1 - TO_PATTERN) / (1 - chance)))
    np.fill_diagonal(found, 0.0)
    return found


def mean_field(found: Array, share: float) -> Array:
    odds = np.log(share / (1 - share))
    chance = np.full(len(found), share)
    for _ in range(ROUNDS):
        said = found @ (1 - chance) + odds
        chance = DAMPING * chance + (1 - DAMPING) / (1 + np.exp(-said))
    return said


def score(said: Array, label: NDArray[np.bool_], threshold: float) -> float:
    over = torch.from_numpy(said - threshold)
    return balanced_accuracy(torch.stack([-over, over], dim=1), torch.from_numpy(label).long())


def best_threshold(said: Array, label: NDArray[np.bool_]) -> float:
    order = np.argsort(-said)
    hits, alarms = np.cumsum(label[order]) / label.sum(), np.cumsum(~label[order]) / (~label).sum()
    return float(said[order[np.argmax(hits - alarms)]]) - 1e-9


def main() -> None:
    graphs = load_benchmark("pattern").graphs
    split, label = graphs.graphs["split"].numpy(), graphs.nodes["y"].numpy().astype(bool)
    nodes, edges = graphs.node_pointer.numpy(), graphs.edge_pointer.numpy()
    share = float(label[np.repeat(split == 0, np.diff(nodes))].mean())
    chance = ACROSS + (INSIDE - ACROSS) * 1.2 / BLOCKS  # of unequal blocks, a pair is a little more often in one
    said: dict[str, dict[int, list[Array]]] = {name: {1: [], 2: []} for name in ("degree", "mean field", "told")}
    truth: dict[int, list[NDArray[np.bool_]]] = {1: [], 2: []}
    for number in np.flatnonzero(split > 0):
        part, n = int(split[number]), int(nodes[number + 1] - nodes[number])
        source, target = graphs.edge_index[:, edges[number] : edges[number + 1]].long().numpy()
        joined = np.zeros((n, n))
        joined[target, source] = 1.0
        own, found = label[nodes[number] : nodes[number + 1]], evidence(joined, chance)
        said["degree"][part].append(joined.sum(axis=1) / (n - 1))
        said["mean field"][part].append(mean_field(found, share))
        said["told"][part].append(found @ (1.0 - own))
        truth[part].append(own)
    print("balanced accuracy on the test nodes, percent")
    for name, parts in said.items():
        threshold = best_threshold(np.concatenate(parts[1]), np.concatenate(truth[1]))
        print(f"{name:<12} {100 * score(np.concatenate(parts[2]), np.concatenate(truth[2]), threshold):.2f}")


if __name__ == "__main__":
    main()
