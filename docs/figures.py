"""Draw the figures of the documentation into docs/figures: ``python docs/figures.py [minnesota.npz]``.

The road network of Minnesota is drawn if its file is passed: ``num_nodes``, ``edge_index`` [2, E], ``xy``.
"""

import math
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure, SubFigure
from numpy.typing import NDArray
from torch import Tensor

import dgn
from dgn.testing import weisfeiler_leman

FOLDER = Path(__file__).parent / "figures"
INK = "#2b2d33"
STYLE: dict[Any, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.titlepad": 8,
    "text.color": INK,
    "mathtext.fontset": "dejavusans",
    "figure.constrained_layout.h_pad": 0.1,
}
SIGNED = "PuOr"  # negative is brown, positive violet: safe for colour blindness
Points = NDArray[np.float64]


def undirected(pairs: Iterable[tuple[int, int]]) -> Tensor:
    """Each pair in both directions, ``[2, E]``."""
    one_way = torch.tensor(list(pairs)).T
    return torch.cat([one_way, one_way.flip(0)], dim=1)


def grid(width: int, height: int) -> tuple[Tensor, Points]:
    """The edges and the coordinates of a grid; node ``x + width * y`` lies at (x, y)."""
    nodes = [(x, y) for y in range(height) for x in range(width)]
    right = [(x + width * y, x + 1 + width * y) for x, y in nodes if x + 1 < width]
    up = [(x + width * y, x + width * (y + 1)) for x, y in nodes if y + 1 < height]
    return undirected(right + up), np.array(nodes, dtype=float)


def molecule() -> tuple[Tensor, Points]:
    """Two fused rings of six with a chain of three and one of one atom, with 2D coordinates."""
    corner = [(math.cos(a), math.sin(a)) for a in (math.pi / 6 + n * math.pi / 3 for n in range(6))]
    left = [(x - math.cos(math.pi / 6), y) for x, y in corner]
    right = [(x + math.cos(math.pi / 6), y) for x, y in corner]
    ring = [*left, right[0], right[1], right[4], right[5]]  # left[0] and left[5] are shared
    step = math.cos(math.pi / 6)
    chain = [(ring[6][0] + step, 1.0), (ring[6][0] + 2 * step, 0.5), (ring[6][0] + 3 * step, 1.0)]
    single = [(ring[2][0] - step, 1.0)]
    bonds = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 0), (0, 7), (7, 6), (6, 9), (9, 8), (8, 5)]
    bonds += [(6, 10), (10, 11), (11, 12), (2, 13)]
    return undirected(bonds), np.array(ring + chain + single)


def clean(axes: Axes, title: str, position: Points | None = None, margin: float = 0.6) -> None:
    axes.set_title(title)
    axes.set_aspect("equal")
    axes.set_axis_off()
    if position is not None:
        low, high = position.min(axis=0) - margin, position.max(axis=0) + margin
        axes.set_xlim(low[0], high[0])
        axes.set_ylim(low[1], high[1])


def draw_edges(axes: Axes, edges: Tensor, position: Points) -> None:
    lines = position[edges.T.numpy()]
    axes.add_collection(LineCollection(list(lines), colors="#d4d6db", linewidths=1.2, zorder=1))


def draw_nodes(axes: Axes, position: Points, potential: Tensor, size: float = 90) -> None:
    limit = float(potential.abs().max())
    look: dict[str, Any] = {"edgecolors": INK, "linewidths": 0.8, "zorder": 3}
    axes.scatter(position[:, 0], position[:, 1], size, potential, cmap=SIGNED, vmin=-limit, vmax=limit, **look)


def draw_flow(axes: Axes, edges: Tensor, position: Points, potential: Tensor) -> None:
    """Draw one arrow per undirected edge, uphill; its width is the mean weight at its two ends."""
    field = dgn.normalize(dgn.gradient(potential, edges), edges, len(position))
    half = edges.size(1) // 2
    width = (field[:half].abs() + field[half:].abs()) / 2
    for (j, i), size, value in zip(edges[:, :half].T.tolist(), width.tolist(), field[:half].tolist(), strict=True):
        start, end = (i, j) if value > 0 else (j, i)  # the field at i towards j is positive where j is higher
        if size > 0:
            axes.annotate("", position[end], position[start], arrowprops=arrow(size), zorder=2)


