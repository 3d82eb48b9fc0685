"""Exponential moving average (EMA) of a network's weights, which scores better than the weights themselves."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor


class EMA:
    r"""Exponential moving average of tensors over training steps.

    .. math:: \bar w_t = \bar w_{t-1} + \max\Big(1 - \beta, \frac{1}{t}\Big) (w_t - \bar w_{t-1})

    It is the mean of all steps for the first :math:`1 / (1 - \beta)` steps, and decays by the factor :math:`\beta`
    afterwards. Nothing synchronizes with the device, and :meth:`step` can be captured in a CUDA graph.

    >>> weight = torch.zeros(1)
    >>> ema = EMA([weight], 0.9)
    >>> for value in (1.0, 2.0, 6.0):
    ...     _ = weight.fill_(value)
    ...     ema.step()
    >>> with ema.in_place():
    ...     print(weight)
    tensor([3.])
    >>> weight
    tensor([6.])
    """

    def __init__(self, live: Sequence[Tensor], decay: float) -> None:
        self.live, self.decay = [tensor.detach() for tensor in live], decay
        self.shadow = [tensor.clone() for tensor in self.live]
        self.steps = torch.zeros((), device=self.live[0].device)

    @torch.no_grad()
    def step(self) -> None:
        """Move the average towards the weights."""
        self.steps += 1
        difference = torch._foreach_sub(self.live, self.shadow)
        torch._foreach_mul_(difference, self.steps.reciprocal().clamp(min=1 - self.decay))
        torch._foreach_add_(self.shadow, difference)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Swap the averaged weights into the network inside the ``with`` block; what it changes stays averaged."""
        backup = [tensor.clone() for tensor in self.live]
        torch._foreach_copy_(self.live, self.shadow)
        try:
            yield
        finally:
            torch._foreach_copy_(self.shadow, self.live)
            torch._foreach_copy_(self.live, backup)
