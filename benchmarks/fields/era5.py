"""Real wind: temperature and pressure of ERA5 about seven hours ahead, on a graph of the sphere.

    python -m benchmarks.fields.era5 era5_sample.npz --coarsen 4                  # every fourth point, on a CPU core
    python -m benchmarks.fields.era5 era5_sample.npz --device cuda                # all points of a grid of one degree

The file holds 24 frames of one week, seven or eight hours apart: lat, lon, time_hours_since_1940, and wind, temperature
and pressure as int16. Grid neighbours are joined, around the globe; each pole is one node, joined to its ring. A field
is the wind at the target of an edge, projected on the edge and divided by its length, so that the sum of field times
difference is twice the advection; direction 2 is the wind turned left. Directions 3 and 4 are east and north.

All networks get temperature, pressure, wind, speed, latitude, solar time, the hours ahead, and how much the temperature
of a node varies over the training frames, which tells land from sea. Targets are the changes until the next frame. Days
one to four train, day five validates, days six and seven test; statistics are those of the training frames. Errors are
root mean squares weighted by the cosine of the latitude, in K and hPa and relative to persistence.
"""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

import dgn
from benchmarks.fields.node_regression import Cells, DirectionalLayer, Network, NodeBatch, Recipe, count, fit, widest

EDGES = {"message": "complex", "edge_dim": 3}
ISOTROPIC, SIGNED = ("mean", "max", "min", "std"), ("mean", "dx1-signed", "dx2-signed", "av1")
FOUR = ("mean", "dx1-signed", "dx2-signed", "dx3-signed", "dx4-signed")
NETWORKS: dict[str, Callable[[int], nn.Module]] = {
    "mean max min std": lambda w: DirectionalLayer(w, ISOTROPIC),
    "mean max min std, edge vectors": lambda w: DirectionalLayer(w, ISOTROPIC, **EDGES),
    "mean dx1 dx2 av1 (absolute), wind": lambda w: DirectionalLayer(w, ("mean", "dx1", "dx2", "av1"), [0, 1]),
    "mean dx1-signed dx2-signed av1, wind": lambda w: DirectionalLayer(w, SIGNED, [0, 1]),
    "mean fwd1 bwd1 dx2-signed, wind": lambda w: DirectionalLayer(w, ("mean", "fwd1", "bwd1", "dx2-signed"), [0, 1]),
    "mean dx1-signed dx2-signed av1, wind, edge vectors": lambda w: DirectionalLayer(w, SIGNED, [0, 1], **EDGES),
    "mean dx1-signed dx2-signed av1, east and north": lambda w: DirectionalLayer(w, SIGNED, [2, 3]),
    "mean dx1-signed to dx4-signed, wind, east and north": lambda w: DirectionalLayer(w, FOUR),
}
EARTH_KM, TRAIN_DAYS, VALIDATION_DAYS = 6371.0, 4, 1
SCORES = [f"{split}_{value}" for split in ("val", "test") for value in ("K", "hPa", "K_ratio", "hPa_ratio")]


class Sphere(NamedTuple):
    """A grid of latitudes and longitudes with one node per pole, and the edges between neighbours."""

    graph: dgn.Graph
    grid_index: Tensor  # [N], of nodes in the flattened grid
    latitude: Tensor  # [N], in radians
    longitude: Tensor
    up: Tensor  # [N, 3], unit vectors
    east: Tensor
    north: Tensor
    step: Tensor  # [E, 3], from the target of an edge to its source, in km

    def project(self, vectors: Tensor) -> Tensor:
        r"""Vectors of nodes on edges, :math:`v_i \cdot (p_j - p_i) / |p_j - p_i|^2`: per hour, for km an hour."""
        return (vectors[self.graph.edge_index[1]] * self.step).sum(1) / self.step.square().sum(1)


def make_sphere(lat: Tensor, lon: Tensor) -> Sphere:
    """The graph of a grid from pole to pole, periodic in longitude."""
    rows, columns = len(lat), len(lon)
    if rows < 3 or columns < 3 or (lat[[0, -1]].abs() != 90).any():
        raise ValueError(f"grid: expected three or more latitudes from pole to pole and longitudes, got {lat}, {lon}")
    inner = torch.arange(1, 1 + (rows - 2) * columns).view(rows - 2, columns)
    south = inner.numel() + 1
    node = torch.cat([torch.zeros(1, columns).long(), inner, torch.full((1, columns), south)])
    pairs = [torch.stack([inner, inner.roll(-1, 1)]).flatten(1), torch.stack([node[:-1], node[1:]]).flatten(1)]
    edges = torch.cat([*pairs, *(pair.flip(0) for pair in pairs)], dim=1)
    grid_index = torch.arange(columns - 1, (rows - 1) * columns + 1)
    grid_index[0] = 0
    phi = lat.double().deg2rad().repeat_interleave(columns)[grid_index]
    theta = lon.double().deg2rad().repeat(rows)[grid_index]
    up = torch.stack([phi.cos() * theta.cos(), phi.cos() * theta.sin(), phi.sin()], dim=1)
    east = torch.stack([-theta.sin(), theta.cos(), torch.zeros_like(phi)], dim=1)
    step = EARTH_KM * (up[edges[0]] - up[edges[1]])
    return Sphere(dgn.as_graph(edges, south + 1), grid_index, phi, theta, up, east, torch.linalg.cross(up, east), step)


