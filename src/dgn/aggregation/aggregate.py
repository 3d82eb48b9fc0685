"""Aggregation: one operator, three interchangeable kernels."""

import os
from importlib.util import find_spec
from typing import Any, Literal

import torch
from torch import Tensor

from dgn.aggregation.call import Call, Saved
from dgn.aggregation.messages import Messages
from dgn.aggregation.plan import Code, Plan, Weights
from dgn.aggregation.reference import aggregate_reference
from dgn.graph import Graph
from dgn.graph.checks import check_option

Backend = Literal["auto", "reference", "cpu", "triton"]
BACKENDS = ("auto", "reference", "cpu", "triton")
LARGEST_ONE_HOT = 64  # rows of a table whose gradient is a matrix product
SMALL = 1 << 16  # numbers in all messages; below, the reference on the CPU is as fast and needs no compiling


def aggregate(plan: Plan, messages: Messages, weights: Weights, graph: Graph, backend: Backend = "auto") -> Tensor:
    r"""Aggregate messages at every node: all outputs of a plan from one reading of the neighbours.

    .. math::
        y_i = \sum_j w_{ij} m_{ij} + w_i m_i \;\text{(directional)}, \qquad
        \max_j m_{ij}, \quad \frac{1}{d_i} \sum_j m_{ij}, \quad \dots

    - A node without in-edges gets 0 from every aggregator.
    - Among equal messages the first edge, in the order of ``edge_index``, is the maximum (or minimum) and gets all of
      its gradient.
    - ``var`` is the population variance; ``std`` its root, 0 where the variance is at most 1e-5.
    - There are no atomic additions: on one device and backend the same input gives the same bits.

    ``backend`` is ``"triton"`` on CUDA and ``"cpu"`` (Numba) on the CPU where these are installed and the job is worth
    it; ``"reference"`` is plain PyTorch and does everything.

    Shapes:
        see :class:`Messages` and :class:`Weights`; returns [N, A, C], one row per name of the plan.
    """
    check_option("backend", backend, BACKENDS)
    _check_shapes(plan, messages, weights, graph)
    chosen = choose(backend, messages, graph)
    if chosen == "reference":
        return aggregate_reference(plan, messages, weights, graph)
    parts = [None if part is None else part.contiguous() for part in messages]
    needed = [part for part in (*messages, *weights) if part is not None]
    save = torch.is_grad_enabled() and any(part.requires_grad for part in needed)
    by_target, by_source = graph.by_target, graph.by_source
    out: Tensor = _aggregate(
        *parts,
        weights.edge.contiguous(),
        weights.self.contiguous(),
        by_target.pointer,
        by_target.order,
        by_target.neighbor,
        by_source.pointer,
        graph.place,
        list(plan.codes),
        list(plan.columns),
        plan.has_self,
        save,
        chosen,
    )[0]
    return out


def _check_shapes(plan: Plan, messages: Messages, weights: Weights, graph: Graph) -> None:
    """Kernels read without looking: what does not fit is refused here."""
    messages.check(plan.has_self)
    n, e, w = graph.num_nodes, graph.num_edges, len(plan.weights)
    table_rows = e if messages.table is not None and messages.row is None else None
    expected = {"source": n, "target": n, "table": table_rows, "row": e, "node": n}
    found = {name: part.size(0) for name, part in messages._asdict().items() if part is not None}
    channels = {part.size(1) for name, part in messages._asdict().items() if part is not None and name != "row"}
    shapes = tuple(weights.edge.shape), tuple(weights.self.shape)
    if any(expected[name] not in (None, rows) for name, rows in found.items()) or len(channels) > 1:
        raise ValueError(
            f"messages: expected parts for {n} nodes and {e} edges with the same channels, got rows {found} and "
            f"channels {sorted(channels)}; see the shapes of dgn.aggregation.Messages"
        )
    if shapes != ((e, w), (n, w)):
        raise ValueError(
            f"weights: expected shapes {((e, w), (n, w))} for {', '.join(plan.names)}, got {shapes}; compute them with "
            "plan.compute_weights(field, graph) of this plan and graph"
        )


def choose(backend: Backend, messages: Messages, graph: Graph) -> Literal["reference", "cpu", "triton"]:
    """The kernel that will run."""
    example = next(part for part in messages if part is not None)
    if backend != "auto":
        _check_available(backend, example)
        return backend
    if example.is_cuda and find_spec("triton") is not None and example.dtype in _dtypes():
        return "triton"
    large = graph.num_edges * example.size(1) >= SMALL
    if example.device.type == "cpu" and large and example.dtype in _dtypes()[2:] and find_spec("numba") is not None:
        return "cpu"
    return "reference"


def _check_available(backend: str, example: Tensor) -> None:
    interpreted = os.environ.get("TRITON_INTERPRET") == "1"
    wrong_device = (backend == "triton" and not (example.is_cuda or interpreted)) or (
        backend == "cpu" and example.device.type != "cpu"
    )
    package = {"triton": "triton", "cpu": "numba"}.get(backend)
    wrong_dtype = backend == "cpu" and example.dtype not in _dtypes()[2:]
    if wrong_device or wrong_dtype or (package is not None and find_spec(package) is None):
        raise ValueError(
            f"backend: expected an installed kernel for {example.dtype} on {example.device}, got {backend!r}; 'auto' "
            "chooses one that is there, 'reference' runs everywhere"
        )


