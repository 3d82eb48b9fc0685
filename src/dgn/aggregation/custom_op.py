"""Aggregation as a custom operator for autograd, torch.compile and torch.export."""

from typing import Any

import torch
from torch import Tensor

from dgn.aggregation.messages import Messages
from dgn.kernels.aggregation import Code, KernelArgs, SavedTensors

FEW_TYPES = 32  # rows of a table whose gradient is one kernel
LARGEST_ONE_HOT = 64  # rows of a table whose gradient is a matrix product
INPUTS = (*KernelArgs._fields[:16], "backend")  # of the operator, in order
NUM_TENSORS = 12  # tensors among them, which come first


def _kernel(backend: str) -> Any:
    """The module of a backend, imported on first use."""
    if backend == "triton":
        from dgn.kernels.triton import aggregate as gpu

        return gpu
    from dgn.kernels.numba import aggregate as cpu

    return cpu


@torch.library.custom_op("dgn::aggregate", mutates_args=())
def run(
    source: Tensor | None,
    target: Tensor | None,
    table: Tensor | None,
    row: Tensor | None,
    node: Tensor | None,
    weight: Tensor,
    self_weight: Tensor,
    pointer: Tensor,
    order: Tensor,
    neighbor: Tensor,
    source_pointer: Tensor,
    target_to_source: Tensor,
    codes: list[int],
    columns: list[int],
    has_self: bool,
    save: bool,
    backend: str,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    call = KernelArgs(
        source, target, table, row, node, weight, self_weight, pointer, order, neighbor, source_pointer,
        target_to_source, codes, columns, has_self, save,
    )  # fmt: skip
    return tuple(_kernel(backend).forward(call))


@run.register_fake
def _(*arguments: Any) -> tuple[Tensor, ...]:
    return KernelArgs(*arguments[:-1]).empty_outputs()


@torch.library.custom_op("dgn::aggregate_backward", mutates_args=())
def run_backward(
    grad: Tensor,
    out: Tensor,
    at_max: Tensor,
    at_min: Tensor,
    sign: Tensor,
    average: Tensor,
    source: Tensor | None,
    target: Tensor | None,
    table: Tensor | None,
    row: Tensor | None,
    node: Tensor | None,
    weight: Tensor,
    self_weight: Tensor,
    pointer: Tensor,
    order: Tensor,
    neighbor: Tensor,
    source_pointer: Tensor,
    target_to_source: Tensor,
    codes: list[int],
    columns: list[int],
    has_self: bool,
    backend: str,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    call = KernelArgs(
        source, target, table, row, node, weight, self_weight, pointer, order, neighbor, source_pointer,
        target_to_source, codes, columns, has_self, True,
    )  # fmt: skip
    saved = SavedTensors(out, at_max, at_min, sign, average)
    return _kernel(backend).backward(call, grad.contiguous(), saved)  # type: ignore[no-any-return]


@run_backward.register_fake
def _(*arguments: Any) -> tuple[Tensor, ...]:
    _grad, _out, _at_max, _at_min, _sign, _average, *inputs, _backend = arguments
    return KernelArgs._make((*inputs, True, None)).empty_gradients()


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    *arguments, ctx.backend = inputs
    call = KernelArgs(*arguments)
    ctx.save_for_backward(*output, *call[:NUM_TENSORS])
    ctx.codes, ctx.columns, ctx.has_self = call.codes, call.columns, call.has_self
    ctx.set_materialize_grads(False)


def _backward(ctx: Any, grad: Tensor | None, *_: Any) -> tuple[Tensor | None, ...]:
    if grad is None:
        return (None,) * len(INPUTS)
    saved = SavedTensors(*ctx.saved_tensors[:-NUM_TENSORS])
    tensors = ctx.saved_tensors[-NUM_TENSORS:]
    call = KernelArgs._make((*tensors, ctx.codes, ctx.columns, ctx.has_self, True, None))
    edge, source, target, node = run_backward(
        grad, *ctx.saved_tensors, ctx.codes, ctx.columns, ctx.has_self, ctx.backend
    )
    if call.has_self and call.node is None:  # by default the self message is the sum of source and target
        source = source + node if call.source is not None else source
        target = target + node if call.target is not None else target
    needed = dict(zip(INPUTS, ctx.needs_input_grad, strict=False))
    grads: dict[str, Tensor | None] = {"source": source, "target": target}
    grads["table"] = table_gradient(call, edge, ctx.backend) if needed["table"] else None
    grads["node"] = node if call.has_self else None
    grads["weight"], grads["self_weight"] = _weight_gradients(
        call, grad, saved, needed["weight"], needed["self_weight"]
    )
    return tuple(grads.get(name) if needed.get(name) else None for name in INPUTS)


torch.library.register_autograd("dgn::aggregate", _backward, setup_context=_setup_context)


def table_gradient(call: KernelArgs, edge_grad: Tensor, backend: str) -> Tensor:
    """The gradient of the table from those of messages, without atomic additions."""
    assert call.table is not None
    if call.row is None and call.source is None:
        return edge_grad
    place = call.order if call.source is None else call.target_to_source
    if call.row is not None and edge_grad.is_cuda and call.table.size(0) <= FEW_TYPES:
        from dgn.kernels.triton.segment_sum import sum_by_type

        return sum_by_type(edge_grad, call.row, call.table.size(0), place)
    if call.row is not None and backend == "cpu" and call.table.size(0) <= LARGEST_ONE_HOT:
        return _kernel(backend).sum_by_type(edge_grad, call.row, call.table.size(0), place)  # type: ignore[no-any-return]
    place = place.long()
    if call.row is None:
        return edge_grad[torch.empty_like(place).index_copy(0, call.order.long(), place)]
    in_order = edge_grad[place]
    rows = call.row.long()
    if call.table.size(0) <= LARGEST_ONE_HOT:
        return torch.nn.functional.one_hot(rows, call.table.size(0)).to(edge_grad.dtype).T @ in_order
    empty = torch.zeros_like(call.table)
    if edge_grad.is_cuda:
        return empty.index_put((rows,), in_order, accumulate=True)
    return empty.index_add(0, rows, in_order)


def _weight_gradients(
    call: KernelArgs, grad: Tensor, saved: SavedTensors, edges_needed: bool, nodes_needed: bool
) -> tuple[Tensor | None, Tensor | None]:
    """Gradients of the edge and self weights, for learned fields; ``None`` where they are not needed."""
    if call.weight.size(1) == 0 or not (edges_needed or nodes_needed):
        return None, None
    along = grad.new_zeros(call.num_nodes, call.weight.size(1), grad.size(2))
    for a, (code, column) in enumerate(zip(call.codes, call.columns, strict=True)):
        if code >= Code.SIGNED:
            along[:, column] += grad[:, a] * (saved.sign[:, column] if code == Code.ABSOLUTE else 1)
    parts = Messages(call.source, call.target, call.table, call.table_row, call.node)
    slots = torch.arange(call.neighbor.size(0), device=grad.device)
    target = (torch.searchsorted(call.pointer, slots, right=True) - 1).clamp(max=call.num_nodes - 1)
    grad_node = (along * parts.of_node()[:, None]).sum(dim=2).to(call.self_weight.dtype) if call.has_self else None
    messages = parts.gather(call.neighbor, target)
    grad_edge = torch.stack([(along[target, k] * messages).sum(dim=1) for k in range(along.size(1))], dim=1)
    is_edge = (slots < call.pointer[-1:])[:, None]  # padding comes last
    return torch.where(is_edge, grad_edge, 0).to(call.weight.dtype), grad_node
