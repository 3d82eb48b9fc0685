"""Aggregation: one operator, three interchangeable backends."""

import os
from importlib.util import find_spec
from typing import Literal

import torch
from torch import Tensor

from dgn.aggregation.custom_op import run
from dgn.aggregation.messages import Messages
from dgn.aggregation.plan import Plan, Weights
from dgn.aggregation.reference import aggregate_reference
from dgn.graph import Graph
from dgn.graph.checks import check_option, check_table_rows

Backend = Literal["auto", "reference", "cpu", "triton"]
BACKENDS = ("auto", "reference", "cpu", "triton")
CPU_DTYPES = (torch.float32, torch.float64)
GPU_DTYPES = (torch.float16, torch.bfloat16, *CPU_DTYPES)
SMALL = 1 << 16  # elements of all messages; below, the reference on the CPU is as fast and needs no compilation


def aggregate(plan: Plan, messages: Messages, weights: Weights, graph: Graph, backend: Backend = "auto") -> Tensor:
    r"""The outputs of a plan at every node, from one pass over the neighbours.

    .. math::
        y_i = \sum_j w_{ij} m_{ij} + w_i m_i \;\text{(directional)}, \qquad
        \max_j m_{ij}, \quad \frac{1}{d_i} \sum_j m_{ij}, \quad \dots

    - A node without in-edges gets 0 from every aggregator.
    - Among equal messages the first edge, in the order of ``edge_index``, is the maximum (or minimum) and gets all of
      its gradient.
    - Along a group of directions the output is the norm of one sum per direction.
    - ``var`` is the population variance; ``std`` its root, 0 where the variance is at most 1e-5.
    - There are no atomic additions: on one device and backend the result is bitwise reproducible.

    ``backend`` is ``"triton"`` on CUDA and ``"cpu"`` (Numba) on the CPU where these are installed and the input is
    large; ``"reference"`` is plain PyTorch and runs everywhere.

    Shapes:
        see :class:`Messages` and :class:`Weights`; returns [N, A, C], one row per name of the plan.
    """
    check_option("backend", backend, BACKENDS)
    _check_shapes(plan, messages, weights, graph)
    backend = choose(backend, messages, graph)
    if backend == "reference":
        return aggregate_reference(plan, messages, weights, graph)
    strided = ("source", "target", "node") if backend == "triton" else ()
    parts = [None if part is None else _contiguous(part, name in strided) for name, part in messages._asdict().items()]
    inputs = [part for part in (*messages, *weights) if part is not None]
    save = torch.is_grad_enabled() and any(part.requires_grad for part in inputs)
    by_target = graph.by_target
    out: Tensor = run(
        *parts,
        weights.edge.contiguous(),
        weights.self.contiguous(),
        by_target.pointer,
        by_target.order,
        by_target.neighbor,
        graph.source_pointer,
        graph.target_to_source,
        list(plan.codes),
        list(plan.columns),
        plan.has_self,
        save,
        backend,
    )[0]
    return plan.join(out)


def _contiguous(part: Tensor, any_row_stride: bool) -> Tensor:
    """The part with contiguous rows, of any stride where the kernel supports it."""
    return part if any_row_stride and part.stride(1) == 1 else part.contiguous()


def _check_shapes(plan: Plan, messages: Messages, weights: Weights, graph: Graph) -> None:
    """Refuse wrong shapes: kernels do not check bounds."""
    messages.check(plan.has_self)
    n, e, w = graph.num_nodes, graph.num_edges, plan.num_columns
    table_rows = e if messages.table is not None and messages.row is None else None
    expected = {"source": n, "target": n, "table": table_rows, "row": e, "node": n}
    rows = {name: part.size(0) for name, part in messages._asdict().items() if part is not None}
    channels = {part.size(1) for name, part in messages._asdict().items() if part is not None and name != "row"}
    shapes = tuple(weights.edge.shape), tuple(weights.self.shape)
    if any(expected[name] not in (None, count) for name, count in rows.items()) or len(channels) > 1:
        raise ValueError(
            f"messages: expected parts for {n} nodes and {e} edges with the same channels, got rows {rows} and "
            f"channels {sorted(channels)}; see the shapes of dgn.aggregation.Messages"
        )
    if messages.table is not None and messages.row is not None:
        check_table_rows("row", messages.row, len(messages.table))
    if shapes != ((e, w), (n, w)):
        raise ValueError(
            f"weights: expected shapes {((e, w), (n, w))} for {', '.join(plan.names)}, got {shapes}; compute them with "
            "plan.compute_weights(field, graph) of this plan and graph"
        )


def choose(backend: Backend, messages: Messages, graph: Graph) -> Literal["reference", "cpu", "triton"]:
    """The backend that runs."""
    example = next(part for part in messages if part is not None)
    if backend != "auto":
        _check_available(backend, example)
        return backend
    if example.is_cuda and find_spec("triton") is not None and example.dtype in GPU_DTYPES:
        return "triton"
    large = graph.num_edges * example.size(1) >= SMALL
    if example.device.type == "cpu" and large and example.dtype in CPU_DTYPES and find_spec("numba") is not None:
        return "cpu"
    return "reference"


def _check_available(backend: str, example: Tensor) -> None:
    interpreted = os.environ.get("TRITON_INTERPRET") == "1"
    wrong_device = (backend == "triton" and not (example.is_cuda or interpreted)) or (
        backend == "cpu" and example.device.type != "cpu"
    )
    package = {"triton": "triton", "cpu": "numba"}.get(backend)
    wrong_dtype = backend == "cpu" and example.dtype not in CPU_DTYPES
    if wrong_device or wrong_dtype or (package is not None and find_spec(package) is None):
        raise ValueError(
            f"backend: expected an installed kernel for {example.dtype} on {example.device}, got {backend!r}; 'auto' "
            "chooses an installed one, 'reference' runs everywhere, 'cpu' needs the extra 'cpu'"
        )
