"""The eigenvalues of a graph, with those that are repeated."""

from itertools import groupby
from typing import Any

from dgn.drawing.graph_view import INK
from dgn.spectral import Directions
from dgn.spectral.degeneracy import eigenspaces

CHOSEN, REPEATED = "#5e4fa2", "#b35806"
MOST_COUNTS = 60  # eigenvalues; above, how often each is repeated is not written beside it


def draw_spectrum(axes: Any, found: Directions, shown: int, symbol: str = "L") -> None:
    """Draw the eigenvalues of every component over their number; the directions 1 to ``shown`` are filled.

    Equal ones are joined by a bar and marked by diamonds, with their number: any basis of their space is as good.
    """
    for component in range(len(found.eigenvalues)):
        values, repeated = found.eigenvalues[component], found.repeated()[component]
        exist = int(values.isfinite().sum())
        points = [(k + 1, float(values[k]), bool(repeated[k])) for k in range(exist)]
        for again, marker in ((False, "o"), (True, "D")):
            chosen = [(k, value, k <= shown) for k, value, twice in points if twice is again]
            faces = [(REPEATED if again else CHOSEN) if filled else "white" for *_, filled in chosen]
            edge = REPEATED if again else CHOSEN
            axes.scatter([k for k, *_ in chosen], [value for _, value, _ in chosen], 26, faces, marker=marker,
                         edgecolors=edge, linewidths=1.1, zorder=3)  # fmt: skip
        for first, last, value in multiples(found, component):
            axes.plot([first, last], [value, value], color=REPEATED, linewidth=1.2, zorder=2)
            if exist <= MOST_COUNTS:
                times = f"\N{MULTIPLICATION SIGN}{last - first + 1}"
                axes.annotate(times, ((first + last) / 2, value), (0, 6), fontsize=8,
                              textcoords="offset points", ha="center", color=REPEATED)  # fmt: skip
    axes.set_title(f"spectrum of {symbol}: filled = drawn here, diamonds = repeated")
    axes.set_xlabel("direction k" if len(found.eigenvalues) == 1 else "direction k of each component")
    axes.set_ylabel(r"$\lambda_k$")
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.margins(x=0.03, y=0.15)
    axes.set_ylim(bottom=0)
    axes.grid(axis="y", alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(INK)


def multiples(found: Directions, component: int) -> list[tuple[int, int, float]]:
    """First and last direction, and the value, of every eigenvalue that occurs more than once.

    >>> import torch
    >>> from dgn.spectral import directions
    >>> multiples(directions(torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]]), k=3), 0)
    [(1, 2, 2.0)]
    """
    space = eigenspaces(found.gap)[component].tolist()
    exist = int(found.eigenvalues[component].isfinite().sum())
    runs = [[k + 1 for k in members] for _, members in groupby(range(exist), key=lambda k: space[k])]
    value = found.eigenvalues[component].tolist()
    return [(run[0], run[-1], round(value[run[0] - 1], 12)) for run in runs if len(run) > 1]
