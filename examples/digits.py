"""The gain from directions: handwritten digits as grid graphs, with and without a field.

    python examples/digits.py

Each 8 x 8 image is a graph of 64 pixels, connected to horizontal and vertical neighbours. The only node feature
is the intensity; positions enter only through the field, the difference of coordinates along each edge. Two networks
of the same size are trained: one averages the neighbours, one also differentiates along rows and columns.
"""

import time
from collections.abc import Sequence

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader

import dgn
from dgn.transforms import AddCoordinates

MODELS = (["mean"], ["mean", "dx1-signed", "dx2-signed"])


def grid(side: int) -> tuple[Tensor, Tensor]:
    """Coordinates [side^2, 2] of the pixels, and the edges between neighbours in both directions."""
    position = torch.cartesian_prod(torch.arange(side), torch.arange(side)).float()
    edge_index = (torch.cdist(position, position, p=1) == 1).nonzero().T.contiguous()
    return position, edge_index


def load_graphs() -> list[Data]:
    """All 1797 digits as graphs with a field, in an order that does not depend on the writer."""
    digits = load_digits()
    images, labels = torch.from_numpy(digits.images).float() / 16, torch.from_numpy(digits.target)
    position, edge_index = grid(images.size(1))
    add_field = AddCoordinates()
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(0)).tolist()
    return [
        add_field(Data(x=images[i].reshape(-1, 1), edge_index=edge_index, pos=position, y=labels[i])) for i in order
    ]


def make_network(aggregators: Sequence[str], budget: int) -> dgn.nn.DGN:
    """The widest network of four layers with at most ``budget`` parameters."""
    networks = (
        dgn.nn.DGN(
            nn.Linear(1, width),
            dgn.nn.NetworkSettings(hidden=width, num_layers=4, aggregators=aggregators, readout="max"),
            out_channels=10,
        )
        for width in range(256, 3, -4)
    )
    return next(network for network in networks if count(network) <= budget)


def count(network: nn.Module) -> int:
    return sum(parameter.numel() for parameter in network.parameters())


def train(network: nn.Module, graphs: list[Data], epochs: int, seed: int) -> None:
    """Adam with one cycle of the learning rate."""
    shuffle = torch.Generator().manual_seed(seed)
    loader = DataLoader(graphs, batch_size=64, shuffle=True, generator=shuffle)
    optimizer = torch.optim.Adam(network.parameters())
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.01, total_steps=epochs * len(loader))
    network.train()
    for _ in range(epochs):
        for batch in loader:
            optimizer.zero_grad()
            cross_entropy(network(batch), batch.y).backward()
            optimizer.step()
            schedule.step()


@torch.no_grad()
def accuracy(network: nn.Module, graphs: list[Data]) -> float:
    network.eval()
    (batch,) = DataLoader(graphs, batch_size=len(graphs))
    return float((network(batch).argmax(dim=1) == batch.y).float().mean())


def main(epochs: int = 20, budget: int = 30_000, seed: int = 0) -> dict[str, float]:
    """Train both networks on 80 % of the digits, print and return their accuracy on the rest."""
    graphs = load_graphs()
    held_out = len(graphs) // 5
    scores = {}
    print("| aggregators | parameters | held-out accuracy | seconds |\n|---|---:|---:|---:|")
    for aggregators in MODELS:
        torch.manual_seed(seed)
        network = make_network(aggregators, budget)
        start = time.perf_counter()
        train(network, graphs[held_out:], epochs, seed)
        seconds = time.perf_counter() - start
        name = ", ".join(aggregators)
        scores[name] = accuracy(network, graphs[:held_out])
        print(f"| {name} | {count(network):,} | {scores[name]:.1%} | {seconds:.0f} |")
    return scores


if __name__ == "__main__":
    main()