def arrow(size: float) -> dict[str, Any]:
    """An arrow between two nodes for a weight in [0, 1]."""
    style = "-|>,head_length=0.45,head_width=0.2"
    return {
        "arrowstyle": style, "linewidth": 0.5 + 2.5 * size, "color": INK, "alpha": 0.25 + 0.75 * size,
        "shrinkA": 6, "shrinkB": 6,
    }  # fmt: skip


def draw_directions(axes: Axes, edges: Tensor, position: Points, potential: Tensor, title: str) -> None:
    clean(axes, title, position)
    draw_edges(axes, edges, position)
    draw_flow(axes, edges, position, potential)
    draw_nodes(axes, position, potential)


def two_directions(edges: Tensor, position: Points, size: tuple[float, float]) -> Figure:
    vectors = dgn.directions(edges, len(position), k=2)
    figure = Figure(figsize=size, layout="constrained")
    for k, axes in enumerate(figure.subplots(1, 2), start=1):
        title = rf"$\varphi_{k}$ and its field,  $\lambda_{k}$ = {vectors.eigenvalues[0, k - 1]:.3f}"
        draw_directions(axes, edges, position, vectors.potential[:, k - 1], title)
    return figure


def matrices() -> Figure:
    """A small graph and its two matrices."""
    edges, position = small_graph()
    potential = dgn.directions(edges, 6, k=1).potential
    field = dgn.gradient(potential, edges)
    figure = Figure(figsize=(8.8, 3.2), layout="constrained")
    axes = figure.subplots(1, 3, width_ratios=[1.35, 1, 1])
    draw_directions(axes[0], edges, position, potential[:, 0], r"graph with $\varphi_1$ and its field")
    for node, place in enumerate(position):
        above = 8 if place[1] > 0 else -16
        axes[0].annotate(str(node), place, xytext=(0, above), textcoords="offset points", ha="center")
    heat_map(axes[1], dgn.smoothing(field, edges, 6).dense(), r"$B_{av}$")
    heat_map(axes[2], dgn.derivative(field, edges, 6).dense(), r"$B_{dx}$")
    return figure


def signed(value: float) -> str:
    return f"{value:.2f}".replace("-", "\N{MINUS SIGN}")


def heat_map(axes: Axes, matrix: Tensor, title: str, numbers: float = 7) -> None:
    """Cells coloured by sign and size; ``numbers`` is the size of the text in them, 0 for none."""
    axes.imshow(matrix, cmap=SIGNED, vmin=-1.2, vmax=1.2)
    for (i, j), value in np.ndenumerate(matrix.numpy()):
        if numbers and abs(value) > 1e-12:
            color = "white" if abs(value) > 0.7 else INK
            axes.text(j, i, signed(value), ha="center", va="center", fontsize=numbers, color=color)
    axes.set_title(title)
    axes.set_xlabel("from node j")
    axes.set_ylabel("to node i")
    axes.set_xticks(range(len(matrix)))
    axes.set_yticks(range(len(matrix)))
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)


def repeated(step: Callable[[Tensor], Tensor], x: Tensor, times: int) -> Tensor:
    for _ in range(times):
        x = step(x)[:, 0]
    return x


def filters() -> Figure:
    """One signal on a grid under several operators."""
    width, height, steps = 18, 14, 4
    edges, position = grid(width, height)
    x = torch.from_numpy(((np.abs(position - [9.0, 7.0]) <= [2.0, 2.0]).all(axis=1)).astype(float))
    potential = dgn.directions(edges, len(x), k=2).potential
    field = dgn.gradient(potential, edges)
    diagonal = dgn.forward_field(dgn.gradient(torch.from_numpy(position @ [1.0, 0.8]), edges))
    copy = dgn.harden(diagonal, edges, len(x))
    derivative = dgn.derivative(field, edges, len(x))(x)
    panels = [
        ("signal x", x),
        (r"$B_{av}(\nabla\varphi_1)\,x$", dgn.smoothing(field, edges, len(x))(x)[:, 0]),
        (r"$B_{dx}(\nabla\varphi_1)\,x$", derivative[:, 0]),
        (r"$B_{dx}(\nabla\varphi_2)\,x$", derivative[:, 1]),
        ("forward along a diagonal, 4 times", repeated(dgn.smoothing(diagonal, edges, len(x)), x, steps)),
        ("forward copy, 4 times", repeated(dgn.smoothing(copy, edges, len(x)), x, steps)),
    ]
    figure = Figure(figsize=(8.0, 4.8), layout="constrained")
    for axes, (title, values) in zip(figure.subplots(2, 3).flat, panels, strict=True):
        axes.imshow(values.view(height, width), cmap=SIGNED, vmin=-1.1, vmax=1.1, origin="lower")
        clean(axes, title)
    return figure


