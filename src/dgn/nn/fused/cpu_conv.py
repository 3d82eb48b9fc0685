"""A convolution with linear messages on the CPU, as one function with its own way back."""

from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from dgn.aggregation import Backend, Messages, Plan, Weights
from dgn.aggregation.dispatch import choose
from dgn.graph import Graph
from dgn.kernels.aggregation import Call, Saved
from dgn.kernels.autograd import differentiable_once
from dgn.kernels.numba.threads import for_chunks
from dgn.nn.fused.cpu_rows import columns, cut_rows, fill_rows, up
from dgn.nn.fused.degree_groups import Groups

SMALLEST = 1 << 22  # products of numbers in a piece of work: below, handing it to a thread takes as long as doing it


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
    """The maps of a convolution, and the features of edges or of their kinds.

    Of ``ends``, the upper half acts on the source of a message, the lower on its target.

    Shapes:
        ``ends`` [1, 2 in, in], ``message_bias`` [1, in], ``features`` [R, D] and ``edge`` [1, in, D] or ``None``,
        ``own`` [1, out, in], ``scaled`` [1, S * out, A * in], ``bias`` [1, out].
    """

    ends: Tensor
    message_bias: Tensor
    features: Tensor | None
    edge: Tensor | None
    own: Tensor
    scaled: Tensor
    bias: Tensor


def convolve(x: Tensor, linear: LinearMaps, setting: Setting) -> Tensor:
    r"""A convolution: :math:`y_i = \sum_s S_s(d_i) W_s \bigoplus_{(j,i)} (A x_j + B x_i + c_{ji} + b) + V x_i + b'`.

    Rows are filled up to a multiple of 16 channels, so that kernels have no rest. The result is a view of such rows,
    which the next convolution takes as they are. What is aggregated is written in the order of degrees, in which it is
    multiplied: the scalers of a degree and the matrices W make one matrix.

    Shapes:
        ``x`` [N, in]; returns [N, out].
    """
    out: Tensor = _Convolve.apply(x, *linear, setting)  # type: ignore[no-untyped-call]
    return out


def is_whole(x: Tensor, backend: Backend, graph: Graph, weights: Weights) -> bool:
    """Whether :func:`convolve` applies: eagerly, on the CPU with Numba, to some nodes, for a field not learned."""
    if x.device.type != "cpu" or torch.compiler.is_compiling() or torch.is_autocast_enabled("cpu") or len(x) == 0:
        return False
    learned = torch.is_grad_enabled() and any(part.requires_grad for part in weights)
    return not learned and find_spec("numba") is not None and choose(backend, Messages(x), graph) == "cpu"


class Kept(NamedTuple):
    """What the way back of a convolution needs."""

    setting: Setting
    linear: LinearMaps
    wide: Tensor
    call: Call
    arrays: Any
    saved: Saved
    back: Any
    turned: Any


def forward_rows(x: Tensor, linear: LinearMaps, setting: Setting, save: bool) -> tuple[Tensor, Kept]:
    """The convolution of all rows, filled up, and what its way back needs."""
    from dgn.kernels.numba import aggregate as cpu
    from dgn.kernels.numba import layer_weights as cpu_maps
    from dgn.kernels.numba import matmul as cpu_products

    linear = LinearMaps._make(None if part is None else part.detach() for part in linear)
    (n, width), out, count = x.shape, linear.own.size(1), len(setting.plan)
    wide, low, high, every = fill_rows(x), up(width), up(out), 2 * up(width) + up(out)
    like = wide.numpy()
    ends, own, scaled = (part.numpy()[0] for part in (linear.ends, linear.own, linear.scaled))
    biases, scale = (linear.message_bias.numpy()[0], linear.bias.numpy()[0]), setting.scale.numpy()
    there, start, back = (np.zeros(shape, like.dtype) for shape in ((low, every), (1, every), (every, low)))
    cpu_maps.lay_out_ends(ends, own, biases[0], biases[1], there, start, back)
    matrix, turned = (
        np.zeros((len(scale), *shape), like.dtype) for shape in ((count * low, high), (high, count * low))
    )
    cpu_maps.lay_out_degrees(scaled, scale, width, matrix, turned)
    parts, y = x.new_empty(n, every), x.new_empty(n, high)
    _share(cpu_products.multiply_rows, n, there.size, like, there, start, parts.numpy(), columns(width))
    source, target, itself = torch.split(parts, [low, low, high], dim=1)
    call = _call(setting, source, target, _table(linear, x.dtype), wide, save)
    arrays = cpu.arrays_of(call)
    saved = cpu.forward(call, arrays)
    given = saved.out.flatten(1).numpy(), matrix, *_groups(setting, n), itself.numpy(), y.numpy()
    _share(cpu_products.multiply_groups, n, matrix[0].size, *given, columns(*[width] * count))
    return y, Kept(setting, linear, wide, call, arrays, saved, back, turned)


def read_again(x: Tensor, linear: LinearMaps, setting: Setting) -> tuple[Tensor | None, ...]:
    """What the way back reads as it stands then: given to PyTorch, which notices where it was changed in place."""
    return x, linear.features, linear.edge, *setting.weights


