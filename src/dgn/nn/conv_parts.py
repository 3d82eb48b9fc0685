"""The last sum of a convolution: over degree scalers, the node's own part and the bias."""

from typing import NamedTuple

import torch
from torch import Tensor


class ConvParts(NamedTuple):
    """A convolution before its last sum over scalers: what :func:`combine` adds up.

    Shapes:
        ``every`` [N, T, S, out / T], ``own`` [N, out] or ``None``, ``scale`` [N, S] or ``None``, ``bias`` [T, out / T],
        or no numbers where it was added before.
    """

    every: Tensor
    own: Tensor | None
    scale: Tensor | None
    bias: Tensor


class ScalerKey(NamedTuple):
    """The key under which a graph keeps its degree scalers."""

    scalers: tuple[str, ...]
    delta: float
    dtype: torch.dtype


def combine(products: ConvParts) -> Tensor:
    r"""The end of a convolution: :math:`\sum_s S_s(d_i) \, y_{is} + y_i^{own} + b`. Returns [N, out]."""
    every, own, scale, bias = products
    scaled = every if scale is None else every * scale[:, None, :, None]
    summed = scaled[:, :, 0] if scaled.size(2) == 1 else scaled.sum(dim=2)
    out = (summed + bias.to(every.dtype) if bias.numel() else summed).flatten(1)
    return out if own is None else out + own
