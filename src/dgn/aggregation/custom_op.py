"""Aggregation as a custom operator: for torch.compile and torch.export, which trace what they run."""

from typing import Any

import torch
from torch import Tensor

from dgn.aggregation.dispatch import NUM_TENSORS, input_gradients, kernel
from dgn.kernels.aggregation import KernelArgs, SavedTensors


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
    return tuple(kernel(backend).forward(call))


def _empty_outputs(*arguments: Any) -> tuple[Tensor, ...]:
    return KernelArgs(*arguments[:-1]).empty_outputs()


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
    found = torch.ops.dgn.aggregate_backward(
        grad, *ctx.saved_tensors, ctx.codes, ctx.columns, ctx.has_self, ctx.backend
    )
    return *input_gradients(call, grad, saved, found, ctx.needs_input_grad, ctx.backend), *rest


def _register(name: str, function: Any, fake: Any) -> None:
    """An operator without :func:`torch.library.custom_op`, whose check of each call takes longer than the kernels."""
    torch.library.define(name, torch.library.infer_schema(function, mutates_args=()))
    torch.library.impl(name, ("cpu", "cuda"), function)
    torch.library.register_fake(name, fake)


_register("dgn::aggregate", run, _empty_outputs)
_register("dgn::aggregate_backward", run_backward, _empty_gradients)
torch.library.register_autograd("dgn::aggregate", _backward, setup_context=_setup_context)
