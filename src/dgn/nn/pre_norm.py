"""Batch norm in front of a block instead of inside it."""

from typing import Literal

from torch import Tensor

from dgn.graph.checks import check_option
from dgn.nn.conv_parts import Products
from dgn.nn.dropout import Dropout
from dgn.nn.fused.epilogue import finish
from dgn.nn.norm import BatchNorm

Placement = Literal["after", "before"]
PLACEMENTS = ("after", "before")


def normalize(x: Tensor, norm: BatchNorm, size: Tensor | None = None, real: Tensor | None = None) -> Tensor:
    r"""What a block reads in a residual network with norms in front: :math:`\text{norm}(s_i x_i)`.

    The sum of all blocks goes through the network as it is, :math:`h + f(\text{norm}(h))`, and is normalised once more
    before it is read out. In training it is done by the kernels of the end of a layer.

    Shapes:
        ``x`` [N, C], ``size`` s and ``real`` [N, 1]; returns [N, C].

    >>> import torch
    >>> normalize(torch.tensor([[1.0], [3.0]]), BatchNorm(1)).round().tolist()
    [[-1.0], [1.0]]
    """
    products = Products(x[:, None, None], None, None, x.new_zeros(1, x.size(1)))
    return finish(products, norm, Dropout(0.0), size, real, relu=False)


def check_placement(norm: str, batch_norm: bool) -> None:
    """Refuse a place for a norm that is not there."""
    check_option("norm", norm, PLACEMENTS)
    if norm == "before" and not batch_norm:
        raise ValueError(
            "norm: expected 'after' without batch norm, got 'before'; leave it out, or set batch_norm=True"
        )
