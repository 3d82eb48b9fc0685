"""An exported network predicts in onnxruntime what it predicts in Python."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from typer.testing import Result

from dgn.data.precompute.encodings import with_encodings
from dgn.models.load import load_model
from dgn.models.onnx import Predictor, export_onnx, onnx_inputs, random_graphs, to_onnx
from dgn.nn import DGNConv
from dgn.testing import grid, path
from dgn.training.model import TrainedModel
from dgn.training.trainer import train
from tests.training.small import make_benchmark, make_experiment

Invoke = Callable[..., Result]
EDGES = {"message": "complex", "edge_dim": 4, "aggregators": ["mean", "max", "dx1"]}
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "edges": (
        "regression",
        {
            "data": {"rwse_steps": 3, "ring_sizes": [3, 5]},
            "network": {**EDGES, "scalers": ["identity", "amplification"]},
        },
    ),
    "nodes": ("node-classification", {"network": {"readout": "nodes", "aggregators": ["mean", "dx2-group"]}}),
    "ensemble": ("multi-label", {"network": {"ensemble_size": 2, "readout": "directional", "virtual_node": True}}),
}


def trained(case: str, folder: Path) -> TrainedModel:
    objective, changes = CASES[case]
    experiment = make_experiment(**changes)
    benchmark = with_encodings(make_benchmark(objective), experiment.data.rwse_steps, experiment.data.ring_sizes)
    if case == "ensemble":
        features = torch.randn(len(benchmark.graphs), 2, generator=torch.Generator().manual_seed(0))
        benchmark = replace(benchmark, graphs=benchmark.graphs.with_values(graphs={"graph_attr": features}))
    train(experiment, benchmark, [7], folder, "cpu")
    model = load_model(folder / "seed-7", "cpu")
    assert isinstance(model, TrainedModel)
    return model


@pytest.mark.parametrize("case", CASES)
def test_the_function_that_is_exported_predicts_as_the_model(case: str, tmp_path: Path) -> None:
    model = trained(case, tmp_path)
    graphs = random_graphs(model, 100)
    assert len(graphs) == 100
    inputs = onnx_inputs(model, graphs)
    first = [inputs.pop(name) for name in ("x", "edge_index", "batch", "graph")]
    with torch.no_grad():
        torch.testing.assert_close(Predictor(model)(*first, inputs), model.predict(graphs), rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
@pytest.mark.filterwarnings("ignore")  # of PyTorch's exporter
def test_onnxruntime_predicts_as_the_model(case: str, tmp_path: Path) -> None:
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is optional")
    model = trained(case, tmp_path)
    assert export_onnx(model, tmp_path / "deep" / "model.onnx") < 1e-4
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["model.onnx"]
    session = runtime.InferenceSession(str(tmp_path / "deep" / "model.onnx"))
    graphs = make_benchmark(CASES[case][0]).graphs
    bare = type(graphs)(
        graphs.node_pointer, graphs.edge_pointer, graphs.edge_index,
        {"x": graphs.nodes["x"]}, {"edge_attr": graphs.edges["edge_attr"]},
    )  # fmt: skip
    if case == "ensemble":
        bare = bare.with_values(graphs={"graph_attr": torch.ones(len(bare), 2)})
    (prediction,) = session.run(None, {name: value.numpy() for name, value in onnx_inputs(model, bare).items()})
    torch.testing.assert_close(torch.from_numpy(prediction), model.predict(bare), rtol=1e-4, atol=1e-5)


def test_what_cannot_be_exported_is_refused(dgn: Invoke) -> None:
    trained("nodes", Path("run"))
    assert "expected a name that ends in .onnx" in dgn("export", "run/seed-7", "--onnx", "model.pt").output
    assert "expected the folder of a model" in dgn("export", "nowhere", "--onnx", "model.onnx").output
    assert not Path("model.onnx").exists()


def test_mirrored_predictions_are_refused(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="onnxruntime is optional")
    experiment = make_experiment(network={"tta_mirror": True}, training={"epochs": 1})
    train(experiment, make_benchmark("classification", coordinates=True), [7], tmp_path, "cpu")
    model = load_model(tmp_path / "seed-7", "cpu")
    assert isinstance(model, TrainedModel)
    with pytest.raises(ValueError, match=r"network\.tta_mirror: expected a network that predicts each graph once"):
        export_onnx(model, tmp_path / "model.onnx")


class Pair(nn.Module):
    """A user's module: two layers and a mean over nodes."""

    def __init__(self, message: str) -> None:
        super().__init__()
        torch.manual_seed(0)
        names = ["mean", "max", "std", "dx1", "av1"]
        self.first, self.second = (DGNConv(4, 4, names, message=message) for _ in range(2))

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor, edge_field: torch.Tensor) -> torch.Tensor:
        h = self.first(x, edge_index, edge_field=edge_field).relu()
        return self.second(h, edge_index, edge_field=edge_field).mean(dim=0)


@pytest.mark.parametrize("message", ["simple", "complex"])
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_a_module_of_ones_own(message: str, tmp_path: Path) -> None:
    for package in ("onnx", "onnxscript", "onnxruntime"):
        pytest.importorskip(package, reason=f"{package} is optional")
    import onnx
    from onnxruntime import InferenceSession

    nodes, edges = torch.export.Dim("nodes", min=2), torch.export.Dim("edges", min=2)
    names, net = ("x", "edge_index", "edge_field"), Pair(message)

    def inputs(graph: tuple[torch.Tensor, int]) -> tuple[torch.Tensor, ...]:
        return torch.randn(graph[1], 4), graph[0], torch.randn(graph[0].size(1), 1)

    proto = to_onnx(net, inputs(grid(3, 4)), ({0: nodes}, {1: edges}, {0: edges}), names, ["out"])
    onnx.save(proto, str(tmp_path / "net.onnx"))
    session = InferenceSession(str(tmp_path / "net.onnx"), providers=["CPUExecutionProvider"])
    for graph in (grid(3, 4), path(9), grid(60, 60)):
        tensors = inputs(graph)
        (got,) = session.run(["out"], {name: value.numpy() for name, value in zip(names, tensors, strict=True)})
        torch.testing.assert_close(torch.from_numpy(got), net(*tensors).detach(), atol=1e-4, rtol=1e-4)
