"""Aggregation: one operator, three interchangeable backends."""

import os
from importlib.util import find_spec
from typing import Any, Literal

import torch
from torch import Tensor

from dgn.aggregation.features import aggregate_features, are_learned_features
from dgn.aggregation.messages import Messages, check_table_rows
from dgn.aggregation.plan import Plan, Walking, Weights
from dgn.aggregation.reference import aggregate_reference
from dgn.aggregation.walks import continue_walks
from dgn.graph import Graph
from dgn.graph.checks import check_option
from dgn.kernels.aggregation import Code, KernelArgs, SavedTensors
from dgn.kernels.autograd import once_differentiable

Backend = Literal["auto", "reference", "cpu", "triton"]
BACKENDS = ("auto", "reference", "cpu", "triton")
CPU_DTYPES = (torch.float32, torch.float64)
GPU_DTYPES = (torch.float16, torch.bfloat16, *CPU_DTYPES)
INSTALLED = {name: find_spec(name) is not None for name in ("triton", "numba")}  # tracing cannot look for packages
SMALL = 1 << 16  # elements of all messages; below, the reference on the CPU is as fast and needs no compilation
FEW_TYPES = 32  # rows of a table whose gradient is one kernel
LARGEST_ONE_HOT = 64  # rows of a table whose gradient is a matrix product
NUM_TENSORS = 13  # of the fields of KernelArgs, which come first


def aggregate(plan: Plan, messages: Messages, weights: Weights, graph: Graph, backend: Backend = "auto") -> Tensor:
    r"""The outputs of a plan at every node, from one pass over the neighbours.

    .. math::
        y_i = \sum_j w_{ij} m_{ij} + w_i m_i \;\text{(directional)}, \qquad
        \max_j m_{ij}, \quad \frac{1}{d_i} \sum_j m_{ij}, \quad \dots

    - A node without in-edges gets 0 from every aggregator.
    - Among equal messages the first edge, in the order of ``edge_index``, is the maximum (or minimum) and gets all of
      its gradient.
    - Along a group of directions the output is the norm of one sum per direction.
    - A family of walks has one output for each; its first step sums messages, the next ones what was walked before, in
      one pass for each step.
    - ``var`` is the population variance; ``std`` its root, 0 where the variance is at most 1e-5.
    - There are no atomic additions: on one device and backend the result is bitwise reproducible.

    ``backend`` is ``"triton"`` on CUDA and ``"cpu"`` (Numba) on the CPU where these are installed and the input is
    large; ``"reference"`` is plain PyTorch and runs everywhere.

    Shapes:
        see :class:`Messages` and :class:`Weights`; returns [N, A, C], one row per name of the plan, or per walk.
    """
    if messages.table is not None and messages.row is not None:
        check_table_rows("row", messages.row, len(messages.table))
    return aggregate_rows(plan, messages, weights, graph, backend)


def aggregate_rows(plan: Plan, messages: Messages, weights: Weights, graph: Graph, backend: Backend) -> Tensor:
    """:func:`aggregate` of messages whose rows of the table are known to be there."""
    _check_shapes(plan, messages, weights, graph)
    backend = choose(backend, messages, graph)
    sums = run_plan(plan, messages, weights, graph, backend)
    if plan.one_pass:
        return sums
    return plan.join(sums, [_walk(walk, sums, messages, weights, graph, backend) for walk in plan.walks])


def run_plan(plan: Plan, messages: Messages, weights: Weights, graph: Graph, backend: str) -> Tensor:
    """The sums of a plan, [N, sums, C], by the backend that was chosen."""
    if backend == "reference":
        return aggregate_reference(plan, messages, weights, graph)
    if backend == "triton" and are_learned_features(messages, weights):
        return aggregate_features(plan, messages, weights, graph)
    call = _kernel_args(plan, messages, weights, graph, backend)
    if torch.compiler.is_compiling():
        return torch.ops.dgn.aggregate(  # type: ignore[no-any-return]
            *list(call)[:NUM_TENSORS], list(plan.codes), list(plan.columns), call.has_self, call.save, backend
        )[0]
    if call.save:
        return _Aggregate.apply(*call[:NUM_TENSORS], call, backend)  # type: ignore[no-untyped-call, no-any-return]
    return kernel(backend).forward(call).out  # type: ignore[no-any-return]


