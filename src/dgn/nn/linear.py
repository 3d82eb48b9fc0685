"""Linear maps of many rows by small matrices: one, one per tower, or, on the CPU, one per degree.

On a GPU their backward pass sums the gradient of a matrix over many rows in parts.
"""

import math
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from dgn.aggregation import ScalerKey, degree_scalers
from dgn.graph import Graph
from dgn.kernels.autograd import once_differentiable
from dgn.nn.fused.wgrad_stream import current_wgrad_stream, on

TALL = 1 << 13  # rows from which the gradient of a small matrix is summed in parts
VERY_TALL = 1 << 17  # the same for column sums where each launch waits for the host
TALL_TOWER = 1 << 10  # the same for matrices of towers: alone, each would keep one multiprocessor busy with all rows
PARTS = 64
MULTIPLE = 16  # products whose result is a multiple of this wide run up to half as fast again
FEW_PARTS, LARGE = 16, 1 << 16  # for products of so many numbers: each part writes all of them


class Linear(nn.Linear):
    """``nn.Linear``. On a GPU, small products with many rows come back faster; results differ by rounding.

    >>> Linear(2, 3)(torch.ones(4, 2)).shape
    torch.Size([4, 3])
    """

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002, the name of the parent class
        if input.dim() != 2 or not is_plain(input, self.weight):  # three dimensions are towers to the functions here
            return super().forward(input)
        out = multiply(input, self.weight)
        return out if self.bias is None else add_bias(out, self.bias)


class BlockLinear(nn.Module):
    r"""One linear map per tower whose matrix is kept in pieces: :math:`y_t = x_t W_t^\top + b_t`.

    With one tower it has the parameters of ``nn.Linear``, and every tower is initialised like one. ``weight`` joins
    the pieces to the matrix as one writes it down, for those who want to read it.

    Shapes:
        ``weight`` [T, out, in], ``bias`` [T, out].
    """

    def __init__(self, in_channels: int, out_channels: int, towers: int) -> None:
        super().__init__()
        self.in_channels, self.out_channels, self.towers = in_channels, out_channels, towers
        self.bias = nn.Parameter(torch.empty(towers, out_channels))

    @property
    def weight(self) -> Tensor:
        raise NotImplementedError

    def initialize(self, bound: float, bias_bound: float) -> None:
        """Uniform numbers within the bounds."""
        for name, piece in self.named_parameters():
            limit = bias_bound if name == "bias" else bound
            nn.init.uniform_(piece, -limit, limit)

    def reset_parameters(self) -> None:
        bound = 1 / math.sqrt(self.in_channels) if self.in_channels else 0.0
        self.initialize(bound, bound)

    def extra_repr(self) -> str:
        return f"{self.in_channels}, {self.out_channels}, towers={self.towers}"


class MessageLinear(BlockLinear):
    """The map of a message :math:`[x_j, x_i, e_{ji}]`: the two ends, and the edge.

    Shapes:
        ``ends`` [T, 2 w, w], rows of the source above those of the target; ``edge`` [T, w, D] or ``None``.
    """

    def __init__(self, width: int, edge_dim: int = 0, towers: int = 1) -> None:
        super().__init__(2 * width + edge_dim, width, towers)
        self.ends = nn.Parameter(torch.empty(towers, 2 * width, width))
        self.edge = nn.Parameter(torch.empty(towers, width, edge_dim)) if edge_dim else None
        self.reset_parameters()

    @property
    def weight(self) -> Tensor:
        return torch.cat([*self.ends.chunk(2, dim=1), *([] if self.edge is None else [self.edge])], dim=2)