def augmentation() -> Figure:
    """The vector at each node of a grid, before and after."""
    edges, position = grid(8, 6)
    potential = dgn.directions(edges, len(position), k=2).potential
    first, second = dgn.gradient(potential, edges).T
    rotated = dgn.rotate(first, second, math.pi / 4, edges, len(position))[0]
    edge_noise = dgn.distort(first, edges, 1.5, generator=torch.Generator().manual_seed(1))
    node_noise = dgn.distort_potential(potential[:, 0], 0.3, generator=torch.Generator().manual_seed(1))
    panels = [
        (r"$\nabla\varphi_1$", first),
        ("rotated by 45°", rotated),
        ("noise on the edges", edge_noise),
        ("noise on the potential", dgn.gradient(node_noise, edges)),
    ]
    figure = Figure(figsize=(8.6, 1.95), layout="constrained")
    for axes, (title, field) in zip(figure.subplots(1, 4), panels, strict=True):
        clean(axes, title, position, margin=0.8)
        draw_edges(axes, edges, position)
        draw_vectors(axes, edges, position, dgn.normalize(field, edges, len(position), p=2))
    return figure


def draw_vectors(axes: Axes, edges: Tensor, position: Points, field: Tensor) -> None:
    """At each node the sum of its edges, each as long as the field on it."""
    towards = torch.from_numpy(position[edges[0]] - position[edges[1]])
    vector = dgn.divergence(field[:, None] * towards, edges, len(position)).numpy()
    length = np.linalg.norm(vector, axis=1, keepdims=True)
    vector = 0.75 * vector / np.maximum(length, 1e-9) * np.minimum(length, 1)
    angle = np.arctan2(vector[:, 1], vector[:, 0])
    axes.quiver(
        *position.T, *vector.T, angle, cmap="twilight_shifted", clim=(-np.pi, np.pi), pivot="mid", angles="xy",
        scale_units="xy", scale=1, width=0.012, zorder=2,
    )  # fmt: skip


def minnesota(path: Path) -> Figure:
    """The first three directions of a road network, and the vector of each field at junctions spread evenly."""
    with np.load(path) as arrays:
        one_way, position = torch.from_numpy(arrays["edge_index"].astype(np.int64)), arrays["xy"].astype(float)
    edges = torch.cat([one_way, one_way.flip(0)], dim=1)
    vectors = dgn.directions(edges, len(position), k=3)
    roads = vectors.component == vectors.component.bincount().argmax()  # two junctions are cut off
    figure = Figure(figsize=(9.6, 5.2), layout="constrained")
    for k, (above, below) in enumerate(figure.subplots(2, 3).T, start=1):
        potential = vectors.potential[:, k - 1] * roads
        value = float(vectors.eigenvalues[vectors.component[roads][0], k - 1])
        for axes in (above, below):
            lines = LineCollection(list(position[one_way.T.numpy()]), colors="#d4d6db", linewidths=0.6, zorder=1)
            axes.add_collection(lines)
        clean(above, rf"$\varphi_{k}$,  $\lambda_{k}$ = {value * 1e3:.2f} $\cdot$ 10$^{{-3}}$", position, margin=0.1)
        clean(below, rf"$\nabla\varphi_{k}$", position, margin=0.1)
        limit = float(potential.abs().max())
        above.scatter(*position.T, 5, potential, cmap=SIGNED, vmin=-limit, vmax=limit, linewidths=0, zorder=2)
        draw_wind(below, edges, position, potential)
    return figure


