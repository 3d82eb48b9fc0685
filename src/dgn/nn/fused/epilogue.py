"""The end of a layer: sum over scalers, size factor, batch norm, ReLU, residual, dropout."""

from typing import Any

import torch
from torch import Tensor

from dgn.nn.conv_parts import ConvParts, sum_parts
from dgn.nn.dropout import Dropout
from dgn.nn.fused.select import kernels_apply
from dgn.nn.norm import BatchNorm, normalize_rows


def epilogue(
    parts: ConvParts,
    norm: BatchNorm | None,
    dropout: Dropout,
    graph_norm: Tensor | None = None,
    node_mask: Tensor | None = None,
    residual: Tensor | None = None,
    relu: bool = True,
) -> Tensor:
    r"""Bring a convolution to the output of its layer.

    .. math:: \text{dropout}\Big(r_i + \text{relu}\Big(\text{norm}\Big(s_i \big(\textstyle\sum_s S_s y_{is} +
        y_i^{self} + b\big)\Big)\Big)\Big)

    ``graph_norm`` s, ``residual`` r and the ReLU may be left out. On a GPU, in training, it is three kernels each way.

    Shapes:
        ``parts`` see :class:`ConvParts`; ``graph_norm`` and ``node_mask`` [N, 1], ``residual`` [N, out]; returns [N,
        out].
    """
    if norm is not None and kernels_apply(parts.scaled_out, norm):
        return fused_epilogue(parts, norm, dropout, graph_norm, node_mask, residual, relu)
    y = sum_parts(parts)
    y = y if graph_norm is None else y * graph_norm
    y = y if norm is None else normalize_rows(norm, y, node_mask)
    y = y.relu() if relu else y
    out: Tensor = dropout(y if residual is None else y + residual)
    return out


def fused_epilogue(
    parts: ConvParts,
    norm: BatchNorm,
    dropout: Dropout,
    graph_norm: Tensor | None,
    node_mask: Tensor | None,
    residual: Tensor | None,
    relu: bool,
) -> Tensor:
    """The same by the kernels of :mod:`dgn.kernels.triton.epilogue`."""
    from dgn.nn.fused.gpu_epilogue import FusedEpilogue

    scaled_out, self_out, scale, bias = parts
    rows = scaled_out.size(0)
    end = epilogue_args(rows, norm, graph_norm, node_mask, relu, dropout_mask(rows, norm, dropout), dropout.p)
    out: Tensor = FusedEpilogue.apply(scaled_out, self_out, scale, bias, norm.weight, norm.bias, residual, end)  # type: ignore[no-untyped-call]
    return out


def dropout_mask(rows: int, norm: BatchNorm, dropout: Dropout) -> Tensor | None:
    """1 for what dropout keeps and 0 for the rest [N, out]; ``None`` where it does nothing."""
    if not dropout.training or dropout.p == 0:
        return None
    mask = torch.empty(rows, norm.num_features, device=norm.weight.device)
    return mask.bernoulli_(1 - dropout.p, generator=dropout.generator)


def epilogue_args(
    rows: int,
    norm: BatchNorm,
    graph_norm: Tensor | None,
    node_mask: Tensor | None,
    relu: bool,
    dropout: Tensor | None,
    p: float,
) -> Any:
    """The arguments of the epilogue kernels; ``dropout`` is the mask of :func:`dropout_mask`."""
    from dgn.nn.fused.gpu_epilogue import EpilogueArgs, Running

    # Kernels read one number for each row, and each behind the one before.
    norms, nodes = (None if part is None else part.expand(rows, 1).contiguous() for part in (graph_norm, node_mask))
    statistics: Any = norm.running_mean, norm.running_var, norm.num_batches_tracked, norm.eps, norm.momentum
    return EpilogueArgs(norms, nodes, dropout, 1 / (1 - p) if p < 1 else 0.0, relu, Running(*statistics))
