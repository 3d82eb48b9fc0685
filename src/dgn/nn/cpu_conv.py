"""A convolution with linear messages on the CPU, as one function with its own way back."""

from importlib.util import find_spec
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import pad

from dgn.aggregation import Backend, Messages, Plan, Weights
from dgn.aggregation.aggregate import choose
from dgn.aggregation.call import Call
from dgn.graph import Graph
from dgn.nn.grouped import MULTIPLE, Groups, multiply_groups, multiply_groups_back


class Setting(NamedTuple):
    """What a convolution does not differentiate.

    ``row`` of the table for each edge; ``scale`` [D, S] of each degree in ``groups``, or [1, 1] without groups.
    """

    plan: Plan
    graph: Graph
    weights: Weights
    row: Tensor | None
    groups: Groups | None
    scale: Tensor
    node_is_input: bool


class LinearMaps(NamedTuple):
    """The maps of a convolution; of ``ends``, the upper half acts on the source of a message, the lower on its target.

    Shapes:
        ``ends`` [2 in, in], ``message_bias`` [in], ``table`` [R, in] or ``None``, ``own`` [out, in], ``scaled``
        [S * out, A * in], ``bias`` [out].
    """

    ends: Tensor
    message_bias: Tensor
    table: Tensor | None
    own: Tensor
    scaled: Tensor
    bias: Tensor


def convolve(x: Tensor, linear: LinearMaps, setting: Setting) -> Tensor:
    r"""A convolution: :math:`y_i = \sum_s S_s(d_i) W_s \bigoplus_{(j,i)} (A x_j + B x_i + c_{ji} + b) + V x_i + b'`.

    Channels are filled up with zeros to a multiple of 16, at which products run up to half as fast again and kernels
    have no rest; what is aggregated is written in the order of degrees, in which it is multiplied.

    Shapes:
        ``x`` [N, in]; returns [N, out].
    """
    out: Tensor = _Convolve.apply(x, *linear, setting)  # type: ignore[no-untyped-call]
    return out


def is_whole(x: Tensor, backend: Backend, graph: Graph, weights: Weights) -> bool:
    """Whether :func:`convolve` applies: eagerly, on the CPU with Numba, for a field that is not learned."""
    if x.device.type != "cpu" or torch.compiler.is_compiling() or torch.is_autocast_enabled("cpu"):
        return False
    learned = torch.is_grad_enabled() and any(part.requires_grad for part in weights)
    return not learned and find_spec("numba") is not None and choose(backend, Messages(x), graph) == "cpu"


def _fill(matrix: Tensor) -> Tensor:
    """Zeros behind the rows and columns of a matrix, up to a multiple of 16."""
    return pad(matrix, (0, -matrix.size(-1) % MULTIPLE, 0, -matrix.size(-2) % MULTIPLE))


def _fill_rows(values: Tensor) -> Tensor:
    width, rest = values.size(-1), -values.size(-1) % MULTIPLE
    if rest == 0:
        return values
    wide = values.new_empty(*values.shape[:-1], width + rest)
    wide[..., width:] = 0
    wide[..., :width] = values
    return wide


def _fill_scaled(scaled: Tensor, scalers: int, width: int, aggregators: int) -> Tensor:
    """``[S * out, A * in] -> [S, out', A * in']`` with zeros in what is added."""
    parts = scaled.view(scalers, -1, aggregators, width)
    return pad(parts, (0, -width % MULTIPLE, 0, 0, 0, -parts.size(1) % MULTIPLE)).flatten(2)


class _Convolve(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, *given: Any) -> Tensor:
        from dgn.aggregation import cpu

        linear, setting = LinearMaps(*given[:-1]), given[-1]
        out, bounds = linear.own.size(0), _bounds(x, setting)
        of_source, of_target = _fill(linear.ends.view(2, x.size(1), x.size(1)))
        of_own = _fill(linear.own)
        wide = _fill_rows(x)
        source = wide @ of_source.T
        target = torch.addmm(_fill_rows(linear.message_bias), wide, of_target.T)
        table = None if linear.table is None else _fill_rows(linear.table)
        call = _call(setting, source, target, table, wide, any(ctx.needs_input_grad))
        saved = cpu.forward(call)
        scaled = _fill_scaled(linear.scaled, setting.scale.size(1), x.size(1), len(setting.plan))
        matrix = (setting.scale @ scaled.flatten(1)).view(len(setting.scale), *scaled.shape[1:])
        y = multiply_groups(saved.out.flatten(1), matrix, bounds)
        own = torch.addmm(_fill_rows(linear.bias), wide, of_own.T)
        ctx.save_for_backward(wide, of_source, of_target, of_own, matrix)
        ctx.call, ctx.saved, ctx.setting, ctx.shape = call, saved, setting, (x.size(1), out)
        y = y if setting.groups is None else y.index_select(0, setting.groups.inverse)
        return own[:, :out] + y[:, :out]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        from dgn.aggregation import cpu
        from dgn.aggregation.operation import table_gradient

        wide, of_source, of_target, of_own, matrix = ctx.saved_tensors
        call, saved, setting, (width, out) = ctx.call, ctx.saved, ctx.setting, ctx.shape
        grad = _fill_rows(grad)
        by_degree = grad if setting.groups is None else grad.index_select(0, setting.groups.order)
        parts = saved.out.flatten(1), matrix, _bounds(grad, setting)
        of_aggregated, of_matrix = multiply_groups_back(by_degree, *parts)
        edge, source, target, node = cpu.backward(call, of_aggregated.view(saved.out.shape), saved)
        if call.has_self and call.node is None:  # the node stands for itself by its own parts
            source, target = source.add_(node), target.add_(node)
        of_x = None
        if ctx.needs_input_grad[0]:
            apart = call.node is not None and call.has_self
            of_x = node.addmm_(source, of_source) if apart else source @ of_source
            of_x = of_x.addmm_(target, of_target).addmm_(grad, of_own)[:, :width]
        table = None if call.table is None else table_gradient(call, edge, "cpu")[:, :width]
        scaled = (setting.scale.T @ of_matrix.flatten(1)).view(
            setting.scale.size(1), matrix.size(1), len(setting.plan), wide.size(1)
        )
        return (
            of_x,
            torch.stack([source.T @ wide, target.T @ wide])[:, :width, :width].reshape(-1, width),
            target.sum(dim=0)[:width],
            table,
            (grad.T @ wide)[:out, :width],
            scaled[:, :out, :, :width].reshape(-1, len(setting.plan) * width),
            grad.sum(dim=0)[:out],
            None,
        )


def _bounds(rows: Tensor, setting: Setting) -> list[int]:
    return [0, rows.size(0)] if setting.groups is None else setting.groups.bounds


def _call(setting: Setting, source: Tensor, target: Tensor, table: Tensor | None, wide: Tensor, save: bool) -> Call:
    plan, graph, weights = setting.plan, setting.graph, setting.weights
    layout, rank = graph.by_target, None if setting.groups is None else setting.groups.inverse
    return Call(
        source, target, table, setting.row, wide if setting.node_is_input else None, weights.edge.contiguous(),
        weights.self.contiguous(), layout.pointer, layout.order, layout.neighbor, graph.source_pointer, graph.place,
        list(plan.codes), list(plan.columns), plan.has_self, save, rank,
    )  # fmt: skip