def draw_wind(axes: Axes, edges: Tensor, position: Points, potential: Tensor, cell: float = 0.25) -> None:
    """One arrow for each cell of a map: the mean over its junctions of the vectors of the field, uphill."""
    field = dgn.normalize(dgn.gradient(potential, edges), edges, len(position))
    towards = position[edges[0]] - position[edges[1]]
    towards /= np.maximum(np.linalg.norm(towards, axis=1, keepdims=True), 1e-12)
    vector = dgn.divergence(field[:, None] * torch.from_numpy(towards), edges, len(position)).numpy()
    place, inverse, count = np.unique(
        np.floor(position / cell), axis=0, return_inverse=True, return_counts=True
    )  # fmt: skip
    mean, middle = np.zeros((len(place), 2)), np.zeros((len(place), 2))
    np.add.at(mean, inverse, vector)
    np.add.at(middle, inverse, position)
    mean /= count[:, None]
    length = np.linalg.norm(mean, axis=1).max()
    axes.quiver(
        *(middle / count[:, None]).T, *(cell * mean / max(length, 1e-12)).T, color=INK, angles="xy",
        scale_units="xy", scale=0.55, pivot="mid", width=0.006, zorder=2,
    )  # fmt: skip


def overview() -> Figure:
    """Figure 1 of the paper: from a graph to directions, fields, matrices and aggregates."""
    edges, position = small_graph()
    x = torch.tensor([0.2, -0.4, 1.0, 0.5, -0.9, 0.7], dtype=torch.float64)
    vectors = dgn.directions(edges, len(x), k=2)
    field = dgn.gradient(vectors.potential, edges)
    average, slope = dgn.smoothing(field, edges, len(x)), dgn.derivative(field, edges, len(x))
    figure = Figure(figsize=(11.2, 4.4), layout="constrained")
    axes = figure.subplots(2, 5, width_ratios=[1.25, 1.25, 1.25, 1, 1])
    draw_values(axes[0, 0], edges, position, x, "(a) graph and features x")
    for k in (1, 2):
        potential = vectors.potential[:, k - 1]
        draw_values(axes[k - 1, 1], edges, position, potential, rf"(b) eigenvector $\varphi_{k}$")
        draw_directions(axes[k - 1, 2], edges, position, potential, rf"(c) field $\nabla\varphi_{k}$")
        heat_map(axes[k - 1, 3], average.dense(k), rf"(d) $B_{{av}}^{k}$", numbers=0)
        heat_map(axes[k - 1, 4], slope.dense(k), rf"(d) $B_{{dx}}^{k}$", numbers=0)
    mean = dgn.smoothing(torch.ones_like(field[:, :1]), edges, len(x))(x)
    heat_map(axes[1, 0], torch.cat([x[:, None], mean, average(x), slope(x).abs()], dim=1), "(e) aggregates of x", 6)
    axes[1, 0].set_xticks(range(6), ["x", "mean", "av1", "av2", "dx1", "dx2"], fontsize=7)
    axes[1, 0].set(xlabel="", ylabel="node", aspect="auto")
    return figure


def draw_values(axes: Axes, edges: Tensor, position: Points, values: Tensor, title: str) -> None:
    clean(axes, title, position)
    draw_edges(axes, edges, position)
    draw_nodes(axes, position, values)


def small_graph() -> tuple[Tensor, Points]:
    """A triangle with a tail on either side."""
    edges = undirected([(0, 1), (1, 2), (1, 3), (2, 3), (3, 4), (4, 5)])
    return edges, np.array([[0, 0.5], [1, 0.5], [1.8, 1.1], [1.8, -0.1], [2.8, -0.1], [3.8, -0.1]])


def blob(spacing: float = 0.21) -> tuple[Tensor, Points]:
    """Points of a triangular lattice inside an irregular curve, each joined to its neighbours."""
    steps = np.arange(-12, 13)
    across, up = np.meshgrid(steps, steps)
    point = spacing * np.stack([(across + 0.5 * (up % 2)).ravel(), (math.sqrt(3) / 2 * up).ravel()], axis=1)
    angle = np.arctan2(point[:, 1], point[:, 0])
    rim = 1.35 + 0.25 * np.cos(2 * angle - 0.6) + 0.25 * np.cos(3 * angle + 0.4)
    position = point[np.linalg.norm(point, axis=1) < rim]
    distance = np.linalg.norm(position[:, None] - position[None], axis=2)
    pairs = np.argwhere(np.triu((distance < 1.1 * spacing) & (distance > 0)))
    return undirected([(int(i), int(j)) for i, j in pairs]), position


