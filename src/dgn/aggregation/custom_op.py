"""Aggregation as a custom operator: for torch.compile and torch.export, which trace what they run."""

from typing import Any

import torch
from torch import Tensor

from dgn.aggregation.dispatch import NUM_TENSORS, input_gradients, kernel
from dgn.kernels.aggregation import KernelArgs, SavedTensors
from dgn.kernels.custom_op import register


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
    target_to_source: Tensor | None,
    source_order: Tensor | None,
    codes: list[int],
    columns: list[int],
    has_self: bool,
    save: bool,
    backend: str,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    call = KernelArgs(
        source, target, table, row, node, weight, self_weight, pointer, order, neighbor, source_pointer,
        target_to_source, source_order, codes, columns, has_self, save,
    )  # fmt: skip
    return tuple(kernel(backend).forward(call))


def _empty_outputs(*arguments: Any) -> tuple[Tensor, ...]:
    call = KernelArgs(*arguments[:-1])
    codes, columns = ([int(number) for number in numbers] for numbers in (call.codes, call.columns))
    return call._replace(codes=codes, columns=columns).empty_outputs()  # where shapes are dynamic, they were symbols


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
    target_to_source: Tensor | None,
    source_order: Tensor | None,
    codes: list[int],
    columns: list[int],
    has_self: bool,
    backend: str,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    call = KernelArgs(
        source, target, table, row, node, weight, self_weight, pointer, order, neighbor, source_pointer,
        target_to_source, source_order, codes, columns, has_self, True,
    )  # fmt: skip
    saved = SavedTensors(out, at_max, at_min, sign, average)
    return kernel(backend).backward(call, grad.contiguous(), saved)  # type: ignore[no-any-return]


def _empty_gradients(*arguments: Any) -> tuple[Tensor, ...]:
    _grad, _out, _at_max, _at_min, _sign, _average, *inputs, _backend = arguments
    return KernelArgs._make((*inputs, True, None)).empty_gradients()


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    *arguments, ctx.backend = inputs
    call = KernelArgs(*arguments)
    ctx.save_for_backward(*output, *call[:NUM_TENSORS])
    ctx.codes, ctx.columns, ctx.has_self = call.codes, call.columns, call.has_self
    ctx.set_materialize_grads(False)


def _backward(ctx: Any, grad: Tensor | None, *_: Any) -> tuple[Tensor | None, ...]:
    rest = (None,) * 5  # codes, columns, has_self, save, backend
    if grad is None:
        return (None,) * NUM_TENSORS + rest
    saved, tensors = SavedTensors(*ctx.saved_tensors[:-NUM_TENSORS]), ctx.saved_tensors[-NUM_TENSORS:]
    call = KernelArgs._make((*tensors, ctx.codes, ctx.columns, ctx.has_self, True, None))
    kernel_grads = torch.ops.dgn.aggregate_backward(
        grad, *ctx.saved_tensors, ctx.codes, ctx.columns, ctx.has_self, ctx.backend
    )
    return *input_gradients(call, grad, saved, kernel_grads, ctx.needs_input_grad, ctx.backend), *rest


def weigh(
    field: Tensor, pointer: Tensor, order: Tensor, directions: list[int], derivative: list[bool]
) -> tuple[Tensor, Tensor]:
    """Weights along columns of a field that is not being learned (:mod:`dgn.kernels.triton.field_weights`)."""
    from dgn.kernels.triton import field_weights

    if field.size(0) == 0:
        return _empty_weights(field, pointer, order, directions, derivative, zero=True)
    largest, _ = field_weights.largest_component(field)
    return field_weights.compute(field, largest, tuple(zip(directions, derivative, strict=True)), pointer, order)


def _empty_weights(
    field: Tensor,
    pointer: Tensor,
    _order: Tensor,
    directions: list[int],
    _derivative: list[bool],
    zero: bool = False,
) -> tuple[Tensor, Tensor]:
    empty, width = field.new_zeros if zero else field.new_empty, len(directions)
    return empty(field.size(0), width), empty(pointer.size(0) - 1, width)


register("dgn::field_weights", weigh, _empty_weights)
register("dgn::aggregate", run, _empty_outputs)
register("dgn::aggregate_backward", run_backward, _empty_gradients)
torch.library.register_autograd("dgn::aggregate", _backward, setup_context=_setup_context)
