"""Which edges a prediction rests on: PyG's GNNExplainer on directional layers.

    python examples/explain_prediction.py

Graphs have red, blue and grey nodes. A graph is positive if a red node has a blue neighbour. A network learns that from
labels of graphs alone, and the explainer is then asked for the edges behind its positive predictions.
"""

import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.explain import Explainer, GNNExplainer
from torch_geometric.loader import DataLoader
from torch_geometric.nn import global_max_pool
from torch_geometric.utils import erdos_renyi_graph

from dgn.nn import DGNConv
from dgn.transforms import AddDirections

NODES, RED, BLUE = 12, 0, 1


def between(data: Data) -> Tensor:
    """Whether each edge joins a red and a blue node. [E]"""
    color = data.x.argmax(dim=1)[data.edge_index]
    return ((color == RED) & (color.flip(0) == BLUE)).any(dim=0)


def random_graph() -> Data:
    edge_index = erdos_renyi_graph(NODES, 0.2)
    color = torch.multinomial(torch.tensor([1.0, 1.0, 4.0]), NODES, replacement=True)
    data = Data(x=nn.functional.one_hot(color, 3).float(), edge_index=edge_index)
    data.y = between(data).any()[None].float()
    return data


class Net(nn.Module):
    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.conv = DGNConv(3, width, ["max", "mean", "dx1"], message="complex")
        self.head = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1))

    def forward(self, x: Tensor, edge_index: Tensor, edge_field: Tensor, batch: Tensor | None = None) -> Tensor:
        h = self.conv(x, edge_index, edge_field=edge_field).relu()
        return self.head(global_max_pool(h, batch))[:, 0]


def main(graphs: int = 600, epochs: int = 30, explained: int = 10) -> tuple[float, float, float]:
    """Print and return the accuracy, and the mean mask of edges between red and blue nodes and of all others."""
    torch.manual_seed(0)
    dataset = AddDirections(k=1).transform_all([random_graph() for _ in range(graphs)])
    net, test = Net(), dataset[: graphs // 5]
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    for _ in range(epochs):
        for batch in DataLoader(dataset[graphs // 5 :], batch_size=64, shuffle=True):
            optimizer.zero_grad()
            out = net(batch.x, batch.edge_index, batch.edge_field, batch.batch)
            nn.functional.binary_cross_entropy_with_logits(out, batch.y).backward()
            optimizer.step()
    right = [bool(net(data.x, data.edge_index, data.edge_field) > 0) == bool(data.y) for data in test]
    config = {"mode": "regression", "task_level": "graph", "return_type": "raw"}
    algorithm = GNNExplainer(epochs=100, lr=0.05)
    explainer = Explainer(net.eval(), algorithm, "model", config, edge_mask_type="object")
    inside, outside = [], []
    for data in [data for data in test if data.y][:explained]:
        mask = explainer(data.x, data.edge_index, edge_field=data.edge_field).edge_mask
        inside.append(mask[between(data)])
        outside.append(mask[~between(data)])
    accuracy, means = sum(right) / len(right), [float(torch.cat(parts).mean()) for parts in (inside, outside)]
    print(f"accuracy {accuracy:.1%}; mean mask: red to blue {means[0]:.2f}, other edges {means[1]:.2f}")
    return accuracy, means[0], means[1]


if __name__ == "__main__":
    main()
