"""Drawing of a field on a graph into axes of your own, from four nodes to tens of thousands."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from dgn.graph import as_graph
from dgn.graph.checks import check_rows
from dgn.plot.graph_view import INK, LINE, SIGNED

MARGIN = 0.16  # of an edge, which an arrow leaves free at either end
FAINT = 0.02  # of the strongest arrow, below which none is drawn


def net_flow(edge_index: Any, field: Tensor, num_nodes: int | None = None) -> tuple[Tensor, Tensor]:
    r"""The pairs of nodes that edges join, and the net flow along each: :math:`\frac12 (F_{ij} - F_{ji})`.

    A pair is turned so that its flow is not negative: from its first node to its second.

    Shapes:
        ``field`` [E]; returns [2, P] and [P].

    >>> pairs, flow = net_flow(torch.tensor([[1, 0, 2, 1], [0, 1, 1, 2]]), torch.tensor([1.0, -1.0, -3.0, 3.0]))
    >>> pairs.tolist(), flow.tolist()
    ([[0, 2], [1, 1]], [1.0, 3.0])
    """
    graph = as_graph(edge_index, num_nodes)
    check_rows("field", field, graph.num_edges, "edge")
    ends = torch.stack([graph.target, graph.source])
    low, high = ends.min(dim=0).values, ends.max(dim=0).values
    pairs, index = torch.unique(torch.stack([low, high]), dim=1, return_inverse=True)
    sign = torch.where(graph.target == low, 0.5, -0.5).to(field)
    flow = field.new_zeros(pairs.size(1)).index_add(0, index, sign * field)
    return torch.where(flow < 0, pairs.flip(0), pairs), flow.abs()


def draw_field(
    axes: Any, edge_index: Any, position: Any, field: Tensor | None = None, values: Tensor | None = None,
    size: float = 60.0, width: float = 0.005, cmap: str = SIGNED, limit: float | None = None,
) -> Any:  # fmt: skip
    """Draw edges, an arrow along each where a field flows, and nodes in the colours of ``values``.

    The darker an arrow, the stronger its flow (:func:`net_flow`). ``size`` is that of nodes in square points, ``width``
    that of arrows as a fraction of the axes. Colours range over ± ``limit``, the largest magnitude if it is not given.
    Returns the nodes, for a colour bar.

    Shapes:
        ``position`` [N, 2], ``field`` [E], ``values`` [N].
    """
    from matplotlib.collections import LineCollection

    place = np.asarray(position, dtype=float)
    graph = as_graph(edge_index, len(place))
    axes.set_aspect("equal")
    axes.set_axis_off()
    lines = place[graph.edge_index.T.numpy()]
    axes.add_collection(LineCollection(list(lines), colors=LINE, linewidths=0.8, zorder=1))
    if field is not None:
        _draw_arrows(axes, graph.edge_index, place, field, width)
    shown = torch.zeros(len(place)) if values is None else values.detach()
    limit = limit or float(shown.abs().max()) or 1.0
    look = {"edgecolors": INK, "linewidths": min(0.7, size / 60), "zorder": 3}
    return axes.scatter(*place.T, size, shown.numpy(), cmap=cmap, vmin=-limit, vmax=limit, **look)


def _draw_arrows(axes: Any, edge_index: Tensor, place: Any, field: Tensor, width: float) -> None:
    pairs, flow = net_flow(edge_index, field.detach().double(), len(place))
    share = (flow / flow.max().clamp_min(1e-300)).numpy()
    (start, end), strong = place[pairs.numpy()], share > FAINT
    along = (end - start)[strong]
    ink = np.tile(np.array([43, 45, 51, 255]) / 255, (int(strong.sum()), 1))
    ink[:, 3] = 0.2 + 0.8 * share[strong]
    tail, step = start[strong] + MARGIN * along, (1 - 2 * MARGIN) * along
    axes.quiver(*tail.T, *step.T, color=ink, angles="xy", scale_units="xy", scale=1, width=width, zorder=2,
                headwidth=4.5, headlength=5.0, headaxislength=4.5, minlength=0.0)  # fmt: skip
