"""Node classification on one graph: handwritten digits as nodes, joined to their nearest images.

    python examples/node_classification.py

Five labels of each class are known. Directions are computed once, of the whole graph. `RandomNodeLoader` cuts the graph
into parts for training, and PyG slices `edge_field` with the edges; scores are those of the whole graph. The baseline
takes the class of the nearest labelled image. With masks, a graph trains without a loop of one's own, too:
`dgn.data.benchmark_from_graphs(data, "node-classification")`.
"""

import torch
from sklearn.datasets import load_digits
from sklearn.neighbors import KNeighborsClassifier, kneighbors_graph
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.loader import RandomNodeLoader
from torch_geometric.transforms import ToUndirected
from torch_geometric.utils import from_scipy_sparse_matrix

from dgn.nn import DGNConv
from dgn.transforms import AddDirections

AGGREGATORS = ["mean", "max", "av1", "dx1"]


def digits_graph(labels: int = 5, neighbors: int = 8) -> Data:
    """All images with edges to the nearest ones, and masks: ``labels`` of each class are for training."""
    digits = load_digits()
    edge_index, _ = from_scipy_sparse_matrix(kneighbors_graph(digits.data, neighbors))
    y, order = torch.from_numpy(digits.target), torch.randperm(len(digits.target))
    train = torch.cat([order[y[order] == digit][:labels] for digit in range(10)])
    data = Data(x=torch.from_numpy(digits.data).float() / 16, edge_index=edge_index, y=y)
    data.train_mask = torch.zeros(len(y), dtype=torch.bool).index_fill(0, train, True)
    data.test_mask = ~data.train_mask
    return AddDirections(k=1)(ToUndirected()(data))


class Net(nn.Module):
    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.embed = nn.Linear(64, width)
        self.layers = nn.ModuleList(DGNConv(width, width, AGGREGATORS) for _ in range(2))
        self.head = nn.Linear(width, 10)

    def forward(self, data: Data) -> Tensor:
        h = self.embed(data.x).relu()
        for layer in self.layers:
            h = h + nn.functional.dropout(
                layer(h, data.edge_index, edge_field=data.edge_field).relu(), 0.5, self.training
            )
        return self.head(h)


def main(epochs: int = 60) -> tuple[float, float]:
    """Train, print and return the accuracy on the nodes without label, and that of the baseline."""
    torch.manual_seed(0)
    data, net = digits_graph(), Net()
    optimizer = torch.optim.Adam(net.parameters(), lr=0.005, weight_decay=1e-4)
    for _ in range(epochs):
        net.train()
        for part in RandomNodeLoader(data, num_parts=3, shuffle=True):
            if part.train_mask.any():
                optimizer.zero_grad()
                nn.functional.cross_entropy(net(part)[part.train_mask], part.y[part.train_mask]).backward()
                optimizer.step()
    net.eval()
    with torch.no_grad():
        right = net(data).argmax(dim=1) == data.y
    train, test = data.train_mask, data.test_mask
    nearest = KNeighborsClassifier(1).fit(data.x[train], data.y[train]).score(data.x[test], data.y[test])
    accuracy = float(right[test].float().mean())
    print(
        f"accuracy on {int(test.sum())} unlabelled images: {accuracy:.1%}, of the nearest labelled one: {nearest:.1%}"
    )
    return accuracy, nearest


if __name__ == "__main__":
    main()
