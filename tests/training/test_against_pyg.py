"""Training on padded batches against a plain PyG network with the same parameters: the same losses, step by step."""

import pytest
import torch
from torch_geometric.data import Batch

from dgn.aggregation import average_log_degree
from dgn.data import PackedGraphs
from dgn.data.loader.device_dataset import DeviceDataset
from dgn.data.loader.static_batch import BatchShape
from dgn.data.precompute.directions import add_directions
from dgn.training.build import Inputs, build_for_inputs
from dgn.training.config import NetworkSettings
from dgn.training.evaluate import predict, target_of
from dgn.training.objectives import make_objective
from dgn.training.replica import cut

pyg = pytest.importorskip("benchmarks.training.pyg_baseline", reason="the benchmarks are not part of this installation")

STEPS, BATCH = 20, 8
SCALERS = ("identity", "amplification", "attenuation")
ALL = ("mean", "sum", "max", "min", "std", "av1", "dx1", "dx2-signed")


def molecules(count=30, seed=0):
    """Random trees with a few rings closed, 1 to 20 nodes: kinds of atoms and bonds, a field, targets of all sorts."""
    draw = torch.Generator().manual_seed(seed)

    def whole(high, shape=(1,)):
        return torch.randint(high, shape, generator=draw)

    structures = []
    for number in range(count):
        n = 1 if number == 3 else 2 + int(whole(19))
        bonds = {(int(whole(i)), i) for i in range(1, n)} | {tuple(sorted(whole(n, (2,)).tolist())) for _ in range(3)}
        edges = torch.tensor(sorted(pair for pair in bonds if pair[0] != pair[1]), dtype=torch.long).view(-1, 2).T
        structures.append((torch.cat([edges, edges.flip(0)], dim=1), n))
    packed = PackedGraphs.pack(structures)
    nodes, edges, graphs = packed.num_nodes, packed.num_edges, len(packed)
    return add_directions(packed, k=2).with_values(
        nodes={"x": torch.stack([whole(9, (nodes,)), whole(4, (nodes,))], dim=1)},
        edges={"edge_attr": whole(4, (edges,)).to(torch.uint8), "length": torch.rand(edges, 1, generator=draw)},
        graphs={"y": torch.randn(graphs, generator=draw), "class": whole(3, (graphs,)), "yes": whole(2, (graphs, 2))},
    )


def with_target(graphs, objective):
    """The graphs with the targets of an objective called y."""
    if objective == "node-classification":
        return graphs.with_values(nodes={"y": (graphs.nodes["x"][:, 0] > 6).to(torch.uint8)})
    name = {"regression": "y", "classification": "class", "multi-label": "yes"}[objective]
    return graphs.with_values(graphs={"y": graphs.graphs[name]})


CASES = {
    "simple": (NetworkSettings(hidden=12, aggregators=("mean", "dx1"), size_norm=False), "multi-label", 2),
    "all aggregators": (NetworkSettings(hidden=8, aggregators=ALL, readout="max"), "regression", 1),
    "complex with an edge table": (
        NetworkSettings(
            hidden=12, last=8, aggregators=("mean", "dx1", "max", "min"), scalers=SCALERS, message="complex", edge_dim=5
        ),
        "regression",
        1,
    ),
    "towers, numbers on edges": (
        NetworkSettings(
            hidden=15, last=10, aggregators=("mean", "dx1", "dx2", "max"), message="complex", towers=5, edge_dim=3,
            readout="sum",
        ),
        "classification",
        3,
    ),
    "nodes": (
        NetworkSettings(
            hidden=12, aggregators=("mean", "dx1", "av1"), scalers=SCALERS, message="complex", readout="nodes"
        ),
        "node-classification",
        2,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("settings", "name", "targets"), CASES.values(), ids=CASES)
def test_padded_batches_train_as_pyg_does(settings, name, targets):
    graphs = with_target(molecules(), name)
    of_edges = 1 if "dx2" in settings.aggregators else (4,)
    if of_edges == 1:
        graphs = graphs.with_values(edges={"edge_attr": graphs.edges["length"]})
    inputs = Inputs((9, 4), of_edges if settings.edge_dim else None, targets)
    delta = average_log_degree(graphs.graph)
    torch.manual_seed(0)
    ours = build_for_inputs(settings, inputs, delta)
    theirs = pyg.PyGNetwork(settings, inputs, delta)
    theirs.load_dgn(ours)

    draw = torch.Generator().manual_seed(1)
    every = [cut(torch.randperm(len(graphs), generator=draw), BATCH) for _ in range(STEPS)]
    numbers = torch.cat(every)[:STEPS]
    mine = our_losses(ours, graphs, numbers, make_objective(name))
    reference = pyg_losses(theirs, graphs, numbers, name)
    torch.testing.assert_close(mine, reference, rtol=1e-4, atol=1e-6)
    assert mine[-4:].mean() < mine[:4].mean()  # it does learn
    state, expected = pyg.as_pyg_state(ours), theirs.state_dict()
    for key in [key for key in state if "running" in key]:
        torch.testing.assert_close(state[key], expected[key], rtol=1e-3, atol=1e-4)


def our_losses(network, graphs, numbers, objective):
    names = {
        "nodes": ["x"],
        "edges": ["edge_field", *(["edge_attr"] if network.settings.edge_dim else [])],
        "graphs": [],
    }
    names["nodes" if "y" in graphs.nodes else "graphs"] += ["y"]
    store = DeviceDataset(graphs, names, "cpu")
    store.weights = network.plan.compute_weights(store.edges.pop("edge_field"), store.graph)
    need = store.smallest_shape(numbers)
    batches = store.gather(numbers, BatchShape(BATCH, need.nodes + 37, need.edges + 11))
    adam = torch.optim.Adam(network.parameters(), 1e-3, weight_decay=1e-4, fused=True)
    losses = []
    for batch in batches:
        total, count = objective.loss(predict(network.train(), batch), *target_of(batch))
        adam.zero_grad()
        (total / count).backward()
        adam.step()
        losses.append((total / count).detach())
    return torch.stack(losses)


def pyg_losses(network, graphs, numbers, objective):
    data = pyg.as_data(graphs, with_edges=network.edge_encoder is not None)
    adam = torch.optim.Adam(network.parameters(), 1e-3, weight_decay=1e-4)
    losses = []
    for row in numbers.tolist():
        batch = Batch.from_data_list([data[number] for number in row if number >= 0])
        loss = pyg.loss_of(objective, pyg.call(network.train(), batch), batch.y)
        adam.zero_grad()
        loss.backward()
        adam.step()
        losses.append(loss.detach())
    return torch.stack(losses)
