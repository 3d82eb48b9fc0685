"""Parity plots and ROC curves of a model on the test split."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dgn.molecules.columns import output_names
from dgn.molecules.conformal import half_width
from dgn.molecules.logarithm import to_log
from dgn.molecules.model_io import Model, Prediction
from dgn.plot.curves import literal, new_figure, save_png

MOST = 12  # targets in a figure


def draw_parity(model: Model, truth: Tensor, prediction: Prediction, level: float, path: Path) -> None:
    """Draw predicted over measured values with conformal intervals, one panel per target."""
    shown = min(len(model.targets), MOST)
    columns = min(shown, 3)
    rows = -(-shown // columns)
    figure = new_figure((4.2 * columns, 4.2 * rows))
    panels = figure.subplots(rows, columns, squeeze=False).flatten().tolist()
    half = half_width(model.scores, level, prediction.difficulty).nan_to_num(posinf=0.0)
    truth, means = to_log(model.targets, truth), to_log(model.targets, prediction.mean)
    for target, axes in enumerate(panels):
        if target >= shown:
            axes.set_visible(False)
            continue
        mask = ~truth[:, target].isnan()
        measured, mean, width = (values[mask, target].numpy() for values in (truth, means, half))
        name = f"log10 {model.targets[target].name}" if model.targets[target].log else model.targets[target].name
        _parity(axes, measured, mean, width, name, level)
    save_png(figure, path)


def draw_roc(model: Model, truth: Tensor, prediction: Prediction, path: Path) -> None:
    """Draw the ROC curves of all targets that have both classes, or of each of several classes against the others."""
    from sklearn.metrics import roc_auc_score, roc_curve

    figure = new_figure((5.0, 5.0))
    axes = figure.subplots()
    axes.plot([0, 1], [0, 1], color="0.7", linewidth=0.9, linestyle="--")
    names = output_names(model.task, model.targets)
    if model.task == "multiclass":
        truth = (truth == torch.arange(len(names))).double()
    for index, name in enumerate(names[:MOST]):
        mask = ~truth[:, index].isnan()
        y, p = truth[mask, index].numpy(), prediction.mean[mask, index].numpy()
        if len(set(y.tolist())) == 2:
            false, true, _ = roc_curve(y, p)
            axes.plot(
                false,
                true,
                linewidth=1.3,
                linestyle="-" if index < 10 else ":",
                label=f"{literal(name)}: {roc_auc_score(y, p):.3f}",
            )
    axes.set_xlabel("false positive rate")
    axes.set_ylabel("true positive rate")
    axes.set_title("test split, area under the curve", fontsize=9)
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
    intervals = f", {100 * level:g} % intervals" if half.any() else ""  # none with too few validation molecules
    axes.set_title(f"test split{intervals}", fontsize=9)
    _plain(axes)


def _plain(axes: Any) -> None:
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
