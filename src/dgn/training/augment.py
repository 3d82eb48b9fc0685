"""The field of an epoch: as it is, or in another basis, reflected, rotated, distorted and left out, graph by graph."""

import math

import torch
from torch import Tensor

from dgn.aggregation import Plan, Weights
from dgn.data.store import Store
from dgn.fields import distort, rotate
from dgn.spectral.degeneracy import REPEATED, random_rotations
from dgn.training.settings import AugmentationSettings


def is_active(settings: AugmentationSettings) -> bool:
    """Whether anything is to be done in each epoch."""
    return settings != AugmentationSettings()


def epoch_weights(plan: Plan, store: Store, settings: AugmentationSettings, generator: torch.Generator) -> Weights:
    """The weights of all graphs for one epoch of training; every graph draws for itself.

    The field is taken in another basis of each repeated eigenspace, reflected, rotated, distorted, and directions are
    left out, in this order.
    The same state of the generator gives the same weights, whatever the batches are.
    """
    field, graph = store.edges["field"], store.graph
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
    if settings.drop:
        draw = torch.rand(graph.num_graphs, field.size(1), generator=generator, device=field.device)
        field = torch.where((draw < settings.drop)[graph.batch[graph.target]], 0, field)
    return plan.compute_weights(field, graph, store.nodes.get("gap"))


def _another_basis(field: Tensor, store: Store, generator: torch.Generator) -> Tensor:
    """The field of the potentials in a random basis of every eigenspace of more than one dimension.

    A gradient is linear: the field is mixed as the potentials would be, and differences that vanish stay as small as
    they are, while those of mixed potentials would be rounding of single precision.
    """
    if "gap" not in store.nodes:
        raise ValueError(
            "augmentation.resample: expected eigenvectors with their gaps, got coordinates; leave it out for this data"
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
