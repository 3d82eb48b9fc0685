"""A perceptron on each node between two layers."""

from torch import Tensor, nn

from dgn.nn.conv import ConvParts
from dgn.nn.dropout import Dropout
from dgn.nn.fused.select import kernels_apply
from dgn.nn.init import reset
from dgn.nn.layer import epilogue
from dgn.nn.linear import Linear, multiply
from dgn.nn.norm import BatchNorm


class FeedForward(nn.Module):
    r"""Position-wise feed-forward block with a residual.

    .. math:: x + V \, \text{dropout}(\text{relu}(\text{norm}(W x + b))) + c

    Not in the paper. ``factor`` says how many times wider than its ends it is inside; without ``batch_norm`` there is
    no norm.

    Shapes:
        ``x`` [N, C]; ``node_mask`` [N, 1]: 0 for nodes that are padding; returns [N, C].

    >>> import torch
    >>> FeedForward(8, factor=2)(torch.randn(5, 8)).shape
    torch.Size([5, 8])
    """

    def __init__(self, channels: int, factor: int = 2, dropout: float = 0.0, batch_norm: bool = True) -> None:
        super().__init__()
        self.widen = Linear(channels, factor * channels)
        self.norm = BatchNorm(factor * channels) if batch_norm else None
        self.dropout = Dropout(dropout)
        self.narrow = Linear(factor * channels, channels)

    def reset_parameters(self) -> None:
        reset((self.widen, self.norm, self.narrow))

    def forward(self, x: Tensor, node_mask: Tensor | None = None) -> Tensor:
        wide = multiply(x, self.widen.weight)
        parts = ConvParts(wide[:, None, None], None, None, self.widen.bias[None])
        fused = self.norm is not None and kernels_apply(wide, self.norm)
        inner = epilogue(parts, self.norm, self.dropout, node_mask=node_mask, fused=fused)
        out: Tensor = x + self.narrow(inner)
        return out
