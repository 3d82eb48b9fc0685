"""Graphs with coordinates and their mirror images, along the last coordinate."""

import torch
from torch import Tensor

from dgn.aggregation import Plan, Weights
from dgn.data.loader.device_dataset import DeviceDataset
from dgn.graph import Graph


def last_coordinate(x: Tensor, potential: Tensor) -> Tensor:
    """Which inputs are the last coordinate: [N, C], [N, k] -> [C]."""
    return (x == potential[:, -1:]).all(dim=0)


def mirror_nodes(store: DeviceDataset, heads: Tensor, coordinates: Tensor | None = None) -> dict[str, Tensor]:
    """Coordinates of the nodes, those of some graphs mirrored, and inputs that are the last coordinate with it.

    A coordinate stays between the smallest and the largest of its graph.

    Shapes:
        ``heads`` [G, 1] says which graphs, ``coordinates`` [C] which inputs; without, those that are equal to it.
    """
    graph, potential, x = store.graph, store.nodes["potential"], store.nodes["x"]
    assert graph.batch is not None
    last = potential[:, -1:]
    least, most = ends_of_graphs(last, graph)
    turned = torch.where(heads[graph.batch], (least + most)[graph.batch] - last, last)
    nodes = {"potential": torch.cat([potential[:, :-1], turned], dim=1)}
    if x.is_floating_point():
        which = last_coordinate(x, potential) if coordinates is None else coordinates.to(x.device)
        nodes["x"] = torch.where(which, turned, x)
    return nodes


def mirror_field(store: DeviceDataset, heads: Tensor) -> Tensor:
    """The field of these graphs: along the last coordinate it changes its sign."""
    assert store.graph.batch is not None
    field = store.edges["field"].clone()
    field[:, -1:] *= torch.where(heads[store.graph.batch[store.graph.target]], -1.0, 1.0)
    return field


def reflect_weights(plan: Plan, store: DeviceDataset) -> Weights:
    """The weights of all graphs mirrored; those that they have, if no field is read."""
    if "field" not in store.edges:
        return store.weights
    return plan.compute_weights(mirror_field(store, _all(store)), store.graph, store.nodes.get("gap"))


def choose_weights(heads: Tensor, store: DeviceDataset) -> Weights:
    """The weights of each graph from those of both sides."""
    plain, mirrored, graph = store.weights, store.mirrored, store.graph
    assert mirrored is not None
    assert graph.batch is not None
    edge = torch.where(heads[graph.batch[graph.target]], mirrored.edge, plain.edge)
    return Weights(edge, torch.where(heads[graph.batch], mirrored.self, plain.self))


def both_sides(store: DeviceDataset, coordinates: Tensor | None = None) -> tuple[DeviceDataset, DeviceDataset]:
    """All graphs as they are, and all of them mirrored; the store knows the weights of both."""
    assert store.mirrored is not None
    return store, store.replaced(store.mirrored, mirror_nodes(store, _all(store), coordinates))


def ends_of_graphs(values: Tensor, graph: Graph) -> tuple[Tensor, Tensor]:
    """The smallest and the largest value of the nodes of each graph: [N, K] -> two of [G, K]."""
    assert graph.batch is not None
    index, room = graph.batch[:, None].expand_as(values), values.new_empty(graph.num_graphs, values.size(1))
    least, most = (room.scatter_reduce(0, index, values, reduce=how, include_self=False) for how in ("amin", "amax"))
    return least, most


def _all(store: DeviceDataset) -> Tensor:
    return torch.ones(store.graph.num_graphs, 1, dtype=torch.bool, device=store.device)
