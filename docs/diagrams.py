"""Draw the picture of docs/index.md and the diagrams of docs/architecture.md and docs/kernels.md into docs/figures:
``python -m docs.diagrams``."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import matplotlib as mpl
import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch
from torch import Tensor

import dgn
from docs.figures import FOLDER, INK, SIGNED, STYLE, Points, clean, draw_directions, molecule, save

FILL, LINE = "#efedf5", "#5e3c99"
NODE = 6  # of the molecule: on a ring, with a chain


class Arrow(NamedTuple):
    """From one box to another, with a label above its middle."""

    start: str
    end: str
    label: str = ""
    lift: float = 0.13


Boxes = Mapping[str, tuple[float, float, str]]


def diagram(size: tuple[float, float], boxes: Boxes, arrows: Sequence[Arrow]) -> Figure:
    """Boxes with centres in units of the figure's inches, and arrows between them."""
    figure = Figure(figsize=size)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, size[0]), ylim=(0, size[1]))
    axes.set_axis_off()
    patches = {name: _box(axes, *box) for name, box in boxes.items()}
    for arrow in arrows:
        _arrow(axes, boxes, patches, arrow)
    return figure


def _box(axes: Axes, x: float, y: float, text: str) -> FancyBboxPatch:
    lines = text.split("\n")
    width, height = 0.079 * max(map(len, lines)) + 0.16, 0.165 * len(lines) + 0.14
    corner = (x - width / 2, y - height / 2)
    look: dict[str, Any] = {"boxstyle": "round,pad=0,rounding_size=0.07", "facecolor": FILL, "edgecolor": LINE}
    patch = axes.add_patch(FancyBboxPatch(corner, width, height, linewidth=0.9, zorder=2, **look))
    axes.text(x, y, text, ha="center", va="center", fontsize=9, linespacing=1.25, zorder=3)
    return patch


def _arrow(axes: Axes, boxes: Boxes, patches: Mapping[str, FancyBboxPatch], arrow: Arrow) -> None:
    start, end = np.array(boxes[arrow.start][:2]), np.array(boxes[arrow.end][:2])
    look: dict[str, Any] = {"arrowstyle": "-|>,head_length=4,head_width=2", "color": INK, "linewidth": 1.0}
    ends = {"patchA": patches[arrow.start], "patchB": patches[arrow.end], "shrinkA": 1, "shrinkB": 2}
    axes.add_patch(FancyArrowPatch(tuple(start), tuple(end), zorder=1, **look, **ends))
    if arrow.label:
        leaves, enters = _edge(patches[arrow.start], end - start), _edge(patches[arrow.end], end - start)
        x, y = (start + leaves + end - enters) / 2
        axes.text(x, y + arrow.lift, arrow.label, ha="center", va="center", fontsize=8, style="italic", color=INK)


def _edge(box: FancyBboxPatch, along: Points) -> Points:
    """From the centre of a box to its edge in a direction."""
    half = np.array([box.get_width(), box.get_height()]) / 2
    return along * float(np.min(half / np.maximum(np.abs(along), 1e-9)))


def data_flow() -> Figure:
    boxes = {
        "graph": (0.75, 1.9, "edge_index,\nData or Graph"),
        "laplacian": (2.45, 1.9, "Laplacian\n[N, N]"),
        "potential": (4.1, 1.9, "potential\n[N, K]"),
        "field": (5.6, 1.9, "field\n[E, K]"),
        "own": (4.1, 0.9, "coordinates,\nyour own tensor"),
        "shaped": (6.9, 0.9, "shaped or\naugmented\nfield [E, K]"),
        "operator": (8.1, 1.9, "Operator\nedge weights [E, K]\nself weights [N, K]"),
        "aggregates": (10.35, 1.9, "aggregates\n[N, A, C]"),
        "layer": (10.35, 0.9, "layer"),
        "network": (8.75, 0.9, "network"),
    }
    arrows = [
        Arrow("graph", "laplacian", "laplacian"),
        Arrow("laplacian", "potential", "directions"),
        Arrow("potential", "field", "gradient"),
        Arrow("own", "field"),
        Arrow("field", "operator", "smoothing,\nderivative,\nwalks", lift=0.33),
        Arrow("field", "shaped"),
        Arrow("shaped", "operator"),
        Arrow("operator", "aggregates", "make_plan,\naggregate", lift=0.23),
        Arrow("aggregates", "layer"),
        Arrow("layer", "network"),
    ]
    figure = diagram((11.1, 2.5), boxes, arrows)
    figure.axes[0].text(5.95, 1.28, "harden, rotate", ha="right", fontsize=8, style="italic")
    figure.axes[0].text(10.45, 1.36, "DGNConv", ha="left", va="center", fontsize=8, style="italic")
    figure.axes[0].text(9.62, 1.03, "DGN", ha="center", va="center", fontsize=8, style="italic")
    return figure


