"""The update of a convolution on the CPU: nodes of one degree share one matrix."""

from itertools import pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from dgn.aggregation import degree_scalers
from dgn.graph import Graph
from dgn.kernels.autograd import once_differentiable
from dgn.nn.conv_parts import ScalerKey

MULTIPLE = 16  # products whose result is a multiple of this wide run up to half as fast again


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