class UpdateLinear(BlockLinear):
    """The map of an update: of the node itself, and of what was aggregated, once per degree scaler.

    Shapes:
        ``own`` [T, out, w] or ``None``; ``scaled`` [T, scalers * out, aggregators * w].
    """

    def __init__(self, own: int, aggregated: int, scalers: int, out_channels: int, towers: int = 1) -> None:
        super().__init__(own + scalers * aggregated, out_channels, towers)
        self.own = nn.Parameter(torch.empty(towers, out_channels, own)) if own else None
        self.scaled = nn.Parameter(torch.empty(towers, scalers * out_channels, aggregated))
        self.reset_parameters()

    @property
    def weight(self) -> Tensor:
        scaled = self.scaled.chunk(self.scaled.size(1) // self.out_channels, dim=1)
        return torch.cat([*([] if self.own is None else [self.own]), *scaled], dim=2)


def grouped_linear(x: Tensor, weight: Tensor) -> Tensor:
    """Multiply each tower's slice by its own matrix: ``[N, T, in] x [T, out, in] -> [N, T, out]``."""
    if weight.size(0) == 1:
        return multiply(x.flatten(1), weight.flatten(0, 1))[:, None]
    return multiply(x, weight)


def is_plain(x: Tensor, weight: Tensor) -> bool:
    """Whether the functions here take a product over: on a GPU, of one type, and not while tracing."""
    tracing = torch.compiler.is_compiling() or torch.is_autocast_enabled(x.device.type)
    return x.is_cuda and x.dim() in (2, 3) and x.dtype == weight.dtype and not tracing


def multiply(x: Tensor, weight: Tensor) -> Tensor:
    """``x @ weight.T``: ``[N, in] x [out, in] -> [N, out]``, or, tower by tower, ``[N, T, in] x [T, out, in]``."""
    if is_plain(x, weight) and (x.size(0) >= TALL or current_wgrad_stream() is not None):
        out: Tensor = _Multiply.apply(x, weight)  # type: ignore[no-untyped-call]
        return out
    return _times(x, weight)


def _times(x: Tensor, weight: Tensor) -> Tensor:
    return x @ weight.T if weight.dim() == 2 else torch.einsum("nti,toi->nto", x, weight)


def grouped_matmul(x: Tensor, matrices: Tensor) -> Tensor:
    """Each tower times its own matrix, without a gradient: ``[N, T, in] x [T, in, out] -> [N, T, out]``.

    One batch of products reads the towers where they lie and writes them where they shall lie: nothing is copied.
    """
    if len(matrices) == 1:
        return (x.flatten(1) @ matrices[0])[:, None]
    out = x.new_empty(x.size(0), len(matrices), matrices.size(2))
    torch.bmm(x.transpose(0, 1), matrices, out=out.transpose(0, 1))
    return out


def add_bias(x: Tensor, bias: Tensor) -> Tensor:
    """``x + bias``: ``[N, C] + [C]``."""
    if is_plain(x, bias):
        out: Tensor = _AddBias.apply(x, bias)  # type: ignore[no-untyped-call]
        return out
    return x + bias.to(x.dtype)


class _Multiply(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.side = current_wgrad_stream()
        return _times(x, weight)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None]:
        x, weight = ctx.saved_tensors
        grad_x = grad_weight = None
        if ctx.needs_input_grad[1]:
            with on(ctx.side, grad, x):
                grad_weight = transposed_matmul(grad, x)
        if ctx.needs_input_grad[0]:
            grad_x = _times(grad, weight.transpose(-1, -2))
        return grad_x, grad_weight


class _AddBias(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, bias: Tensor) -> Tensor:
        ctx.side = current_wgrad_stream()
        return x + bias

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        with on(ctx.side, grad):
            grad_bias = column_sums(grad, few_launches=ctx.side is None)
        return grad, grad_bias


def transposed_matmul(a: Tensor, b: Tensor) -> Tensor:
    """``a.T @ b``, of many rows in parts: ``[N, ..., m], [N, ..., n] -> [..., m, n]``."""
    if a.dim() == 3 and a.size(1) == 1:
        return transposed_matmul(a[:, 0], b[:, 0])[None]
    rows, parts = a.size(0), FEW_PARTS if a.dim() == 2 and a.size(1) * b.size(1) > LARGE else PARTS
    whole = rows // parts * parts
    if rows < (TALL if a.dim() == 2 else TALL_TOWER):
        return a.T @ b if a.dim() == 2 else _product(a[None], b[None])
    total = _product(_split(a[:whole], parts), _split(b[:whole], parts))
    if rows == whole or a.dim() == 2:
        return total if rows == whole else total.addmm_(a[whole:].T, b[whole:])
    return total + _product(a[None, whole:], b[None, whole:])


def column_sums(x: Tensor, few_launches: bool = False) -> Tensor:
    """``[N, C] -> [C]``: of many rows, a product with ones sums columns faster than a reduction does.

    It takes four launches instead of one: where each waits for the host (``few_launches``), it needs more rows to pay.
    """
    if len(x) < (VERY_TALL if few_launches else TALL):
        return x.sum(dim=0)
    return transposed_matmul(x.new_ones(x.size(0), 1), x)[0]


def _split(x: Tensor, parts: int) -> Tensor:
    """Rows in parts: ``[P N, ..., m] -> [P, N, ..., m]``.

    With towers a part takes every P-th row: then parts and towers lie at equal distances, as one batch of products.
    """
    if x.dim() == 2:
        return x.reshape(parts, len(x) // parts, x.size(1))
    return x.reshape(len(x) // parts, parts, *x.shape[1:]).transpose(0, 1)


def _product(a: Tensor, b: Tensor) -> Tensor:
    """``[P, N, ..., m], [P, N, ..., n] -> [..., m, n]``, summed over P and N."""
    products = torch.matmul(a.movedim(1, -1), b.movedim(1, -2))
    return products[0] if len(products) == 1 else products.sum(dim=0)


class Groups(NamedTuple):
    """Nodes sorted by degree: ``order[bounds[k] : bounds[k + 1]]`` have degree ``degree[k]``.

    Shapes:
        ``order`` and its ``inverse`` [N], ``degree`` [D], ``bounds`` D + 1 numbers.
    """

    order: Tensor
    inverse: Tensor
    degree: Tensor
    bounds: list[int]


def group_by_degree(graph: Graph) -> Groups:
    """The nodes of a graph by in-degree, made once.

    >>> import dgn
    >>> group_by_degree(dgn.as_graph(torch.tensor([[0, 1, 2], [1, 0, 1]])))[2:]
    (tensor([0, 1, 2]), [0, 1, 2, 3])
    """

    def make() -> Groups:
        count = torch.bincount(graph.in_degree)
        degree = count.nonzero()[:, 0]
        order = graph.in_degree.argsort(stable=True)
        inverse = torch.empty_like(order).index_copy(0, order, torch.arange(order.size(0)))
        return Groups(order, inverse, degree, [0, *count[degree].cumsum(0).tolist()])

    return graph.cached(Groups, make)


def scale_groups(graph: Graph, scalers: tuple[str, ...], delta: float, dtype: torch.dtype) -> Tensor:
    """The scalers of each degree of a graph, [D, S], made once."""
    degree, key = group_by_degree(graph).degree, ScalerKey(scalers, delta, dtype)
    return graph.cached((Groups, key), lambda: degree_scalers(degree, *key))


def update_by_degree(
    aggregated: Tensor, weight: Tensor, graph: Graph, scalers: tuple[str, ...], delta: float
) -> Tensor:
    r"""What was aggregated times the matrix of its scalers: :math:`y_i = \sum_s S_s(d_i) \, W_s \, a_i`.

    A scaler depends on the degree alone, and a batch has few degrees: :math:`\sum_s S_s(d) W_s` is made once for each,
    and a node is multiplied by one matrix, whatever the number of scalers.

    Shapes:
        ``aggregated`` [N, in], ``weight`` [S * out, in]; returns [N, out].
    """
    groups = group_by_degree(graph)
    scale = scale_groups(graph, scalers, delta, aggregated.dtype)
    by_scaler = weight.view(len(scalers), -1, weight.size(1))
    out: Tensor = _Update.apply(aggregated, by_scaler, scale, *groups)  # type: ignore[no-untyped-call]
    return out


class _Update(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, scale: Tensor, order: Tensor, inverse: Tensor, _: Tensor, bounds: list[int]
    ) -> Tensor:
        out = weight.size(1)
        wide = pad(weight, (0, 0, 0, -out % MULTIPLE))
        matrix = (scale @ wide.flatten(1)).view(len(scale), *wide.shape[1:])
        sorted_x = x.index_select(0, order)
        ctx.save_for_backward(sorted_x, matrix[:, :out], scale, order, inverse)
        ctx.bounds = bounds
        return multiply_groups(sorted_x, matrix, bounds)[:, :out].index_select(0, inverse)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        sorted_x, matrix, scale, order, inverse = ctx.saved_tensors
        grad_x, grad_matrix = multiply_groups_back(grad.index_select(0, order), sorted_x, matrix, ctx.bounds)
        grad_weight = (scale.T @ grad_matrix.flatten(1)).view(scale.size(1), *matrix.shape[1:])
        return grad_x.index_select(0, inverse), grad_weight, None, None, None, None, None


def multiply_groups(x: Tensor, matrix: Tensor, bounds: list[int]) -> Tensor:
    """Rows ``bounds[k]`` to ``bounds[k + 1]`` times matrix k, transposed: ``[N, in] x [D, out, in] -> [N, out]``."""
    y = x.new_empty(x.size(0), matrix.size(1))
    for number, (first, last) in enumerate(pairwise(bounds)):
        torch.mm(x[first:last], matrix[number].T, out=y[first:last])
    return y


def multiply_groups_back(grad: Tensor, x: Tensor, matrix: Tensor, bounds: list[int]) -> tuple[Tensor, Tensor]:
    """The gradients of ``x`` and ``matrix`` in :func:`multiply_groups`, from that of its result."""
    grad_x, grad_matrix = torch.empty_like(x), torch.empty_like(matrix, memory_format=torch.contiguous_format)
    for number, (first, last) in enumerate(pairwise(bounds)):
        torch.mm(grad[first:last], matrix[number], out=grad_x[first:last])
        torch.mm(grad[first:last].T, x[first:last], out=grad_matrix[number])
    return grad_x, grad_matrix
