"""The figure on augmentation: accuracy against the strength of rotation and distortion, a tenth of CIFAR10."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from dgn.plot.curves import new_figure, save_png
from dgn.training.experiment import Experiment
from dgn.training.run_folder import FinishedRun
from dgn.training.scores import Score, summarize
from dgn.training.tables import Table
from reproduce.results import Results

PICTURE = "figures/cifar10_augmentation.png"
AXES = {"rotation": "rotation by up to ... degrees", "distortion": "distortion, percent of the mean absolute value"}
COLORS = {"mean": "C7", "mean dx1 dx2": "C0", "mean av1 av2": "C1"}


class Point(NamedTuple):
    """The runs of one network at one strength, in degrees or percent."""

    strength: float
    runs: Sequence[FinishedRun]


def augmentation_section(chosen: Sequence[Experiment], results: Results) -> list[str]:
    """The figure, if anything was run, and the table behind it."""
    header = ("run", "rotation", "distortion", "train", "test", "seeds")
    rows = []
    for cell in chosen:
        runs, change = results.get(cell.name, ()), cell.augmentation
        scores = [str(summarize(runs, split)) for split in ("train", "test")] if runs else ["", "not run yet"]
        strength = [
            f"{change.rotation:g}°" * bool(change.rotation),
            f"{change.distortion:.0%}" * bool(change.distortion),
        ]
        rows.append((f"`{cell.name}`", *strength, *scores, str(len(runs) or "")))
    picture = [f"![Accuracy against the strength of augmentation]({PICTURE})"] if _any(chosen, results) else []
    return [*picture, Table("", header, tuple(rows)).to_markdown()]


def draw_augmentation(chosen: Sequence[Experiment], results: Results, path: Path) -> bool:
    """Draw test (solid) and training accuracy (dashed) against strength, a panel for each augmentation, as PNG.

    Networks that read no direction are a level line: nothing that happens to the field reaches them. Returns whether
    there was anything to draw.
    """
    if not _any(chosen, results):
        return False
    figure = new_figure((9.0, 3.8))
    panels = figure.subplots(1, 2, sharey=True)
    for axes, (kind, label) in zip(panels, AXES.items(), strict=True):
        for name, points in curves(chosen, results, kind).items():
            _draw(axes, name, points)
        axes.set_xlabel(label)
        axes.grid(alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("accuracy, % (dashed: training)")
    panels[0].legend(frameon=False, fontsize=8)
    save_png(figure, path)
    return True


def curves(chosen: Sequence[Experiment], results: Results, kind: str) -> dict[str, list[Point]]:
    """The points of each network for one kind of augmentation, from none to the strongest, as far as they were run."""
    found: dict[str, list[Point]] = {}
    for cell in chosen:
        strengths = {"rotation": cell.augmentation.rotation, "distortion": 100 * cell.augmentation.distortion}
        if cell.name in results and not any(value for name, value in strengths.items() if name != kind):
            name = " ".join(cell.network.aggregators)
            found.setdefault(name, []).append(Point(strengths[kind], results[cell.name]))
    return {name: sorted(points, key=lambda point: point.strength) for name, points in found.items()}


def _draw(axes: Any, name: str, points: Sequence[Point]) -> None:
    for split, style in (("test", "-"), ("train", "--")):
        scores = [summarize(point.runs, split) for point in points]
        label, look = name if split == "test" else None, {"color": COLORS.get(name, "C2"), "linestyle": style}
        if len(points) == 1 and "dx" not in name and "av" not in name:
            axes.axhline(scores[0].mean, label=label, linewidth=1.2, **look)
            continue
        spread = [_spread(score) for score in scores]
        places = [point.strength for point in points]
        axes.errorbar(places, [score.mean for score in scores], spread, label=label, marker="o", markersize=3, **look)


def _spread(score: Score) -> float:
    return score.deviation or 0.0


def _any(chosen: Sequence[Experiment], results: Results) -> bool:
    return any(cell.name in results for cell in chosen)
