"""Forward and backward parts, hardening and arcsine of a field (appendix A.4, A.5 and A.8)."""

from typing import Any

import torch
from torch import Tensor

from dgn.fields.normalization import divide, significant
from dgn.graph import Graph, as_graph
from dgn.graph.checks import check_numbers, check_rows
from dgn.graph.graph import largest_by

CREST = 1e-12  # of the largest magnitude: closer to it, a potential counts as largest


def forward_field(field: Tensor) -> Tensor:
    r"""The forward direction: the positive part :math:`F^+`.

    Law: ``forward_field(F) + backward_field(F) == F``.

    >>> forward_field(torch.tensor([2.0, -3.0])).tolist()
    [2.0, 0.0]
    """
    check_numbers("field", field)
    return field.clamp(min=0)


def backward_field(field: Tensor) -> Tensor:
    r"""The backward direction: the negative part :math:`F^-`, with its sign.

    Law: ``backward_field(F) == -forward_field(-F)``.

    >>> backward_field(torch.tensor([2.0, -3.0])).tolist()
    [0.0, -3.0]
    """
    check_numbers("field", field)
    return field.clamp(max=0)


def harden(
    field: Tensor,
    edge_index: Any,
    num_nodes: int | None = None,
    temperature: float | None = None,
    split: bool = False,
    batch: Tensor | None = None,
) -> Tensor:
    r"""The field reduced to the argmax or softmax of each row (appendix A.4).

    .. math::
        (F_{hard})_{i,:} = \mathrm{sign}(F_{i,:}) \, \mathrm{argmax}(|F_{i,:}|), \qquad
        (F_{softhard})_{i,:} = \mathrm{sign}(F_{i,:}) \, \mathrm{softmax}(T |F_{i,:}|)

    ``temperature=None`` is the argmax, the limit of large T: components equal to the largest (to rounding) share its
    weight, so that the result does not depend on the order of the edges. With ``split`` the positive and the negative
    part are hardened separately, each over its own neighbours. T multiplies the field without normalisation:
    normalise it first if T should be comparable between graphs.

    Laws: ``harden(-F) == -harden(F)``; absolute values sum to 1 (with ``split``: each side sums to 1) where the field
    is not 0, except that the softmax also gives weight to neighbours with component 0, where the sign removes it.

    Shapes:
        ``field`` [E, K] or [E], ``batch`` [N]; returns the shape of ``field``.

    >>> edges = torch.tensor([[1, 2, 3], [0, 0, 0]])
    >>> harden(torch.tensor([0.5, -0.3, -0.2]), edges, 4).tolist()
    [1.0, 0.0, 0.0]
    >>> harden(torch.tensor([0.5, -0.3, -0.2]), edges, 4, split=True).tolist()
    [1.0, -1.0, 0.0]
    """
    if temperature is not None and not 0 < temperature < float("inf"):
        raise ValueError(f"temperature: expected a finite number above 0, got {temperature}; None is the argmax")
    graph = as_graph(edge_index, num_nodes, batch)
    check_rows("field", field, graph.num_edges, "edge")
    return hardened(field, graph, temperature, split)


def hardened(field: Tensor, graph: Graph, temperature: float | None, split: bool = False) -> Tensor:
    """``harden`` for checked input."""
    clean = significant(field, graph)
    if not split:
        weight = _select(clean.abs(), torch.ones_like(clean), graph, temperature)
        return weight * (clean > 0) - weight * (clean < 0)
    parts = clean.clamp(min=0), -clean.clamp(max=0)
    forward, backward = (_select(part, (part > 0).to(part), graph, temperature) for part in parts)
    return forward - backward


def arcsine(potential: Tensor, component: Tensor | None = None) -> Tensor:
    r"""The arcsine of a potential: triangles instead of waves (appendix A.8): :math:`\arcsin(\phi / \max|\phi|)`.

    The maximum is taken over each component (``Directions.component``; ``None`` is one component). The gradient of
    the result is the paper's :math:`F_{asin}`.

    Shapes:
        ``potential`` [N, K] or [N], ``component`` [N].

    >>> (arcsine(torch.tensor([0.0, 1.0, -2.0])) * 6 / torch.pi).tolist()
    [0.0, 1.0, -3.0]
    """
    ratio = _relative(potential, component)
    # The slope at the extremes is infinite, and would turn rounding into a direction: they are handled separately.
    inner = ratio.abs() < 1 - max(CREST, 4 * torch.finfo(ratio.dtype).eps)
    return torch.where(inner, torch.where(inner, ratio, 0.0).arcsin(), ratio.sign() * (torch.pi / 2))


def arccosine(potential: Tensor, eigenvalues: Tensor, component: Tensor | None = None) -> Tensor:
    r"""The phase of an eigenvector of a lattice: :math:`\arccos(\sqrt{1 - \lambda / 4} \, \phi / \max|\phi|)`.

    The first vector along an axis of N nodes is the cosine of :math:`\pi (i + \frac12) / N`, whose crest lies half a
    step beyond the last node; its eigenvalue :math:`\lambda = 4 \sin^2 \frac{\pi}{2 N}` of D - A tells how far below
    the crest that node is. So the gradient is :math:`\pm \pi / N` on every edge along the axis, as theorem 2.4 needs.

    Shapes:
        ``potential`` [N, K], ``eigenvalues`` [components, K] and ``component`` [N] as in :class:`dgn.Directions`.

    >>> wave = torch.tensor([[0.5], [0.0], [-0.5]])  # of a path of three nodes
    >>> (arccosine(wave, torch.tensor([[1.0]])) * 6 / torch.pi).round(decimals=4).flatten().tolist()
    [1.0, 3.0, 5.0]
    """
    ratio = _relative(potential, component)
    value = eigenvalues.to(ratio).nan_to_num(0.0)
    value = value[torch.zeros(len(ratio), dtype=torch.long, device=ratio.device) if component is None else component]
    return ((1 - value / 4).clamp(min=0).sqrt() * ratio).arccos()


def _relative(potential: Tensor, component: Tensor | None) -> Tensor:
    """The potential divided by the largest magnitude in its component."""
    check_numbers("potential", potential)
    if component is None:
        component = torch.zeros(potential.size(0), dtype=torch.long, device=potential.device)
    if component.shape != potential.shape[:1]:
        raise ValueError(
            f"component: expected the component of each of {len(potential)} nodes, got shape {list(component.shape)}; "
            "dgn.directions gives it as .component"
        )
    component = component.long()
    count = int(component.max()) + 1 if component.numel() else 0
    return divide(potential, largest_by(potential.abs(), component, count)[component])


def _select(size: Tensor, candidate: Tensor, graph: Graph, temperature: float | None) -> Tensor:
    """The argmax or softmax of ``size >= 0`` over each row, among the edges where ``candidate`` is 1."""
    largest = graph.max_to_target(size)[graph.target]
    if temperature is None:
        tolerance = max(1e-8, 4 * torch.finfo(size.dtype).eps)
        weight = candidate * (size >= largest * (1 - tolerance))
    else:
        weight = candidate * torch.exp(temperature * (size - largest))
    return divide(weight, graph.sum_to_target(weight)[graph.target])
