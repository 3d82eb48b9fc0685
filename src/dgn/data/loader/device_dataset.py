"""A dataset on a device: edges sorted once, batches gathered in any order."""

from collections.abc import Mapping, Sequence
from copy import copy
from types import MappingProxyType

import torch
from torch import Tensor

from dgn.aggregation import ScalerKey, Weights
from dgn.data.loader.eigenspaces import Eigenspaces
from dgn.data.loader.static_batch import (
    EDGE_WEIGHT,
    SCALERS,
    SELF_WEIGHT,
    BatchLayout,
    BatchShape,
    StaticBatches,
    array_name,
)
from dgn.data.packed import PackedGraphs
from dgn.graph import Graph, GraphParts

SPREAD = 5.0  # standard deviations of room above the mean size of a batch
MULTIPLE = 64  # sizes are rounded up to it


class DeviceDataset:
    """Graphs on a device, with the values that a network reads, and the weights of its field.

    Edges are kept sorted by target, with their transpose, so that a batch of any graphs is gathered, never sorted.

    Args:
        names: of the node, edge and graph values to keep.
    """

    def __init__(self, graphs: PackedGraphs, names: Mapping[str, Sequence[str]], device: torch.device | str) -> None:
        if len(graphs) and not int(graphs.node_pointer[-1]):  # padding of a batch is a copy of some node
            raise ValueError(
                f"graphs: expected at least one node, got {len(graphs)} graphs without any; leave them out"
            )
        self.node_count, self.edge_count = graphs.node_pointer.diff(), graphs.edge_pointer.diff()
        self.num_graphs = len(graphs)
        placed = graphs.to(device)
        first_node, first_edge = placed.node_pointer, placed.edge_pointer
        whole = placed.graph
        order = whole.by_target.order.long()
        parts = GraphParts(num_graphs=len(graphs))
        graph = Graph(whole.edge_index[:, order], whole.num_nodes, whole.batch, parts)
        self.graph = graph
        assert graph.batch is not None
        of_node, of_edge = first_edge[graph.batch], first_edge[graph.batch[graph.target]]
        start = first_node[graph.batch[graph.target]]
        self._first_node, self._first_edge = first_node, first_edge
        self._ends = (graph.edge_index - start).to(torch.int32)
        self._place = (graph.target_to_source - of_edge).to(torch.int32)
        self._pointer = (graph.by_target.pointer[:-1] - of_node).to(torch.int32)
        self._source_pointer = (graph.source_pointer[:-1] - of_node).to(torch.int32)
        self.nodes = {name: _wide(placed.nodes[name]) for name in names.get("nodes", ())}
        self.edges = {name: _wide(placed.edges[name])[order] for name in names.get("edges", ())}
        self.graphs = {name: _wide(placed.graphs[name]) for name in names.get("graphs", ())}
        self.scalers: tuple[ScalerKey, Tensor] | None = None  # degree scalers of all nodes, where they are wanted
        empty = torch.empty(0, device=device)
        self.deviation: Tensor | None = None  # of each input over the nodes of training graphs, where it is wanted
        self.mirrored: Weights | None = None  # those of all graphs mirrored, where they are wanted
        self.eigenspaces: Eigenspaces | None = None  # repeated ones, where their bases are drawn at random
        self.weights = Weights(empty.new_empty(graph.num_edges, 0), empty.new_empty(graph.num_nodes, 0))

    def replaced(self, weights: Weights, nodes: Mapping[str, Tensor] = MappingProxyType({})) -> "DeviceDataset":
        """The same graphs with other weights of their field, and other values of nodes for some names."""
        twin = copy(self)
        twin.weights, twin.nodes = weights, {**self.nodes, **nodes}
        return twin

    @property
    def device(self) -> torch.device:
        return self._ends.device

    def typical_shape(self, batch_size: int, index: Tensor) -> BatchShape:
        """A shape for batches of ``batch_size`` graphs drawn from ``index`` [G], whatever the draw, almost surely."""
        nodes, edges = (count[index].double() for count in (self.node_count, self.edge_count))
        size = min(batch_size, len(index))
        sizes = [int(size * c.mean() + SPREAD * size**0.5 * c.std(unbiased=False)) for c in (nodes, edges)]
        return BatchShape(batch_size, _up(sizes[0] + 1), _up(sizes[1]))

    def smallest_shape(self, index: Tensor) -> BatchShape:
        """The smallest shape for batches of the graphs ``index`` [S, B] on the CPU, where -1 is no graph.

        One batch fits exactly; of several, some need padding, and one node more for it. So does a batch of a single
        node: batch norm refuses to normalise one row without a mask.
        """
        filled = index >= 0
        nodes, edges = ((count[index.clamp(min=0)] * filled).sum(1) for count in (self.node_count, self.edge_count))
        padded = len(index) > 1 or int(nodes.max()) < 2
        return BatchShape(index.size(1), int(nodes.max()) + padded, int(edges.max()), padded)

    def gather(self, index: Tensor, shape: BatchShape) -> StaticBatches:
        """Batches of the graphs ``index`` [S, B], where -1 is no graph, with padding up to ``shape``."""
        index = index.to(self.device)
        filled, chosen = index >= 0, index.clamp(min=0)
        first_node, first_edge = self._first_node[chosen], self._first_edge[chosen]
        node_count = (self._first_node[chosen + 1] - first_node) * filled
        edge_count = (self._first_edge[chosen + 1] - first_edge) * filled
        node_start, edge_start = _starts(node_count), _starts(edge_count)
        number, node, real = _rows(node_start, first_node, shape.nodes)
        owner, edge, real_edge = _rows(edge_start, first_edge, shape.edges)
        edges_before = edge_start.gather(1, number)  # of a padding node: all edges there are
        position = torch.arange(shape.edges, dtype=torch.int32, device=self.device)
        shift = node_start.gather(1, owner).to(torch.int32)[:, None]
        last = torch.full_like(edge_start[:, :1], shape.nodes)
        ends = self._ends[:, edge].transpose(0, 1) + shift
        sizes = torch.cat([node_count, shape.nodes - node_start[:, -1:]], dim=1).float()
        layout = BatchLayout(
            edge_index=torch.where(real_edge[:, None], ends, shape.nodes - 1),
            target_to_source=torch.where(
                real_edge, self._place[edge] + edge_start.gather(1, owner).to(torch.int32), position
            ),
            pointer=torch.cat([edges_before + self._pointer[node] * real, edge_start[:, -1:]], dim=1),
            source_pointer=torch.cat([edges_before + self._source_pointer[node] * real, edge_start[:, -1:]], dim=1),
            batch=number,
            node_pointer=torch.cat([node_start, last], dim=1),
            graph_norm=sizes.clamp(min=1).rsqrt().gather(1, number)[:, :, None],
            graph_size=sizes[:, :, None],
            node_mask=real[:, :, None].float(),
            graph_mask=torch.nn.functional.pad(filled.float(), (0, 1))[:, :, None],
        )
        arrays = {array_name("layout", name): array for name, array in layout._asdict().items()}
        graph = torch.nn.functional.pad(chosen, (0, 1))
        for values, row in zip(self._features(), (node, edge, graph), strict=True):
            arrays |= {name: value[row] for name, value in values.items()}
        return StaticBatches.of(arrays, shape, self._scaler_key)

    @property
    def _scaler_key(self) -> ScalerKey | None:
        return None if self.scalers is None else self.scalers[0]

    def _features(self) -> tuple[dict[str, Tensor], dict[str, Tensor], dict[str, Tensor]]:
        """What batches hold of nodes, edges and graphs, by the name of its array."""
        nodes, edges, graphs = (
            {array_name(table, name): value for name, value in values.items()}
            for table, values in (("nodes", self.nodes), ("edges", self.edges), ("graphs", self.graphs))
        )
        scalers = {} if self.scalers is None else {SCALERS: self.scalers[1]}
        return {SELF_WEIGHT: self.weights.self, **scalers, **nodes}, {EDGE_WEIGHT: self.weights.edge, **edges}, graphs


def _wide(values: Tensor) -> Tensor:
    """Numbers as a step reads them: categories int64, others float32."""
    return values.float() if values.is_floating_point() else values.long()


def _starts(count: Tensor) -> Tensor:
    """Where each graph begins in its batch, and where the last one ends: [S, B] -> [S, B + 1]."""
    return torch.nn.functional.pad(count.cumsum(1), (1, 0))


def _rows(start: Tensor, first: Tensor, length: int) -> tuple[Tensor, Tensor, Tensor]:
    """For each place in a batch: its graph's place in the batch, its row in the dataset, and whether it is real."""
    place = torch.arange(length, device=start.device).expand(start.size(0), length)
    owner = torch.searchsorted(start[:, 1:].contiguous(), place.contiguous(), right=True)
    real = place < start[:, -1:]
    shift = torch.nn.functional.pad(first, (0, 1)) - start
    return owner, torch.where(real, place + shift.gather(1, owner), 0), real


def _up(size: int) -> int:
    return -(-size // MULTIPLE) * MULTIPLE
