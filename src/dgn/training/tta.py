"""Reflection of graphs along their last coordinate, for augmentation and test-time augmentation (TTA)."""

import torch
from torch import Tensor

from dgn.aggregation import Plan, Weights
from dgn.data.loader.device_dataset import DeviceDataset
from dgn.graph import Graph


def last_coordinate(x: Tensor, potential: Tensor) -> Tensor:
    """Mask of the node features that equal the last coordinate: [N, C], [N, k] -> [C]."""
    return (x == potential[:, -1:]).all(dim=0)


def reflect_nodes(dataset: DeviceDataset, flip_mask: Tensor, coordinates: Tensor | None = None) -> dict[str, Tensor]:
    """Potentials and node features with the last coordinate reflected in the graphs of ``flip_mask``.

    A reflected coordinate stays between the smallest and the largest of its graph.

    Shapes:
        ``flip_mask`` [G, 1]; ``coordinates`` [C] masks the features that are the last coordinate (without: those that
        equal it).
    """
    graph, potential, x = dataset.graph, dataset.nodes["node_potential"], dataset.nodes["x"]
    assert graph.batch is not None
    last = potential[:, -1:]
    low, high = coordinate_ranges(last, graph)
    reflected = torch.where(flip_mask[graph.batch], (low + high)[graph.batch] - last, last)
    nodes = {"node_potential": torch.cat([potential[:, :-1], reflected], dim=1)}
    if x.is_floating_point():
        mask = last_coordinate(x, potential) if coordinates is None else coordinates.to(x.device)
        nodes["x"] = torch.where(mask, reflected, x)
    return nodes


def reflect_field(dataset: DeviceDataset, flip_mask: Tensor) -> Tensor:
    """The field with the sign of its last direction flipped in the graphs of ``flip_mask`` [G, 1]."""
    assert dataset.graph.batch is not None
    field = dataset.edges["edge_field"].clone()
    field[:, -1:] *= torch.where(flip_mask[dataset.graph.batch[dataset.graph.target]], -1.0, 1.0)
    return field


def reflect_weights(plan: Plan, dataset: DeviceDataset) -> Weights:
    """The aggregation weights of all graphs reflected; the present ones where no field is read."""
    if "edge_field" not in dataset.edges:
        return dataset.weights
    field = reflect_field(dataset, _all_graphs(dataset))
    return plan.compute_weights(field, dataset.graph, dataset.nodes.get("gap"))


def choose_weights(flip_mask: Tensor, dataset: DeviceDataset) -> Weights:
    """For each graph, the weights of its mirror image where ``flip_mask`` [G, 1] is set, else its plain weights."""
    plain, mirrored, graph = dataset.weights, dataset.mirrored, dataset.graph
    assert mirrored is not None
    assert graph.batch is not None
    edge = torch.where(flip_mask[graph.batch[graph.target]], mirrored.edge, plain.edge)
    return Weights(edge, torch.where(flip_mask[graph.batch], mirrored.self, plain.self))


def tta_mirror(dataset: DeviceDataset, coordinates: Tensor | None = None) -> tuple[DeviceDataset, DeviceDataset]:
    """The dataset and its mirror image, whose predictions test-time augmentation averages.

    ``dataset.mirrored`` holds the weights of the mirror image already.
    """
    assert dataset.mirrored is not None
    return dataset, dataset.replaced(dataset.mirrored, reflect_nodes(dataset, _all_graphs(dataset), coordinates))


def coordinate_ranges(values: Tensor, graph: Graph) -> tuple[Tensor, Tensor]:
    """The minimum and the maximum over the nodes of each graph: [N, K] -> two of [G, K]."""
    assert graph.batch is not None
    index, empty = graph.batch[:, None].expand_as(values), values.new_empty(graph.num_graphs, values.size(1))
    low, high = (empty.scatter_reduce(0, index, values, reduce=how, include_self=False) for how in ("amin", "amax"))
    return low, high


def _all_graphs(dataset: DeviceDataset) -> Tensor:
    return torch.ones(dataset.graph.num_graphs, 1, dtype=torch.bool, device=dataset.device)
