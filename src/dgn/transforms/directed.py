"""A PyG transform that adds fields of directed graphs."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.data.datapipes import functional_transform
from torch_geometric.transforms import BaseTransform

from dgn.fields import gradient, orientation, phase_difference
from dgn.graph import as_graph
from dgn.graph.checks import check_option
from dgn.graph.columns import as_columns
from dgn.spectral import flow_potential, magnetic_directions
from dgn.spectral.laplacians import check_request

FIELDS = ("orientation", "potential", "magnetic")
LABELS = ("y", "edge_label", "edge_label_index")  # of graphs, nodes or pairs of nodes, of whatever size


@functional_transform("add_dgn_directed_fields")
class AddDirectedFields(BaseTransform):
    """Add fields that keep the direction of edges: ``edge_field`` [E', K], float32, on edges in both directions.

    ``fields`` are names, one after the other in the columns of ``edge_field``:

    - ``"orientation"``: the flow along the edges (:func:`dgn.orientation`);
    - ``"potential"``: the gradient of the potential nearest to that flow (:func:`dgn.flow_potential`), which is also
      added, as ``node_potential``; needs Numba;
    - ``"magnetic"``: phase differences of the first ``k`` eigenvectors of the magnetic Laplacian with charge ``q``
      (:func:`dgn.magnetic_directions`), k columns.

    Messages travel both ways along an edge: ``edge_index`` and all edge attributes get the reverse edges behind the
    given ones; ``y``, ``edge_label`` and ``edge_label_index`` are labels and stay. The flow is the attribute ``flow``
    of the edges, [E] or [E, m], where it is named, else 1. Phases follow the edges, whatever the flow.

    >>> data = Data(edge_index=torch.tensor([[0, 1], [1, 2]]), num_nodes=3)  # 0 -> 1 -> 2
    >>> data = AddDirectedFields(["orientation", "potential"])(data)
    >>> data.edge_index.tolist(), data.edge_field.tolist()
    ([[0, 1, 1, 2], [1, 2, 0, 1]], [[-1.0, -1.0], [-1.0, -1.0], [1.0, 1.0], [1.0, 1.0]])
    >>> data.node_potential.tolist()
    [[-1.0], [0.0], [1.0]]
    """

    def __init__(
        self, fields: Sequence[str] = ("orientation",), flow: str | None = None, k: int = 1, q: float = 0.25
    ) -> None:
        names = (fields,) if isinstance(fields, str) else tuple(fields)
        for name in names:
            check_option("fields", name, FIELDS)
        if not names or len(set(names)) < len(names):
            raise ValueError(f"fields: expected one or more different names, got {names}; give each of them once")
        check_request(k, None)
        self.fields, self.flow, self.k, self.q = names, flow, int(k), q

    def forward(self, data: Data) -> Data:
        num_nodes, edge_index = as_graph(data).num_nodes, data.edge_index
        flow = None if self.flow is None else data.get(self.flow, None)
        if self.flow is not None and flow is None:
            raise ValueError(
                f"data: expected a flow in {self.flow!r}, got {', '.join(data.keys())}; pass the attribute of the "
                "edges as AddDirectedFields(flow=...)"
            )
        oriented = orientation(edge_index, num_nodes, flow)
        directed = as_columns(oriented.field)
        columns = []
        for name in self.fields:
            if name == "orientation":
                columns.append(directed)
            elif name == "potential":
                potential = flow_potential(directed, oriented.edge_index, num_nodes)
                data.node_potential = potential.float()
                columns.append(gradient(potential, oriented.edge_index))
            else:
                magnetic = magnetic_directions(edge_index, num_nodes, self.k, self.q)
                columns.append(phase_difference(magnetic.potential, oriented.edge_index, magnetic.component))
        named = {"edge_index", *([] if self.flow is None else [self.flow])}
        for key in named.union(data.edge_attrs()).difference(LABELS):
            data[key] = oriented.edge_index if key == "edge_index" else _select(data, key, oriented.edge)
        data.edge_field = torch.cat([column.float() for column in columns], dim=1)
        return data

    def __repr__(self) -> str:
        return f"{type(self).__name__}(fields={list(self.fields)}, flow={self.flow!r}, k={self.k}, q={self.q})"


def _select(data: Data, key: str, edge: Tensor) -> Tensor | list[Any]:
    """The values of an attribute for the edges ``edge``."""
    value = data[key]
    if not isinstance(value, Tensor):
        return [value[index] for index in edge.tolist()]
    return value.index_select(data.__cat_dim__(key, value), edge)
