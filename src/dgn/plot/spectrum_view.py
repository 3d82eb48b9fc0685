"""The spectrum of a graph, with repeated eigenvalues marked."""

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from dgn.plot.curves import literal
from dgn.plot.graph_view import INK
from dgn.spectral import Directions
from dgn.spectral.degeneracy import eigenspaces

COLORS = ("#5e4fa2", "#d95f02", "#1b9e77", "#d01c8b", "#0571b0")  # of the first components; the others are grey
GREY = "#7f7f7f"
SPREAD = 0.4  # of the components at one k
MOST_COUNTS = 60  # eigenvalues; above, multiplicities are not written


def draw_spectrum(axes: Any, vectors: Directions, labels: Sequence[str], shown: int, symbol: str = "L") -> None:
    """Draw the eigenvalues of every component over their index; the directions 1 to ``shown`` are filled.

    Repeated ones are diamonds joined by a bar with their multiplicity: any basis of their eigenspace is valid.
    Components differ in colour and are offset; a legend names each by its first node in ``labels``.
    """
    drawn = vectors.eigenvalues[:, 0].isfinite().nonzero().ravel().tolist()
    for index, component in enumerate(drawn):
        color = COLORS[index] if index < len(COLORS) else GREY
        _draw_component(axes, vectors, component, shown, color, SPREAD * ((index + 0.5) / len(drawn) - 0.5))
    if len(drawn) > 1:
        names = [component_name(vectors, component, labels) for component in drawn[: len(COLORS)]]
        names += ["the others"] if len(drawn) > len(COLORS) else []
        for name, color in zip(names, (*COLORS, GREY), strict=False):
            axes.scatter([], [], 26, color, label=literal(name))
        axes.legend(loc="best", fontsize=8, frameon=False, ncols=3)
    axes.set_title(f"spectrum of {symbol}: filled = drawn here, diamonds = repeated")
    axes.set_xlabel("direction k" if len(drawn) == 1 else "direction k of each component")
    axes.set_ylabel(r"$\lambda_k$")
    axes.xaxis.get_major_locator().set_params(integer=True, min_n_ticks=1)
    axes.set_xlim(0.6, int(vectors.eigenvalues.isfinite().sum(dim=1).max()) + 0.4)
    # Explicit limits: matplotlib leaves no room above equal values, as of a ring of three.
    axes.set_ylim(0, 1.18 * float(vectors.eigenvalues[vectors.eigenvalues.isfinite()].max()))
    axes.grid(axis="y", alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(INK)


def _draw_component(axes: Any, vectors: Directions, component: int, shown: int, color: str, shift: float) -> None:
    values, repeated = vectors.eigenvalues[component].tolist(), vectors.repeated()[component].tolist()
    exist = int(vectors.eigenvalues[component].isfinite().sum())
    for k in range(1, exist + 1):
        face, marker = color if k <= shown else "white", "D" if repeated[k - 1] else "o"
        axes.scatter(k + shift, values[k - 1], 26, face, marker=marker, edgecolors=color, linewidths=1.1, zorder=3)
    for first, last, value in multiples(vectors, component):
        axes.plot([first + shift, last + shift], [value, value], color=color, linewidth=1.2, zorder=2)
        if exist <= MOST_COUNTS:
            times = f"\N{MULTIPLICATION SIGN}{last - first + 1}"
            axes.annotate(times, ((first + last) / 2 + shift, value), (0, 6), fontsize=8,
                          textcoords="offset points", ha="center", color=color)  # fmt: skip


def component_name(vectors: Directions, component: int, labels: Sequence[str]) -> str:
    """The name of a component: its first node and the number of the others.

    >>> import torch
    >>> from dgn.spectral import directions
    >>> component_name(directions(torch.tensor([[0, 1, 3], [1, 2, 4]]), 5, k=1), 1, "abcde")
    'd and 1 more'
    """
    nodes = (vectors.component == component).nonzero().ravel().tolist()
    return f"{labels[nodes[0]]} and {len(nodes) - 1} more"


def multiples(vectors: Directions, component: int) -> list[tuple[int, int, float]]:
    """First and last index, and the value, of every repeated eigenvalue.

    >>> import torch
    >>> from dgn.spectral import directions
    >>> multiples(directions(torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]]), k=3), 0)
    [(1, 2, 2.0)]
    """
    space = eigenspaces(vectors.gap)[component].tolist()
    exist = int(vectors.eigenvalues[component].isfinite().sum())
    runs = [[k + 1 for k in members] for _, members in groupby(range(exist), key=lambda k: space[k])]
    value = vectors.eigenvalues[component].tolist()
    return [(run[0], run[-1], round(value[run[0] - 1], 12)) for run in runs if len(run) > 1]
