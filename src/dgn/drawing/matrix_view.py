"""An operator as a heat map."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from torch import Tensor

from dgn.drawing.graph_view import INK, SIGNED

MOST_NUMBERS, MOST_NAMES = 16, 36  # nodes; above, there is no room for numbers or for names
BOUND = 1.2  # a little more than the largest weight, so that its colour still bears a number


def draw_matrix(axes: Any, matrix: Tensor, labels: Sequence[str], title: str) -> Any:
    """Draw ``matrix`` [N, N]: row i holds the weights with which node i reads the nodes j; returns the image."""
    image = axes.imshow(matrix.numpy(), cmap=SIGNED, vmin=-BOUND, vmax=BOUND, interpolation="nearest")
    n = len(matrix)
    if n <= MOST_NUMBERS:
        for (i, j), value in np.ndenumerate(matrix.numpy()):
            if abs(value) > 1e-12:
                text, color = f"{value:.2f}".replace("-", "\N{MINUS SIGN}"), "white" if abs(value) > 0.7 else INK
                axes.text(j, i, text, ha="center", va="center", fontsize=min(7.0, 72 / n), color=color)
    names = {"ticks": range(n), "labels": labels, "fontsize": min(7.0, 170 / n)} if n <= MOST_NAMES else {"ticks": []}
    axes.set_xticks(**names, **({"rotation": 90} if n <= MOST_NAMES else {}))
    axes.set_yticks(**names)
    axes.set_title(title)
    axes.set_xlabel("from j")
    axes.set_ylabel("to i")
    axes.tick_params(length=0, pad=2)
    axes.spines[:].set(color=INK, alpha=0.25)
    return image
