"""A convolution before its last sum: over degree scalers, the node's own term and the bias."""

from typing import NamedTuple

import torch
from torch import Tensor


class ConvParts(NamedTuple):
    """What :func:`sum_parts` adds up.

    Shapes:
        ``scaled_out`` [N, T, S, out / T], ``self_out`` [N, out] or ``None``, ``scale`` [N, S] or ``None``, ``bias``
        [T, out / T].
    """

    scaled_out: Tensor
    self_out: Tensor | None
    scale: Tensor | None
    bias: Tensor


class ScalerKey(NamedTuple):
    """The key under which a graph keeps its degree scalers."""

    scalers: tuple[str, ...]
    delta: float
    dtype: torch.dtype


def sum_parts(parts: ConvParts) -> Tensor:
    r"""The output of a convolution: :math:`\sum_s S_s(d_i) \, y_{is} + y_i^{self} + b`. Returns [N, out]."""
    scaled_out, self_out, scale, bias = parts
    scaled = scaled_out if scale is None else scaled_out * scale[:, None, :, None]
    summed = scaled[:, :, 0] if scaled.size(2) == 1 else scaled.sum(dim=2)
    out = (summed + bias.to(scaled_out.dtype)).flatten(1)
    return out if self_out is None else out + self_out
