"""Graph regression in a plain PyG loop: the diameter of random trees with rings.

    python examples/graph_regression.py

`transform_all` adds directions to all graphs in one call; the layers stand in a model of one's own. The baseline is the
mean of the training targets.
"""

from random import Random

import torch
from scipy.sparse.csgraph import shortest_path
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import global_add_pool
from torch_geometric.utils import degree, to_scipy_sparse_matrix

from dgn.nn import DGNConv
from dgn.transforms import AddDirections

AGGREGATORS = ["mean", "max", "dx1", "av1"]


def random_graph(draw: Random) -> Data:
    """A random tree of 10 to 30 nodes with up to three more edges; the target is its diameter."""
    nodes = draw.randint(10, 30)
    pairs = [(draw.randrange(max(0, i - draw.choice((1, 8))), i), i) for i in range(1, nodes)]
    pairs += [(draw.randrange(nodes - 1), nodes - 1) for _ in range(draw.randint(0, 3))]
    edges = torch.tensor(sorted({pair for pair in pairs if pair[0] != pair[1]})).T
    edge_index = torch.cat([edges, edges.flip(0)], dim=1)
    distance = shortest_path(to_scipy_sparse_matrix(edge_index, num_nodes=nodes), unweighted=True)
    x = degree(edge_index[1], nodes)[:, None]
    return Data(x=x, edge_index=edge_index, y=torch.tensor([distance.max()], dtype=torch.float32))


class Net(nn.Module):
    def __init__(self, width: int = 32, layers: int = 3) -> None:
        super().__init__()
        self.embed = nn.Linear(1, width)
        self.layers = nn.ModuleList(DGNConv(width, width, AGGREGATORS, message="complex") for _ in range(layers))
        self.norms = nn.ModuleList(nn.BatchNorm1d(width) for _ in range(layers))
        self.head = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1))

    def forward(self, data: Data) -> Tensor:
        h = self.embed(data.x)
        for layer, norm in zip(self.layers, self.norms, strict=True):
            h = h + norm(layer(h, data.edge_index, edge_field=data.edge_field)).relu()
        return self.head(global_add_pool(h, data.batch) / 10)[:, 0]


def main(graphs: int = 1500, epochs: int = 30) -> tuple[float, float]:
    """Train, print and return the mean absolute error on a fifth of the graphs, and that of the baseline."""
    draw = Random(0)
    torch.manual_seed(0)
    dataset = AddDirections(k=1).transform_all([random_graph(draw) for _ in range(graphs)])
    train, test = dataset[graphs // 5 :], DataLoader(dataset[: graphs // 5], batch_size=256)
    net = Net()
    optimizer = torch.optim.Adam(net.parameters(), lr=0.003)
    for _ in range(epochs):
        net.train()
        for batch in DataLoader(train, batch_size=64, shuffle=True):
            optimizer.zero_grad()
            nn.functional.l1_loss(net(batch), batch.y).backward()
            optimizer.step()
    net.eval()
    mean = torch.cat([data.y for data in train]).mean()
    with torch.no_grad():
        errors = [((net(batch) - batch.y).abs(), (mean - batch.y).abs()) for batch in test]
    ours, baseline = (float(torch.cat(parts).mean()) for parts in zip(*errors, strict=True))
    print(f"mean absolute error of the diameter: {ours:.2f}, of their mean: {baseline:.2f}")
    return ours, baseline


if __name__ == "__main__":
    main()