def experiment_flow() -> Figure:
    boxes = {
        "source": (0.95, 2.6, "benchmark, SMILES,\nfiles, PyG dataset"),
        "packed": (3.6, 2.6, "packed graphs:\nflat arrays, one file"),
        "inputs": (6.6, 2.6, "potentials, fields,\nstructural encodings"),
        "batches": (9.25, 2.6, "static batches\non the device"),
        "yaml": (1.0, 1.5, "experiment.yaml"),
        "settings": (3.6, 1.5, "typed settings"),
        "network": (6.6, 1.5, "one network\nper seed"),
        "train": (9.25, 1.5, "train: replicas\nside by side"),
        "space": (3.6, 0.45, "search space"),
        "run": (6.6, 0.45, "run folder: result.json,\nmetrics, checkpoint, model"),
        "pages": (9.5, 0.45, "results/,\ndocs/results.md"),
    }
    arrows = [
        Arrow("source", "packed", "Packed\nGraphs", lift=0.22),
        Arrow("packed", "inputs", "add_directions,\nwith_encodings", lift=0.22),
        Arrow("inputs", "batches", "Device\nDataset", lift=0.22),
        Arrow("batches", "train"),
        Arrow("yaml", "settings", "load_experiment"),
        Arrow("settings", "network", "build_network"),
        Arrow("network", "train"),
        Arrow("train", "run", "write_run            ", lift=0.13),
        Arrow("run", "pages", "reproduce"),
        Arrow("run", "space", "validation\nscore", lift=0.22),
        Arrow("space", "settings", "Search            ", lift=0.0),
    ]
    return diagram((10.4, 3.05), boxes, arrows)


def kernel_flow() -> Figure:
    boxes = {
        "names": (0.65, 2.2, "names"),
        "field": (0.65, 1.35, "field [E, K]"),
        "features": (0.65, 0.5, "features"),
        "plan": (3.3, 2.2, "Plan\ncodes, columns"),
        "weights": (3.3, 1.35, "Weights\nedge [E, W], self [N, W]"),
        "messages": (3.3, 0.5, "Messages\nsource, target, table"),
        "aggregate": (5.7, 1.35, "aggregate"),
        "reference": (7.5, 2.2, "reference"),
        "cpu": (7.5, 1.35, "cpu (Numba)"),
        "triton": (7.5, 0.5, "triton"),
        "out": (9.2, 1.35, "[N, A, C]"),
    }
    arrows = [
        Arrow("names", "plan", "make_plan, cached"),
        Arrow("field", "weights", "compute_weights", lift=0.11),
        Arrow("features", "messages", "linear maps"),
        *(Arrow(name, "aggregate") for name in ("plan", "weights", "messages")),
        *(Arrow("aggregate", name) for name in ("reference", "cpu", "triton")),
        *(Arrow(name, "out") for name in ("reference", "cpu", "triton")),
    ]
    return diagram((9.8, 2.7), boxes, arrows)


def hero() -> Figure:
    """A molecule with a field, and the weights of one atom's neighbours in a mean, in B_av and in B_dx."""
    edges, position = molecule()
    potential = dgn.directions(edges, len(position), k=1).potential[:, 0]
    field = dgn.gradient(potential, edges)
    figure = Figure(figsize=(7.6, 4.3), layout="constrained")
    axes = figure.subplot_mosaic([["field"] * 3, ["mean", "av", "dx"]], height_ratios=[1.15, 1])
    draw_directions(axes["field"], edges, position, potential, "a field along a molecule")
    axes["field"].scatter(*position[NODE], 260, facecolors="none", edgecolors="#e08214", linewidths=2.2, zorder=4)
    mean = torch.zeros(len(position), len(position)).index_put((edges[1], edges[0]), torch.tensor(1.0))
    _weights(axes["mean"], edges, position, mean[NODE] / mean[NODE].sum(), "mean")
    _weights(axes["av"], edges, position, dgn.smoothing(field, edges).dense()[NODE], "average along it, $B_{av}$")
    _weights(axes["dx"], edges, position, dgn.derivative(field, edges).dense()[NODE], "derivative, $B_{dx}$")
    return figure


def _weights(axes: Axes, edges: Tensor, position: Points, row: Tensor, title: str) -> None:
    """The neighbours of one node with their weights, and its own."""
    around = edges[0][edges[1] == NODE].tolist()
    clean(axes, title, position[[NODE, *around]], 0.55)
    for node in around:
        weight = float(row[node].abs())
        axes.plot(*position[[NODE, node]].T, color=INK, linewidth=0.8 + 4 * weight, alpha=0.25 + 0.7 * weight, zorder=1)
    shown = [NODE, *around]
    look: dict[str, Any] = {"cmap": SIGNED, "vmin": -1, "vmax": 1, "edgecolors": INK, "zorder": 3}
    axes.scatter(*position[shown].T, 950, row[shown], linewidths=[2.2, *[0.8] * len(around)], **look)
    axes.scatter(*position[NODE], 950, facecolors="none", edgecolors="#e08214", linewidths=2.2, zorder=4)
    for node in shown:
        text = f"{float(row[node]):+.2f}".replace("-", "\N{MINUS SIGN}") if abs(row[node]) > 5e-3 else "0"
        ink = "white" if row[node] > 0.57 else INK
        axes.text(*position[node], text, ha="center", va="center", fontsize=8.5, color=ink, zorder=5)


FIGURES = {
    "hero": hero,
    "data_flow": data_flow,
    "experiment_flow": experiment_flow,
    "kernel_flow": kernel_flow,
}


def main() -> None:
    with mpl.rc_context(STYLE):
        for name, draw in FIGURES.items():
            save(draw(), FOLDER / f"{name}.png")


if __name__ == "__main__":
    main()
