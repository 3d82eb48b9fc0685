"""An exported network predicts in onnxruntime what it predicts in Python."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import Result

from dgn.data.precompute.encodings import with_encodings
from dgn.models.load import load_model
from dgn.models.onnx import Predictor, export_onnx, onnx_inputs, random_graphs
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