def _walk(walk: Walking, sums: Tensor, messages: Messages, weights: Weights, graph: Graph, backend: str) -> Tensor:
    """All walks of a family, from the sums of its first steps. [N, walks, C]"""

    def step(walked: Tensor, field: int) -> Tensor:
        plan = walk.steps[field - 1]
        taken = run_plan(plan, Messages(source=walked.flatten(1)), weights, graph, backend)
        return taken.view(walked.size(0), len(plan), walked.size(1), walked.size(2))

    start = messages.of_node() if walk.schedule.identity else None
    first = sums[:, walk.first : walk.first + len(walk.steps[0])]
    return continue_walks(walk.schedule, first, start, step)


def _kernel_args(plan: Plan, messages: Messages, weights: Weights, graph: Graph, backend: str) -> KernelArgs:
    any_stride = backend == "triton"
    source, target, node = (_contiguous(part, any_stride) for part in (messages.source, messages.target, messages.node))
    table, row = (_contiguous(part) for part in (messages.table, messages.row))
    edge, own = weights.edge.contiguous(), weights.self.contiguous()
    inputs = (*messages, *weights)
    save = torch.is_grad_enabled() and any(part is not None and part.requires_grad for part in inputs)
    by_edge = backend == "triton" and has_row_per_edge(source, table, row, graph)
    layout, pointers = graph.by_target, (graph.source_pointer, *graph.source_places(by_edge))
    codes, columns, has_self = plan.codes, plan.columns, plan.has_self
    return KernelArgs(
        source, target, table, row, node, edge, own, *layout, *pointers, codes, columns, has_self, save
    )  # fmt: skip


def has_row_per_edge(source: Tensor | None, table: Tensor | None, row: Tensor | None, graph: Graph) -> bool:
    """Whether gradients of messages are gradients of the table: every edge has a row of it, and none is padding."""
    return source is not None and table is not None and row is None and not graph.parts.padded


def _contiguous(part: Tensor | None, any_row_stride: bool = False) -> Tensor | None:
    """The part with contiguous rows, of any stride where the kernel supports it."""
    return part if part is None or (any_row_stride and part.stride(1) == 1) else part.contiguous()


def _check_shapes(plan: Plan, messages: Messages, weights: Weights, graph: Graph) -> None:
    """Refuse wrong shapes, and derivatives without a self message: kernels do not check bounds."""
    n, e, w = graph.num_nodes, graph.num_edges, plan.num_columns
    source, target, table, row, node = messages
    if source is None and target is None:
        if table is None:
            raise ValueError("messages: expected a source, target or table, got none; pass Messages(source=x)")
        if plan.reads_node and node is None:
            raise ValueError(
                "node: expected a self message for a derivative (dx) or a walk of no steps, got messages with an edge "
                "part only; pass node=, for example the node features"
            )
    table_rows = e if table is not None and row is None else None
    expected = {"source": n, "target": n, "table": table_rows, "row": e, "node": n}
    parts = {name: part for name, part in zip(expected, messages, strict=True) if part is not None}
    rows = {name: part.size(0) for name, part in parts.items()}
    channels = {part.size(1) for name, part in parts.items() if name != "row"}
    shapes = tuple(weights.edge.shape), tuple(weights.self.shape)
    if any(expected[name] not in (None, count) for name, count in rows.items()) or len(channels) > 1:
        raise ValueError(
            f"messages: expected parts for {n} nodes and {e} edges with the same channels, got rows {rows} and "
            f"channels {sorted(channels)}; see the shapes of dgn.aggregation.Messages"
        )
    if shapes != ((e, w), (n, w)):
        raise ValueError(
            f"weights: expected shapes {((e, w), (n, w))} for {', '.join(plan.names)}, got {shapes}; compute them with "
            "plan.compute_weights(edge_field, graph) of this plan and graph"
        )


def choose(backend: Backend, messages: Messages, graph: Graph) -> Literal["reference", "cpu", "triton"]:
    """The backend that runs."""
    example = next(part for part in messages if part is not None)
    if backend != "auto":
        check_option("backend", backend, BACKENDS)
        _check_available(backend, example)
        return backend
    if torch._C._are_functorch_transforms_active():  # kernels have no rules for vmap, nor gradients for functorch
        return "reference"
    if example.is_cuda and INSTALLED["triton"] and example.dtype in GPU_DTYPES:
        return "triton"
    large = graph.num_edges * example.size(1) >= SMALL
    if example.device.type == "cpu" and large and example.dtype in CPU_DTYPES and INSTALLED["numba"]:
        return "cpu"
    return "reference"


