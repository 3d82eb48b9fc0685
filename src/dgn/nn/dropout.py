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
        if self.generator is None or self.p == 1:  # where nothing is kept, nothing is drawn
            return super().forward(input)
        if input.device.type == "cpu":
            return input * (draw_kept(input.shape, self.p, self.generator).to(input.dtype) / (1 - self.p))
        mask = torch.empty_like(input).bernoulli_(1 - self.p, generator=self.generator)
        return input * mask / (1 - self.p)


def draw_kept(shape: torch.Size, p: float, generator: torch.Generator) -> Tensor:
    """True with probability 1 - p, rounded to a multiple of 1 / 65536, on the CPU: four numbers from each 64 bits.

    ``Tensor.bernoulli_`` with a generator draws them one by one, and takes ten times as long.
    """
    count = shape.numel()
    words = torch.empty((count + 3) // 4, dtype=torch.int64).random_(-(2**63), None, generator=generator)
    limit = min(round((1 - p) * 2**16) - 2**15, 2**15 - 1)  # the largest number that is compared with
    return (words.view(torch.int16)[:count] < limit).view(shape)


def draw_from(module: nn.Module, generator: torch.Generator | None) -> None:
    """Let every dropout of a module draw from a generator."""
    for part in module.modules():
        if isinstance(part, Dropout):
            part.generator = generator
