"""An operator as a heat map."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from torch import Tensor

from dgn.plot.curves import literal
from dgn.plot.graph_view import INK, SIGNED, ink_on

MOST_NAMES = 36  # nodes; above, tick labels do not fit
WIDTH = 185.0  # of a matrix on the paper, in points
WIDEST, SMALLEST = 2.8, 4.7  # width of a number such as -.75 in font sizes; smallest legible font
BOUND = 1.2  # a little above the largest weight, so that a number is legible on its colour


def draw_matrix(axes: Any, matrix: Tensor, labels: Sequence[str], title: str) -> Any:
    """Draw ``matrix`` [N, N]: row i holds the weights with which node i reads the nodes j; returns the image.

    Numbers fit into their cells: their font is smaller in larger matrices, and they are omitted if it would be
    illegible.
    """
    image = axes.imshow(matrix.numpy(), cmap=SIGNED, vmin=-BOUND, vmax=BOUND, interpolation="nearest")
    n = len(matrix)
    size = min(7.0, WIDTH / (WIDEST * n))
    if size >= SMALLEST:
        for (i, j), value in np.ndenumerate(matrix.numpy()):
            if abs(value) > 1e-12:
                color = ink_on(value / BOUND)
                axes.text(j, i, short(value), ha="center", va="center", fontsize=size, color=color)
    shown = [literal(label) for label in labels]
    names = {"ticks": range(n), "labels": shown, "fontsize": min(7.0, 170 / n)} if n <= MOST_NAMES else {"ticks": []}
    axes.set_xticks(**names, **({"rotation": 90} if n <= MOST_NAMES else {}))
    axes.set_yticks(**names)
    axes.set_title(title)
    axes.set_xlabel("from j")
    axes.set_ylabel("to i")
    axes.tick_params(length=0, pad=2)
    axes.spines[:].set(color=INK, alpha=0.25)
    return image


def short(weight: float) -> str:
    """A weight in [-1, 1] with two decimals, without a leading zero.

    >>> short(0.25), short(-0.75), short(-1.0)
    ('.25', '−.75', '−1')
    """
    return f"{weight:.2f}".replace("1.00", "1").replace("0.", ".").replace("-", "\N{MINUS SIGN}")
