"""A field of your own: wind on a network of roads.

    python examples/own_field.py

Each junction emits; what it receives comes from the neighbours upwind, over two roads. The field is the wind along each
road. One network averages all neighbours, the other also those upwind (`bwd1`: where the field is negative).
"""

from collections.abc import Sequence

import torch
from scipy.spatial import Delaunay
from torch import Tensor, nn

import dgn
from dgn.nn import DGNConv


def roads(junctions: int) -> tuple[Tensor, Tensor]:
    """Positions [N, 2] in the unit square, and the roads between them in both directions."""
    position = torch.rand(junctions, 2)
    triangles = torch.from_numpy(Delaunay(position.numpy()).simplices).long()
    ends = torch.cat([triangles[:, [0, 1]], triangles[:, [1, 2]], triangles[:, [2, 0]]]).sort(dim=1).values
    edges = torch.unique(ends, dim=0).T
    return position, torch.cat([edges, edges.flip(0)], dim=1)


def wind_along(position: Tensor, edge_index: Tensor) -> Tensor:
    """The component, at the target of each road, of a wind that turns around the centre, towards its source. [E, 1]"""
    source, target = edge_index
    wind = (position - 0.5) @ torch.tensor([[0.0, 1.0], [-1.0, 0.0]])
    return ((position[source] - position[target]) * wind[target]).sum(dim=1, keepdim=True)


class Net(nn.Module):
    def __init__(self, aggregators: Sequence[str], width: int = 16) -> None:
        super().__init__()
        self.first = DGNConv(1, width, aggregators, message="complex")
        self.second = DGNConv(width, 1, aggregators, message="complex")

    def forward(self, x: Tensor, edge_index: Tensor, wind: Tensor) -> Tensor:
        h = self.first(x, edge_index, edge_field=wind).relu()
        return self.second(h, edge_index, edge_field=wind)


def main(junctions: int = 400, steps: int = 400) -> dict[str, float]:
    """Train both networks on random emissions, print and return the share of variance they explain on new ones."""
    torch.manual_seed(0)
    position, edge_index = roads(junctions)
    wind = wind_along(position, edge_index)
    upwind = dgn.smoothing(dgn.backward_field(wind), edge_index, junctions)

    def sample() -> tuple[Tensor, Tensor]:
        emission = torch.rand(junctions, 1)
        return emission, upwind(upwind(emission)[:, 0])[:, 0]

    explained = {}
    for aggregators in (["mean"], ["mean", "bwd1"]):
        net = Net(aggregators)
        optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
        for _ in range(steps):
            x, y = sample()
            optimizer.zero_grad()
            nn.functional.mse_loss(net(x, edge_index, wind), y).backward()
            optimizer.step()
        x, y = sample()
        with torch.no_grad():
            rest = (net(x, edge_index, wind) - y).square().mean() / y.var()
        explained[", ".join(aggregators)] = float(1 - rest)
        print(f"{', '.join(aggregators)}: {float(1 - rest):.1%} of the variance explained")
    return explained


if __name__ == "__main__":
    main()
