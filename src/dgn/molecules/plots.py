"""Pictures of how good a model is on molecules that were held out."""

from pathlib import Path
from typing import Any

from torch import Tensor

from dgn.molecules.model_io import Model, Prediction
from dgn.plot.curves import literal, new_figure, save_png

MOST = 12  # targets in a picture


def draw_parity(model: Model, truth: Tensor, prediction: Prediction, level: float, path: Path) -> None:
    """Predicted over measured, with conformal intervals, a panel for each target."""
    shown = min(len(model.targets), MOST)
    columns = min(shown, 3)
    rows = -(-shown // columns)
    figure = new_figure((4.2 * columns, 4.2 * rows))
    panels = figure.subplots(rows, columns, squeeze=False).flatten().tolist()
    half = model.half_width(prediction.spread, level).nan_to_num(posinf=0.0)
    for number, axes in enumerate(panels):
        if number >= shown:
            axes.set_visible(False)
            continue
        known = ~truth[:, number].isnan()
        measured, mean, width = (table[known, number].numpy() for table in (truth, prediction.mean, half))
        _parity(axes, measured, mean, width, model.targets[number].name, level)
    save_png(figure, path)


def draw_roc(model: Model, truth: Tensor, prediction: Prediction, path: Path) -> None:
    """ROC curves of all labels that have both classes."""
    from sklearn.metrics import roc_auc_score, roc_curve

    figure = new_figure((5.0, 5.0))
    axes = figure.subplots()
    axes.plot([0, 1], [0, 1], color="0.7", linewidth=0.9, linestyle="--")
    for number, target in enumerate(model.targets[:MOST]):
        known = ~truth[:, number].isnan()
        y, p = truth[known, number].numpy(), prediction.mean[known, number].numpy()
        if len(set(y.tolist())) == 2:
            false, true, _ = roc_curve(y, p)
            axes.plot(
                false,
                true,
                linewidth=1.3,
                linestyle="-" if number < 10 else ":",
                label=f"{literal(target.name)}: {roc_auc_score(y, p):.3f}",
            )
    axes.set_xlabel("share of negatives called positive")
    axes.set_ylabel("share of positives found")
    axes.set_title("held-out molecules, area under the curve", fontsize=9)
    _plain(axes)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(frameon=False, fontsize=8, loc="lower right")
    save_png(figure, path)


def _parity(axes: Any, truth: Any, mean: Any, half: Any, name: str, level: float) -> None:
    axes.errorbar(truth, mean, yerr=half, fmt="none", ecolor="0.85", elinewidth=0.8, zorder=1)
    axes.scatter(truth, mean, s=9, color="C0", zorder=2)
    if len(truth):
        ends = [min(truth.min(), mean.min()), max(truth.max(), mean.max())]
        axes.plot(ends, ends, color="0.4", linewidth=0.9, linestyle="--", zorder=3)
    axes.set_xlabel(f"{literal(name)}, measured")
    axes.set_ylabel(f"{literal(name)}, predicted")
    wide = f", {100 * level:g} % intervals" if half.any() else ""  # too few molecules to calibrate them leave none
    axes.set_title(f"held-out molecules{wide}", fontsize=9)
    _plain(axes)


def _plain(axes: Any) -> None:
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
