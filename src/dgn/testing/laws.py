"""Laws of fields and operators, as assertions: each failure names the law that is broken.

Functions of a graph are called as ``function(graph, *nodes, *edges)``, with a :class:`dgn.Graph` and then the tensors
that have one row per node and those that have one row per edge. Operators are called as ``operator(x)``. A tolerance is
relative to the largest value, absolute below 1; by default it is 1e-11 in float64 and 1e-5 in float32.
"""

from collections.abc import Callable, Sequence
from typing import Literal

import torch
from torch import Tensor

from dgn.graph import Graph
from dgn.spectral import Directions

Output = Literal["node", "edge", "graph"]
TRIALS = 3


def assert_permutation_equivariant(
    function: Callable[..., Tensor],
    graph: Graph,
    nodes: Sequence[Tensor] = (),
    edges: Sequence[Tensor] = (),
    output: Output = "node",
    tolerance: float | None = None,
    generator: torch.Generator | None = None,
) -> None:
    """Law: relabelling the nodes and reordering the edges only reorders the result.

    ``output`` is what a row of the result belongs to; ``"graph"`` results must not change at all.

    >>> from dgn import as_graph
    >>> from dgn.testing import path
    >>> degree = lambda graph: graph.in_degree.double()
    >>> assert_permutation_equivariant(degree, as_graph(*path(4)))
    """
    generator = torch.Generator().manual_seed(0) if generator is None else generator
    device = graph.edge_index.device
    expected = function(graph, *nodes, *edges)
    for _ in range(TRIALS):
        label = torch.randperm(graph.num_nodes, generator=generator).to(device)  # node i becomes label[i]
        order = torch.randperm(graph.num_edges, generator=generator).to(device)
        old = label.argsort()
        batch = None if graph.batch is None else graph.batch[old]
        moved = Graph(label[graph.edge_index[:, order]], graph.num_nodes, batch)
        got = function(moved, *(values[old] for values in nodes), *(values[order] for values in edges))
        rows = {"node": label, "edge": order.argsort()}
        restored = got if output == "graph" else got[rows[output]]
        _assert_close("permutation equivariance", restored, expected, tolerance)


def assert_batch_independent(
    function: Callable[..., Tensor],
    graph: Graph,
    nodes: Sequence[Tensor] = (),
    edges: Sequence[Tensor] = (),
    output: Output = "node",
    tolerance: float | None = None,
) -> None:
    """Law: the result for a graph in a batch (``graph.batch``) is that for the graph alone.

    >>> from dgn import as_graph
    >>> from dgn.testing import cycle, disjoint_union, path
    >>> degree = lambda graph: graph.in_degree.double()
    >>> assert_batch_independent(degree, as_graph(*disjoint_union(path(4), cycle(3))))
    """
    if graph.batch is None:
        raise ValueError("graph: expected several graphs with batch, got batch=None; make one with disjoint_union")
    batched = function(graph, *nodes, *edges)
    local = torch.zeros_like(graph.batch)
    for index in torch.unique(graph.batch).tolist():
        node = (graph.batch == index).nonzero()[:, 0]
        edge = (graph.batch[graph.target] == index).nonzero()[:, 0]
        local[node] = torch.arange(len(node), device=node.device)
        alone = Graph(local[graph.edge_index[:, edge]], len(node), torch.zeros_like(node))
        expected = function(alone, *(values[node] for values in nodes), *(values[edge] for values in edges))
        rows = {"node": node, "edge": edge, "graph": node.new_tensor([index])}
        _assert_close(f"batch independence of graph {index}", batched[rows[output]], expected, tolerance)


def assert_linear(
    function: Callable[[Tensor], Tensor],
    shape: Sequence[int],
    dtype: torch.dtype = torch.float64,
    tolerance: float | None = None,
    generator: torch.Generator | None = None,
) -> None:
    """Law: f(2 x - 3 y) = 2 f(x) - 3 f(y), for x and y of the given shape.

    >>> assert_linear(lambda x: x.cumsum(0), (4, 2))
    """
    generator = torch.Generator().manual_seed(0) if generator is None else generator
    x, y = torch.randn(2, *shape, generator=generator, dtype=dtype)
    _assert_close("linearity", function(2 * x - 3 * y), 2 * function(x) - 3 * function(y), tolerance)


def assert_smoothing(
    operator: Callable[[Tensor], Tensor],
    num_nodes: int,
    dtype: torch.dtype = torch.float64,
    row_sums: Sequence[float] | None = (0.0, 1.0),
    tolerance: float | None = None,
) -> None:
    """Law: a directional average has weights of 0 or more, and rows that sum to 1, or 0 where the field is 0.

    ``row_sums`` are the sums allowed; ``None`` allows any.

    >>> assert_smoothing(lambda x: x.mean(0, keepdim=True).expand_as(x), 4)
    """
    assert_linear(operator, (num_nodes, 2), dtype, tolerance)
    matrix = operator(torch.eye(num_nodes, dtype=dtype))
    _assert_close("smoothing, weights of 0 or more", matrix.clamp(min=0), matrix, tolerance)
    if row_sums is not None:
        total = matrix.sum(dim=-1)
        allowed = torch.tensor(row_sums, dtype=dtype)
        nearest = allowed[(total.unsqueeze(-1) - allowed).abs().argmin(dim=-1)]
        _assert_close(f"smoothing, rows that sum to one of {tuple(row_sums)}", total, nearest, tolerance)


