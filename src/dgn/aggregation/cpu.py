"""Running the Numba kernels, in parallel over nodes."""

from typing import Any

import numpy as np
from torch import Tensor

from dgn.aggregation.call import Call, Saved
from dgn.aggregation.cpu_backward import gradient_of_messages, sum_segments
from dgn.aggregation.cpu_forward import aggregate_nodes
from dgn.threads import for_chunks

SMALLEST = 256  # nodes in a piece of work


def forward(call: Call) -> Saved:
    """Run the plan on the CPU."""
    saved = Saved(*call.empty_outputs())
    arrays = *_arrays(call), _array(call.node, call), *(part.numpy() for part in saved)
    for_chunks(lambda begin, end: aggregate_nodes(begin, end, *arrays), call.num_nodes, SMALLEST)
    return saved


def backward(call: Call, grad: Tensor, saved: Saved) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gradients of messages (by source if there is one, else in the order of edges), source, target and node."""
    grads = edge_grad, source_grad, target_grad, node_grad = call.empty_gradients()
    place = call.order if call.source is None else call.place
    arrays = *_arrays(call), *(part.numpy() for part in (grad, *saved, place, edge_grad, target_grad, node_grad))
    for_chunks(lambda begin, end: gradient_of_messages(begin, end, *arrays), call.num_nodes, SMALLEST)
    if call.source is not None:
        by_source = edge_grad.numpy(), call.source_pointer.numpy(), source_grad.numpy()
        for_chunks(lambda begin, end: sum_segments(begin, end, *by_source), len(source_grad), SMALLEST)
    return grads


def _arrays(call: Call) -> tuple[Any, ...]:
    parts = [_array(part, call) for part in (call.source, call.target, call.table)]
    weights = [part.to(call.example.dtype).numpy() for part in (call.weight, call.self_weight)]
    layout = [part.numpy() for part in (call.table_row, call.pointer, call.neighbor)]
    return (*parts, *weights, *layout, np.array(call.codes), np.array(call.columns), call.has_self)


def _array(part: Tensor | None, call: Call) -> Any:
    """A missing part is an array without rows."""
    return (call.example.new_empty(0, call.example.size(1)) if part is None else part).numpy()
