"""The loss of a batch with its gradient on the GPU (Triton)."""

import triton
import triton.language as tl


@triton.jit
def entry_terms(prediction, target, share, BINARY: tl.constexpr):
    """Weighted loss of entries and its derivative; ``share`` is their weight."""
    if BINARY:
        # log(1 + exp(-|p|)) keeps its digits where exp(p) would overflow.
        small = tl.exp(-tl.abs(prediction))
        loss = tl.maximum(prediction, 0.0) - prediction * target + tl.log(1.0 + small)
        slope = tl.where(prediction >= 0, 1.0, small) / (1.0 + small) - target
    else:
        error = prediction - target
        loss = tl.abs(error)
        slope = tl.where(error > 0, 1.0, tl.where(error < 0, -1.0, 0.0))
    return share * loss, share * slope


@triton.jit
def entry_loss(
    prediction, target, weight, terms, gradient, num_entries, targets, tiny, BINARY: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Add the sums of losses and weights of labelled entries to ``terms``; write the gradient of their quotient."""
    numerator, denominator = tl.zeros([BLOCK], tl.float32), tl.zeros([BLOCK], tl.float32)
    for start in range(0, num_entries, BLOCK):
        at = start + tl.arange(0, BLOCK)
        inside = at < num_entries
        label = tl.load(target + at, mask=inside, other=float("nan")).to(tl.float32)
        labelled = label == label  # not NaN
        if BINARY:
            labelled = label >= 0
        share = tl.where(labelled, tl.load(weight + at // targets, mask=inside, other=0.0).to(tl.float32), 0.0)
        counted = share > 0
        value = tl.where(counted, tl.load(prediction + at, mask=inside, other=0.0), 0.0)
        loss, slope = entry_terms(value, tl.where(counted, label, 0.0), share, BINARY)
        tl.store(gradient + at, slope, mask=inside)
        numerator += loss
        denominator += share
    total = tl.sum(denominator)
    tl.store(terms, tl.load(terms) + tl.sum(numerator))
    tl.store(terms + 1, tl.load(terms + 1) + total)
    for start in range(0, num_entries, BLOCK):
        at = start + tl.arange(0, BLOCK)
        inside = at < num_entries
        tl.store(gradient + at, tl.load(gradient + at, mask=inside) / tl.maximum(total, tiny), mask=inside)
