"""PyG transforms that add directions to a graph."""

from torch_geometric.data import Data
from torch_geometric.data.datapipes import functional_transform
from torch_geometric.transforms import BaseTransform

from dgn.fields import gradient
from dgn.graph.checks import check_rows
from dgn.graph.columns import as_columns
from dgn.spectral import directions
from dgn.spectral.laplacians import Normalization, check_request


@functional_transform("add_dgn_directions")
class AddDirections(BaseTransform):
    """Add Laplacian eigenvectors as directions: ``potential`` [N, k] and their gradient, ``field`` [E, k].

    Both are float32, computed in float64, component by component; so is ``gap`` [N, k], the relative gap between the
    eigenvalue of each direction and the next one (:class:`dgn.Directions`), from which groups of directions are formed.
    Weights in ``data.edge_weight`` enter the Laplacian.

    >>> import torch
    >>> data = Data(edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), num_nodes=3)
    >>> AddDirections(k=1)(data).field.shape
    torch.Size([4, 1])
    """

    def __init__(self, k: int = 2, normalization: Normalization = None) -> None:
        check_request(k, normalization)
        self.k, self.normalization = int(k), normalization

    def forward(self, data: Data) -> Data:
        result = directions(data, k=self.k, normalization=self.normalization)
        data.potential = result.potential.float()
        # Of the float64 potentials: differences of float32 ones would carry rounding noise.
        data.field = gradient(result.potential, data.edge_index).float()
        data.gap = result.gap[result.component].float()
        return data

    def __repr__(self) -> str:
        return f"{type(self).__name__}(k={self.k}, normalization={self.normalization!r})"


@functional_transform("add_dgn_coordinates")
class AddCoordinates(BaseTransform):
    """Use coordinates as potentials: ``potential`` [N, k] is an attribute, ``field`` [E, k] its gradient.

    >>> import torch
    >>> data = Data(pos=torch.tensor([[0.0, 1.0], [2.0, 1.0]]), edge_index=torch.tensor([[0], [1]]))
    >>> AddCoordinates()(data).field.tolist()
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
        data.potential = as_columns(coordinates)
        data.field = gradient(data.potential, data.edge_index)
        return data

    def __repr__(self) -> str:
        return f"{type(self).__name__}(attribute={self.attribute!r})"
