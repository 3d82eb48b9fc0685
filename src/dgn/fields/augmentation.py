"""Augmentation of fields: reflection, rotation and distortion (section 2.10)."""

from typing import Any, Literal

import torch
from torch import Tensor

from dgn.fields.calculus import inner_product, row_norm
from dgn.fields.normalization import divide, normalize
from dgn.graph import as_graph
from dgn.graph.checks import check_columns, check_finite, check_numbers, check_option, check_result, check_rows


def reflect(field: Tensor) -> Tensor:
    r"""The reflected field :math:`-F` (definition 4).

    Laws: :math:`B_{av}` does not change and :math:`B_{dx}` changes its sign.

    >>> reflect(torch.tensor([1.0, -2.0])).tolist()
    [-1.0, 2.0]
    """
    check_numbers("field", field)
    return -field


def rotate(
    first: Tensor,
    second: Tensor,
    angle: float | Tensor,
    edge_index: Any,
    num_nodes: int | None = None,
    collinear: Literal["raise", "keep"] = "raise",
) -> tuple[Tensor, Tensor]:
    r"""Two fields, rotated in their common plane at every node (definition 5).

    .. math::
        \hat F_1^\theta = \cos\theta \, \hat F_1 + \sin\theta \, \hat F_2^\perp, \qquad
        \hat F_2^\theta = \cos(\theta + \alpha) \, \hat F_1 + \sin(\theta + \alpha) \, \hat F_2^\perp

    Hats are rows of unit :math:`L^2` norm, :math:`\hat F_2^\perp` is the normalised part of :math:`\hat F_2`
    perpendicular to :math:`\hat F_1`, and :math:`\alpha_i` the angle between the two at node i. ``angle`` is
    :math:`\theta` in radians: one number, or one per node ``[N]``.

    At a node where the two fields are collinear (any node with one neighbour) there is no plane. ``collinear="raise"``
    refuses such fields, ``"keep"`` leaves those nodes unrotated.

    Laws: angle 0 gives the unit fields; angles add up; rows stay of unit norm and keep their angle.

    Shapes:
        ``first`` and ``second`` [E, K] or [E]; returns both rotated.

    >>> edges = torch.tensor([[1, 2], [0, 0]])
    >>> right, up = torch.tensor([2.0, 0.0]), torch.tensor([0.0, 3.0])
    >>> [field.round(decimals=3).abs().tolist() for field in rotate(right, up, torch.pi / 2, edges, 3)]
    [[0.0, 1.0], [1.0, 0.0]]
    """
    check_option("collinear", collinear, ("raise", "keep"))
    graph = as_graph(edge_index, num_nodes)
    check_rows("first", first, graph.num_edges, "edge")
    check_rows("second", second, graph.num_edges, "edge")
    check_columns("second", second, first)
    theta = torch.as_tensor(angle, dtype=first.dtype, device=first.device)
    if theta.dim():
        check_rows("angle", theta, graph.num_nodes, "node")
        theta = theta.view(-1, *[1] * (first.dim() - 1))
    check_finite("angle", theta)
    unit_1 = normalize(first, graph, p=2)
    unit_2 = normalize(second, graph, p=2)
    cosine = inner_product(unit_1, unit_2, graph)
    rest = unit_2 - cosine[graph.target] * unit_1
    sine = row_norm(rest, graph, p=2)
    length_1, length_2 = row_norm(unit_1, graph), row_norm(unit_2, graph)
    plane = (length_1 > 0) & (sine > torch.finfo(sine.dtype).eps ** 0.5)
    if collinear == "raise":
        _refuse_collinear(~plane & ((length_1 > 0) | (length_2 > 0)))
    alpha = torch.atan2(sine, cosine)
    perpendicular = divide(rest, sine[graph.target])

    def rotate_by(unit: Tensor, turn: Tensor) -> Tensor:
        cos, sin = (value.expand_as(alpha)[graph.target] for value in (turn.cos(), turn.sin()))
        rotated = cos * unit_1 + sin * perpendicular
        # Rows have unit length: components of the size of rounding should be 0.
        rotated = torch.where(rotated.detach().abs() > 4 * torch.finfo(rotated.dtype).eps, rotated, 0.0)
        return torch.where(plane[graph.target], rotated, unit)

    return rotate_by(unit_1, theta), rotate_by(unit_2, theta + alpha)