def _check_available(backend: str, example: Tensor) -> None:
    interpreted = os.environ.get("TRITON_INTERPRET") == "1"
    wrong_device = (backend == "triton" and not (example.is_cuda or interpreted)) or (
        backend == "cpu" and example.device.type != "cpu"
    )
    package = {"triton": "triton", "cpu": "numba"}.get(backend, "torch")
    wrong_dtype = backend == "cpu" and example.dtype not in CPU_DTYPES
    if backend != "reference" and torch._C._are_functorch_transforms_active():
        raise ValueError(
            f"backend: expected 'auto' or 'reference' under torch.func, got {backend!r}; kernels have no rules for "
            "vmap and grad"
        )
    if wrong_device or wrong_dtype or not INSTALLED.get(package, True):
        raise ValueError(
            f"backend: expected an installed kernel for {example.dtype} on {example.device}, got {backend!r}; 'auto' "
            "chooses an installed one, 'reference' runs everywhere, 'cpu' needs the extra 'cpu'"
        )


def kernel(backend: str) -> Any:
    """The module of a backend, imported on first use."""
    if backend == "triton":
        from dgn.kernels.triton import aggregate as gpu

        return gpu
    from dgn.kernels.numba import aggregate as cpu

    return cpu


class _Aggregate(torch.autograd.Function):
    """The kernels with their gradients, in eager mode; :mod:`dgn.aggregation.custom_op` is the same for tracing."""

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> Tensor:
        call, ctx.backend = inputs[NUM_TENSORS:]
        saved = kernel(ctx.backend).forward(call)
        ctx.save_for_backward(*saved, *call[:NUM_TENSORS])
        ctx.rest = call[NUM_TENSORS:]
        out: Tensor = saved.out
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        tensors = ctx.saved_tensors
        saved, call = SavedTensors(*tensors[:-NUM_TENSORS]), KernelArgs._make((*tensors[-NUM_TENSORS:], *ctx.rest))
        kernel_grads = kernel(ctx.backend).backward(call, grad.contiguous(), saved)
        return *input_gradients(call, grad, saved, kernel_grads, ctx.needs_input_grad, ctx.backend), None, None


def input_gradients(
    call: KernelArgs,
    grad: Tensor,
    saved: SavedTensors,
    kernel_grads: tuple[Tensor, Tensor, Tensor, Tensor],
    needed: tuple[bool, ...],
    backend: str,
) -> tuple[Tensor | None, ...]:
    """The gradients of the tensors of a call from those that a kernel found of messages, source, target and node."""
    edge, source, target, node = kernel_grads
    wanted = dict(zip(KernelArgs._fields[:NUM_TENSORS], needed, strict=False))
    if call.has_self and call.node is None and not call.self_is_source:  # the sum of source and target
        source = source + node if call.source is not None else source
        target = target + node if call.target is not None else target
    grads: dict[str, Tensor | None] = {"source": source, "target": target}
    grads["table"] = table_gradient(call, edge, backend) if wanted["table"] else None
    grads["node"] = node if call.has_self else None
    if call.weight.size(1) and (wanted["weight"] or wanted["self_weight"]):
        grads["weight"], grads["self_weight"] = _weight_gradients(call, grad, saved)
    return tuple(grads.get(name) if needs else None for name, needs in wanted.items())


def table_gradient(call: KernelArgs, edge_grad: Tensor, backend: str) -> Tensor:
    """The gradient of the table from those of messages, without atomic additions."""
    assert call.table is not None
    place = call.gradient_order
    if call.row is None and place is call.order:
        return edge_grad
    if call.row is not None and edge_grad.is_cuda and call.table.size(0) <= FEW_TYPES:
        from dgn.kernels.triton.segment_sum import sum_by_type

        return sum_by_type(edge_grad, call.row, call.table.size(0), place)
    if call.row is not None and backend == "cpu" and call.table.size(0) <= LARGEST_ONE_HOT:
        return kernel(backend).sum_by_type(edge_grad, call.row, call.table.size(0), place)  # type: ignore[no-any-return]
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


def _weight_gradients(call: KernelArgs, grad: Tensor, saved: SavedTensors) -> tuple[Tensor, Tensor | None]:
    """Gradients of the edge and self weights, for learned fields."""
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
