"""PyG transforms that add directions to a graph."""

from torch_geometric.data import Data
from torch_geometric.data.datapipes import functional_transform
from torch_geometric.transforms import BaseTransform

from dgn.fields import arcsine, gradient
from dgn.graph.checks import check_directions, check_rows
from dgn.graph.columns import as_columns
from dgn.spectral import directions, whole_eigenspaces
from dgn.spectral.laplacians import Normalization, check_request


@functional_transform("add_dgn_directions")
class AddDirections(BaseTransform):
    """Add Laplacian eigenvectors as directions: ``node_potential`` [N, k] and their gradient, ``edge_field`` [E, k].

    Both are float32, computed in float64, component by component; so is ``gap`` [N, k], the relative gap between the
    eigenvalue of each direction and the next one (:class:`dgn.Directions`), from which groups of directions are formed.
    ``component`` [N] is the connected component of each node. Weights in ``data.edge_weight`` enter the Laplacian.

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
        self.k, self.normalization, self.whole_eigenspaces = int(k), normalization, whole_eigenspaces
        self.arcsine, self.weighted_field = arcsine, weighted_field

    def forward(self, data: Data) -> Data:
        solve = whole_eigenspaces if self.whole_eigenspaces else directions
        whole = solve(data, k=self.k, normalization=self.normalization)
        result = whole.first(self.k)
        if self.whole_eigenspaces:
            used = slice(None if bool(result.repeated().any()) else 0)
            data.eigenspaces = {"vectors": whole.potential[used].flatten(), "gaps": whole.gap[used].flatten()}
        weight = data.get("edge_weight", None) if self.weighted_field else None
        if self.weighted_field and weight is None:
            raise ValueError(
                "data: expected edge_weight for AddDirections(weighted_field=True), got none; give each edge a weight"
            )
        potential = arcsine(result.potential, result.component) if self.arcsine else result.potential
        data.node_potential = potential.float()
        # Of the float64 potentials: differences of float32 ones would carry rounding noise.
        data.edge_field = gradient(potential, data.edge_index, weight).float()
        data.gap = result.gap[result.component].float()
        data.component = result.component
        return data

    def __repr__(self) -> str:
        options = (name for name in ("whole_eigenspaces", "arcsine", "weighted_field") if getattr(self, name))
        parts = [f"k={self.k}", f"normalization={self.normalization!r}", *(f"{name}=True" for name in options)]
        return f"{type(self).__name__}({', '.join(parts)})"


@functional_transform("check_dgn_directions")
class CheckDirections(BaseTransform):
    """Refuse a field that other transforms have detached from its edges or cancelled (:func:`check_directions`).

    For the end of a chain of transforms, in front of layers; :class:`dgn.nn.DGN` checks the data that it is given.

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