def flows() -> Figure:
    """Figure 2 of the paper without its map: fields on a grid, on an irregular shape, and user-defined ones."""
    figure = Figure(figsize=(10.4, 4.3), layout="constrained")
    shapes = [("grid", *grid(12, 8)), ("irregular shape", *blob())]
    for axes, (name, edges, position) in zip(figure.subplots(2, 4), shapes, strict=True):
        vectors = dgn.directions(edges, len(position), k=3).potential
        panels = [
            (rf"{name}, acos $\varphi_{k + 1}$", (vectors[:, k] / vectors[:, k].abs().max()).acos()) for k in range(3)
        ]
        outwards = np.linalg.norm(position - position.mean(axis=0), axis=1)
        chosen = position @ [1.0, 1.0] if name == "grid" else outwards
        panels.append((f"chosen: {'along a diagonal' if name == 'grid' else 'outwards'}", torch.from_numpy(chosen)))
        for place, (title, potential) in zip(axes, panels, strict=True):
            clean(place, title, position, margin=0.05 * float(np.ptp(position, axis=0).max()))
            draw_stream(place, edges, position, potential)
            place.scatter(*position.T, 22, potential, cmap="viridis", edgecolors=INK, linewidths=0.4, zorder=3)
    return figure


def draw_stream(axes: Axes, edges: Tensor, position: Points, potential: Tensor) -> None:
    """An arrow uphill on each edge, as dark as the potential is steep there."""
    rise = dgn.gradient(potential, edges)
    uphill = (rise > 1e-3 * rise.max()).nonzero().flatten()
    higher, lower = position[edges[0, uphill]], position[edges[1, uphill]]
    axes.quiver(
        *(0.8 * lower + 0.2 * higher).T, *(0.65 * (higher - lower)).T, (rise[uphill] / rise.max()).numpy(),
        cmap="Greys", clim=(-0.2, 1.1), angles="xy", scale_units="xy", scale=1, width=0.007, headwidth=4, zorder=2,
    )  # fmt: skip


def neighbourhood() -> Figure:
    """Figure 3 of the paper: the weights of the two operators at one node."""
    position = np.array([[0, 0], [1.1, 0.45], [0.5, -1.0], [-1.0, -0.55], [-0.75, 0.85]])
    edges = undirected([(0, node) for node in range(1, 5)])
    at_middle = torch.tensor([0.9, 0.3, -0.6, -0.2], dtype=torch.float64)
    field = torch.cat([-at_middle, at_middle])[:, None]
    star = torch.cat([torch.zeros(1, dtype=torch.float64), at_middle])
    panels = [
        (r"the field $F$ at node $i$", star),
        (r"$B_{av}$:  $|F_{ij}|\,/\,\Sigma_j|F_{ij}|$", dgn.smoothing(field, edges, 5).dense()[0]),
        (r"$B_{dx}$:  $F_{ij}\,/\,\Sigma_j|F_{ij}|$,  itself $-\Sigma_j$", dgn.derivative(field, edges, 5).dense()[0]),
    ]
    figure = Figure(figsize=(9.2, 3.0), layout="constrained")
    for axes, (title, weight) in zip(figure.subplots(1, 3), panels, strict=True):
        draw_star(axes, position, title, weight.tolist(), with_arrows=weight is star)
    return figure


def draw_star(axes: Axes, position: Points, title: str, weight: list[float], with_arrows: bool) -> None:
    """A node in the middle of its neighbours, each with its weight."""
    clean(axes, title, position, margin=0.45)
    for node, value in enumerate(weight[1:], start=1):
        ends = (position[node], position[0]) if value > 0 or not with_arrows else (position[0], position[node])
        look = arrow(abs(value)) | {"shrinkA": 14, "shrinkB": 14} | ({} if with_arrows else {"arrowstyle": "-"})
        axes.annotate("", *ends, arrowprops=look, zorder=2)
    colors = torch.tensor(weight)
    axes.scatter(*position.T, 620, colors, cmap=SIGNED, vmin=-1.1, vmax=1.1, edgecolors=INK, linewidths=0.8, zorder=3)
    for node, (place, value) in enumerate(zip(position, weight, strict=True)):
        text, color = signed(value) if node or value else "i", "white" if abs(value) > 0.7 else INK
        axes.text(*place, text, ha="center", va="center", fontsize=7.5, color=color, zorder=4)