def distort(
    field: Tensor,
    edge_index: Any,
    strength: float,
    *,
    generator: torch.Generator | None,
    batch: Tensor | None = None,
) -> Tensor:
    r"""The field with antisymmetric noise (definition 6): :math:`F' = F + R \circ A`, :math:`R_{ij} = -R_{ji}`.

    Noise is uniform in :math:`(-x m, x m)`, with x the ``strength`` and m the mean absolute value of the field in its
    graph. Both directions of an edge, and parallel edges, share one draw; a self-loop gets none. The draw does not
    depend on the order of the edges. Without a ``generator`` it comes from PyTorch's global one.

    Laws: strength 0 gives F; an antisymmetric field stays antisymmetric.

    Shapes:
        ``field`` [E, K] or [E], ``batch`` [N].

    >>> edges = torch.tensor([[0, 1], [1, 0]])
    >>> noisy = distort(torch.tensor([1.0, -1.0]), edges, 0.5, generator=torch.Generator().manual_seed(0))
    >>> bool(noisy[0] == -noisy[1]), bool((noisy[0] - 1).abs() <= 0.5)
    (True, True)
    """
    graph = as_graph(edge_index, None, batch) if batch is None else as_graph(edge_index, len(batch), batch)
    check_rows("field", field, graph.num_edges, "edge")
    _check_strength(strength)
    source, target = graph.edge_index
    pair = torch.minimum(source, target) * graph.num_nodes + torch.maximum(source, target)
    pairs, index = torch.unique(pair, return_inverse=True)
    noise: Tensor = _uniform(len(pairs), field, generator)[index]
    owner = torch.zeros_like(target) if graph.batch is None else graph.batch[target]
    scale = strength * _mean_size(field, owner, graph.num_graphs)
    side = (source - target).sign().to(field).view(-1, *[1] * (field.dim() - 1))
    return check_result("distort", torch.addcmul(field, side * noise, scale))


def distort_potential(
    potential: Tensor, strength: float, *, generator: torch.Generator | None, batch: Tensor | None = None
) -> Tensor:
    r"""The potential with noise on the nodes, as in the experiments of the augmentation figure.

    Noise is uniform in :math:`(-x m, x m)`, with x the ``strength`` and m the mean absolute value of the potential in
    its graph. The gradient of the result is a distorted field that is still a gradient.

    Shapes:
        ``potential`` [N, K] or [N], ``batch`` [N].

    >>> distort_potential(torch.ones(3), 0.0, generator=torch.Generator()).tolist()
    [1.0, 1.0, 1.0]
    """
    check_numbers("potential", potential)
    _check_strength(strength)
    owner = torch.zeros(len(potential), dtype=torch.long, device=potential.device) if batch is None else batch.long()
    count = int(owner.max()) + 1 if owner.numel() else 0
    noise = _uniform(len(potential), potential, generator)
    return check_result("distort_potential", potential + strength * noise * _mean_size(potential, owner, count))


def _check_strength(strength: float) -> None:
    if not 0 <= strength < float("inf"):
        raise ValueError(f"strength: expected a finite number of 0 or more, got {strength}; 0.1 is mild, 1 is strong")


def _uniform(rows: int, like: Tensor, generator: torch.Generator | None) -> Tensor:
    device = like.device if generator is None else generator.device
    noise = torch.rand(rows, *like.shape[1:], generator=generator, dtype=like.dtype, device=device)
    return (2 * noise - 1).to(like.device)


def _mean_size(values: Tensor, owner: Tensor, count: int) -> Tensor:
    """The mean absolute value over the graph that owns each row, column by column."""
    total = values.new_zeros(count, *values.shape[1:]).index_add(0, owner, values.abs())
    rows = owner.bincount(minlength=count).clamp(min=1).to(values)
    return (total / rows.view(-1, *[1] * (values.dim() - 1)))[owner]


def _refuse_collinear(collinear: Tensor) -> None:
    collinear = collinear.any(dim=1) if collinear.dim() == 2 else collinear
    if bool(collinear.any()):
        raise ValueError(
            "angle: expected fields that span a plane at every node, got collinear fields at "
            f"{int(collinear.sum())} of {collinear.numel()} nodes (first: node {int(collinear.nonzero()[0])}); "
            "pass collinear='keep' to leave those nodes unrotated"
        )
