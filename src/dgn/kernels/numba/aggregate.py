"""Launchers of the Numba aggregation kernels, parallel over nodes."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from dgn.kernels.aggregation import KernelArgs, SavedTensors
from dgn.kernels.numba.aggregate_backward import gradient_of_messages, sum_segments, sum_types
from dgn.kernels.numba.aggregate_forward import aggregate_nodes
from dgn.kernels.numba.simd import WIDTH
from dgn.kernels.numba.threads import for_chunks

SMALLEST = 1 << 17  # message elements per chunk; below, handing it to a thread takes as long as the work
ROWS = 1024  # per partial sum by type, independent of the number of threads


def forward(call: KernelArgs) -> SavedTensors:
    """All outputs of the plan and the tensors saved for the backward pass, on the CPU."""
    if call.example.size(1) < WIDTH:
        return SavedTensors(*(_unpad(part, call) for part in forward(_pad_args(call))))
    saved = SavedTensors(*call.empty_outputs())
    arrays = *_arrays(call), _array(call.node, call), *(part.numpy() for part in saved)
    for_chunks(lambda begin, end: aggregate_nodes(begin, end, *arrays), call.num_nodes, _smallest(call))
    return saved


def backward(call: KernelArgs, grad: Tensor, saved: SavedTensors) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gradients of messages (sorted by source if there is one, else in the order of edges), source, target and node."""
    if call.example.size(1) < WIDTH:
        wide = backward(_pad_args(call), _pad(grad), SavedTensors(*map(_pad, saved)))
        return _unpad(wide[0], call), _unpad(wide[1], call), _unpad(wide[2], call), _unpad(wide[3], call)
    edge_grad, source_grad, target_grad, node_grad = call.empty_gradients(cleared=False)
    edge_grad[int(call.pointer[-1]) :] = 0  # padding, which comes last
    place = call.order if call.source is None else call.target_to_source
    arrays = *_arrays(call), *(part.numpy() for part in (grad, *saved, place, edge_grad, target_grad, node_grad))
    for_chunks(lambda begin, end: gradient_of_messages(begin, end, *arrays), call.num_nodes, _smallest(call))
    if call.source is not None:
        by_source = edge_grad.numpy(), call.source_pointer.numpy(), source_grad.numpy()
        for_chunks(lambda begin, end: sum_segments(begin, end, *by_source), len(source_grad), _smallest(call))
    return edge_grad, source_grad, target_grad, node_grad


def sum_by_type(values: Tensor, row_type: Tensor, num_types: int, place: Tensor) -> Tensor:
    """Sums of the rows of each type: ``[R, C] -> [num_types, C]``; row r is ``values[place[r]]``."""
    if values.size(1) < WIDTH:
        return sum_by_type(_pad(values), row_type, num_types, place)[:, : values.size(1)].contiguous()
    parts = values.new_empty(-(-row_type.size(0) // ROWS), num_types, values.size(1))
    arrays = values.numpy(), place.numpy(), row_type.numpy(), parts.numpy(), ROWS
    for_chunks(lambda begin, end: sum_types(begin, end, *arrays), len(parts), 4)
    return parts.sum(dim=0)


def _smallest(call: KernelArgs) -> int:
    """The smallest number of nodes in a chunk."""
    return -(-SMALLEST * call.num_nodes // max(1, call.neighbor.size(0) * call.example.size(1)))


def _arrays(call: KernelArgs) -> tuple[Any, ...]:
    """The inputs of both passes."""
    parts = [_array(part, call) for part in (call.source, call.target, call.table)]
    weights = [part.to(call.example.dtype).numpy() for part in (call.weight, call.self_weight)]
    layout = [part.numpy() for part in (call.table_row, call.pointer, call.neighbor)]
    return (*parts, *weights, *layout, np.array(call.codes), np.array(call.columns), call.has_self)


def _array(part: Tensor | None, call: KernelArgs) -> Any:
    """The part as an array, without rows if it is missing."""
    return (call.example.new_empty(0, call.example.size(1)) if part is None else part).numpy()


def _pad(part: Tensor) -> Tensor:
    """The part with its channels zero-padded to the width of the kernels."""
    return torch.nn.functional.pad(part, (0, WIDTH - part.size(-1)))


def _pad_args(call: KernelArgs) -> KernelArgs:
    parts = (None if part is None else _pad(part) for part in (call.source, call.target, call.table, call.node))
    source, target, table, node = parts
    return call._replace(source=source, target=target, table=table, node=node)


def _unpad(part: Tensor, call: KernelArgs) -> Tensor:
    return part[..., : call.example.size(1)].contiguous()
