"""The graphs of an epoch: as they are, or with another field and other inputs, graph by graph."""

import math
from dataclasses import replace

import torch
from torch import Tensor

from dgn.aggregation import Plan
from dgn.data.loader.device_dataset import DeviceDataset
from dgn.fields import distort, rotate
from dgn.spectral.degeneracy import REPEATED, random_rotations
from dgn.training.config import AugmentationSettings
from dgn.training.tta import choose_weights, ends_of_graphs, mirror_field, mirror_nodes


def is_active(settings: AugmentationSettings) -> bool:
    """Whether anything is to be done in each epoch."""
    return settings != AugmentationSettings()


def changes_field(settings: AugmentationSettings) -> bool:
    """Whether the field is not the same in each epoch."""
    return replace(settings, input_noise=0.0, cutout=0.0) != AugmentationSettings()


def mirrors_alone(settings: AugmentationSettings) -> bool:
    """Whether each field is one of two: as it is, or mirrored. The weights of both are then computed once."""
    return settings.mirror and not changes_field(replace(settings, mirror=False))


def augment(
    plan: Plan, store: DeviceDataset, settings: AugmentationSettings, generator: torch.Generator
) -> DeviceDataset:
    """All graphs as they are seen in one epoch of training; every graph draws for itself.

    Graphs are mirrored, parts of them hidden and their inputs shifted; then the field is taken in another basis of each
    repeated eigenspace, reflected, rotated and distorted, in this order. The same state of the generator gives the same
    graphs, whatever the batches are.
    """
    nodes, heads = dict[str, Tensor](), None
    if settings.mirror:
        heads = torch.rand(store.graph.num_graphs, 1, generator=generator, device=store.device) < 0.5
        nodes = mirror_nodes(store, heads)
    if settings.cutout:
        nodes["x"] = _hide(nodes.get("x", store.nodes["x"]), store, settings.cutout, generator)
    if settings.input_noise:
        nodes["x"] = _shift(nodes.get("x", store.nodes["x"]), store, settings.input_noise, generator)
    if not changes_field(settings):
        return store.replaced(store.weights, nodes)
    if heads is not None and store.mirrored is not None and mirrors_alone(settings):
        return store.replaced(choose_weights(heads, store), nodes)
    field = store.edges["field"] if heads is None else mirror_field(store, heads)
    field = _change(field, store, settings, generator)
    return store.replaced(plan.compute_weights(field, store.graph, store.nodes.get("gap")), nodes)


def _change(field: Tensor, store: DeviceDataset, settings: AugmentationSettings, generator: torch.Generator) -> Tensor:
    """The field of an epoch."""
    graph = store.graph
    assert graph.batch is not None
    if settings.resample:
        field = _another_basis(field, store, generator)
    if settings.reflection:
        heads = torch.rand(graph.num_graphs, field.size(1), generator=generator, device=field.device) < 0.5
        field = torch.where(heads[graph.batch[graph.target]], field, -field)
    if settings.rotation:
        if field.size(1) < 2:
            raise ValueError(
                f"augmentation.rotation: expected at least 2 directions to rotate, got {field.size(1)}; set "
                "data.directions=2"
            )
        draw = torch.rand(graph.num_graphs, generator=generator, device=field.device)
        angle = (2 * draw - 1) * math.radians(settings.rotation)
        turned = rotate(field[:, 0], field[:, 1], angle[graph.batch], graph, collinear="keep")
        field = torch.cat([torch.stack(turned, dim=1), field[:, 2:]], dim=1)
    if settings.distortion:
        field = distort(field, graph, settings.distortion, generator=generator)
    return field


def _hide(x: Tensor, store: DeviceDataset, side: float, generator: torch.Generator) -> Tensor:
    """In a square around a node of each graph, inputs that are no coordinates become the mean of the graph.

    A square of side 1 is as wide as the coordinates of its graph reach.
    """
    _check_numbers(x, "hide")
    graph, place = store.graph, store.nodes["potential"]
    assert graph.batch is not None
    count = store.node_count.to(x.device)
    draw = torch.rand(graph.num_graphs, generator=generator, device=x.device)
    middle = (count.cumsum(0) - count + (draw * count).long()).clamp(max=len(x) - 1)
    least, most = ends_of_graphs(place, graph)
    near = (place - place[middle][graph.batch]).abs() <= side / 2 * (most - least)[graph.batch]
    mean = torch.zeros_like(x[: graph.num_graphs]).index_add_(0, graph.batch, x) / count[:, None].clamp(min=1)
    is_place = (store.nodes["x"][:, :, None] == place[:, None]).all(dim=0).any(dim=1)
    return torch.where(near.all(dim=1, keepdim=True) & ~is_place, mean[graph.batch], x)


def _shift(x: Tensor, store: DeviceDataset, strength: float, generator: torch.Generator) -> Tensor:
    """Inputs moved by normal noise, the same for all nodes of a graph."""
    _check_numbers(x, "shift")
    graph = store.graph
    assert graph.batch is not None
    assert store.deviation is not None
    noise = torch.randn(graph.num_graphs, x.size(1), generator=generator, device=x.device)
    return x + (strength * store.deviation * noise)[graph.batch]


def _check_numbers(x: Tensor, name: str) -> None:
    if not x.is_floating_point():
        raise ValueError(
            f"augmentation.{name}: expected nodes with numbers as inputs, got categories; leave it out for this data"
        )


def _another_basis(field: Tensor, store: DeviceDataset, generator: torch.Generator) -> Tensor:
    """The field of the potentials in a random basis of every eigenspace of more than one dimension.

    A gradient is linear: the field is mixed as the potentials would be, and differences that vanish stay as small as
    they are, while those of mixed potentials would be rounding of single precision.
    """
    if not {"gap", "component"} <= store.nodes.keys():
        raise ValueError(
            "augmentation.resample: expected eigenvectors that were computed with dgn.data, got coordinates or a field "
            "that came with the graphs; leave it out for this data, or pack the graphs without a field"
        )
    gap, component, batch = store.nodes["gap"], store.nodes["component"], store.graph.batch
    assert batch is not None
    edge = (gap <= REPEATED).any(dim=1)[store.graph.target].nonzero()[:, 0]
    if not len(edge):
        return field
    node = store.graph.target[edge]
    _, number = torch.unique(batch[node] * (1 + component.max()) + component[node], return_inverse=True)
    of_component = gap.new_empty(int(number.max()) + 1, gap.size(1))
    of_component[number] = gap[node]
    rotation = random_rotations(of_component, generator).to(field.dtype)
    return field.index_copy(0, edge, torch.einsum("ek,ekl->el", field[edge], rotation[number]))
