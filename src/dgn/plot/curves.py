"""Training curves as PNG."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dgn.data.io.atomic import atomic_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure

History = Sequence[Mapping[str, float]]


def draw_curves(histories: Mapping[str, History], metric: str, path: Path) -> None:
    """Draw loss and metric per epoch, one colour per name, as PNG.

    The training loss is dashed, validation curves are solid. An epoch without a value leaves a gap.
    """
    figure = new_figure((9.0, 3.6))
    losses, scores = figure.subplots(1, 2)
    for index, (name, history) in enumerate(histories.items()):
        color = f"C{index % 10}"
        _line(losses, history, "train_loss", color=color, linestyle="--", linewidth=0.9, alpha=0.7)
        _line(losses, history, "val_loss", color=color, linewidth=1.3)
        _line(scores, history, metric, color=color, linewidth=1.3, label=literal(name))
    losses.set_title("loss (dashed: training, solid: validation)", fontsize=9)
    scores.set_title(f"validation {metric}", fontsize=9)
    for axes in (losses, scores):
        axes.set_xlabel("epoch")
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.grid(alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
    if histories:
        scores.legend(frameon=False, fontsize=8)
    save_png(figure, path)


def _line(axes: Any, history: History, column: str, **style: Any) -> None:
    values = [row.get(column, float("nan")) for row in history]
    axes.plot([row["epoch"] for row in history], values, **style)


def literal(text: str) -> str:
    r"""Text with dollars escaped, which matplotlib would read as a formula.

    >>> literal("price_$_per_$")
    'price_\\$_per_\\$'
    """
    return text.replace("$", r"\$")


def new_figure(size: tuple[float, float]) -> "Figure":
    """A figure without a display and without pyplot's global state."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def save_png(figure: "Figure", path: Path) -> None:
    """Write a figure atomically."""
    with atomic_file(path) as unfinished:
        figure.savefig(unfinished, format="png", dpi=150)
