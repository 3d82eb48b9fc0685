"""Data augmentation: the graphs of one epoch, with a random field and random inputs for each graph."""

import math
from dataclasses import replace

import torch
from torch import Tensor

from dgn.aggregation import Plan
from dgn.data.loader.device_dataset import DeviceDataset
from dgn.fields import distort, rotate
from dgn.spectral.degeneracy import REPEATED, random_rotations
from dgn.training.config import AugmentationSettings
from dgn.training.tta import choose_weights, coordinate_ranges, reflect_field, reflect_nodes


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

    Mirroring comes first, then cutout and input noise. The field is then resampled in each repeated eigenspace,
    reflected, rotated and distorted, in this order. Law: the same generator state gives the same graphs, whatever the
    batches.
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
    field = dataset.edges["field"] if flip_mask is None else reflect_field(dataset, flip_mask)
    field = _augment_field(field, dataset, settings, generator)
    return dataset.replaced(plan.compute_weights(field, dataset.graph, dataset.nodes.get("gap")), nodes)


def _augment_field(
    field: Tensor, dataset: DeviceDataset, settings: AugmentationSettings, generator: torch.Generator
) -> Tensor:
    """The field of one epoch."""
    graph = dataset.graph
    assert graph.batch is not None
    if settings.resample:
        field = _resample_basis(field, dataset, generator)
    if settings.reflection:
        keep_mask = torch.rand(graph.num_graphs, field.size(1), generator=generator, device=field.device) < 0.5
        field = torch.where(keep_mask[graph.batch[graph.target]], field, -field)
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
    if settings.distortion:
        field = distort(field, graph, settings.distortion, generator=generator)
    return field


def _cutout(x: Tensor, dataset: DeviceDataset, side: float, generator: torch.Generator) -> Tensor:
    """Node features with those in a square around a random node of each graph replaced by the mean of the graph.

    Features that are coordinates stay. A square of side 1 is as wide as the coordinates of its graph reach.
    """
    _check_continuous(x, "cutout")
    graph, coordinates = dataset.graph, dataset.nodes["potential"]
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


def _resample_basis(field: Tensor, dataset: DeviceDataset, generator: torch.Generator) -> Tensor:
    """The field of the potentials in a random basis of each eigenspace of more than one dimension.

    A gradient is linear, so the field is mixed as the potentials would be. Vanishing differences stay as small as they
    are, while the differences of mixed potentials would be rounding errors of single precision.
    """
    if not {"gap", "component"} <= dataset.nodes.keys():
        raise ValueError(
            "augmentation.resample: expected eigenvectors that were computed with dgn.data, got coordinates or a field "
            "that came with the graphs; leave it out for this data, or pack the graphs without a field"
        )
    gap, component, batch = dataset.nodes["gap"], dataset.nodes["component"], dataset.graph.batch
    assert batch is not None
    edge = (gap <= REPEATED).any(dim=1)[dataset.graph.target].nonzero()[:, 0]
    if not len(edge):
        return field
    node = dataset.graph.target[edge]
    _, index = torch.unique(batch[node] * (1 + component.max()) + component[node], return_inverse=True)
    component_gap = gap.new_empty(int(index.max()) + 1, gap.size(1))
    component_gap[index] = gap[node]
    rotation = random_rotations(component_gap, generator).to(field.dtype)
    return field.index_copy(0, edge, torch.einsum("ek,ekl->el", field[edge], rotation[index]))
