"""The running average of a network's weights, which scores better than the weights themselves."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor


class Averaging:
    r"""An average over the last steps, :math:`\bar w \leftarrow \beta \bar w + (1 - \beta) w`, of all that it is given.

    It begins with the first weights, which are forgotten after some :math:`1 / (1 - \beta)` steps. Nothing waits for
    the device, and :meth:`step` can be captured in a CUDA graph.

    >>> weight = torch.zeros(1)
    >>> averaging = Averaging([weight], 0.9)
    >>> _ = weight.fill_(1.0)
    >>> averaging.step()
    >>> with averaging.in_place():
    ...     print(weight)
    tensor([0.1000])
    >>> weight
    tensor([1.])
    """

    def __init__(self, live: Sequence[Tensor], decay: float) -> None:
        self.live, self.decay = [tensor.detach() for tensor in live], decay
        self.shadow = [tensor.clone() for tensor in self.live]

    @torch.no_grad()
    def step(self) -> None:
        """Move the average towards the weights."""
        torch._foreach_lerp_(self.shadow, self.live, 1 - self.decay)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """While it lasts, the network has the averaged weights."""
        before = [tensor.clone() for tensor in self.live]
        torch._foreach_copy_(self.live, self.shadow)
        try:
            yield
        finally:
            torch._foreach_copy_(self.live, before)
