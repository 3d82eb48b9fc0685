"""Launchers of the Triton aggregation kernels."""

from functools import cache
from typing import Any

import torch
import triton.language as tl
from torch import Tensor

from dgn.kernels.aggregation import Code, KernelArgs, SavedTensors
from dgn.kernels.triton.aggregate_backward import gradient_of_messages
from dgn.kernels.triton.aggregate_forward import aggregate_nodes
from dgn.kernels.triton.segment_sum import sum_segments
from dgn.kernels.triton.sizes import ceil_div, power_of_2

Gradients = tuple[Tensor, Tensor, Tensor, Tensor]


def forward(call: KernelArgs, towers: int = 1) -> SavedTensors:
    """All outputs of the plan and the tensors saved for the backward pass, on CUDA or in Triton's interpreter.

    With several ``towers`` the C channels are split among them and outputs are laid out as [N, T, A, C / T], the
    operand of a batched matrix product.
    """
    saved = SavedTensors(*call.empty_outputs())
    unused = call.pointer
    shape = _launch_shape(call.example, call.neighbor, call.num_nodes)
    if saved.out.numel():
        aggregate_nodes[shape.pop("grid")](
            _or(call.source, unused), _or(call.target, unused), _or(call.table, unused), call.table_row,
            _or(call.number, unused), _or(call.node, unused), call.weight, call.self_weight, call.pointer,
            call.neighbor, *saved, call.example.size(1), _stride(call.source), _stride(call.target), _stride(call.node),
            NEED_SUM=call.needs(Code.SUM, Code.MEAN), HAS_NODE=call.node is not None,
            SAVE=call.save, WIDTH=_width(call, towers), **_constants(call), **shape,
        )  # fmt: skip
    if towers == 1:
        return saved
    return saved._replace(out=saved.out.view(call.num_nodes, towers, len(call.codes), _width(call, towers)))


def backward(
    call: KernelArgs,
    grad: Tensor,
    saved: SavedTensors,
    space: Gradients | None = None,
    extra: Tensor | None = None,
    towers: int = 1,
    number_grad: Tensor | None = None,
) -> Gradients:
    """Gradients of messages (sorted by source if there is one, else in the order of edges), source, target and node.

    They are written to ``space``, if given; its source and target may have any row stride. ``extra`` is added to the
    gradient of the node. ``grad`` has the layout in which :func:`forward` with as many ``towers`` wrote the outputs.
    Where edges have features (``call.number``), ``number_grad`` [N, R, C] must be given: the contribution of each node
    to the gradient of R rows of the table.
    """
    assert (number_grad is None) == (call.number is None)
    space = call.empty_gradients() if space is None else space
    edge_grad, source_grad, target_grad, node_grad = space
    unused = call.pointer
    shape = _launch_shape(call.example, call.neighbor, call.num_nodes)
    if grad.numel():
        gradient_of_messages[shape.pop("grid")](
            grad, saved.out, _or(call.source, unused), _or(call.target, unused), _or(call.table, unused),
            call.table_row, call.weight, call.self_weight, call.pointer, call.neighbor,
            call.order if call.source is None else call.target_to_source, *saved[1:], _or(call.number, unused),
            _or(extra, unused), edge_grad, target_grad, node_grad, _or(number_grad, unused),
            call.example.size(1), _stride(call.source), _stride(call.target), target_grad.stride(0),
            HAS_EXTRA=extra is not None, WIDTH=_width(call, towers), **_constants(call), **shape,
        )  # fmt: skip
    if source_grad.numel():
        shape = _launch_shape(call.example, call.neighbor, source_grad.size(0))
        sum_segments[shape.pop("grid")](edge_grad, call.source_pointer, source_grad, call.example.size(1),
                                          source_grad.stride(0), MEAN=False, **shape)  # fmt: skip
    return space


def _constants(call: KernelArgs) -> dict[str, Any]:
    return {
        **_code_constants(tuple(call.codes), tuple(call.columns)),
        "W": call.weight.size(1),
        "HAS_SOURCE": call.source is not None,
        "HAS_TARGET": call.target is not None,
        "HAS_TABLE": call.table is not None and call.number is None,
        "NUM_FEATURES": 0 if call.number is None else call.number.size(1),
        "HAS_SELF": call.has_self,
    }


@cache
def _code_constants(codes: tuple[int, ...], columns: tuple[int, ...]) -> dict[str, Any]:
    return {
        "CODES": codes,
        "COLUMNS": columns,
        "A": len(codes),
        "NEED_VAR": Code.VAR in codes or Code.STD in codes,
        "NEED_MAX": Code.MAX in codes,
        "NEED_MIN": Code.MIN in codes,
    }


def _launch_shape(example: Tensor, neighbor: Tensor, num_nodes: int) -> dict[str, Any]:
    """Grid and block sizes: one warp per node and 128 channels; blocks of edges match the average degree."""
    channels = example.size(1)
    block_c = min(128, power_of_2(max(channels, 1)))
    degree = neighbor.size(0) // max(num_nodes, 1)
    return {
        "grid": (num_nodes, ceil_div(channels, block_c)),
        "ACC": tl.float64 if example.dtype == torch.float64 else tl.float32,
        "BLOCK_C": block_c,
        "BLOCK_E": 4 if degree <= 16 else 8 if degree <= 32 else 32,
        "num_warps": 1,
    }


def _width(call: KernelArgs, towers: int) -> int:
    """Channels per tower; 0 for a single tower."""
    return 0 if towers == 1 else call.example.size(1) // towers


def _stride(tensor: Tensor | None) -> int:
    return 0 if tensor is None else tensor.stride(0)


def _or(tensor: Tensor | None, unused: Tensor) -> Tensor:
    """The tensor, or a valid pointer that the kernel does not read."""
    return unused if tensor is None else tensor
