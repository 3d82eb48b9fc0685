"""A figure of digits on their grid: the field, and the derivatives along it."""

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


INK, DOWN, RIGHT = "#2b2d33", "#d01c8b", "#00847c"  # arrow colours, distinct from those of the colour maps
COLUMNS = (
    ("pixels and field\ndx1 follows \N{DOWNWARDS ARROW}, dx2 \N{RIGHTWARDS ARROW}", INK),
    ("mean\nof the neighbours", INK),
    ("dx1-signed \N{DOWNWARDS ARROW}\nchange downwards", DOWN),
    ("dx2-signed \N{RIGHTWARDS ARROW}\nchange to the right", RIGHT),
    ("dx1\nits absolute value", DOWN),
    ("dx2\nits absolute value", RIGHT),
)


def draw_digits(graphs: PackedGraphs, index: Sequence[int], path: Path) -> None:
    """Draw digits, one per row: pixels with the field, their mean, both derivatives, and their absolute values.

    Signed derivatives distinguish left from right edges, absolute ones show only where edges are, the mean neither. All
    digits share the two colour scales.
    """
    figure = new_figure((10.5, 1.75 * len(index) + 1.2))
    grid = figure.subplots(len(index), len(COLUMNS), squeeze=False)
    for axes, (title, color) in zip(grid[0], COLUMNS, strict=True):
        axes.set_title(title, fontsize=9, color=color)
    images = [_images(graphs, digit) for digit in index]
    bound = max(float(abs(image[2:]).max()) for image in images) or 1.0
    scales = [{"cmap": "Greys", "vmin": 0.0, "vmax": 1.0}] * 2 + [{"cmap": "PuOr", "vmin": -bound, "vmax": bound}] * 4
    for row, image, digit in zip(grid, images, index, strict=True):
        drawn = [axes.imshow(panel, **scale) for axes, panel, scale in zip(row, image, scales, strict=True)]
        _draw_field(row[0], graphs, digit)
        row[0].set_ylabel(_name(graphs, digit), fontsize=9)
    for axes in grid.flat:
        axes.set(xticks=[], yticks=[])
    style: dict[str, Any] = {"location": "bottom", "shrink": 0.8, "fraction": 0.05, "pad": 0.02}
    figure.colorbar(drawn[0], ax=grid[:, :2], label="ink: 0 paper, 1 black", aspect=20, **style)
    label = "derivative: violet where ink grows along the arrow, brown where it shrinks"
    figure.colorbar(drawn[2], ax=grid[:, 2:], label=label, aspect=40, **style)
    save_png(figure, path)


def _name(graphs: PackedGraphs, index: int) -> str:
    label = graphs[index].y
    return f"graph {index}" if label is None else f"digit {int(label)}"


def _images(graphs: PackedGraphs, index: int) -> "NDArray[Any]":
    """The pixels and their aggregates, [6, side, side]."""
    data = graphs[index]
    x, field, edges, nodes = data.x.double().reshape(-1, 1), data.edge_field.double(), data.edge_index, data.num_nodes
    signed = derivative(field, edges, nodes)(x)[:, :, 0]
    # The mean is smoothing along a constant field.
    mean = smoothing(torch.ones_like(field[:, :1]), edges, nodes)(x)[:, 0]
    columns = torch.cat([x, mean, signed, signed.abs()], dim=1)
    down, across = _pixel_position(data)
    image = columns.new_zeros(6, int(down.max()) + 1, int(across.max()) + 1)
    image[:, down, across] = columns.T
    return image.numpy()


def _pixel_position(data: Any) -> tuple[Tensor, Tensor]:
    """Row and column of each pixel."""
    down, across = data.node_potential[:, :2].round().long().unbind(1)
    return down, across


def _draw_field(axes: Any, graphs: PackedGraphs, index: int) -> None:
    """Draw arrows along the edges on which a direction increases, outlined in white for black pixels."""
    data = graphs[index]
    down, across = _pixel_position(data)
    source, target = data.edge_index
    for direction, color in ((0, DOWN), (1, RIGHT)):
        along = (data.edge_field[:, direction] > 0).nonzero().ravel()
        start, end = target[along], source[along]
        axes.quiver(
            across[start], down[start], 0.55 * (across[end] - across[start]), 0.55 * (down[end] - down[start]),
            angles="xy", scale_units="xy", scale=1, width=0.012, headwidth=3.4, headlength=3.4, headaxislength=3.2,
            color=color, edgecolor="white", linewidth=0.4,
        )  # fmt: skip
