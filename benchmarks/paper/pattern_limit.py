"""The best accuracy on PATTERN without memorizing its patterns: ``python -m benchmarks.paper.pattern_limit``.

A graph is sampled from known rules: a node of the pattern is joined to any other with probability 1/2; any other one
with probability 1/2 to the pattern and to its own block, and .35 across blocks. If blocks are not distinguished, a pair
of nodes outside is joined with probability q, the mean over pairs, and the evidence that node i belongs to the pattern
is

    l_i = sum over j != i of (1 - p_j) log(P(A_ij | 1/2) / P(A_ij | q)),

with p_j the probability that j does. Rows of the table, by what they use:

- degree: only the share of the other nodes that i is joined to;
- mean field: p_j = sigmoid(l_j + log odds of a node), iterated to a fixed point;
- sampled: the posterior probability that i belongs to the pattern, given the graph, over all partitions into a pattern
  and five blocks (Gibbs sampling). No method is better without memorizing patterns, up to the noise of sampling, which
  "half the chains" shows;
- true labels: p_j are the true labels of all the others, which no method has: a bound for methods that ignore blocks.

Scores are balanced accuracies over all test nodes, the threshold chosen on the validation nodes. "other patterns" is
the standard deviation of the score over other draws of 100 patterns, by bootstrap: scores on two draws of the benchmark
cannot be compared more precisely. A second table shows that sampled probabilities are calibrated.
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
CHAINS, BURN_IN, SWEEPS = 4, 200, 500  # of each graph; sweeps before and after burn-in
DRAWS = 200  # bootstrap samples of 100 patterns


def evidence(adjacency: Array, q: float) -> Array:
    """Log likelihood ratio of a pair for its first node in the pattern, if the second is outside; 0 on the diagonal."""
    log_ratio = np.where(adjacency > 0, np.log(TO_PATTERN / q), np.log((1 - TO_PATTERN) / (1 - q)))
    np.fill_diagonal(log_ratio, 0.0)
    return log_ratio


def mean_field(log_ratio: Array, share: float) -> Array:
    prior = np.log(share / (1 - share))
    probability = np.full(len(log_ratio), share)
    for _ in range(ROUNDS):
        log_odds = log_ratio @ (1 - probability) + prior
        probability = DAMPING * probability + (1 - DAMPING) / (1 + np.exp(-log_odds))
    return log_odds


@jit
def weigh(size: Array, near: Array, weight: Array) -> float:
    """Weights of the blocks that a node may join, from the block sizes and its neighbours in them; their sum.

    Block 0 is the pattern; the weights of the others are relative to it, by the pairs across blocks. Sizes are uniform
    and all partitions of given sizes equally likely, so that a block of s nodes gets one more with weight s + 1.
    """
    yes, no = np.log(ACROSS / INSIDE), np.log((1 - ACROSS) / (1 - INSIDE))
    outside, edges = size[1:].sum(), near[1:].sum()
    weight[0] = 0.0
    for block in range(1, len(size)):
        across, joins = outside - size[block], edges - near[block]
        weight[block] = joins * yes + (across - joins) * no
    most, total = weight.max(), 0.0
    for block in range(len(size)):
        weight[block] = np.exp(weight[block] - most) * (size[block] + 1) if size[block] < LARGEST else 0.0
        total += weight[block]
    return total


@jit
def sample(adjacency: Array, block: NDArray[np.int64], random: np.random.Generator) -> Array:
    """The probability of each node to be in the pattern, the mean over sweeps; ``block`` is the initial state."""
    size, near = np.zeros(BLOCKS + 1), np.zeros((len(block), BLOCKS + 1))
    for i in range(len(block)):
        size[block[i]] += 1
        near[:, block[i]] += adjacency[i]
    probability, weight = np.zeros(len(block)), np.zeros(BLOCKS + 1)
    for sweep in range(BURN_IN + SWEEPS):
        for i in range(len(block)):
            old = new = block[i]
            if size[old] == SMALLEST:  # the node cannot leave
                weight[0], total = (1.0 if old == 0 else 0.0), 1.0
            else:
                size[old] -= 1
                total = weigh(size, near[i], weight)
                draw, new = random.random() * total - weight[0], 0
                while draw > 0 and new < BLOCKS:
                    new += 1
                    draw -= weight[new]
                size[new] += 1
            if sweep >= BURN_IN:
                probability[i] += weight[0] / total / SWEEPS
            if new != old:
                block[i] = new
                near[:, old] -= adjacency[i]
                near[:, new] += adjacency[i]
    return probability


def sampled(adjacency: Array, likely: Array, seed: int) -> Array:
    """Log odds of each node after half of the chains and all; the most ``likely`` nodes are the initial pattern."""
    order, n = np.argsort(-likely), len(likely)
    random, probabilities = np.random.default_rng(seed), []
    for _ in range(CHAINS):
        block = np.empty(n, dtype=np.int64)
        in_pattern = n // (BLOCKS + 1)
        block[order[:in_pattern]] = 0
        block[order[in_pattern:]] = 1 + random.permutation(n - in_pattern) % BLOCKS
        probabilities.append(sample(adjacency, block, random))
    mean = np.stack([np.mean(probabilities[: CHAINS // 2], axis=0), np.mean(probabilities, axis=0)])
    return np.log(mean + 1e-9) - np.log1p(1e-9 - mean)


def score(log_odds: Array, label: Truth, threshold: float) -> float:
    logit = torch.from_numpy(log_odds - threshold)
    return 100 * balanced_accuracy(torch.stack([-logit, logit], dim=1), torch.from_numpy(label).long())


def best_threshold(log_odds: Array, label: Truth) -> float:
    order = np.argsort(-log_odds)
    true_positives, false_positives = np.cumsum(label[order]) / label.sum(), np.cumsum(~label[order]) / (~label).sum()
    return float(log_odds[order[np.argmax(true_positives - false_positives)]]) - 1e-9


def spread(log_odds: list[Array], label: list[Truth], threshold: float) -> float:
    """The standard deviation of the score over bootstrap samples of patterns; graphs of a pattern are consecutive."""
    random, per_pattern = np.random.default_rng(0), SPLIT[2]
    patterns, scores = len(log_odds) // per_pattern, []
    for _ in range(DRAWS):
        drawn = random.integers(patterns, size=patterns)
        chosen = (drawn[:, None] * per_pattern + np.arange(per_pattern)).flatten()
        scores.append(
            score(np.concatenate([log_odds[i] for i in chosen]), np.concatenate([label[i] for i in chosen]), threshold)
        )
    return float(np.std(scores))


def print_calibration(log_odds: Array, label: Truth) -> None:
    """Print the fraction of nodes in the pattern by sampled probability, from their log odds."""
    probability = 1 / (1 + np.exp(-log_odds))
    print("\ncalibration on the test nodes: sampled probability, fraction in the pattern, percent")
    for low in np.arange(0, 1, 0.2):
        chosen = (probability > low) & (probability <= low + 0.2)
        mean, true = 100 * probability[chosen].mean(), 100 * label[chosen].mean()
        print(f"{100 * low:3.0f} to {100 * low + 20:3.0f}, mean {mean:.1f}: {true:.1f} ({chosen.sum():,d} nodes)")


def main() -> None:
    graphs = load_benchmark("pattern").graphs
    split, label = graphs.graphs["split"].numpy(), graphs.nodes["y"].numpy().astype(bool)
    nodes, edges = graphs.node_pointer.numpy(), graphs.edge_pointer.numpy()
    share = float(label[np.repeat(split == 0, np.diff(nodes))].mean())
    q = ACROSS + (INSIDE - ACROSS) * 1.2 / BLOCKS  # with unequal blocks, a pair is in the same one a little more often

    def solve(index: int) -> dict[str, Array]:
        y = label[nodes[index] : nodes[index + 1]]
        source, target = graphs.edge_index[:, edges[index] : edges[index + 1]].long().numpy()
        adjacency = np.zeros((len(y), len(y)))
        adjacency[target, source] = 1.0
        log_ratio = evidence(adjacency, q)
        field = mean_field(log_ratio, share)
        half, full = sampled(adjacency, field, index)
        rows = {"degree": adjacency.sum(axis=1) / (len(y) - 1), "mean field": field, "sampled": full}
        return {**rows, "half the chains": half, "true labels": log_ratio @ (1.0 - y)}

    log_odds, truth = {}, {}
    for code, name in ((1, "validation"), (2, "test")):
        indices = np.flatnonzero(split == code)
        truth[code] = [label[nodes[index] : nodes[index + 1]] for index in indices]
        log_odds[code] = []
        with progress_bar(f"solving {name}", len(indices)) as advance, ThreadPoolExecutor() as pool:
            for rows in pool.map(solve, indices):
                log_odds[code].append(rows)
                advance(1)
    print("balanced accuracy on the test nodes, percent; other patterns")
    for name in log_odds[2][0]:
        validation, test = ([rows[name] for rows in log_odds[code]] for code in (1, 2))
        threshold = best_threshold(np.concatenate(validation), np.concatenate(truth[1]))
        reached = score(np.concatenate(test), np.concatenate(truth[2]), threshold)
        print(f"{name:<16} {reached:.2f} +- {spread(test, truth[2], threshold):.2f}")
    print_calibration(np.concatenate([rows["sampled"] for rows in log_odds[2]]), np.concatenate(truth[2]))


if __name__ == "__main__":
    main()