class Frames(NamedTuple):
    """Hours [T], temperature in K and pressure in hPa [T, N, 2], wind in km an hour [T, N, 3]."""

    hours: Tensor
    state: Tensor
    wind: Tensor


def read(path: Path, coarsen: int) -> tuple[Sphere, Frames]:
    """Every ``coarsen``-th latitude and longitude of a file; the wind of a pole is the mean of its ring."""
    with np.load(path) as file:
        arrays = {name: torch.from_numpy(file[name]) for name in file}
    lat, lon = arrays["lat"], arrays["lon"]
    if coarsen < 1 or (len(lat) - 1) % coarsen or len(lon) % coarsen:
        raise SystemExit(f"--coarsen: expected a divisor of {len(lat) - 1} and {len(lon)}, got {coarsen}")
    sphere = make_sphere(lat[::coarsen], lon[::coarsen])

    def values(name: str) -> Tensor:
        return arrays[name][:, ::coarsen, ::coarsen].flatten(1)[:, sphere.grid_index, None].double()

    wind = 0.036 * (values("u10_cm_s") * sphere.east + values("v10_cm_s") * sphere.north)
    columns = len(lon) // coarsen
    for pole, ring in ((0, wind[:, 1 : 1 + columns]), (-1, wind[:, -1 - columns : -1])):
        wind[:, pole] = ring.mean(1) * torch.tensor([1, 1, 0])
    state = [273.15 + values("t2m_cK_minus_27315") / 100, 1000 + values("msl_dPa_minus_100000") / 100]  # stored in Pa
    return sphere, Frames(arrays["time_hours_since_1940"], torch.cat(state, dim=2), wind)


class Pairs(NamedTuple):
    """Batches from each frame to the next by split, with the advection [N, 2] as ``extra``."""

    splits: dict[str, list[NodeBatch]]
    unit: Tensor  # [2], of the targets, in K and hPa
    weight: Tensor  # [N, 1], of mean 1


def make_pairs(sphere: Sphere, frames: Frames, device: torch.device) -> Pairs:
    """Inputs, targets and fields, scaled by statistics of the training frames."""
    day, state = (frames.hours - frames.hours[0]) // 24, frames.state
    train, graph, (source, target) = day < TRAIN_DAYS, sphere.graph.to(device), sphere.graph.edge_index
    weight = (sphere.latitude.cos() / sphere.latitude.cos().mean())[:, None]
    unit = (state.diff(dim=0)[train[1:]].square() * weight).mean((0, 1)).sqrt()
    axes = (sphere.east, sphere.north)
    wind = torch.stack([(frames.wind * axis).sum(2) for axis in axes], dim=2)
    weather = torch.cat([state, wind, wind.norm(dim=2, keepdim=True)], dim=2)
    weather = (weather - weather[train].mean((0, 1))) / weather[train].std((0, 1))
    land = state[train, :, 0].std(0).log()
    place = torch.stack([sphere.latitude.sin(), sphere.latitude.cos(), (land - land.mean()) / land.std()], dim=1)
    cardinal = [sphere.project(axis) for axis in axes]
    length = sphere.step.norm(dim=1)
    edge_attr = torch.stack([*((sphere.step * axis[target]).sum(1) for axis in axes), length], dim=1) / length.mean()
    splits: dict[str, list[NodeBatch]] = {"train": [], "val": [], "test": []}
    for first in range(len(state) - 1):
        ahead = frames.hours[first + 1] - frames.hours[first]
        angle = sphere.longitude + 2 * torch.pi * frames.hours[first] / 24
        clock = torch.stack([angle.sin(), angle.cos(), (ahead - 7.5).expand_as(angle)], dim=1)
        along = sphere.project(frames.wind[first])
        across = sphere.project(torch.linalg.cross(sphere.up, frames.wind[first]))
        difference = along[:, None] * (state[first][source] - state[first][target])
        advection = -ahead / 2 * torch.zeros_like(state[first]).index_add(0, target, difference)
        x, y = torch.cat([weather[first], place, clock], dim=1), (state[first + 1] - state[first]) / unit
        field = torch.stack([along, across, *cardinal], dim=1)
        x, y, field, edges, advection = (t.float().to(device) for t in (x, y, field, edge_attr, advection / unit))
        later = int(day[first + 1]) - TRAIN_DAYS
        split = "train" if later < 0 else "val" if later < VALIDATION_DAYS else "test"
        splits[split].append(NodeBatch(x, y, graph, field, edges, extra={"advection": advection}))
    return Pairs(splits, unit.to(device), weight.to(device))


