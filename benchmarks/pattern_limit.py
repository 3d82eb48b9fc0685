"""How well PATTERN can be solved without knowing its patterns by heart: ``python benchmarks/pattern_limit.py``.

A graph is drawn by known rules: a node of the pattern is joined to any other with chance 1/2; any other one with chance
1/2 to the pattern and to its own block, and .35 across blocks. If blocks cannot be told apart, a pair of nodes outside
is joined with chance q, the mean over pairs, and the evidence that node i belongs to the pattern is

    l_i = sum over j != i of (1 - p_j) log(P(A_ij | 1/2) / P(A_ij | q)),

with p_j the probability that j does. Rows of the table, by how much is known:

- degree: only the share of the other nodes that i is joined to;
- mean field: p_j = sigmoid(l_j + log odds of a node), iterated to a fixed point;
- sampled: the probability that i belongs to the pattern, given the graph, over all divisions into a pattern and five
  blocks, weighed by the rules of the recipe (Gibbs sampling). Nobody does better without knowing patterns by heart, up
  to the noise of sampling, which "half the chains" shows;
- told: p_j are the true labels of all the others, which no method has: a bound for those that see no blocks.

Scores are balanced accuracies over all test nodes, the threshold chosen on the validation nodes. "other patterns" is
the standard deviation of the score if 100 other patterns had been drawn, from drawing anew from these (with
replacement): scores on two draws of the benchmark cannot be compared any closer. A second table shows that sampled
chances are what they say.
"""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from numpy.typing import NDArray

from dgn.data import load_benchmark
from dgn.data.datasets.pattern import ACROSS, BLOCKS, INSIDE, LARGEST, SMALLEST, SPLIT, TO_PATTERN
from dgn.data.precompute.progress import progress_bar
from dgn.kernels.numba.jit import jit
from dgn.training.metrics import balanced_accuracy

Array = NDArray[np.float64]
Truth = NDArray[np.bool_]
ROUNDS, DAMPING = 30, 0.5
CHAINS, FIRST, SWEEPS = 4, 200, 500  # of each graph; sweeps that are not counted, and those that are
DRAWS = 200  # of 100 patterns


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


@jit
def weigh(size: Array, near: Array, weight: Array) -> float:
    """Weights of the parts that a node may join, from the sizes of the parts and its neighbours in them; their sum.

    Pairs across blocks speak for or against it, beside what they say if it is in the pattern, which is part 0. Sizes
    are uniform and a division of given sizes is as likely as any other, so that a part of s nodes gets one more with
    weight s + 1.
    """
    yes, no = np.log(ACROSS / INSIDE), np.log((1 - ACROSS) / (1 - INSIDE))
    outside, edges = size[1:].sum(), near[1:].sum()
    weight[0] = 0.0
    for block in range(1, len(size)):
        across, joins = outside - size[block], edges - near[block]
        weight[block] = joins * yes + (across - joins) * no
    most, total = weight.max(), 0.0
    for part in range(len(size)):
        weight[part] = np.exp(weight[part] - most) * (size[part] + 1) if size[part] < LARGEST else 0.0
        total += weight[part]
    return total


@jit
def sample(joined: Array, part: NDArray[np.int64], random: np.random.Generator) -> Array:
    """The chance of each node to be in the pattern, the mean over sweeps; ``part`` is where they begin."""
    size, near = np.zeros(BLOCKS + 1), np.zeros((len(part), BLOCKS + 1))
    for i in range(len(part)):
        size[part[i]] += 1
        near[:, part[i]] += joined[i]
    chance, weight = np.zeros(len(part)), np.zeros(BLOCKS + 1)
    for sweep in range(FIRST + SWEEPS):
        for i in range(len(part)):
            old = new = part[i]
            if size[old] == SMALLEST:  # it has to stay
                weight[0], total = (1.0 if old == 0 else 0.0), 1.0
            else:
                size[old] -= 1
                total = weigh(size, near[i], weight)
                draw, new = random.random() * total - weight[0], 0
                while draw > 0 and new < BLOCKS:
                    new += 1
                    draw -= weight[new]
                size[new] += 1
            if sweep >= FIRST:
                chance[i] += weight[0] / total / SWEEPS
            if new != old:
                part[i] = new
                near[:, old] -= joined[i]
                near[:, new] += joined[i]
    return chance


