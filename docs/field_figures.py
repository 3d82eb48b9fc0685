"""Draw the figures of docs/fields.md into docs/figures: ``python -m docs.field_figures``."""

from collections.abc import Callable

import matplotlib as mpl
import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

import dgn
from dgn.data.datasets.transport import generate_transport
from docs.figures import FOLDER, INK, STYLE, Points, arrow, clean, draw_edges, draw_nodes, molecule, save, undirected

ARROWS = [(0, 1), (0, 2), (1, 3), (2, 3), (2, 4), (3, 5), (4, 5), (1, 5), (4, 6), (5, 7), (6, 7)]
PLACES = np.array([(0, 1), (1, 2), (1, 0), (2, 1.4), (2.2, 0), (3.2, 1.6), (3.3, 0.1), (4.2, 0.9)])


def panel(title: str, position: Points, margin: float = 0.3) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(3.6, 2.6), layout="constrained")
    axes = figure.subplots()
    clean(axes, title, position, margin)
    return figure, axes


def draw_field(axes: Axes, edges: Tensor, position: Points, field: Tensor, shrink: bool = True) -> None:
    """An arrow for each pair of nodes, the way that the field points at its two ends together."""
    strength = field / field.abs().max()
    net: dict[tuple[int, int], float] = {}
    for (j, i), value in zip(edges.T.tolist(), strength.tolist(), strict=True):
        low, high = min(i, j), max(i, j)
        net[low, high] = net.get((low, high), 0.0) + (value if i == low else -value) / 2
    for (low, high), value in net.items():
        start, end = (low, high) if value > 0 else (high, low)
        if abs(value) > 0.02:
            look = arrow(min(1.0, abs(value))) | ({} if shrink else {"shrinkA": 1, "shrinkB": 1})
            axes.annotate("", position[end], position[start], arrowprops=look, zorder=2)


def eigenvectors() -> Figure:
    edges, position = molecule()
    potential = dgn.directions(edges, len(position), k=1).potential[:, 0]
    figure, axes = panel("eigenvector: along the graph", position, 0.5)
    draw_edges(axes, edges, position)
    draw_field(axes, edges, position, dgn.normalize(dgn.gradient(potential, edges), edges))
    draw_nodes(axes, position, potential, 50)
    return figure


def mesh() -> tuple[Tensor, Points, Tensor]:
    graphs = generate_transport((1, 1, 1), 1, 1, spacing=0.14, seed=5)
    first = graphs.select(torch.tensor([0]))
    return first.edge_index.long(), first.nodes["position"].double().numpy(), first.edges["edge_field"][:, 0]


def coordinates() -> Figure:
    edges, position, _ = mesh()
    east = torch.from_numpy(position[:, 0])
    figure, axes = panel("coordinate: east", position, 0.06)
    draw_edges(axes, edges, position)
    draw_field(axes, edges, position, dgn.gradient(east, edges), shrink=False)
    draw_nodes(axes, position, east - east.mean(), 18)
    return figure


def velocity() -> Figure:
    edges, position, field = mesh()
    figure, axes = panel("velocity: the wind on the edges of a mesh", position, 0.06)
    draw_edges(axes, edges, position)
    draw_field(axes, edges, position, field, shrink=False)
    return figure


def orientation() -> Figure:
    oriented = dgn.orientation(torch.tensor(ARROWS).T)
    figure, axes = panel("orientation: the edges as given", PLACES)
    draw_field(axes, oriented.edge_index, PLACES, oriented.field)
    axes.scatter(*PLACES.T, 50, "white", edgecolors=INK, linewidths=0.8, zorder=3)
    return figure


def flow_potential() -> Figure:
    oriented = dgn.orientation(torch.tensor(ARROWS).T)
    potential = dgn.flow_potential(oriented.field, oriented.edge_index)
    place = np.stack([potential.numpy(), PLACES[:, 1]], axis=1)
    figure, axes = panel("potential of the flow: position is height", place)
    draw_field(axes, oriented.edge_index, place, dgn.gradient(potential, oriented.edge_index))
    draw_nodes(axes, place, potential, 50)
    return figure


def magnetic() -> Figure:
    n = 10
    ring = torch.stack([torch.arange(n), (torch.arange(n) + 1) % n])
    edges = torch.cat([ring, torch.tensor([[0, 3], [5, 8]])], dim=1)
    angle = 2 * np.pi * np.arange(n) / n
    position = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    directions = dgn.magnetic_directions(edges, n, k=1, q=0.1)
    both = dgn.orientation(edges, n).edge_index
    figure, axes = panel("magnetic phase, q = 0.1: around a cycle", position)
    draw_field(axes, both, position, dgn.phase_difference(directions.potential[:, 0], both))
    phase = directions.potential[:, 0].angle().numpy()
    axes.scatter(*position.T, 60, phase, cmap="twilight", vmin=-np.pi, vmax=np.pi, edgecolors=INK, zorder=3)
    return figure


def depth() -> Figure:
    child = np.arange(1, 15)
    level = np.floor(np.log2(np.arange(1, 16)) + 1e-9)
    across = (np.arange(1, 16) - 2**level + 0.5) / 2**level
    position = np.stack([4 * across, -0.8 * level], axis=1)
    edges = undirected(zip(((child - 1) // 2).tolist(), child.tolist(), strict=True))
    potential = torch.from_numpy(level)
    figure, axes = panel("tree depth", position)
    draw_field(axes, edges, position, dgn.gradient(potential, edges))
    draw_nodes(axes, position, potential - potential.mean(), 40)
    return figure


FIGURES: dict[str, Callable[[], Figure]] = {
    "eigenvectors": eigenvectors,
    "coordinates": coordinates,
    "velocity": velocity,
    "orientation": orientation,
    "potential": flow_potential,
    "magnetic": magnetic,
    "depth": depth,
}


def main() -> None:
    with mpl.rc_context(STYLE):
        for name, draw in FIGURES.items():
            path = FOLDER / f"field_{name}.png"
            save(draw(), path)
            print(f"{path.name}: {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