def scores(predict: Callable[[NodeBatch], Tensor], pairs: Pairs) -> dict[str, float]:
    """Weighted errors in K and hPa, and relative to persistence, on validation and test."""

    def rms(values: list[Tensor]) -> Tensor:
        return (torch.stack(values).square() * pairs.weight).mean((0, 1)).sqrt()

    numbers: list[float] = []
    for batches in (pairs.splits["val"], pairs.splits["test"]):
        error = rms([predict(batch) - batch.y for batch in batches])
        numbers += [*(error * pairs.unit).tolist(), *(error / rms([batch.y for batch in batches])).tolist()]
    return {name: round(number, 4) for name, number in zip(SCORES, numbers, strict=True)}


def ridge(pairs: Pairs, advection: bool, penalty: float = 1e-3) -> dict[str, float]:
    """Linear regression on the inputs of a node and their products, with the advection of both targets or without."""

    def features(batch: NodeBatch) -> Tensor:
        x = torch.cat([torch.ones_like(batch.x[:, :1]), batch.x], dim=1).double()
        row, column = torch.triu_indices(x.size(1), x.size(1), device=x.device)
        return torch.cat([x[:, row] * x[:, column], *([batch.extra["advection"].double()] if advection else [])], dim=1)

    gram, moment = torch.tensor(0.0), torch.tensor(0.0)
    for batch in pairs.splits["train"]:
        x, weighted = features(batch), features(batch).T * (pairs.weight[:, 0] / pairs.weight.sum())
        gram, moment = gram.to(x) + weighted @ x, moment.to(x) + weighted @ batch.y.double()
    gram += penalty * len(pairs.splits["train"]) * torch.eye(len(gram)).to(gram)
    solution = torch.linalg.solve(gram, moment)
    return scores(lambda batch: features(batch) @ solution, pairs)


def train_one(name: str, seed: int, pairs: Pairs, settings: argparse.Namespace) -> dict[str, Any]:
    train, weight = pairs.splits["train"], pairs.weight.float()

    def make(width: int) -> Network:
        return Network(train[0].x.size(1), 2, width, settings.depth, NETWORKS[name])

    torch.manual_seed(seed)
    network = make(widest(make, settings.budget)).to(settings.device)
    order = torch.randint(len(train), (settings.steps,), generator=torch.Generator().manual_seed(seed)).tolist()
    milliseconds = fit(
        network,
        lambda step: train[order[step]],
        lambda network, batch: ((network(batch) - batch.y).square() * weight).mean(),
        Recipe(settings.steps),
    )
    network.eval()
    with torch.no_grad():
        return {"parameters": count(network), "ms_a_step": round(milliseconds, 1), **scores(network, pairs)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, help="era5_sample.npz")
    parser.add_argument("--coarsen", type=int, default=1, help="take every n-th latitude and longitude")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--out", type=Path, help="results, resumed where they end; default runs/era5-COARSEN.json")
    for name, value in {"steps": 400, "depth": 4, "budget": 30_000, "seeds": 3}.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--networks", nargs="+", default=list(NETWORKS), choices=NETWORKS, metavar="NAME")
    settings = parser.parse_args()
    pairs = make_pairs(*read(settings.file, settings.coarsen), torch.device(settings.device))
    named = {name: getattr(settings, name) for name in ("coarsen", "device", "steps", "depth", "budget")}
    cells = Cells(settings.out or Path(f"runs/era5-{settings.coarsen}.json"), {"nodes": len(pairs.weight), **named})
    cells.run({"network": "persistence", "seed": 0}, lambda: scores(lambda batch: torch.zeros_like(batch.y), pairs))
    cells.run({"network": "ridge", "seed": 0}, lambda: ridge(pairs, advection=False))
    cells.run({"network": "ridge, advection", "seed": 0}, lambda: ridge(pairs, advection=True))
    for seed in range(settings.seeds):
        for name in settings.networks:
            compute = lambda name=name, seed=seed: train_one(name, seed, pairs, settings)  # noqa: E731
            cells.run({"network": name, "seed": seed}, compute)
    print(cells.summary(["network"], ["parameters", "ms_a_step", *SCORES]))


if __name__ == "__main__":
    main()