def kernel() -> Figure:
    """Figure 4 of the paper: operators along the axes of a grid add up to a convolution; walks give larger kernels."""
    width, height = 20, 14
    edges, position = grid(width, height)
    field = dgn.gradient(torch.from_numpy(position), edges)  # acos of the two eigenvectors of the axes
    average, slope = dgn.smoothing(field, edges, len(position)), dgn.derivative(field, edges, len(position))
    image = torch.from_numpy(((position - [9.5, 6.5]) ** 2 @ [1 / 30, 1 / 14] < 1).astype(float))
    left, right, below, above, itself = -1.0, 0.5, 0.75, -0.5, 0.25
    parts = [
        (left + right, r"$B_{av}^1$", average.dense(1)), (right - left, r"$B_{dx}^1$", slope.dense(1)),
        (below + above, r"$B_{av}^2$", average.dense(2)), (above - below, r"$B_{dx}^2$", slope.dense(2)),
        (itself, "$I$", torch.eye(len(position), dtype=torch.float64)),
    ]  # fmt: skip
    total = sum(weight * matrix for weight, _, matrix in parts)
    figure = Figure(figsize=(10.6, 3.6), layout="constrained")
    above_row, below_row = figure.subfigures(2, 1, height_ratios=[1, 0.95])
    node = width * (height // 2) + width // 2
    shown = [(f"{'+' * (weight > 0)}{signed(weight)} {name}", matrix[node]) for weight, name, matrix in parts] + [
        ("= kernel $k$", total[node])
    ]
    for axes, (title, row) in zip(above_row.subplots(1, 6), shown, strict=True):
        stencil(axes, row.view(height, width), title, radius=1)
    draw_convolutions(
        below_row, image.view(height, width), (total @ image).view(height, width), edges, field, total[node]
    )
    return figure


def stencil(axes: Axes, weights: Tensor, title: str, radius: int) -> None:
    """The weights around the node in the middle of a grid."""
    height, width = weights.shape
    rows, columns = (slice(size // 2 - radius, size // 2 + radius + 1) for size in (height, width))
    heat_map(axes, weights[rows, columns], title, 7 if radius == 1 else 5)
    axes.invert_yaxis()
    axes.set(xlabel="", ylabel="", xticks=[], yticks=[])


def draw_convolutions(
    figure: SubFigure, image: Tensor, ours: Tensor, edges: Tensor, field: Tensor, kernel_row: Tensor
) -> None:
    """An image, its convolution with the kernel and ours; the same with a kernel of radius 2 made of walks."""
    height, width = image.shape
    small = kernel_row.view(height, width)[height // 2 - 1 : height // 2 + 2, width // 2 - 1 : width // 2 + 2]
    coefficient = {(0, 0): 1.0, (2, 0): -1.0, (-2, 0): 0.5, (1, 1): 0.75, (-1, -1): -0.75, (0, 2): -0.5}
    large = torch.zeros(5, 5, dtype=torch.float64)
    walked = torch.zeros_like(image)
    family = dgn.walks(field, edges, image.numel(), radius=2, p=None, identity=True)
    taken = dict(zip(family.words, family(image.flatten()).T, strict=True))
    for (right, up), weight in coefficient.items():
        large[2 + up, 2 + right] = weight
        word = (int(math.copysign(1, right)),) * abs(right) + (2 * int(math.copysign(1, up)),) * abs(up)
        walked += weight * taken[word].view(height, width)
    panels = [("image $I$", image), ("$k * I$", convolve(image, small)), (r"$(\Sigma\, c\, B)\, I$", ours)]
    axes = figure.subplots(1, 6, width_ratios=[1.3, 1.3, 1.3, 1, 1.3, 1.3])
    panels += [("", image), ("$k_2 * I$", convolve(image, large)), ("walks of two steps", walked)]
    for place, (title, picture) in zip(axes, panels, strict=True):
        if title:
            place.imshow(picture, cmap=SIGNED, vmin=-1.6, vmax=1.6, origin="lower")
            clean(place, title)
    padded = torch.zeros(9, 9, dtype=torch.float64)
    padded[2:7, 2:7] = large
    stencil(axes[3], padded, "kernel $k_2$ of radius 2", radius=2)


def convolve(image: Tensor, weights: Tensor) -> Tensor:
    """Each pixel as a weighted sum of those around it, zeros outside."""
    return torch.nn.functional.conv2d(image[None, None], weights[None, None], padding="same")[0, 0]


def twins() -> Figure:
    """Figure 8 of the paper: two graphs that 1-WL cannot distinguish, and the derivative that can."""
    hexagon = [(math.cos(a), math.sin(a)) for a in (math.pi / 6 + n * math.pi / 3 for n in range(6))]
    half = math.cos(math.pi / 6)
    left, right = ([(x + shift, y) for x, y in hexagon] for shift in (-half, half))
    decalin = np.array([right[2], right[1], right[0], right[5], right[4], right[3], *left[4:2:-1], *left[2:0:-1]])
    angles = [n * 2 * math.pi / 5 for n in range(5)]
    one = [(-1.55 + 0.95 * math.cos(a), 0.95 * math.sin(a)) for a in angles]
    bicyclopentyl = np.array([*one, *((-x, y) for x, y in one)])
    figure = Figure(figsize=(9.8, 4.2), layout="constrained")
    pairs = [
        ("decalin", decalin, [*ring(range(10)), (0, 5)]),
        ("bicyclopentyl", bicyclopentyl, [*ring(range(5)), *ring(range(5, 10)), (0, 5)]),
    ]
    for axes, (name, position, bonds) in zip(figure.subplots(2, 3), pairs, strict=True):
        edges = undirected(bonds)
        x = edges[1].bincount().double()
        potential = dgn.directions(edges, 10, k=1).potential
        slope = dgn.derivative(dgn.gradient(potential, edges), edges, 10)(x)[:, 0].abs()
        colours = weisfeiler_leman(edges, 10)
        order = sorted(set(colours), key=lambda colour, among=colours: (among.count(colour), colour))
        number = torch.tensor([order.index(colour) for colour in colours]).double()
        draw_values(axes[0], edges, position, number - 1, f"{name}: colours of 1-WL")
        for place, value in zip(position, number.long().tolist(), strict=True):
            color = INK if value == 1 else "white"
            axes[0].text(*place, "abc"[value], ha="center", va="center", fontsize=7, color=color, zorder=4)
        draw_directions(axes[1], edges, position, potential[:, 0], r"$\varphi_1$ and its field")
        draw_values(axes[2], edges, position, slope, r"$|B_{dx}\,x|$, x the degree")
        for place, value in zip(position, slope.tolist(), strict=True):
            away = (0, 8 if place[1] > -0.1 else -14)  # away from the bonds
            axes[2].annotate(f"{value:.2f}", place, away, textcoords="offset points", ha="center", fontsize=7)
    return figure


def ring(nodes: Iterable[int]) -> list[tuple[int, int]]:
    first, *rest = nodes
    return list(zip([first, *rest], [*rest, first], strict=True))


FIGURES: dict[str, Callable[[], Figure]] = {
    "grid": lambda: two_directions(*grid(8, 6), size=(7.6, 3.2)),
    "molecule": lambda: two_directions(*molecule(), size=(8.6, 2.2)),
    "matrices": matrices,
    "filters": filters,
    "augmentation": augmentation,
    "overview": overview,
    "flows": flows,
    "neighbourhood": neighbourhood,
    "kernel": kernel,
    "twins": twins,
}


def save(figure: Figure, path: Path) -> None:
    """Write atomically: under a temporary name, then rename."""
    temporary = path.with_name(f".{path.name}.part")
    figure.savefig(temporary, dpi=110, format="png", facecolor="white", metadata={"Software": None})
    temporary.replace(path)


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    optional = {"minnesota": lambda: minnesota(Path(sys.argv[1]))} if len(sys.argv) > 1 else {}
    with mpl.rc_context(STYLE):
        for name, draw in (FIGURES | optional).items():
            path = FOLDER / f"{name}.png"
            save(draw(), path)
            print(f"{path.name}: {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