def _dtypes() -> tuple[torch.dtype, ...]:
    return torch.float16, torch.bfloat16, torch.float32, torch.float64


def _kernel(backend: str) -> Any:
    """The module of a kernel, imported on first use."""
    if backend == "triton":
        from dgn.aggregation import gpu

        return gpu
    from dgn.aggregation import cpu

    return cpu


@torch.library.custom_op("dgn::aggregate", mutates_args=())
def _aggregate(
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
    place: Tensor,
    codes: list[int],
    columns: list[int],
    has_self: bool,
    save: bool,
    backend: str,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    call = Call(source, target, table, row, node, weight, self_weight, pointer, order, neighbor, source_pointer, place,
                codes, columns, has_self, save)  # fmt: skip
    return tuple(_kernel(backend).forward(call))


@_aggregate.register_fake
def _(*arguments: Any) -> tuple[Tensor, ...]:
    return Call(*arguments[:-1]).empty_outputs()


@torch.library.custom_op("dgn::aggregate_backward", mutates_args=())
def _aggregate_backward(
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
    place: Tensor,
    codes: list[int],
    columns: list[int],
    has_self: bool,
    backend: str,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    call = Call(source, target, table, row, node, weight, self_weight, pointer, order, neighbor, source_pointer, place,
                codes, columns, has_self, True)  # fmt: skip
    saved = Saved(out, at_max, at_min, sign, average)
    return _kernel(backend).backward(call, grad.contiguous(), saved)  # type: ignore[no-any-return]


@_aggregate_backward.register_fake
def _(*arguments: Any) -> tuple[Tensor, ...]:
    return Call._make((*arguments[6:-1], True)).empty_gradients()


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    ctx.save_for_backward(*output, *inputs[:12])
    ctx.rest = inputs[12], inputs[13], inputs[14], inputs[16]
    ctx.set_materialize_grads(False)


def _backward(ctx: Any, grad: Tensor | None, *_: Any) -> tuple[Tensor | None, ...]:
    if grad is None:
        return (None,) * 17
    tensors = ctx.saved_tensors
    codes, columns, has_self, backend = ctx.rest
    call = Call._make((*tensors[5:], codes, columns, has_self, True))
    edge, source, target, node = _aggregate_backward(grad, *tensors, codes, columns, has_self, backend)
    if has_self and call.node is None:  # the node stands for itself by its own parts
        source = source + node if call.source is not None else source
        target = target + node if call.target is not None else target
    wanted = ctx.needs_input_grad
    return (
        source if wanted[0] else None,
        target if wanted[1] else None,
        _table_gradient(call, edge) if wanted[2] else None,
        None,
        node if wanted[4] and has_self else None,
        *_weight_gradients(call, grad, Saved(*tensors[:5]), wanted[5], wanted[6]),
        *(None,) * 10,
    )


torch.library.register_autograd("dgn::aggregate", _backward, setup_context=_setup_context)


def _table_gradient(call: Call, edge_grad: Tensor) -> Tensor:
    """Bring the gradients of messages to the rows of the table, without atomic additions."""
    assert call.table is not None
    place = torch.arange(len(edge_grad), device=edge_grad.device) if call.source is None else call.place.long()
    if call.row is None:
        if call.source is None:
            return edge_grad
        return torch.empty_like(edge_grad).index_copy(0, call.order.long(), edge_grad[place])
    in_order = edge_grad[call.order.long()] if call.source is None else edge_grad[place]
    rows = call.row.long()
    if call.table.size(0) <= LARGEST_ONE_HOT:
        return torch.nn.functional.one_hot(rows, call.table.size(0)).to(edge_grad.dtype).T @ in_order
    empty = torch.zeros_like(call.table)
    if edge_grad.is_cuda:
        return empty.index_put((rows,), in_order, accumulate=True)
    return empty.index_add(0, rows, in_order)


def _weight_gradients(
    call: Call, grad: Tensor, saved: Saved, of_edges: bool, of_nodes: bool
) -> tuple[Tensor | None, Tensor | None]:
    """Gradients of the weights, for learned fields: on request, and through the messages as they are."""
    if call.weight.size(1) == 0 or not (of_edges or of_nodes):
        return None, None
    along = grad.new_zeros(call.num_nodes, call.weight.size(1), grad.size(2))
    for a, (code, column) in enumerate(zip(call.codes, call.columns, strict=True)):
        if code >= Code.SIGNED:
            along[:, column] += grad[:, a] * (saved.sign[:, column] if code == Code.ABSOLUTE else 1)
    parts = Messages(call.source, call.target, call.table, call.table_row, call.node)
    nodes = torch.arange(call.num_nodes, device=grad.device)
    target = torch.repeat_interleave(nodes, call.pointer.diff(), output_size=call.neighbor.size(0))
    of_node = (along * parts.of_node()[:, None]).sum(dim=2).to(call.self_weight.dtype) if call.has_self else None
    messages = parts.gather(call.neighbor, target)
    of_edge = torch.stack([(along[target, k] * messages).sum(dim=1) for k in range(along.size(1))], dim=1)
    return of_edge.to(call.weight.dtype), of_node
