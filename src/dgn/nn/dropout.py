"""Dropout whose random numbers come from a generator of one's own."""

import torch
from torch import Tensor, nn


class Dropout(nn.Dropout):
    """``nn.Dropout``, with numbers from ``generator`` once it is set.

    Networks that train side by side then draw independently of each other, and a run that is taken up again draws
    what it would have drawn.
    """

    generator: torch.Generator | None = None

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002, the name of the parent class
        if not self.training or self.p == 0:
            return input
        if self.generator is None:
            return super().forward(input)
        kept = torch.empty_like(input).bernoulli_(1 - self.p, generator=self.generator)
        return input * kept / (1 - self.p)


def draw_from(module: nn.Module, generator: torch.Generator | None) -> None:
    """Let every dropout of a module draw from a generator."""
    for part in module.modules():
        if isinstance(part, Dropout):
            part.generator = generator