def assert_derivative(
    operator: Callable[[Tensor], Tensor],
    num_nodes: int,
    dtype: torch.dtype = torch.float64,
    tolerance: float | None = None,
) -> None:
    """Law: a derivative is linear, and 0 for a constant.

    >>> assert_derivative(lambda x: x - x.roll(1, 0), 4)
    """
    assert_linear(operator, (num_nodes, 2), dtype, tolerance)
    slope = operator(torch.ones(num_nodes, 1, dtype=dtype))
    _assert_close("derivative of a constant", slope, torch.zeros_like(slope), tolerance)


def assert_reflection(
    make_operator: Callable[[Tensor], Callable[[Tensor], Tensor]],
    field: Tensor,
    x: Tensor,
    parity: Literal[1, -1],
    tolerance: float | None = None,
) -> None:
    """Law: B(-F) = parity * B(F), where ``make_operator`` is F -> B; 1 for an average, -1 for a derivative.

    >>> assert_reflection(lambda field: lambda x: field * x, torch.ones(3), torch.ones(3), parity=-1)
    """
    _assert_close(
        f"reflection with parity {parity:+d}", make_operator(-field)(x), parity * make_operator(field)(x), tolerance
    )


def assert_antisymmetric(field: Tensor, edge_index: Tensor, tolerance: float | None = None) -> None:
    """Law: the two directions of an edge carry opposite values, and self-loops 0. Parallel edges must agree.

    >>> assert_antisymmetric(torch.tensor([2.0, -2.0]), torch.tensor([[0, 1], [1, 0]]))
    """
    source, target = edge_index
    side = (target - source).sign().to(field).view(-1, *[1] * (field.dim() - 1))
    ends = torch.stack([torch.minimum(source, target), torch.maximum(source, target)])
    pairs, which = torch.unique(ends, dim=1, return_inverse=True)
    oriented = side * field
    first = torch.zeros_like(oriented[: pairs.size(1)]).index_copy(0, which, oriented)
    _assert_close("antisymmetry", field, side * first[which], tolerance)


def assert_same_eigenspace(a: Tensor, b: Tensor, tolerance: float | None = None) -> None:
    """Law: the columns of a and b [N, m] span the same space, whatever their signs, order and basis.

    >>> assert_same_eigenspace(torch.eye(3)[:, :2], torch.tensor([[1.0, 1.0], [1.0, -1.0], [0.0, 0.0]]))
    """
    projector_a, projector_b = (columns @ torch.linalg.pinv(columns) for columns in (a, b))
    _assert_close("equality of eigenspaces", projector_a, projector_b, tolerance)


def assert_basis_independent(
    function: Callable[[Tensor], Tensor],
    directions: Directions,
    tolerance: float | None = None,
    generator: torch.Generator | None = None,
) -> None:
    """Law: f(potential) [N, k] is the same for every orthonormal basis of every eigenspace, and for every sign.

    Of an eigenspace that reaches beyond the last column, only the columns at hand are rotated.

    >>> from dgn import directions
    >>> from dgn.testing import cycle
    >>> assert_basis_independent(lambda potential: potential @ potential.T, directions(*cycle(5), k=2))
    """
    generator = torch.Generator().manual_seed(0) if generator is None else generator
    expected = function(directions.potential)
    for _ in range(TRIALS):
        rotated = directions.resample(generator).potential
        sign = torch.randint(2, directions.eigenvalues.shape, generator=generator).to(rotated) * 2 - 1
        got = function(rotated * sign[directions.component])
        _assert_close("independence of the basis of an eigenspace", got, expected, tolerance)


def _assert_close(law: str, got: Tensor, expected: Tensor, tolerance: float | None) -> None:
    if got.shape != expected.shape:
        raise AssertionError(f"{law}: expected shape {list(expected.shape)}, got {list(got.shape)}")
    if got.numel() == 0:
        return
    dtype = torch.promote_types(got.dtype, torch.float32)
    got, expected = got.detach().to(dtype), expected.detach().to(dtype)
    relative = torch.finfo(dtype).eps ** 0.7 if tolerance is None else tolerance
    allowed = relative * max(1.0, float(expected.abs().max()))
    broken = ~((got - expected).abs() <= allowed)
    if bool(broken.any()):
        at = broken.nonzero()[0].tolist()
        raise AssertionError(
            f"{law}: expected {expected[tuple(at)].item():.6g}, got {got[tuple(at)].item():.6g} at index {at}, and "
            f"{int(broken.sum())} of {broken.numel()} values off by more than {allowed:.1e}"
        )
