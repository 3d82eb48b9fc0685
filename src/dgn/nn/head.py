"""From what was read out to the outputs: the published perceptron."""

from itertools import pairwise

from torch import Tensor, nn

from dgn.nn.fused.select import head_is_fused
from dgn.nn.linear import Linear
from dgn.nn.norm import BatchNorm


class Head(nn.Sequential):
    """Two halvings with ReLU, then the outputs.

    Shapes:
        [N, channels] to [N, targets].

    >>> Head(8, 8, targets=2)
    Head(
      (0): Linear(in_features=8, out_features=4, bias=True)
      (1): ReLU()
      (2): Linear(in_features=4, out_features=2, bias=True)
      (3): ReLU()
      (4): Linear(in_features=2, out_features=2, bias=True)
    )
    """

    plain = False  # whether kernels leave it to PyTorch

    def __init__(self, channels: int, width: int, targets: int) -> None:
        widths = [channels, max(width // 2, 1), max(width // 4, 1)]
        hidden = [part for a, b in pairwise(widths) for part in (Linear(a, b), nn.ReLU())]
        super().__init__(*hidden, Linear(widths[-1], targets))

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002, the name of the parent class
        out: Tensor = self.fused(input) if self._is_fused(input) else super().forward(input)  # type: ignore[no-untyped-call]
        return out

    def fused(self, x: Tensor) -> Tensor:
        """The same by one kernel."""
        from dgn.nn.fused.gpu_head import Head as Kernels

        out: Tensor = Kernels.apply(x, *self.parameters())  # type: ignore[no-untyped-call]
        return out

    def _is_fused(self, x: Tensor) -> bool:
        widest = max(x.size(-1), *(bias.numel() for bias in list(self.parameters())[1::2]))
        return not self.plain and head_is_fused(x, next(self.parameters()), widest)


def leave_to_pytorch(network: nn.Module, plain: bool) -> None:
    """Whether kernels leave norms, what follows them, and heads to PyTorch, which can differentiate them twice."""
    for part in network.modules():
        if isinstance(part, BatchNorm | Head):
            part.plain = plain
