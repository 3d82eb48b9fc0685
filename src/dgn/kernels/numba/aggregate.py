"""Running the Numba kernels, in parallel over nodes."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from dgn.kernels.aggregation import KernelArgs, SavedTensors
from dgn.kernels.numba.aggregate_backward import gradient_of_messages, sum_segments, sum_types
from dgn.kernels.numba.aggregate_forward import aggregate_nodes
from dgn.kernels.numba.simd import WIDTH
from dgn.kernels.numba.threads import for_chunks

SMALLEST = 1 << 17  # numbers of messages in a piece of work: below, handing it to a thread takes as long as doing it
ROWS = 1024  # that are summed by kind in one go, whatever the number of threads


def forward(call: KernelArgs) -> SavedTensors:
    """Run the plan on the CPU."""
    if call.example.size(1) < WIDTH:
        return SavedTensors(*(_narrow(part, call) for part in forward(_widen(call))))
    saved = SavedTensors(*call.empty_outputs())
    arrays = *_arrays(call), _array(call.node, call), *(part.numpy() for part in saved)
    for_chunks(lambda begin, end: aggregate_nodes(begin, end, *arrays), call.num_nodes, _smallest(call))
    return saved


def backward(call: KernelArgs, grad: Tensor, saved: SavedTensors) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gradients of messages (by source if there is one, else in the order of edges), source, target and node."""
    if call.example.size(1) < WIDTH:
        wide = backward(_widen(call), _wide(grad), SavedTensors(*map(_wide, saved)))
        return _narrow(wide[0], call), _narrow(wide[1], call), _narrow(wide[2], call), _narrow(wide[3], call)
    edge_grad, source_grad, target_grad, node_grad = call.empty_gradients(cleared=False)
    edge_grad[int(call.pointer[-1]) :] = 0  # padding, which stands behind all others
    place = call.order if call.source is None else call.target_to_source
    arrays = *_arrays(call), *(part.numpy() for part in (grad, *saved, place, edge_grad, target_grad, node_grad))
    for_chunks(lambda begin, end: gradient_of_messages(begin, end, *arrays), call.num_nodes, _smallest(call))
    if call.source is not None:
        by_source = edge_grad.numpy(), call.source_pointer.numpy(), source_grad.numpy()
        for_chunks(lambda begin, end: sum_segments(begin, end, *by_source), len(source_grad), _smallest(call))
    return edge_grad, source_grad, target_grad, node_grad


def sum_by_type(values: Tensor, kind: Tensor, kinds: int, place: Tensor) -> Tensor:
    """Sum rows that share a kind: ``[R, C] -> [kinds, C]``; row r is ``values[place[r]]``."""
    if values.size(1) < WIDTH:
        return sum_by_type(_wide(values), kind, kinds, place)[:, : values.size(1)].contiguous()
    parts = values.new_empty(-(-kind.size(0) // ROWS), kinds, values.size(1))
    arrays = values.numpy(), place.numpy(), kind.numpy(), parts.numpy(), ROWS
    for_chunks(lambda begin, end: sum_types(begin, end, *arrays), len(parts), 4)
    return parts.sum(dim=0)


def _smallest(call: KernelArgs) -> int:
    """Nodes in a piece of work."""
    return -(-SMALLEST * call.num_nodes // max(1, call.neighbor.size(0) * call.example.size(1)))


def _arrays(call: KernelArgs) -> tuple[Any, ...]:
    """What kernels read, both ways."""
    parts = [_array(part, call) for part in (call.source, call.target, call.table)]
    weights = [part.to(call.example.dtype).numpy() for part in (call.weight, call.self_weight)]
    layout = [part.numpy() for part in (call.table_row, call.pointer, call.neighbor)]
    return (*parts, *weights, *layout, np.array(call.codes), np.array(call.columns), call.has_self)


def _array(part: Tensor | None, call: KernelArgs) -> Any:
    """A missing part is an array without rows."""
    return (call.example.new_empty(0, call.example.size(1)) if part is None else part).numpy()


def _wide(part: Tensor) -> Tensor:
    """Channels of zeros behind the others, up to the width of the kernels."""
    return torch.nn.functional.pad(part, (0, WIDTH - part.size(-1)))


def _widen(call: KernelArgs) -> KernelArgs:
    parts = (None if part is None else _wide(part) for part in (call.source, call.target, call.table, call.node))
    source, target, table, node = parts
    return call._replace(source=source, target=target, table=table, node=node)


def _narrow(part: Tensor, call: KernelArgs) -> Tensor:
    return part[..., : call.example.size(1)].contiguous()
