"""The loss and the scores of a split."""

from collections.abc import Sequence
from copy import copy
from typing import NamedTuple

import torch
from torch import Tensor, nn

from dgn.data.loader.static_batch import Batch, StaticBatches
from dgn.data.packed import PackedGraphs
from dgn.training.config import NetworkSettings
from dgn.training.objectives import Objective

SOFT_TARGETS = "lessons"  # the name of what teachers make of the labels of graphs
FEW = 1 << 17  # predictions up to which scores are computed on the host: many small operations are slow on a GPU


class Scores(NamedTuple):
    """The loss of a split and its metrics by name."""

    loss: float
    metrics: dict[str, float]


def required_inputs(settings: NetworkSettings, graphs: PackedGraphs) -> dict[str, list[str]]:
    """The values of nodes and edges that a network reads, or its weights are made of, as far as graphs have them."""
    potential, gap = settings.reads_potential, settings.plan.needs_gap
    nodes = {"x": True, "structure": True, "potential": potential, "gap": gap}
    edges = {"field": True, "edge_attr": settings.edge_dim is not None}
    return {
        "nodes": [name for name, is_read in nodes.items() if is_read and name in graphs.nodes],
        "edges": [name for name, is_read in edges.items() if is_read and name in graphs.edges],
    }


def predict(network: nn.Module, batch: Batch) -> Tensor:
    """What a network says of a batch, padding included: [G + 1, T], or [N, T] for nodes."""
    prediction: Tensor = network(
        batch.nodes["x"],
        batch.graph,
        edge_attr=batch.edges.get("edge_attr"),
        potential=batch.nodes.get("potential"),
        weights=batch.weights,
        node_mask=batch.node_mask if batch.padded else None,
        structure=batch.nodes.get("structure"),
    )
    return prediction


def predict_sides(network: nn.Module, sides: Sequence[Batch]) -> Tensor:
    """The mean of what a network says of a batch and its mirror image, or of the batch alone."""
    first, *others = (predict(network, side) for side in sides)
    return torch.stack([first, *others]).mean(dim=0) if others else first


def target_of(batch: Batch) -> tuple[Tensor, Tensor]:
    """The targets of a batch, and 1 or 0 for each whether it is real."""
    if "y" in batch.nodes:
        return batch.nodes["y"], batch.node_mask[:, 0]
    return batch.graphs["y"], batch.graph_mask[:, 0]


def training_target(batch: Batch) -> tuple[Tensor, Tensor]:
    """What a network in training is told of a batch: its lessons, where it has teachers, or else its targets."""
    target, real = target_of(batch)
    return batch.graphs.get(SOFT_TARGETS, target), real


class Split:
    """Batches of a split that never change, and room on a device for what a network says of them.

    With several ``sides``, such as graphs and their mirror images, the mean of what it says of them counts; they stand
    side by side in the words of a batch, which is read as the first of them. Batches that do not fit the device stay
    where they are, and come to it one by one.
    """

    def __init__(
        self,
        sides: Sequence[StaticBatches],
        objective: Objective,
        targets: int,
        device: torch.device | str | None = None,
    ) -> None:
        batches, self.objective, self.sides = sides[0], objective, len(sides)
        words = batches.words if len(sides) == 1 else torch.cat([side.words for side in sides], dim=1)
        self.batches = StaticBatches(words, batches.slots, batches.room, batches.scalers)
        place = batches.words.device if device is None else device
        every = [target_of(batch) for batch in self.batches]
        real = torch.cat([real for _, real in every]) > 0
        self.rows = [int(real.sum()) for _, real in every]
        self.prediction = torch.zeros(len(batches), len(every[0][1]), targets, device=place)
        self.terms = torch.zeros(2, device=place)
        scored_on = "cpu" if self.prediction.numel() <= FEW else place
        self.target = torch.cat([target for target, _ in every])[real].to(scored_on)
        self.real = real.nonzero()[:, 0].to(scored_on)

    def fork(self) -> "Split":
        """The same split with room for what another network says."""
        twin = copy(self)
        twin.prediction, twin.terms = torch.zeros_like(self.prediction), torch.zeros_like(self.terms)
        return twin

    @torch.no_grad()
    def step(self, network: nn.Module, row: Tensor, counter: Tensor) -> None:
        """Predict for the batch in a row of words; ``counter`` [1] says which it is."""
        sides = [self.batches.read(side) for side in row.to(self.prediction.device).chunk(self.sides)]
        prediction = predict_sides(network, sides)
        target, real = target_of(sides[0])
        self.terms += torch.stack(self.objective.loss(prediction, target, real))
        self.prediction.index_copy_(0, counter.to(self.prediction.device), prediction[None].to(self.prediction.dtype))

    def scores(self) -> Scores:
        """The scores of all predictions; waits for them."""
        found = self.prediction.flatten(0, 1).to(self.real.device)[self.real]
        numerator, denominator = self.terms.tolist()
        loss = numerator / denominator if denominator else 0.0
        return Scores(loss, self.objective.metrics(found, self.target, self.rows))
