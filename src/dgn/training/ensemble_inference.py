"""What networks of one shape say of graphs."""

from collections.abc import Sequence

import torch
from torch import Tensor

from dgn.data.loader.device_dataset import DeviceDataset
from dgn.data.packed import PackedGraphs
from dgn.nn import DGN, Ensemble
from dgn.training.config import NetworkSettings
from dgn.training.devices import dataset_device
from dgn.training.evaluate import predict_sides, required_inputs
from dgn.training.tta import both_sides, reflect_weights

BATCH = 128  # graphs that are asked about at once


@torch.no_grad()
def ask(
    networks: Sequence[DGN | Ensemble],
    settings: NetworkSettings,
    targets: int,
    graphs: PackedGraphs,
    device: torch.device,
    coordinates: Tensor | None = None,
) -> Tensor:
    """What each network says of each graph, or of each node with ``readout: nodes``: [M, R, T] on the CPU.

    ``graphs`` have all values that the networks read, and these are on ``device``, in evaluation mode.
    With ``both_sides``, ``coordinates`` [C] are the inputs that are mirrored with the last coordinate; without, those
    that are equal to it here.
    Laws: it depends neither on the graphs beside one nor on their order, up to rounding.
    """
    plan, of_nodes = settings.plan, settings.readout == "nodes"
    store = DeviceDataset(graphs, required_inputs(settings, graphs), dataset_device(graphs, device))
    store.weights = plan.compute_weights(store.edges.get("field"), store.graph, store.nodes.get("gap"))
    if settings.tta_mirror:
        store.mirrored = reflect_weights(plan, store)
    store.edges.pop("field", None)
    store.nodes.pop("gap", None)
    sides = both_sides(store, coordinates) if settings.tta_mirror else (store,)
    found = [torch.zeros(len(networks), 0, targets)]
    for part in torch.split(torch.arange(len(graphs)), BATCH):
        if not len(part):
            continue
        room = store.needs(part[None])
        batches = [next(iter(side.gather(part[None], room).to(device))) for side in sides]
        rows = int(store.node_count[part].sum()) if of_nodes else len(part)  # padding stands behind them
        found.append(torch.stack([predict_sides(network, batches)[:rows] for network in networks]).float().cpu())
    return torch.cat(found, dim=1)
