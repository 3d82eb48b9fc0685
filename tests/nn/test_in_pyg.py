"""What users of PyG and PyTorch do with a layer: explain, to_hetero, lazy widths, autocast, DDP, export, ..."""

import copy
import io
import os
import traceback

import pytest
import torch
from torch import nn
from torch_geometric import EdgeIndex
from torch_geometric.data import Data, HeteroData
from torch_geometric.explain import CaptumExplainer, Explainer, GNNExplainer, PGExplainer
from torch_geometric.loader import DataLoader
from torch_geometric.nn import HeteroConv, MessagePassing, Sequential, global_mean_pool, summary, to_hetero

import dgn
from dgn.nn import DGN, DGNConv, NetworkSettings
from dgn.testing import grid, path, random_graph
from dgn.transforms import AddDirections

NAMES = ["mean", "max", "std", "dx1", "av1"]
EDGES, N = random_graph(9, 0.4, torch.Generator().manual_seed(3))
E = EDGES.size(1)


def random(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


X, FIELD = random(N, 4), random(E, 1, seed=1)


class Net(nn.Module):
    """Two layers and a mean, as a user writes them."""

    def __init__(self, message="simple", out=2, backend="auto"):
        super().__init__()
        torch.manual_seed(0)
        self.conv1 = DGNConv(4, 8, NAMES, message=message, backend=backend)
        self.conv2 = DGNConv(8, 8, NAMES, message=message, backend=backend)
        self.head = nn.Linear(8, out)

    def forward(self, x, edge_index, edge_field, batch=None):
        h = self.conv1(x, edge_index, edge_field=edge_field).relu()
        h = self.conv2(h, edge_index, edge_field=edge_field).relu()
        return self.head(global_mean_pool(h, batch))


def test_a_layer_is_a_message_passing():
    conv = DGNConv(4, 8)
    assert isinstance(conv, MessagePassing)
    assert set(conv.state_dict()) == {"update.scaled", "update.bias"}
    assert set(DGNConv(4, 8, message="complex").state_dict()) > {"message.ends", "update.own"}


@pytest.mark.parametrize("message", ["simple", "complex"])
@pytest.mark.parametrize("backend", ["auto", "reference", "cpu"])
def test_edge_weights_scale_messages(message, backend):
    if backend == "cpu":
        pytest.importorskip("numba", reason="Numba is not installed")
    torch.manual_seed(0)
    layer = DGNConv(4, 6, NAMES, message=message, backend=backend)
    weight = torch.rand(E)
    got = layer(X, EDGES, edge_field=FIELD, edge_weight=weight)
    source, target = X[EDGES[0]], X[EDGES[1]]
    built = source
    if message == "complex":
        built = torch.cat([source, target], dim=1) @ layer.message.weight[0].T + layer.message.bias[0]

    class Stored(nn.Module):
        def forward(self, _):
            return built * weight[:, None]

    naive = DGNConv(4, 6, NAMES, message=Stored(), backend="reference")
    own = naive.update.own
    naive._modules["update"] = copy.deepcopy(layer.update)
    if layer.update.own is None:  # simple messages: the update does not read the node
        naive.update.own = nn.Parameter(torch.zeros_like(own))
    torch.testing.assert_close(got, naive(X, EDGES, edge_field=FIELD))
    ones = layer(X, EDGES, edge_field=FIELD, edge_weight=torch.ones(E))
    torch.testing.assert_close(ones, layer(X, EDGES, edge_field=FIELD))


def test_wrong_edge_weights_are_refused():
    with pytest.raises(ValueError, match=r"edge_weight: expected floating-point numbers \[\d+\].*edge_attr="):
        DGNConv(4, 6)(X, EDGES, edge_field=FIELD, edge_weight=torch.ones(E, 2))


def explainer(algorithm, model, edge_mask="object", node_mask=None):
    config = {"mode": "regression", "task_level": "graph", "return_type": "raw"}
    kind = "phenomenon" if isinstance(algorithm, PGExplainer) else "model"
    return Explainer(
        model, algorithm, explanation_type=kind, edge_mask_type=edge_mask, node_mask_type=node_mask, model_config=config
    )


@pytest.mark.parametrize("message", ["simple", "complex"])
def test_gnn_explainer_finds_the_edges_of_a_prediction(message):
    model = Net(message, out=1).eval()
    algorithm = GNNExplainer(epochs=30)
    explanation = explainer(algorithm, model, node_mask="attributes")(X, EDGES, edge_field=FIELD)
    mask = explanation.edge_mask
    assert mask.shape == (E,)
    assert mask.max() > mask.min() >= 0
    assert not any(module.explain for module in (model.conv1, model.conv2))  # the masks are gone
    torch.testing.assert_close(model(X, EDGES, FIELD), Net(message, out=1)(X, EDGES, FIELD))


def test_gnn_explainer_of_a_network():
    torch.manual_seed(0)
    net = DGN(4, NetworkSettings(hidden=32, num_layers=2, aggregators=NAMES)).eval()
    explanation = explainer(GNNExplainer(epochs=5), net)(X, EDGES, edge_field=FIELD)
    assert explanation.edge_mask.std() > 0


def test_a_mask_of_an_explainer_scales_messages():
    layer, mask = DGNConv(4, 6, NAMES), torch.rand(E)
    layer.explain, layer._edge_mask, layer._apply_sigmoid = True, mask, False
    got = layer(X, EDGES, edge_field=FIELD)
    layer.explain = False
    torch.testing.assert_close(got, layer(X, EDGES, edge_field=FIELD, edge_weight=mask))


@pytest.mark.parametrize("method", ["IntegratedGradients", "Saliency"])
def test_captum_explains_edges(method):
    pytest.importorskip("captum", reason="Captum is not installed")
    explanation = explainer(CaptumExplainer(method), Net(out=1).eval())(X, EDGES, edge_field=FIELD)
    assert explanation.edge_mask.shape == (E,)
    assert explanation.edge_mask.abs().max() > 0


@pytest.mark.filterwarnings("ignore:Converting a tensor with requires_grad:UserWarning")  # in PyG
def test_pg_explainer_explains_edges():
    model = Net(out=1).eval()
    algorithm = PGExplainer(epochs=2, lr=0.01)
    explain = explainer(algorithm, model)
    target = model(X, EDGES, FIELD).detach()
    for epoch in range(2):
        loss = algorithm.train(epoch, model, X, EDGES, target=target, edge_field=FIELD)
    assert torch.isfinite(torch.tensor(loss))
    assert explain(X, EDGES, target=target, edge_field=FIELD).edge_mask.shape == (E,)


def hetero():
    data = HeteroData()
    data["user"].x, data["item"].x = random(5, 4), random(3, 6)
    ends = torch.tensor([[0, 4, 2, 1], [0, 0, 2, 1]])
    for kind, index in ((("user", "buys", "item"), ends), (("item", "sold", "user"), ends.flip(0))):
        data[kind].edge_index, data[kind].edge_field = index, random(4, 1)
    return data


class Lazy(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = DGNConv((-1, -1), 8, NAMES), DGNConv((-1, -1), 2, NAMES)

    def forward(self, x, edge_index, edge_field):
        h = self.conv1(x, edge_index, edge_field=edge_field).relu()
        return self.conv2(h, edge_index, edge_field=edge_field)


def test_to_hetero():
    data = hetero()
    model = to_hetero(Lazy(), data.metadata(), aggr="sum")
    out = model(data.x_dict, data.edge_index_dict, data.edge_field_dict)
    assert {kind: tuple(value.shape) for kind, value in out.items()} == {"user": (5, 2), "item": (3, 2)}
    conv = model.conv1["user__buys__item"]
    assert conv.widths == (4, 6)
    sum(value.sum() for value in out.values()).backward()
    assert conv.source_map.weight.grad is not None


def test_hetero_conv():
    data, kinds = hetero(), (("user", "buys", "item"), ("item", "sold", "user"))
    model = HeteroConv({kinds[0]: DGNConv((4, 6), 8, NAMES), kinds[1]: DGNConv((-1, -1), 8, NAMES)})
    out = model(data.x_dict, data.edge_index_dict, edge_field_dict=data.edge_field_dict)
    alone = model.convs[kinds[0]](
        (data["user"].x, data["item"].x), data[kinds[0]].edge_index, edge_field=data[kinds[0]].edge_field
    )
    torch.testing.assert_close(out["item"], alone)
    assert out["user"].shape == (5, 8)


def test_two_widths_are_a_map_of_sources_in_front():
    layer = DGNConv((5, 4), 6, NAMES, message="complex")
    sources, targets, ends = random(7, 5), random(3, 4, seed=1), torch.tensor([[0, 6, 2, 1], [0, 0, 2, 1]])
    got = layer((sources, targets), ends, edge_field=random(4, 1))
    plain = DGNConv(4, 6, NAMES, message="complex")
    plain.load_state_dict({k: v for k, v in layer.state_dict().items() if not k.startswith("source_map")})
    expected = plain((layer.source_map(sources), targets), ends, edge_field=random(4, 1))
    torch.testing.assert_close(got, expected)


def test_targets_may_be_none_where_nothing_reads_them():
    layer, ends = DGNConv(4, 6, ["mean", "max", "av1"]), torch.tensor([[0, 4, 2, 1], [0, 0, 2, 0]])
    sources, field = random(5, 4), random(4, 1)
    expected = layer((sources, torch.zeros(3, 4)), ends, edge_field=field)
    assert torch.equal(layer((sources, None), ends, edge_field=field), expected)
    more = layer((sources, None), ends, edge_field=field, size=(5, 4))
    assert torch.equal(more[:3], expected)
    assert more.shape == (4, 6)
    stated = layer((sources, None), EdgeIndex(ends, sparse_size=(5, 4)), edge_field=field)
    assert torch.equal(stated, more)
    graph = dgn.as_graph(ends, 5)
    assert torch.equal(layer((sources, None), graph, edge_field=field), expected)
    for other in (DGNConv(4, 6, ["mean", "dx1"]), DGNConv(4, 6, ["mean"], message="complex")):
        with pytest.raises(ValueError, match=r"x: expected targets .*, got None; .*pass \(sources, targets\)"):
            other((sources, None), ends, edge_field=field)


@pytest.mark.parametrize("message", ["simple", "complex"])
def test_a_width_of_minus_one_is_that_of_the_first_input(message):
    layer = DGNConv(-1, 6, NAMES, message=message, edge_dim=2 if message == "complex" else None)
    assert "DGNConv(-1, 6" in repr(layer)
    assert not list(layer.parameters())
    edges = {"edge_attr": random(E, 2).double()} if message == "complex" else {}
    out = copy.deepcopy(layer)(X.double(), EDGES, edge_field=FIELD, **edges)
    assert out.dtype == torch.float64
    layer(X.double(), EDGES, edge_field=FIELD, **edges)
    assert (layer.in_channels, layer.update.bias.dtype) == (4, torch.float64)
    eager = DGNConv(4, 6, NAMES, message=message, edge_dim=layer.edge_dim)
    assert eager.state_dict().keys() == layer.state_dict().keys()


class ByKeyword(nn.Module):
    """``Sequential`` passes arguments by position."""

    def __init__(self, conv):
        super().__init__()
        self.conv = conv

    def forward(self, x, edge_index, edge_field):
        return self.conv(x, edge_index, edge_field=edge_field)


def test_sequential_and_summary():
    conv, call = DGNConv(4, 8, NAMES), "x, edge_index, edge_field -> x"
    model = Sequential("x, edge_index, edge_field", [(ByKeyword(conv), call), nn.ReLU(), nn.Linear(8, 2)])
    expected = model[2](conv(X, EDGES, edge_field=FIELD).relu())
    torch.testing.assert_close(model(X, EDGES, FIELD), expected)
    pytest.importorskip("tabulate", reason="summary of PyG needs tabulate")
    assert "DGNConv" in summary(Net(), X, EDGES, FIELD)


def test_autocast():
    net = Net("complex")
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = net(X, EDGES, FIELD)
    assert out.dtype == torch.bfloat16
    torch.testing.assert_close(out.float(), net(X, EDGES, FIELD), atol=0.05, rtol=0.05)
    out.sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in net.parameters())


def train_in_parallel(store):
    """In a process that ends without destructors: where Gloo's waits for a thread that waits for the GIL, both hang."""
    torch.distributed.init_process_group("gloo", init_method=f"file://{store}", rank=0, world_size=1)
    try:
        net = Net("complex")
        parallel = nn.parallel.DistributedDataParallel(copy.deepcopy(net))
        parallel(X, EDGES, FIELD).sum().backward()
        net(X, EDGES, FIELD).sum().backward()
        for one, other in zip(parallel.module.parameters(), net.parameters(), strict=True):
            torch.testing.assert_close(one.grad, other.grad)
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def test_distributed_data_parallel(tmp_path):
    process = torch.multiprocessing.get_context("spawn").Process(target=train_in_parallel, args=(tmp_path / "store",))
    process.start()
    process.join(timeout=120)
    assert process.exitcode == 0


@pytest.mark.parametrize("backend", ["auto", "reference"])
def test_torch_func(backend, monkeypatch):
    monkeypatch.setattr(dgn.aggregation.dispatch, "SMALL", 0)  # kernels would run
    net = Net("complex", backend=backend)
    parameters = dict(net.named_parameters())

    def loss(parameters):
        return torch.func.functional_call(net, parameters, (X, EDGES, FIELD)).sum()

    grads = torch.func.grad(loss)(parameters)
    net(X, EDGES, FIELD).sum().backward()
    for name, parameter in parameters.items():
        torch.testing.assert_close(grads[name], parameter.grad)


def test_kernels_are_refused_under_torch_func():
    pytest.importorskip("numba", reason="Numba is not installed")
    layer = DGNConv(4, 6, NAMES, backend="cpu")
    with pytest.raises(ValueError, match=r"backend: expected 'auto' or 'reference' under torch.func, got 'cpu'"):
        torch.func.grad(lambda x: layer(x, EDGES, edge_field=FIELD).sum())(X)


def test_vmap_over_an_ensemble():
    nets = [Net(backend="reference") for _ in range(3)]
    for seed, net in enumerate(nets):
        torch.manual_seed(seed)
        net.conv1.reset_parameters()
    stacked, buffers = torch.func.stack_module_state(nets)
    outputs = torch.func.vmap(
        lambda parameters: torch.func.functional_call(nets[0], (parameters, buffers), (X, EDGES, FIELD))
    )(stacked)
    torch.testing.assert_close(outputs, torch.stack([net(X, EDGES, FIELD) for net in nets]))


def test_checkpointing():
    layer, grads = DGNConv(4, 6, NAMES, message="complex"), []
    for use in (False, True):
        x = X.clone().requires_grad_()
        if use:
            out = torch.utils.checkpoint.checkpoint(layer, x, EDGES, edge_field=FIELD, use_reentrant=False)
        else:
            out = layer(x, EDGES, edge_field=FIELD)
        grads.append(torch.autograd.grad(out.sum(), x)[0])
    torch.testing.assert_close(*grads)


def test_export_with_more_nodes_and_edges():
    net = Net("complex", backend="reference").eval()
    nodes, edges = torch.export.Dim("nodes", min=2), torch.export.Dim("edges", min=2)
    shapes = {"x": {0: nodes}, "edge_index": {1: edges}, "edge_field": {0: edges}, "batch": {0: nodes}}
    batch = torch.zeros(N, dtype=torch.long)

    class Fixed(nn.Module):  # PyG's pooling counts graphs by value: the mean over all nodes is that of one graph
        def __init__(self):
            super().__init__()
            self.net = net

        def forward(self, x, edge_index, edge_field, batch):
            h = self.net.conv1(x, edge_index, edge_field=edge_field).relu()
            return self.net.head(
                self.net.conv2(h, edge_index, edge_field=edge_field).relu().mean(dim=0) + 0 * batch.sum()
            )

    program = torch.export.export(Fixed(), (X, EDGES, FIELD, batch), dynamic_shapes=shapes)
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    loaded = torch.export.load(file).module()
    edge_index, num_nodes = grid(60, 60)
    assert edge_index.size(1) > 8191
    inputs = random(num_nodes, 4), edge_index, random(edge_index.size(1), 1), torch.zeros(num_nodes, dtype=torch.long)
    torch.testing.assert_close(loaded(*inputs), Fixed()(*inputs), atol=1e-4, rtol=1e-4)


@pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning")  # in Lightning
@pytest.mark.filterwarnings("ignore:The 'train_dataloader' does not have many workers")
def test_lightning(tmp_path):
    lightning = pytest.importorskip("lightning", reason="Lightning is not installed")

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = Net(out=1)

        def training_step(self, batch, _):
            out = self.net(batch.x, batch.edge_index, batch.edge_field, batch.batch)
            return nn.functional.mse_loss(out[:, 0], batch.y)

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters(), lr=0.01)

    graphs = [Data(x=random(n, 4), edge_index=path(n)[0], y=torch.tensor([float(n)])) for n in (3, 4, 5, 6)]
    loader = DataLoader(AddDirections(1).transform_all(graphs), batch_size=2)
    module = Module()
    before = copy.deepcopy(module.state_dict())
    options = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        trainer = lightning.Trainer(max_epochs=1, accelerator="cpu", enable_model_summary=False, **options)
        trainer.fit(module, loader)
    assert any(not torch.equal(before[name], value) for name, value in module.state_dict().items())


def test_a_layer_of_a_transform_in_a_loader():
    data = AddDirections(1)(Data(x=X, edge_index=EDGES))
    assert Net()(data.x, data.edge_index, data.edge_field).shape == (1, 2)
    assert torch.equal(data.edge_field, dgn.transforms.AddDirections(1).transform_all([data])[0].edge_field)
