"""The figure of a graph: directions, their operators, the spectrum."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor

from dgn.data.io.atomic import atomic_file
from dgn.fields import gradient
from dgn.operators import derivative, smoothing
from dgn.plot.curves import literal, new_figure
from dgn.plot.graph_view import INK, draw_graph
from dgn.plot.matrix_view import draw_matrix
from dgn.plot.scene import Scene
from dgn.plot.spectrum_view import draw_spectrum
from dgn.spectral import Directions
from dgn.spectral.laplacians import Normalization

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SUFFIXES = (".svg", ".png")
MOST_NODES = 1000  # above, nodes are too small to see
ROOM = (3.4, 2.9)  # inches for the graph in its row
MOST_VALUES = 64  # eigenvalues in the spectrum
NOTHING = "so there is no field, no matrix and no spectrum"
SYMBOLS = {None: "L", "rw": "$D^{-1}L$", "sym": "$D^{-1/2}LD^{-1/2}$"}
STYLE: dict[Any, Any] = {
    "font.family": "DejaVu Sans", "font.size": 9, "axes.titlesize": 10, "text.color": INK, "axes.labelcolor": INK,
    "xtick.color": INK, "ytick.color": INK, "mathtext.fontset": "dejavusans", "svg.hashsalt": "dgn",
    "svg.fonttype": "path",
}  # fmt: skip


def draw_picture(scene: Scene, path: Path, k: int = 2, normalization: Normalization = None) -> None:
    """Draw the first k directions with B_av and B_dx, one row each, and the spectrum below, as SVG or PNG.

    A subtitle explains why a graph has fewer than k; without any, only the graph is drawn.

    The format follows from the suffix of ``path``. The same input gives the same bytes.
    """
    import matplotlib as mpl

    check_picture(path)
    if scene.num_nodes > MOST_NODES:
        raise ValueError(
            f"{scene.name}: expected at most {MOST_NODES} nodes in a picture, got {scene.num_nodes}; draw a subgraph"
        )
    with mpl.rc_context(STYLE):
        save_figure(_compose(scene, k, normalization), path, scene.name)


def check_picture(path: Path) -> None:
    """Refuse another suffix than .svg and .png."""
    if path.suffix not in SUFFIXES:
        raise ValueError(f"{path}: expected a picture called .svg or .png, got {path.suffix or 'no suffix'}; rename it")


def direction_note(vectors: Directions, k: int) -> str:
    """The eigenvalue of direction k (from 1), and whether the vector is unique.

    >>> import torch
    >>> from dgn.spectral import directions
    >>> direction_note(directions(torch.tensor([[0, 1, 2], [1, 2, 0]]), k=2), 1)
    '3.000, repeated: one basis of many'
    """
    values, exists = vectors.eigenvalues[:, k - 1], vectors.eigenvalues[:, k - 1].isfinite()
    texts = [f"{value:.3f}" for value in values[exists].tolist()[:3]] or ["none: the graph has no edge"]
    texts += ["..."] if int(exists.sum()) > 3 else []
    if bool(vectors.repeated()[exists, k - 1].any()):
        return f"{' | '.join(texts)}, repeated: one basis of many"
    is_arbitrary = bool((~vectors.sign_is_canonical[exists, k - 1]).any())
    return f"{' | '.join(texts)}{', sign arbitrary' if is_arbitrary else ''}"


def missing_note(scene: Scene, count: int, k: int) -> str:
    """Why a graph has only ``count`` of k directions.

    >>> import torch
    >>> missing_note(Scene("one", torch.empty(2, 0, dtype=torch.long), torch.zeros(1, 2).numpy(), ("a",)), 0, 2)
    '0 of 2 directions: n connected nodes have n − 1, and here none are connected'
    """
    largest = f"at most {count + 1}" if count else "none"
    rule = f"n connected {scene.node_word}s have n \N{MINUS SIGN} 1"
    return f"{count} of {k} directions: {rule}, and here {largest} are connected"


def _compose(scene: Scene, k: int, normalization: Normalization) -> "Figure":
    vectors = scene.directions(max(k, min(scene.num_nodes, MOST_VALUES)), normalization)
    rows = min(k, int(vectors.eigenvalues.isfinite().any(dim=0).sum()))
    figure = new_figure((12.0, 3.6 * rows + 2.6))
    title = literal(scene.name if len(scene.name) <= 100 else f"{scene.name[:97]}...")
    figure.suptitle(title if rows == k else f"{title}\n{missing_note(scene, rows, k)}", fontsize=11)
    if rows == 0:
        draw_graph(figure.subplots(), scene, vectors.potential[:, 0], NOTHING, ROOM)
        return figure
    grid = figure.add_gridspec(rows + 1, 3, height_ratios=[*[3.6] * rows, 2.0], width_ratios=[1.3, 1, 1])
    for k in range(1, rows + 1):
        axes = [figure.add_subplot(grid[k - 1, column]) for column in range(3)]
        _draw_direction(axes, scene, vectors.potential[:, k - 1], k, direction_note(vectors, k))
    draw_spectrum(figure.add_subplot(grid[rows, :]), vectors, scene.labels, rows, SYMBOLS[normalization])
    return figure


def _draw_direction(axes: Any, scene: Scene, potential: Tensor, k: int, note: str) -> None:
    field = gradient(potential, scene.edge_index)
    graph = scene.edge_index, scene.num_nodes
    wrapped = note.replace(", repeated", "\nrepeated")  # the values of several components fill the line
    title = rf"$\varphi_{{{k}}}$ and its field, $\lambda_{{{k}}}$ = {wrapped}"
    drawn = draw_graph(axes[0], scene, potential, title, ROOM)
    axes[0].figure.colorbar(drawn, ax=axes[0], shrink=0.7, pad=0.02, aspect=25).outline.set_visible(False)
    draw_matrix(axes[1], smoothing(field, *graph).dense(), scene.labels, rf"$B_{{av}}(\nabla\varphi_{{{k}}})$")
    image = draw_matrix(axes[2], derivative(field, *graph).dense(), scene.labels, rf"$B_{{dx}}(\nabla\varphi_{{{k}}})$")
    axes[2].figure.colorbar(image, ax=axes[2], shrink=0.7, pad=0.02, aspect=25).outline.set_visible(False)


def settle(figure: "Figure") -> None:
    """Lay out a figure once and round the positions of its axes: their last bits vary, and SVG hashes them."""
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    for axes in figure.axes:
        left, bottom, width, height = (round(value, 9) for value in axes.get_position(original=True).bounds)
        axes.set_position((left, bottom, width, height), which="original")


def save_figure(figure: "Figure", path: Path, title: str) -> None:
    """Write a figure atomically, in the format of its suffix."""
    metadata = {"Date": None, "Title": title} if path.suffix == ".svg" else {"Software": None, "Title": None}
    settle(figure)
    with atomic_file(path) as unfinished:
        figure.savefig(unfinished, format=path.suffix[1:], dpi=110, facecolor="white", metadata=metadata)