def sampled(joined: Array, likely: Array, seed: int) -> Array:
    """Log odds of each node after half of the chains and after all; they begin with its most ``likely`` nodes."""
    order, n = np.argsort(-likely), len(likely)
    random, found = np.random.default_rng(seed), []
    for _ in range(CHAINS):
        part = np.empty(n, dtype=np.int64)
        in_pattern = n // (BLOCKS + 1)
        part[order[:in_pattern]] = 0
        part[order[in_pattern:]] = 1 + random.permutation(n - in_pattern) % BLOCKS
        found.append(sample(joined, part, random))
    chance = np.stack([np.mean(found[: CHAINS // 2], axis=0), np.mean(found, axis=0)])
    return np.log(chance + 1e-9) - np.log1p(1e-9 - chance)


def score(said: Array, label: Truth, threshold: float) -> float:
    over = torch.from_numpy(said - threshold)
    return 100 * balanced_accuracy(torch.stack([-over, over], dim=1), torch.from_numpy(label).long())


def best_threshold(said: Array, label: Truth) -> float:
    order = np.argsort(-said)
    hits, alarms = np.cumsum(label[order]) / label.sum(), np.cumsum(~label[order]) / (~label).sum()
    return float(said[order[np.argmax(hits - alarms)]]) - 1e-9


def spread(said: list[Array], label: list[Truth], threshold: float) -> float:
    """The deviation of the score over draws of as many patterns; graphs of a pattern follow each other."""
    random, each = np.random.default_rng(0), SPLIT[2]
    found = []
    for _ in range(DRAWS):
        drawn = random.integers(len(said) // each, size=len(said) // each)
        chosen = (drawn[:, None] * each + np.arange(each)).flatten()
        found.append(
            score(np.concatenate([said[i] for i in chosen]), np.concatenate([label[i] for i in chosen]), threshold)
        )
    return float(np.std(found))


def compare_chances(said: Array, label: Truth) -> None:
    """Print how many of the nodes of about the same chance are in the pattern, from their log odds."""
    chance = 1 / (1 + np.exp(-said))
    print("\nof test nodes that are in the pattern with a chance, sampled, of ... those that are, percent")
    for low in np.arange(0, 1, 0.2):
        chosen = (chance > low) & (chance <= low + 0.2)
        mean, true = 100 * chance[chosen].mean(), 100 * label[chosen].mean()
        print(
            f"{100 * low:3.0f} to {100 * low + 20:3.0f}, {mean:.1f} in the mean: {true:.1f} ({chosen.sum():,d} nodes)"
        )


def main() -> None:
    graphs = load_benchmark("pattern").graphs
    split, label = graphs.graphs["split"].numpy(), graphs.nodes["y"].numpy().astype(bool)
    nodes, edges = graphs.node_pointer.numpy(), graphs.edge_pointer.numpy()
    share = float(label[np.repeat(split == 0, np.diff(nodes))].mean())
    chance = ACROSS + (INSIDE - ACROSS) * 1.2 / BLOCKS  # of unequal blocks, a pair is a little more often in one

    def solve(number: int) -> dict[str, Array]:
        own = label[nodes[number] : nodes[number + 1]]
        source, target = graphs.edge_index[:, edges[number] : edges[number + 1]].long().numpy()
        joined = np.zeros((len(own), len(own)))
        joined[target, source] = 1.0
        found = evidence(joined, chance)
        field = mean_field(found, share)
        half, full = sampled(joined, field, number)
        rows = {"degree": joined.sum(axis=1) / (len(own) - 1), "mean field": field, "sampled": full}
        return {**rows, "half the chains": half, "told": found @ (1.0 - own)}

    said, truth = {}, {}
    for part, name in ((1, "validation"), (2, "test")):
        numbers = np.flatnonzero(split == part)
        truth[part] = [label[nodes[number] : nodes[number + 1]] for number in numbers]
        said[part] = []
        with progress_bar(f"solving {name}", len(numbers)) as advance, ThreadPoolExecutor() as pool:
            for found in pool.map(solve, numbers):
                said[part].append(found)
                advance(1)
    print("balanced accuracy on the test nodes, percent; other patterns")
    for name in said[2][0]:
        validation, test = ([found[name] for found in said[part]] for part in (1, 2))
        threshold = best_threshold(np.concatenate(validation), np.concatenate(truth[1]))
        reached = score(np.concatenate(test), np.concatenate(truth[2]), threshold)
        print(f"{name:<16} {reached:.2f} +- {spread(test, truth[2], threshold):.2f}")
    compare_chances(np.concatenate([found["sampled"] for found in said[2]]), np.concatenate(truth[2]))


if __name__ == "__main__":
    main()
