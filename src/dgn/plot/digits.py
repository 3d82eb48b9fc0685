"""A picture of digits on their grid: the field, and what a derivative along it sees."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from dgn.data import PackedGraphs
from dgn.operators import derivative, smoothing
from dgn.plot.curves import new_figure, save_png

if TYPE_CHECKING:
    from numpy.typing import NDArray


INK, DOWN, RIGHT = "#2b2d33", "#d01c8b", "#00847c"  # two arrows, in colours that no scale of the picture has
COLUMNS = (
    ("pixels and field\ndx1 follows \N{DOWNWARDS ARROW}, dx2 \N{RIGHTWARDS ARROW}", INK),
    ("mean\nof the neighbours", INK),
    ("dx1-signed \N{DOWNWARDS ARROW}\nchange downwards", DOWN),
    ("dx2-signed \N{RIGHTWARDS ARROW}\nchange to the right", RIGHT),
    ("dx1\nits absolute value", DOWN),
    ("dx2\nits absolute value", RIGHT),
)


def draw_digits(graphs: PackedGraphs, numbers: Sequence[int], path: Path) -> None:
    """Draw some digits, one in a row: pixels with the field, their mean, both derivatives, and their absolute values.

    The signed derivatives tell a left edge from a right one, the absolute ones only where an edge is, the mean neither.
    All digits share the two scales of colour.
    """
    figure = new_figure((10.5, 1.75 * len(numbers) + 1.2))
    grid = figure.subplots(len(numbers), len(COLUMNS), squeeze=False)
    for place, (title, color) in zip(grid[0], COLUMNS, strict=True):
        place.set_title(title, fontsize=9, color=color)
    pictures = [_pictures(graphs, number) for number in numbers]
    bound = max(float(abs(each[2:]).max()) for each in pictures) or 1.0
    scales = [{"cmap": "Greys", "vmin": 0.0, "vmax": 1.0}] * 2 + [{"cmap": "PuOr", "vmin": -bound, "vmax": bound}] * 4
    for axes, each, number in zip(grid, pictures, numbers, strict=True):
        images = [place.imshow(one, **scale) for place, one, scale in zip(axes, each, scales, strict=True)]
        _draw_field(axes[0], graphs, number)
        axes[0].set_ylabel(_name(graphs, number), fontsize=9)
    for place in grid.flat:
        place.set(xticks=[], yticks=[])
    look: dict[str, Any] = {"location": "bottom", "shrink": 0.8, "fraction": 0.05, "pad": 0.02}
    figure.colorbar(images[0], ax=grid[:, :2], label="ink: 0 paper, 1 black", aspect=20, **look)
    told = "derivative: violet where ink grows along the arrow, brown where it shrinks"
    figure.colorbar(images[2], ax=grid[:, 2:], label=told, aspect=40, **look)
    save_png(figure, path)


def _name(graphs: PackedGraphs, number: int) -> str:
    label = graphs[number].y
    return f"graph {number}" if label is None else f"digit {int(label)}"


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
    """Arrows along the edges on which a direction grows, with a white edge that shows them on black pixels."""
    data = graphs[number]
    down, across = _place(data)
    source, target = data.edge_index
    for direction, color in ((0, DOWN), (1, RIGHT)):
        along = (data.field[:, direction] > 0).nonzero().ravel()
        start, end = target[along], source[along]
        axes.quiver(
            across[start], down[start], 0.55 * (across[end] - across[start]), 0.55 * (down[end] - down[start]),
            angles="xy", scale_units="xy", scale=1, width=0.012, headwidth=3.4, headlength=3.4, headaxislength=3.2,
            color=color, edgecolor="white", linewidth=0.4,
        )  # fmt: skip
