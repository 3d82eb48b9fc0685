"""Drawing of a graph: nodes coloured by a potential, edges as arrows of its field."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from dgn.fields import gradient, normalize
from dgn.plot.curves import literal
from dgn.plot.scene import Scene

INK, LINE = "#2b2d33", "#c3c6cd"
SIGNED = "PuOr"  # negative is brown, positive violet: safe for colour blindness
MOST_LABELS = 80  # nodes; above, labels would overlap
MOST_POINTS = 50.0  # edge length above which nodes do not grow
Positions = NDArray[np.float64]
GAP = 0.11  # between the lines of a double bond, in bond lengths


def draw_graph(axes: Any, scene: Scene, potential: Tensor, title: str, room: tuple[float, float]) -> Any:
    """Draw the nodes in the colour of ``potential`` [N] and arrows uphill; returns the scatter plot for a colour bar.

    The width of an arrow is the mean weight of the edge at its two ends in the normalised field. ``room`` is the width
    and height on the paper, in inches.
    """
    axes.set_title(title)
    axes.set_aspect("equal")
    axes.set_axis_off()
    position = scene.places()
    low, high = position.min(axis=0) - 0.6, position.max(axis=0) + 0.6
    axes.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]))
    size = min(72 * float(min(np.array(room) / (high - low))), MOST_POINTS)
    _draw_lines(axes, scene, position)
    _draw_arrows(axes, arrows(scene, potential), position, size)
    return _draw_nodes(axes, scene, position, potential, size)


def arrows(scene: Scene, potential: Tensor) -> list[tuple[int, int, float]]:
    """Tail, head and weight in [0, 1] of each arrow: uphill along every edge with a nonzero field.

    >>> import torch
    >>> ends, place = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), np.zeros((3, 2))
    >>> arrows(Scene("path", ends, place, ("a", "b", "c")), torch.tensor([0.0, 1.0, 4.0]))
    [(0, 1, 0.625), (1, 2, 0.875)]
    """
    field = normalize(gradient(potential, scene.edge_index), scene.edge_index, scene.num_nodes)
    weights: dict[tuple[int, int], list[float]] = {}
    for (j, i), value in zip(scene.edge_index.T.tolist(), field.tolist(), strict=True):
        if value != 0:
            weights.setdefault((i, j) if value > 0 else (j, i), []).append(abs(value))
    return [(*ends, sum(values) / len(values)) for ends, values in weights.items()]


def ink_on(share: float) -> str:
    """The legible text colour on the colour of ``share`` in [-1, 1]; brown is lighter than violet.

    >>> ink_on(0.65), ink_on(-0.65) == INK
    ('white', True)
    """
    return "white" if share > 0.57 or share < -0.7 else INK


def _draw_lines(axes: Any, scene: Scene, position: Positions) -> None:
    """Draw bonds: two lines for a double bond, one of them dashed for an aromatic one."""
    from matplotlib.collections import LineCollection

    solid, dashed = [], []
    for ends, order in zip(scene.pairs().tolist(), scene.line_orders(), strict=True):
        start, end = position[ends]
        along = end - start
        across = np.array([-along[1], along[0]]) / max(float(np.hypot(*along)), 1e-12) * GAP
        count = 2 if order == 1.5 else max(round(order), 1)
        lines = [(start + side * across, end + side * across) for side in np.arange(count) - (count - 1) / 2]
        solid += lines[:1] if order == 1.5 else lines
        dashed += lines[1:] if order == 1.5 else []
    for lines, style in ((solid, "solid"), (dashed, (0, (2, 2)))):
        axes.add_collection(LineCollection(lines, colors=LINE, linewidths=1.1, linestyles=[style], zorder=1))


def _draw_arrows(axes: Any, drawn: list[tuple[int, int, float]], position: Positions, size: float) -> None:
    scale = min(1.0, size / 30)
    for tail, head, weight in drawn:
        if (position[tail] == position[head]).all():
            continue  # coinciding nodes
        style = {
            "arrowstyle": f"-|>,head_length={0.5 * scale:.3f},head_width={0.24 * scale:.3f}",
            "linewidth": scale * (0.5 + 2.2 * weight), "color": INK, "alpha": 0.3 + 0.7 * weight,
            "shrinkA": 0.3 * size, "shrinkB": 0.3 * size, "mutation_scale": 12,
        }  # fmt: skip
        axes.annotate("", position[head], position[tail], arrowprops=style, zorder=2)


def _draw_nodes(axes: Any, scene: Scene, position: Positions, potential: Tensor, size: float) -> Any:
    limit = float(potential.abs().max()) or 1.0
    diameter = 0.56 * size
    drawn = axes.scatter(
        *position.T, diameter**2, potential.numpy(), cmap=SIGNED, vmin=-limit, vmax=limit, edgecolors=INK,
        linewidths=0.7, zorder=3,
    )  # fmt: skip
    if scene.num_nodes <= MOST_LABELS:
        for spot, label, value in zip(position, scene.labels, potential.tolist(), strict=True):
            font = min(8.0, 1.25 * diameter / max(len(label), 2))
            axes.text(
                *spot,
                literal(label),
                fontsize=font,
                color=ink_on(value / limit),
                ha="center",
                va="center_baseline",
                zorder=4,
            )
    return drawn