def backward_rows(kept: Kept, grad: Tensor, of_x: Tensor | None) -> tuple[Tensor | None, ...]:
    """The gradients of ``x``, added to those in ``of_x`` if there are any, and of all linear maps."""
    from dgn.aggregation.custom_op import table_gradient
    from dgn.kernels.numba import aggregate as cpu
    from dgn.kernels.numba import matmul as cpu_products

    setting, linear, wide, call, prepared, saved, back, turned = kept
    n, (_, out, width), (low, high) = len(wide), linear.own.shape, (wide.size(1), turned.shape[1])
    ends, by_degree = wide.new_empty(n, len(back)), wide.new_empty(n, high)
    aggregated = torch.empty_like(saved.out)
    source, target, own = torch.split(ends, [low, low, high], dim=1)
    arrays = (part.numpy() for part in (by_degree, own, aggregated.flatten(1)))
    given = fill_rows(grad).numpy(), turned, *_groups(setting, n), *arrays
    _share(cpu_products.multiply_groups_back, n, turned[0].size, *given, out)
    edge, _, _, node = cpu.backward(call, aggregated, saved, (source, target), prepared)
    if call.has_self and call.node is None:  # the node stands for itself by its own parts
        source.add_(node)
        target.add_(node)
    elif call.has_self:
        of_x = node if of_x is None else node.add_(fill_rows(of_x))
    start = wide.new_zeros(1, low) if of_x is None else fill_rows(of_x)
    found = wide.new_empty(n, low)
    given = ends.numpy(), back, start.numpy(), found.numpy()
    _share(cpu_products.multiply_rows, n, back.size, *given, columns(width, width, out))
    maps = _gradients_of_maps(kept, ends.numpy(), by_degree.numpy())
    features = of_edge = None
    if linear.features is not None and linear.edge is not None:
        table = table_gradient(call, edge, "cpu")[:, :width].to(linear.edge.dtype)
        features, of_edge = table @ linear.edge[0], (table.T @ linear.features)[None]
    return found[:, :width], *maps[:2], features, of_edge, *maps[2:]


def _gradients_of_maps(kept: Kept, ends: Any, by_degree: Any) -> list[Tensor]:
    """Those of the maps of both ends and of the scaled maps, summed over pieces of the nodes."""
    from dgn.kernels.numba.layer_weights import gather_degrees, gather_ends
    from dgn.kernels.numba.matmul import multiply_turned

    setting, linear, wide = kept.setting, kept.linear, kept.wide.numpy()
    aggregated, dtype = kept.saved.out.flatten(1).numpy(), wide.dtype
    nodes, known = cut_rows([0, len(wide)]), setting.groups
    groups = nodes if known is None else setting.graph.once("pieces of groups", lambda: cut_rows(known.bounds))
    found, sums = (np.empty((len(nodes), *shape), dtype) for shape in (kept.back.shape, kept.back.shape[:1]))
    scaled = np.empty((len(groups), by_degree.shape[1], aggregated.shape[1]), dtype)

    def work(begin: int, end: int) -> None:
        split = len(groups)
        multiply_turned(min(begin, split), min(end, split), groups, by_degree, aggregated, scaled, sums[:0])
        multiply_turned(max(begin - split, 0), max(end - split, 0), nodes, ends, wide, found, sums)

    for_chunks(work, len(groups) + len(nodes), 1)
    like = linear.ends, linear.message_bias, linear.own, linear.scaled, linear.bias
    grads = of_ends, message_bias, own, of_scaled, bias = [np.empty(part.shape, dtype) for part in like]
    gather_ends(found, sums, of_ends[0], own[0], message_bias[0], bias[0])
    gather_degrees(scaled, groups[:, 2], setting.scale.numpy(), linear.own.size(2), of_scaled[0])
    return [torch.from_numpy(each) for each in grads]


class _Convolve(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, *given: Any) -> Tensor:
        linear, setting = LinearMaps(*given[:-1]), given[-1]
        y, ctx.kept = forward_rows(x, linear, setting, any(ctx.needs_input_grad))
        ctx.save_for_backward(*read_again(x, linear, setting))
        return y[:, : linear.own.size(1)].data  # no view: one made in here cannot be changed in place

    @staticmethod
    @differentiable_once
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        _ = ctx.saved_tensors  # raises where one of them was changed in place
        return *backward_rows(ctx.kept, grad, None), None


def _share(kernel: Any, rows: int, products: int, *arguments: Any) -> None:
    """Share the rows out to threads; each takes so many products of numbers."""
    for_chunks(lambda begin, end: kernel(begin, end, *arguments), rows, -(-SMALLEST // products))


def _table(linear: LinearMaps, dtype: torch.dtype) -> Tensor | None:
    """What edges, or their kinds, add to messages."""
    if linear.features is None or linear.edge is None:
        return None
    return fill_rows((linear.features @ linear.edge[0].T).to(dtype))


def _groups(setting: Setting, rows: int) -> tuple[Any, Any]:
    """Where each group of nodes begins, and their order."""
    if setting.groups is None:
        return np.array([0, rows]), np.empty(0, np.int64)
    return np.array(setting.groups.bounds), setting.groups.order.numpy()


def _call(setting: Setting, source: Tensor, target: Tensor, table: Tensor | None, wide: Tensor, save: bool) -> Call:
    plan, graph, weights = setting.plan, setting.graph, setting.weights
    layout, rank = graph.by_target, None if setting.groups is None else setting.groups.inverse
    return Call(
        source, target, table, setting.row, wide if setting.node_is_input else None, weights.edge.contiguous(),
        weights.self.contiguous(), layout.pointer, layout.order, layout.neighbor, graph.source_pointer, graph.place,
        list(plan.codes), list(plan.columns), plan.has_self, save, rank,
    )  # fmt: skip
