"""The loss and the metrics of a split."""

from collections.abc import Sequence
from copy import copy
from typing import NamedTuple

import torch
from torch import Tensor, nn

from dgn.data.benchmark import CENSORING, GRAPH_ATTR, SAMPLE_WEIGHT
from dgn.data.loader.static_batch import Batch, StaticBatches
from dgn.data.packed import PackedGraphs
from dgn.graph.columns import as_columns
from dgn.nn.network import Returns
from dgn.training.config import NetworkSettings
from dgn.training.objectives import Objective, censored_target

SOFT_TARGETS = "soft_targets"  # the key of distilled targets among the values of graphs
FEW = 1 << 17  # predictions up to which metrics are computed on the host: many small operations are slow on a GPU


class Scores(NamedTuple):
    """The loss of a split and its metrics by name."""

    loss: float
    metrics: dict[str, float]


def required_inputs(settings: NetworkSettings, graphs: PackedGraphs) -> dict[str, list[str]]:
    """Names of the inputs that a network or its weights read, among those that the graphs have."""
    potential, gap = settings.reads_potential, settings.plan.needs_gap
    nodes = {"x": True, "structure": True, "node_potential": potential, "gap": gap}
    edges = {"edge_field": True, "edge_attr": settings.edge_dim is not None}
    return {
        "nodes": [name for name, is_read in nodes.items() if is_read and name in graphs.nodes],
        "edges": [name for name, is_read in edges.items() if is_read and name in graphs.edges],
        "graphs": [name for name in (GRAPH_ATTR,) if name in graphs.graphs],
    }


def predict(network: nn.Module, batch: Batch, returns: Returns = "prediction") -> Tensor:
    """Predictions on a batch, or embeddings, padding included: [G + 1, T], or [N, T] for nodes."""
    prediction: Tensor = network(
        batch.nodes["x"],
        batch.graph,
        edge_attr=batch.edges.get("edge_attr"),
        node_potential=batch.nodes.get("node_potential"),
        weights=batch.weights,
        node_mask=batch.node_mask if batch.padded else None,
        structure=batch.nodes.get("structure"),
        graph_attr=batch.graphs.get(GRAPH_ATTR),
        returns=returns,
    )
    return prediction


def predict_mean(network: nn.Module, views: Sequence[Batch], returns: Returns = "prediction") -> Tensor:
    """The mean prediction over views of a batch: the batch alone, or the batch and its mirror image."""
    first, *others = (predict(network, view, returns) for view in views)
    return torch.stack([first, *others]).mean(dim=0) if others else first


def target_of(batch: Batch, split: int = 0) -> tuple[Tensor, Tensor]:
    """The targets of a batch, and 1 for each row that counts, 0 for padding and for nodes of other splits."""
    if "y" in batch.nodes:
        mask = batch.node_mask[:, 0]
        return batch.nodes["y"], mask * (batch.nodes["split"] == split) if "split" in batch.nodes else mask
    return batch.graphs["y"], batch.graph_mask[:, 0]


def training_target(batch: Batch) -> tuple[Tensor, Tensor]:
    """As :func:`target_of`, with soft targets in place of labels, and sample weights, where there are any.

    Shapes:
        weights are [R], or [R, 1] or [R, T] with sample weights.
    """
    target, real = target_of(batch)
    weight = batch.graphs.get(SAMPLE_WEIGHT)
    return batch.graphs.get(SOFT_TARGETS, target), real if weight is None else real[:, None] * as_columns(weight)


class Split:
    """The static batches of a split, and a buffer on a device for predictions on them.

    With several ``views``, such as graphs and their mirror images, the mean prediction is scored. The views are
    concatenated in the rows of the batch buffer, which is read as the first of them. Batches that do not fit the device
    stay where they are and are copied one by one. Where nodes have a split of their own, those of ``split`` count.
    """

    def __init__(
        self,
        views: Sequence[StaticBatches],
        objective: Objective,
        targets: int,
        device: torch.device | str | None = None,
        split: int = 0,
    ) -> None:
        batches, self.objective, self.views, self.split = views[0], objective, len(views), split
        buffer = batches.buffer if len(views) == 1 else torch.cat([view.buffer for view in views], dim=1)
        self.batches = StaticBatches(buffer, batches.slots, batches.shape, batches.scalers)
        predict_on = batches.buffer.device if device is None else device
        batch_targets = [target_of(batch, split) for batch in self.batches]
        real = torch.cat([real for _, real in batch_targets]) > 0
        self.rows = [int(real.sum()) for _, real in batch_targets]
        self.prediction = torch.zeros(len(batches), len(batch_targets[0][1]), targets, device=predict_on)
        self.terms = torch.zeros(2, device=predict_on)
        score_on = "cpu" if self.prediction.numel() <= FEW else predict_on
        self.target = torch.cat([target for target, _ in batch_targets])[real].to(score_on)
        self.real = real.nonzero()[:, 0].to(score_on)
        censored = [batch.graphs[CENSORING] for batch in self.batches if CENSORING in batch.graphs]
        self.censoring = torch.cat(censored)[real].to(score_on) if censored else None

    def fork(self) -> "Split":
        """The same split with a buffer for the predictions of another network."""
        twin = copy(self)
        twin.prediction, twin.terms = torch.zeros_like(self.prediction), torch.zeros_like(self.terms)
        return twin

    @torch.no_grad()
    def step(self, network: nn.Module, row: Tensor, counter: Tensor) -> None:
        """Predict on the batch in a row of the buffer; ``counter`` [1] is the index of the batch."""
        views = [self.batches.read(view) for view in row.to(self.prediction.device).chunk(self.views)]
        prediction = predict_mean(network, views)
        target, real = target_of(views[0], self.split)
        target = censored_target(target, prediction, views[0].graphs.get(CENSORING))
        self.terms += torch.stack(self.objective.loss(prediction, target, real))
        self.prediction.index_copy_(0, counter.to(self.prediction.device), prediction[None].to(self.prediction.dtype))

    def scores(self) -> Scores:
        """The loss and metrics of all predictions; synchronizes with the device."""
        prediction = self.prediction.flatten(0, 1).to(self.real.device)[self.real]
        numerator, denominator = self.terms.tolist()
        loss = numerator / denominator if denominator else 0.0
        target = censored_target(self.target, prediction, self.censoring)
        return Scores(loss, self.objective.metrics(prediction, target, self.rows))
