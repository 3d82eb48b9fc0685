"""Batch norm that leaves out padding rows."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as distributed
from torch import Tensor, nn


def trains_together() -> bool:
    """Whether several processes share the work of each step."""
    return distributed.is_available() and distributed.is_initialized() and distributed.get_world_size() > 1


class BatchNorm(nn.BatchNorm1d):
    r"""Batch norm whose statistics leave out padding, and span all processes that train together.

    .. math:: y = \frac{x - \mu}{\sqrt{\sigma^2 + \epsilon}} \gamma + \beta, \qquad
        \mu = \frac{1}{\sum_i r_i} \sum_i r_i x_i, \quad \sigma^2 = \frac{1}{\sum_i r_i} \sum_i r_i (x_i - \mu)^2

    ``row_mask`` :math:`r` is 1 for rows that count and 0 for padding; without it, in one process, this is
    ``nn.BatchNorm1d``. Padding gets numbers too, which nobody may read. Where no row counts, the sums are divided by 1.

    Shapes:
        ``x`` [N, C], ``row_mask`` [N, 1]; returns [N, C].
    """

    plain = False  # whether kernels leave it, and what follows it, to PyTorch

    def forward(self, input: Tensor, row_mask: Tensor | None = None) -> Tensor:  # noqa: A002, the name of the parent class
        together = trains_together()
        if not self.training or (row_mask is None and not together):
            return super().forward(input)
        x = input.to(torch.promote_types(input.dtype, torch.float32))  # half precision cannot count to a million
        rows = torch.ones_like(x[:, :1]) if row_mask is None else row_mask.to(x.dtype)
        row_count = _everywhere(rows.sum(), together)
        count = row_count.clamp(min=1)
        mean = _everywhere((x * rows).sum(0), together) / count
        centered = x - mean
        variance = _everywhere((centered.square() * rows).sum(0), together) / count
        self._remember(mean.detach(), variance.detach(), row_count.detach())
        return (centered * (variance + self.eps).rsqrt() * self.weight + self.bias).to(input.dtype)

    def _remember(self, mean: Tensor, variance: Tensor, count: Tensor) -> None:
        """Move the running statistics, with the unbiased variance as PyTorch does; not where no row counts."""
        if self.running_mean is None or self.running_var is None or self.num_batches_tracked is None:
            return
        self.num_batches_tracked.add_(1)
        momentum = count.clamp(max=1) * (1 / self.num_batches_tracked if self.momentum is None else self.momentum)
        self.running_mean.lerp_(mean.to(self.running_mean.dtype), momentum.to(self.running_mean.dtype))
        unbiased = variance * (count / (count - 1).clamp(min=1))
        self.running_var.lerp_(unbiased.to(self.running_var.dtype), momentum.to(self.running_var.dtype))


@contextmanager
def exact_statistics(network: nn.Module) -> Iterator[None]:
    """Batch norms of a network keep, inside the block, the mean statistics of the batches that pass through it.

    As ``torch.optim.swa_utils.update_bn``, for any loop. Running statistics from before are dropped.

    >>> norm = BatchNorm(1).eval()
    >>> with exact_statistics(norm):
    ...     for batch in (torch.tensor([[1.0], [3.0]]), torch.tensor([[5.0], [7.0]])):
    ...         _ = norm(batch)
    >>> norm.running_mean.item(), norm.running_var.item(), norm.training
    (4.0, 2.0, False)
    """
    norms = [
        module for module in network.modules() if isinstance(module, nn.BatchNorm1d) and module.track_running_stats
    ]
    modes = [(norm.training, norm.momentum) for norm in norms]
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # a mean over batches
        norm.train()
    try:
        yield
    finally:
        for norm, (training, momentum) in zip(norms, modes, strict=True):
            norm.momentum = momentum
            norm.train(training)


def normalize_rows(norm: nn.Module, x: Tensor, row_mask: Tensor | None) -> Tensor:
    """Batch norm over real rows; a norm put in its place, by ``convert_sync_batchnorm`` for example, sees all rows."""
    y: Tensor = norm(x, row_mask) if isinstance(norm, BatchNorm) else norm(x)
    return y


def _everywhere(value: Tensor, together: bool) -> Tensor:
    """The sum of a value over all processes, with gradients through it."""
    if not together:
        return value
    summed: Tensor = _SumOverProcesses.apply(value)  # type: ignore[no-untyped-call]
    return summed


class _SumOverProcesses(torch.autograd.Function):
    """Every process reads the sum: what flows back to a part is the sum of what flows back to all of them."""

    @staticmethod
    def forward(ctx: Any, value: Tensor) -> Tensor:  # noqa: ARG004, nothing is kept
        return _summed(value)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:  # noqa: ARG004
        return _summed(grad)


def _summed(value: Tensor) -> Tensor:
    total = value.clone(memory_format=torch.contiguous_format)
    distributed.all_reduce(total)
    return total
