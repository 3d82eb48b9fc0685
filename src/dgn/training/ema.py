"""The running average of a network's weights, which scores better than the weights themselves."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor


class Averaging:
    r"""An average over the last steps of all that it is given.

    .. math:: \bar w_t = \bar w_{t-1} + \max\Big(1 - \beta, \frac{1}{t}\Big) (w_t - \bar w_{t-1})

    It is the mean of all steps up to :math:`1 / (1 - \beta)` of them, and forgets by the factor :math:`\beta` from then
    on. Nothing waits for the device, and :meth:`step` can be captured in a CUDA graph.

    >>> weight = torch.zeros(1)
    >>> averaging = Averaging([weight], 0.9)
    >>> for value in (1.0, 2.0, 6.0):
    ...     _ = weight.fill_(value)
    ...     averaging.step()
    >>> with averaging.in_place():
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
        away = torch._foreach_sub(self.live, self.shadow)
        torch._foreach_mul_(away, self.steps.reciprocal().clamp(min=1 - self.decay))
        torch._foreach_add_(self.shadow, away)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """While it lasts, the network has the averaged weights."""
        before = [tensor.clone() for tensor in self.live]
        torch._foreach_copy_(self.live, self.shadow)
        try:
            yield
        finally:
            torch._foreach_copy_(self.live, before)
