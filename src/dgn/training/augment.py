"""Data augmentation: the graphs of one epoch, with a random field and random inputs for each graph."""

import math
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from dgn.aggregation import Plan
from dgn.data.loader.device_dataset import DeviceDataset
from dgn.fields import distort, distort_potential, gradient, rotate
from dgn.spectral.degeneracy import random_rotations
from dgn.training.config import AugmentationSettings
from dgn.training.tta import choose_weights, coordinate_ranges, reflect_field, reflect_nodes


class Directional(NamedTuple):
    """What augmentation changes together: ``field`` [E, k], and ``potential`` [N, k] where the network reads it."""

    field: Tensor
    potential: Tensor | None


def is_active(settings: AugmentationSettings) -> bool:
    """Whether any augmentation is switched on."""
    return settings != AugmentationSettings()


def changes_field(settings: AugmentationSettings) -> bool:
    """Whether the field differs from epoch to epoch."""
    return replace(settings, input_noise=0.0, cutout=0.0) != AugmentationSettings()


def mirrors_alone(settings: AugmentationSettings) -> bool:
    """Whether mirroring is all that changes the field, so that the weights of both images are computed once."""
    return settings.mirror and not changes_field(replace(settings, mirror=False))


def augment(
    plan: Plan, dataset: DeviceDataset, settings: AugmentationSettings, generator: torch.Generator
) -> DeviceDataset:
    """The augmented dataset of one epoch; each graph has random numbers of its own.

    Mirroring comes first, then cutout and input noise. The directions are then resampled in each repeated eigenspace,
    reflected, rotated and distorted, in this order; potentials that the network reads change with the field.
    Law: the same generator state gives the same graphs, whatever the batches.
    """
    nodes, flip_mask = dict[str, Tensor](), None
    if settings.mirror:
        flip_mask = torch.rand(dataset.graph.num_graphs, 1, generator=generator, device=dataset.device) < 0.5
        nodes = reflect_nodes(dataset, flip_mask)
    if settings.cutout:
        nodes["x"] = _cutout(nodes.get("x", dataset.nodes["x"]), dataset, settings.cutout, generator)
    if settings.input_noise:
        nodes["x"] = _add_noise(nodes.get("x", dataset.nodes["x"]), dataset, settings.input_noise, generator)
    if not changes_field(settings):
        return dataset.replaced(dataset.weights, nodes)
    if flip_mask is not None and dataset.mirrored is not None and mirrors_alone(settings):
        return dataset.replaced(choose_weights(flip_mask, dataset), nodes)
    field = dataset.edges["edge_field"] if flip_mask is None else reflect_field(dataset, flip_mask)
    directions = Directional(field, nodes.get("node_potential", dataset.nodes.get("node_potential")))
    result = _augment_directions(directions, dataset, settings, generator)
    if result.potential is not None:
        nodes["node_potential"] = result.potential
    return dataset.replaced(plan.compute_weights(result.field, dataset.graph, dataset.nodes.get("gap")), nodes)


def _augment_directions(
    directions: Directional, dataset: DeviceDataset, settings: AugmentationSettings, generator: torch.Generator
) -> Directional:
    """The field and the potential of one epoch."""
    graph = dataset.graph
    assert graph.batch is not None
    if settings.resample:
        directions = _resample(directions, dataset, generator)
    if settings.reflection:
        directions = _reflect(directions, dataset, generator)
    field, potential = directions
    if settings.rotation:
        if field.size(1) < 2:
            raise ValueError(
                f"augmentation.rotation: expected at least 2 directions to rotate, got {field.size(1)}; set "
                "data.directions=2"
            )
        uniform = torch.rand(graph.num_graphs, generator=generator, device=field.device)
        angle = (2 * uniform - 1) * math.radians(settings.rotation)
        rotated = rotate(field[:, 0], field[:, 1], angle[graph.batch], graph, collinear="keep")
        field = torch.cat([torch.stack(rotated, dim=1), field[:, 2:]], dim=1)
    if settings.distortion and settings.distortion_of == "field":
        field = distort(field, graph, settings.distortion, generator=generator)
    elif settings.distortion:
        assert potential is not None
        distorted = distort_potential(potential, settings.distortion, generator=generator, batch=graph.batch)
        # A gradient is linear; the gradient of the sum would carry the rounding of the potential.
        field, potential = field + gradient(distorted - potential, graph), distorted
    return Directional(field, potential)


