"""A figure of what direction adds on digits: one digit as each aggregator sees it, and the digits that are misread."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor

from dgn.data import PackedGraphs
from dgn.operators import derivative, smoothing
from dgn.plot.curves import new_figure, save_png

if TYPE_CHECKING:
    from matplotlib.figure import SubFigure
    from numpy.typing import NDArray


INK, DOWN, RIGHT = "#2b2d33", "#d01c8b", "#00847c"  # arrow colours, distinct from those of the colour maps
INTENSITY: dict[str, Any] = {"cmap": "Greys", "vmin": 0.0, "vmax": 1.0}
COLUMNS = (
    ("pixels and field\ndx1 follows \N{DOWNWARDS ARROW}, dx2 \N{RIGHTWARDS ARROW}", INK),
    ("mean\nof the neighbours", INK),
    ("dx1-signed \N{DOWNWARDS ARROW}\nchange downwards", DOWN),
    ("dx2-signed \N{RIGHTWARDS ARROW}\nchange to the right", RIGHT),
    ("dx1\nits absolute value", DOWN),
    ("dx2\nits absolute value", RIGHT),
)


SHOWN = (2, 6)  # rows and columns of misread digits


def draw_digits(graphs: PackedGraphs, predictions: Mapping[str, Tensor], path: Path) -> None:
    """Draw what direction adds: a digit and its aggregates, the errors of each network, and digits that it decides.

    ``graphs`` are the digits [G] that were classified, ``predictions`` the labels [G] by network, from the one without
    directions to the one that counts most on them. Above is the first digit that the first network misreads and the
    last one reads: pixels with the field, their mean, both derivatives, and their absolute values. Signed derivatives
    distinguish left from right edges, absolute ones show only where edges are, the mean neither. Below are the shares
    of misread digits, and more such digits.
    """
    first, last = (list(predictions)[index] for index in (0, -1))
    label = graphs.graphs["y"].long()
    decided = ((predictions[first] != label) & (predictions[last] == label)).nonzero().ravel().tolist()
    figure = new_figure((10.5, 5.6))
    above, below = cast("tuple[SubFigure, SubFigure]", figure.subfigures(2, 1, height_ratios=(2.4, 2.6)))
    _draw_aggregates(above, graphs, decided[0] if decided else 0)
    left, right = cast("tuple[SubFigure, SubFigure]", below.subfigures(1, 2, width_ratios=(1, 1.5)))
    _draw_errors(left, {name: float((read != label).double().mean()) for name, read in predictions.items()}, len(label))
    right.suptitle(f"digits that {first} misreads and {last} reads", fontsize=10)
    for axes, digit in zip(right.subplots(*SHOWN).flat, [*decided, *[None] * (SHOWN[0] * SHOWN[1])], strict=False):
        axes.axis("off")
        if digit is not None:
            axes.imshow(_images(graphs, digit)[0], **INTENSITY)
            read, true = int(predictions[first][digit]), int(label[digit])
            axes.set_title(f"{true}, not {read}", fontsize=8)
    save_png(figure, path)


def _draw_aggregates(figure: "SubFigure", graphs: PackedGraphs, digit: int) -> None:
    """A digit with its field, and its aggregates on two colour scales."""
    row = figure.subplots(1, len(COLUMNS))
    images = _images(graphs, digit)
    bound = float(abs(images[2:]).max()) or 1.0
    scales = [INTENSITY] * 2 + [{"cmap": "PuOr", "vmin": -bound, "vmax": bound}] * 4
    drawn = [axes.imshow(image, **scale) for axes, image, scale in zip(row, images, scales, strict=True)]
    for axes, (title, color) in zip(row, COLUMNS, strict=True):
        axes.set(xticks=[], yticks=[])
        axes.set_title(title, fontsize=9, color=color)
    _draw_field(row[0], graphs, digit)
    row[0].set_ylabel(f"digit {int(graphs.graphs['y'][digit])}", fontsize=9)
    style: dict[str, Any] = {"location": "bottom", "shrink": 0.8, "fraction": 0.05, "pad": 0.02}
    figure.colorbar(drawn[0], ax=row[:2], label="ink: 0 paper, 1 black", aspect=20, **style)
    label = "derivative: violet where ink grows along the arrow, brown where it shrinks"
    figure.colorbar(drawn[2], ax=row[2:], label=label, aspect=40, **style)


def _draw_errors(figure: "SubFigure", errors: Mapping[str, float], count: int) -> None:
    """A bar for each network: the share of digits that it misreads."""
    axes = figure.subplots()
    bars = axes.barh(list(errors), [100 * error for error in errors.values()], color=RIGHT, height=0.6)
    axes.bar_label(bars, [f"{100 * error:.1f} %" for error in errors.values()], padding=3, fontsize=9)
    axes.invert_yaxis()
    axes.margins(x=0.2)
    axes.set_title(f"misread of {count} test digits", fontsize=10)
    axes.set_xticks([])
    axes.spines[["top", "right", "bottom"]].set_visible(False)


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
    down, across = (coordinate.unique(return_inverse=True)[1] for coordinate in data.node_potential.T)
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
