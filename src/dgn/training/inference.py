"""Predictions of trained networks on preprocessed graphs, in batches."""

from collections.abc import Sequence

import torch
from torch import Tensor

from dgn.data.loader.device_dataset import DeviceDataset
from dgn.data.packed import PackedGraphs
from dgn.nn import DGN, Ensemble
from dgn.nn.network import Returns
from dgn.nn.readout import DOUBLE_WIDTH
from dgn.training.config import NetworkSettings
from dgn.training.devices import dataset_device
from dgn.training.evaluate import predict_mean, required_inputs
from dgn.training.tta import reflect_weights, tta_mirror

BATCH_SIZE = 128  # graphs in a batch of inference


@torch.no_grad()
def predict_ensemble(
    networks: Sequence[DGN | Ensemble],
    settings: NetworkSettings,
    targets: int,
    graphs: PackedGraphs,
    device: torch.device,
    coordinates: Tensor | None = None,
    returns: Returns = "prediction",
) -> Tensor:
    """Predictions of M networks with the same settings, one row for each graph or node: [M, R, T] on the CPU.

    With other ``returns``, embeddings of C channels: [M, R, C].

    ``graphs`` have all inputs that the networks read. The networks are on ``device``, in evaluation mode. With
    ``tta_mirror``, ``coordinates`` [C] masks the features that are reflected (without: those that equal the last
    coordinate in these graphs).
    Laws: a prediction depends neither on the other graphs nor on their order, up to rounding.
    """
    plan, of_nodes = settings.plan, settings.readout == "nodes" or returns == "node-embedding"
    dataset = DeviceDataset(graphs, required_inputs(settings, graphs), dataset_device(graphs, device))
    dataset.weights = plan.compute_weights(dataset.edges.get("edge_field"), dataset.graph, dataset.nodes.get("gap"))
    if settings.tta_mirror:
        dataset.mirrored = reflect_weights(plan, dataset)
    dataset.edges.pop("edge_field", None)
    dataset.nodes.pop("gap", None)
    views = tta_mirror(dataset, coordinates) if settings.tta_mirror else (dataset,)
    width = targets if returns == "prediction" else embedding_width(settings, returns)
    predictions = [torch.zeros(len(networks), 0, width)]
    for index in torch.split(torch.arange(len(graphs)), BATCH_SIZE):
        if not len(index):
            continue
        shape = dataset.smallest_shape(index[None])
        batches = [next(iter(view.gather(index[None], shape).to(device))) for view in views]
        rows = int(dataset.node_count[index].sum()) if of_nodes else len(index)  # padding comes after them
        members = [predict_mean(network, batches, returns)[:rows] for network in networks]
        predictions.append(torch.stack(members).float().cpu())
    return torch.cat(predictions, dim=1)


def embedding_width(settings: NetworkSettings, returns: Returns) -> int:
    """The number of channels of embeddings, of all members of an ensemble side by side."""
    width = settings.last or settings.hidden
    pooled = 2 * width if settings.readout in DOUBLE_WIDTH else width
    return settings.ensemble_size * (pooled if returns == "embedding" else width)
