"""A Lightning module around `dgn.nn.DGN`: is a graph a path, a cycle, a star or a grid?

    python examples/lightning_module.py

Needs the extra `train`. The only feature of a node is its degree.
"""

import warnings
from random import Random

import lightning
import torch
from torch import Tensor, nn
from torch_geometric.data import Batch, Data
from torch_geometric.loader import DataLoader
from torch_geometric.utils import degree

from dgn.nn import DGN, NetworkSettings
from dgn.testing import cycle, grid, path, star
from dgn.transforms import AddDirections


class ShapeClassifier(lightning.LightningModule):
    def __init__(self, lr: float = 0.005) -> None:
        super().__init__()
        self.lr = lr
        settings = NetworkSettings(hidden=32, num_layers=3, aggregators=["mean", "std", "dx1", "dx2"], readout="mean")
        self.network = DGN(1, settings, out_channels=4)

    def training_step(self, batch: Batch, _: int) -> Tensor:
        loss = nn.functional.cross_entropy(self.network(batch), batch.y)
        self.log("train_loss", loss, batch_size=batch.num_graphs)
        return loss

    def validation_step(self, batch: Batch, _: int) -> None:
        right = (self.network(batch).argmax(dim=1) == batch.y).float().mean()
        self.log("val_accuracy", right, batch_size=batch.num_graphs)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=self.lr)


def random_graph(draw: Random) -> Data:
    kind, size = draw.randrange(4), draw.randint(6, 30)
    edge_index, nodes = (path(size), cycle(size), star(size), grid(draw.randint(2, 6), draw.randint(3, 6)))[kind]
    return Data(x=degree(edge_index[1], nodes)[:, None], edge_index=edge_index, y=torch.tensor([kind]))


class Shapes(lightning.LightningDataModule):
    """Graphs with directions, of which a fifth is held out."""

    def __init__(self, graphs: int, seed: int = 0) -> None:
        super().__init__()
        draw = Random(seed)
        self.graphs = AddDirections(k=2).transform_all([random_graph(draw) for _ in range(graphs)])
        self.held_out = graphs // 5

    def train_dataloader(self) -> DataLoader:
        return DataLoader(self.graphs[self.held_out :], batch_size=32, shuffle=True)

    def val_dataloader(self) -> DataLoader:
        return DataLoader(self.graphs[: self.held_out], batch_size=64)


def main(graphs: int = 600, epochs: int = 10) -> float:
    """Train, print and return the accuracy on held-out graphs."""
    warnings.filterwarnings("ignore", message=".*does not have many workers.*")
    lightning.seed_everything(0, verbose=False)
    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    trainer = lightning.Trainer(max_epochs=epochs, accelerator="cpu", enable_model_summary=False, **quiet)
    trainer.fit(ShapeClassifier(), datamodule=Shapes(graphs))
    accuracy = float(trainer.callback_metrics["val_accuracy"])
    print(f"accuracy on held-out graphs: {accuracy:.1%}")
    return accuracy


if __name__ == "__main__":
    main()
