"""A picture of digits on their grid: the field, and what a derivative along it sees."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from dgn.data import PackedGraphs
from dgn.operators import derivative, smoothing
from dgn.reports.curves import new_figure, save_png

if TYPE_CHECKING:
    from numpy.typing import NDArray


def draw_digits(graphs: PackedGraphs, numbers: Sequence[int], path: Path) -> None:
    """Draw some digits, one in a row: pixels with the field, their mean, both derivatives, and their absolute values.

    The signed derivatives tell a left edge from a right one, the absolute ones only where an edge is, the mean neither.
    """
    figure = new_figure((10.5, 1.75 * len(numbers) + 0.3))
    grid = figure.subplots(len(numbers), 6, squeeze=False)
    titles = ("pixels and field", "mean", "dx1-signed", "dx2-signed", "dx1", "dx2")
    for place, title in zip(grid[0], titles, strict=True):
        place.set_title(title, fontsize=9)
    for axes, number in zip(grid, numbers, strict=True):
        pictures = _pictures(graphs, number)
        for place, picture, title in zip(axes, pictures, titles, strict=True):
            bound = 1.0 if title in titles[:2] else float(abs(pictures[2:]).max()) or 1.0
            colors, low = ("Greys", 0.0) if title in titles[:2] else ("RdBu_r", -bound)
            place.imshow(picture, cmap=colors, vmin=low, vmax=bound)
            place.set(xticks=[], yticks=[])
        _draw_field(axes[0], graphs, number)
    save_png(figure, path)


def _pictures(graphs: PackedGraphs, number: int) -> "NDArray[Any]":
    """The pixels and what aggregators make of them, [6, side, side]."""
    data = graphs[number]
    x, field, edges, nodes = data.x.double().reshape(-1, 1), data.field.double(), data.edge_index, data.num_nodes
    signed = derivative(field, edges, nodes)(x)[:, :, 0]
    # The mean is what smoothing gives along a field that is the same everywhere.
    mean = smoothing(torch.ones_like(field[:, :1]), edges, nodes)(x)[:, 0]
    columns = torch.cat([x, mean, signed, signed.abs()], dim=1)
    down, across = _place(data)
    image = columns.new_zeros(6, int(down.max()) + 1, int(across.max()) + 1)
    image[:, down, across] = columns.T
    return image.numpy()


def _place(data: Any) -> tuple[Tensor, Tensor]:
    """Row and column of each pixel: the two coordinates."""
    down, across = data.potential[:, :2].round().long().unbind(1)
    return down, across


def _draw_field(axes: Any, graphs: PackedGraphs, number: int) -> None:
    """Arrows along the edges on which a direction grows: red down the rows, blue along the columns."""
    data = graphs[number]
    down, across = _place(data)
    source, target = data.edge_index
    for direction, color in ((0, "C3"), (1, "C0")):
        along = (data.field[:, direction] > 0).nonzero().ravel()
        start, end = target[along], source[along]
        axes.quiver(
            across[start], down[start], 0.6 * (across[end] - across[start]), 0.6 * (down[end] - down[start]),
            angles="xy", scale_units="xy", scale=1, width=0.008, headwidth=5, color=color, alpha=0.55,
        )  # fmt: skip
