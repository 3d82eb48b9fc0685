"""PyG transforms that add directions to a graph."""

from collections.abc import Iterable
from copy import copy

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.data.data import BaseData
from torch_geometric.data.datapipes import functional_transform
from torch_geometric.transforms import BaseTransform

from dgn.fields import arcsine, gradient
from dgn.fields.calculus import differences
from dgn.graph import Graph, as_graph
from dgn.graph.checks import check_directions, check_inferred_nodes, check_rows
from dgn.graph.columns import as_columns
from dgn.spectral import Directions, whole_eigenspaces
from dgn.spectral.laplacians import Normalization, check_request, weighted_graph
from dgn.spectral.potentials import directions_of_many
from dgn.spectral.solvers import select

NAMES = ("node_potential", "edge_field", "gap", "component")
CHUNK = 4096  # graphs that are solved together


@functional_transform("add_dgn_directions")
class AddDirections(BaseTransform):
    """Add Laplacian eigenvectors as directions: ``node_potential`` [N, k] and their gradient, ``edge_field`` [E, k].

    Both are float32, computed in float64, component by component; so is ``gap`` [N, k], the relative gap between the
    eigenvalue of each direction and the next one (:class:`dgn.Directions`), from which groups of directions are formed.
    ``component`` [N] is the connected component of each node. Weights in ``data.edge_weight`` enter the Laplacian. An
    edge that is given one way counts as undirected there, and has its field one way. A component of too few nodes for k
    directions has zeros in the last ones.

    ``weighted_field`` multiplies the field by them (:func:`dgn.gradient`). ``arcsine`` takes the arcsine of the
    potentials (:func:`dgn.arcsine`), whose slope is nearly even.

    With ``whole_eigenspaces``, for :class:`RandomBasis`, a graph with repeated eigenvalues also keeps all K vectors of
    their eigenspaces: ``eigenspaces`` is a dictionary of ``vectors`` [N * K] and the ``gaps`` [C * K] of its
    components, float64. They are flat, so that graphs of different K batch, in a dictionary, which PyG never takes for
    node or edge attributes, and empty for other graphs.

    >>> import torch
    >>> data = Data(edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), num_nodes=3)
    >>> AddDirections(k=1)(data).edge_field.shape
    torch.Size([4, 1])
    """

    def __init__(
        self,
        k: int = 2,
        normalization: Normalization = None,
        whole_eigenspaces: bool = False,
        arcsine: bool = False,
        weighted_field: bool = False,
    ) -> None:
        check_request(k, normalization)
        if arcsine and whole_eigenspaces:
            raise ValueError(
                "whole_eigenspaces: expected False with arcsine=True, got True; bases are drawn of eigenvectors, not "
                "of their arcsines: leave out one of the two"
            )
        if weighted_field and whole_eigenspaces:
            raise ValueError(
                "whole_eigenspaces: expected False with weighted_field=True, got True; RandomBasis takes the gradient "
                "without weights: leave out one of the two"
            )
        self.k, self.normalization, self.whole_eigenspaces = int(k), normalization, whole_eigenspaces
        self.arcsine, self.weighted_field = arcsine, weighted_field

    def forward(self, data: Data) -> Data:
        _drop_eigenspaces(data)
        graph, weight = weighted_graph(data, None, None)
        check_request(self.k, self.normalization, graph.num_nodes)
        if self._solve_connected(data, graph, weight):
            return data
        if self.whole_eigenspaces:
            whole = whole_eigenspaces(graph, None, self.k, self.normalization, weight)
            solved = whole.first(self.k)
            used = slice(None if bool(solved.repeated().any()) else 0)
            data.eigenspaces = {"vectors": whole.potential[used].flatten(), "gaps": whole.gap[used].flatten()}
        else:
            solved = directions_of_many(graph, self.k, self.normalization, weight)
        potential, field, gap = self._values(solved, graph, weight)
        data.node_potential, data.edge_field, data.gap, data.component = potential, field, gap, solved.component
        return data

    def _solve_connected(self, data: Data, graph: Graph, weight: Tensor | None) -> bool:
        """Add the directions of a small connected graph, the usual case; whether it is one."""
        plain = not (self.whole_eigenspaces or self.arcsine or self.weighted_field) and weight is None
        if not plain or self.normalization == "rw" or graph.edge_index.is_cuda or not select.has_numba():
            return False
        if graph.num_nodes > select.largest_dense(self.k + 1):
            return False
        from dgn.spectral.solvers.direct import solve_connected

        solved = solve_connected(graph, self.k, self.normalization is not None)
        if solved is None:
            return False
        data.node_potential, data.edge_field, data.gap = map(torch.from_numpy, solved)
        data.component = torch.zeros(graph.num_nodes, dtype=torch.long)
        return True

    def transform_all(self, graphs: Iterable[Data]) -> list[Data]:
        """The graphs of a list or dataset with directions, shallow copies as of a call of the transform for each.

        All graphs are solved together, twice as fast: for ``process`` of a dataset, in the place of a loop over
        ``pre_transform``, or for a list. The result is that of single calls to the last bit.

        >>> import torch
        >>> path = Data(edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), num_nodes=3)
        >>> [data.edge_field.shape for data in AddDirections(k=1).transform_all([path, path])]
        [torch.Size([4, 1]), torch.Size([4, 1])]
        """
        if isinstance(graphs, BaseData):
            raise TypeError(
                f"graphs: expected a list or dataset of Data, got a single {type(graphs).__name__}; call the transform "
                "itself, transform(data)"
            )
        copies = [copy(data) for data in graphs]
        if self.whole_eigenspaces:
            return [self.forward(data) for data in copies]
        for begin in range(0, len(copies), CHUNK):
            chunk = copies[begin : begin + CHUNK]
            try:
                self._solve_together(chunk)
            except (ValueError, TypeError, ArithmeticError):
                for index, data in enumerate(chunk):  # the one at fault
                    try:
                        self.forward(data)
                    except (ValueError, TypeError, ArithmeticError) as error:
                        error.add_note(f"in graph {begin + index}")
                        raise
        return copies

    def _solve_together(self, graphs: list[Data]) -> None:
        """Add directions to graphs, in place, from one solution of all of them side by side."""
        nodes, indices = [data.num_nodes or 0 for data in graphs], [_edges(data) for data in graphs]
        edges = [index.size(1) for index in indices]
        for num_nodes, num_edges in zip(nodes, edges, strict=True):  # PyG may have inferred them
            check_inferred_nodes(num_nodes - 1, num_edges)
        check_request(self.k, self.normalization, min(nodes, default=0))
        weights = [data.edge_weight for data in graphs if "edge_weight" in data]
        if weights and len(weights) < len(graphs):
            raise ValueError("edge_weight: expected one in all graphs or in none, got some; transform the others apart")
        if weights and [getattr(weight, "shape", None) for weight in weights] != [(count,) for count in edges]:
            raise ValueError("edge_weight: expected one for each edge, got others; give each graph its own")
        weight = torch.cat(weights).cpu() if weights else None
        joined, size = torch.cat(indices, dim=1).cpu(), torch.tensor(nodes)
        owner = torch.repeat_interleave(torch.arange(len(graphs)), torch.tensor(edges))
        if bool(((joined < 0) | (joined >= size[owner])).any()):
            raise ValueError(
                "edge_index: expected nodes of the same graph, got others; number them from 0 in each graph"
            )
        whole, weight = weighted_graph(joined + (size.cumsum(0) - size)[owner], sum(nodes), weight)
        solved = directions_of_many(whole, self.k, self.normalization, weight)
        first = solved.component[(size.cumsum(0) - size).clamp(max=max(sum(nodes) - 1, 0))] if sum(nodes) else size
        component = solved.component - first.repeat_interleave(size)  # they count from 0 in each graph
        values = *self._values(solved, whole, weight), component
        split = [
            torch.split(part, edges if name == "edge_field" else nodes)
            for name, part in zip(NAMES, values, strict=True)
        ]
        for data, *own in zip(graphs, *split, strict=True):
            _drop_eigenspaces(data)
            device = data.edge_index.device
            for name, part in zip(NAMES, own, strict=True):
                data[name] = part.clone().to(device)

    def _values(self, solved: Directions, graph: Graph, weight: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """Potential, field and gap of a solution."""
        if self.weighted_field and weight is None:
            raise ValueError(
                "data: expected edge_weight for AddDirections(weighted_field=True), got none; give each edge a weight"
            )
        potential = arcsine(solved.potential, solved.component) if self.arcsine else solved.potential
        # Of the float64 potentials: differences of float32 ones would carry rounding noise.
        field = gradient(potential, graph, weight) if self.weighted_field else differences(potential, graph)
        return potential.float(), field.float(), solved.gap[solved.component].float()

    def __repr__(self) -> str:
        options = (name for name in ("whole_eigenspaces", "arcsine", "weighted_field") if getattr(self, name))
        parts = [f"k={self.k}", f"normalization={self.normalization!r}", *(f"{name}=True" for name in options)]
        return f"{type(self).__name__}({', '.join(parts)})"


def _drop_eigenspaces(data: Data) -> None:
    """Remove eigenspaces of earlier directions, of which :class:`RandomBasis` would draw others."""
    if "eigenspaces" in data:
        del data.eigenspaces


def _edges(data: Data) -> Tensor:
    """The edges of a graph: a plain ``edge_index`` as it is, others once they are checked."""
    edges = getattr(data, "edge_index", None)
    return (
        edges if type(edges) is Tensor and edges.dtype == torch.long and edges.dim() == 2 else as_graph(data).edge_index
    )


@functional_transform("check_dgn_directions")
class CheckDirections(BaseTransform):
    """Refuse a field that other transforms have detached from its edges or cancelled (:func:`check_directions`).

    For the end of a chain of transforms, in front of layers, but before ``ToSparseTensor``; :class:`dgn.nn.DGN` checks
    the data that it is given.

    >>> import torch
    >>> from torch_geometric.transforms import ToUndirected
    >>> data = AddDirections(k=1)(Data(edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), num_nodes=3))
    >>> CheckDirections()(ToUndirected()(data))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    ValueError: edge_field: expected the slope of node_potential along each edge, got 0 on every edge; ...
    """

    def forward(self, data: Data) -> Data:
        for name in ("edge_field", "node_potential"):
            if data.get(name, None) is None:
                raise ValueError(f"data: expected {name}, got none; apply AddDirections or AddCoordinates before it")
        if data.edge_index is None:
            raise ValueError(
                f"data: expected edge_index for CheckDirections, got {', '.join(data.keys())}; apply it before "
                "ToSparseTensor"
            )
        check_directions(data.edge_field, data.node_potential, data.edge_index)
        return data


@functional_transform("add_dgn_coordinates")
class AddCoordinates(BaseTransform):
    """Use coordinates as potentials: ``node_potential`` [N, k] is an attribute, ``edge_field`` [E, k] its gradient.

    ``AddCoordinates("node_potential")`` gives new edges the field of potentials that are there.

    >>> import torch
    >>> data = Data(pos=torch.tensor([[0.0, 1.0], [2.0, 1.0]]), edge_index=torch.tensor([[0], [1]]))
    >>> AddCoordinates()(data).edge_field.tolist()
    [[-2.0, 0.0]]
    """

    def __init__(self, attribute: str = "pos") -> None:
        self.attribute = attribute

    def forward(self, data: Data) -> Data:
        coordinates = data.get(self.attribute, None)
        if coordinates is None:
            raise ValueError(
                f"data: expected coordinates in {self.attribute!r}, got {', '.join(data.keys())}; pass their "
                "attribute as AddCoordinates(attribute=...)"
            )
        check_rows(self.attribute, coordinates, data.num_nodes or 0, "node")
        data.node_potential = as_columns(coordinates)
        data.edge_field = gradient(data.node_potential, data.edge_index)
        return data

    def __repr__(self) -> str:
        return f"{type(self).__name__}(attribute={self.attribute!r})"
