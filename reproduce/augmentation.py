"""The augmentation figure: accuracy against the strength of rotation and noise on a tenth of CIFAR10."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from dgn.plot.curves import new_figure, save_png
from dgn.training.experiment import Experiment
from dgn.training.run_folder import FinishedRun
from dgn.training.scores import summarize
from dgn.training.tables import Table
from reproduce.results import Results

PICTURE = "figures/cifar10_augmentation.png"
AXES = {
    "rotation": "maximum rotation, degrees",
    "field": "noise on the field, % of its mean size",
    "potential": "noise on the potential, % of its mean size",
}
COLORS = {"mean": "C7", "mean dx1 dx2": "C0", "mean av1 av2": "C1"}


class Point(NamedTuple):
    """The runs of one network at one augmentation strength, in degrees or percent."""

    strength: float
    runs: Sequence[FinishedRun]


def strengths(cell: Experiment) -> dict[str, float]:
    """The strength of each augmentation of the figure, in degrees or percent."""
    augmentation = cell.augmentation
    noise = {"field": 0.0, "potential": 0.0} | {str(augmentation.distortion_of): 100 * augmentation.distortion}
    return {"rotation": augmentation.rotation, **noise}


def augmentation_section(chosen: Sequence[Experiment], results: Results) -> list[str]:
    """The figure, if any cell has results, and the table behind it, as Markdown blocks."""
    header = ("experiment", "rotation", "noise on the field", "noise on the potential", "train", "test", "seeds")
    rows = []
    for cell in chosen:
        runs = results.get(cell.name, ())
        scores = [str(summarize(runs, split)) for split in ("train", "test")] if runs else ["", "not trained yet"]
        values = strengths(cell).items()
        strength = [f"{value:g}{'°' if name == 'rotation' else '%'}" * bool(value) for name, value in values]
        rows.append((f"`{cell.name}`", *strength, *scores, str(len(runs) or "")))
    picture = [f"![Accuracy against the strength of augmentation]({PICTURE})"] if _has_results(chosen, results) else []
    return [*picture, Table("", header, tuple(rows)).to_markdown()]


def draw_augmentation(chosen: Sequence[Experiment], results: Results, path: Path) -> bool:
    """Whether anything was drawn: a PNG of test (solid) and training accuracy (dashed) against strength.

    Each augmentation has a panel. Networks without directional aggregators do not read the field: they are a
    horizontal line.
    """
    if not _has_results(chosen, results):
        return False
    figure = new_figure((12.0, 3.8))
    panels = figure.subplots(1, len(AXES), sharey=True)
    for axes, (augmentation, label) in zip(panels, AXES.items(), strict=True):
        for name, points in curves(chosen, results, augmentation).items():
            _draw(axes, name, points)
        axes.set_xlabel(label)
        axes.grid(alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("accuracy, % (dashed: training)")
    panels[0].legend(frameon=False, fontsize=8)
    save_png(figure, path)
    return True


def curves(chosen: Sequence[Experiment], results: Results, augmentation: str) -> dict[str, list[Point]]:
    """The points of each network for one augmentation, sorted by strength; cells without results are left out."""
    by_network: dict[str, list[Point]] = {}
    for cell in chosen:
        values = strengths(cell)
        if cell.name in results and not any(value for name, value in values.items() if name != augmentation):
            name = " ".join(cell.network.aggregators)
            by_network.setdefault(name, []).append(Point(values[augmentation], results[cell.name]))
    return {name: sorted(points, key=lambda point: point.strength) for name, points in by_network.items()}


def _draw(axes: Any, name: str, points: Sequence[Point]) -> None:
    for split, style in (("test", "-"), ("train", "--")):
        scores = [summarize(point.runs, split) for point in points]
        label, line = name if split == "test" else None, {"color": COLORS.get(name, "C2"), "linestyle": style}
        if len(points) == 1 and "dx" not in name and "av" not in name:
            axes.axhline(scores[0].mean, label=label, linewidth=1.2, **line)
            continue
        deviations = [score.deviation or 0.0 for score in scores]
        means = [score.mean for score in scores]
        axes.errorbar(
            [point.strength for point in points], means, deviations, label=label, marker="o", markersize=3, **line
        )


def _has_results(chosen: Sequence[Experiment], results: Results) -> bool:
    return any(cell.name in results for cell in chosen)