def _reflect(directions: Directional, dataset: DeviceDataset, generator: torch.Generator) -> Directional:
    """One random sign for each direction of each connected component; of each graph where directions are no vectors."""
    graph, field, potential = dataset.graph, *directions
    assert graph.batch is not None
    owner, count = graph.batch, graph.num_graphs
    if "component" in dataset.nodes:
        component = dataset.nodes["component"]
        components = torch.zeros(count, dtype=torch.long, device=field.device)
        components = components.scatter_reduce(0, owner, component + 1, reduce="amax")
        owner = (components.cumsum(0) - components)[owner] + component
        count = int(components.sum())
    keeps = torch.rand(count, field.size(1), generator=generator, device=field.device) < 0.5
    sign = torch.where(keeps, 1.0, -1.0)[owner]
    return Directional(field * sign[graph.target], None if potential is None else potential * sign)


def _resample(directions: Directional, dataset: DeviceDataset, generator: torch.Generator) -> Directional:
    """The directions in a random basis of each repeated eigenspace.

    A gradient is linear, so the field is mixed as the potentials are. Vanishing differences stay as small as they are,
    while the differences of mixed potentials would be rounding errors of single precision.
    """
    spaces, (field, potential) = dataset.eigenspaces, directions
    assert spaces is not None
    if not len(spaces.node):
        return directions
    rotation = random_rotations(spaces.gap, generator)[:, :, : field.size(1)].to(field.dtype)
    node_rotation = rotation[spaces.component]
    place = torch.searchsorted(spaces.node, dataset.graph.target[spaces.edge])
    field = field.index_copy(0, spaces.edge, torch.einsum("ek,ekl->el", spaces.field, node_rotation[place]))
    if potential is not None:
        mixed = torch.einsum("nk,nkl->nl", spaces.potential, node_rotation)
        potential = potential.index_copy(0, spaces.node, mixed)
    return Directional(field, potential)


def _cutout(x: Tensor, dataset: DeviceDataset, side: float, generator: torch.Generator) -> Tensor:
    """Node features with those in a square around a random node of each graph replaced by the mean of the graph.

    Features that are coordinates stay. A square of side 1 is as wide as the coordinates of its graph reach.
    """
    _check_continuous(x, "cutout")
    graph, coordinates = dataset.graph, dataset.nodes["node_potential"]
    assert graph.batch is not None
    count = dataset.node_count.to(x.device)
    uniform = torch.rand(graph.num_graphs, generator=generator, device=x.device)
    center = (count.cumsum(0) - count + (uniform * count).long()).clamp(max=len(x) - 1)
    low, high = coordinate_ranges(coordinates, graph)
    near = (coordinates - coordinates[center][graph.batch]).abs() <= side / 2 * (high - low)[graph.batch]
    mean = torch.zeros_like(x[: graph.num_graphs]).index_add_(0, graph.batch, x) / count[:, None].clamp(min=1)
    is_coordinate = (dataset.nodes["x"][:, :, None] == coordinates[:, None]).all(dim=0).any(dim=1)
    return torch.where(near.all(dim=1, keepdim=True) & ~is_coordinate, mean[graph.batch], x)


def _add_noise(x: Tensor, dataset: DeviceDataset, strength: float, generator: torch.Generator) -> Tensor:
    """Node features plus Gaussian noise that is the same for all nodes of a graph."""
    _check_continuous(x, "input_noise")
    graph = dataset.graph
    assert graph.batch is not None
    assert dataset.deviation is not None
    noise = torch.randn(graph.num_graphs, x.size(1), generator=generator, device=x.device)
    return x + (strength * dataset.deviation * noise)[graph.batch]


def _check_continuous(x: Tensor, name: str) -> None:
    if not x.is_floating_point():
        raise ValueError(
            f"augmentation.{name}: expected continuous node features, got categories; leave it out for this data"
        )
