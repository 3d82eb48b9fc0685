"""A trained model is one folder: it predicts anywhere without its training graphs, and a changed byte is refused."""

import json
import os
import random
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch_geometric.data import Batch, Data

from dgn.data.benchmark import Benchmark
from dgn.data.packed import PackedGraphs
from dgn.data.precompute.encodings import with_encodings
from dgn.training.checkpoint import save_checkpoint
from dgn.training.model import TrainedModel, load_trained
from dgn.training.run_folder import seal
from dgn.training.trainer import train
from tests.training.small import make_benchmark, make_experiment

FLIPS = 200
CASES: dict[str, tuple[str, dict[str, Any], bool]] = {
    "plain": ("regression", {}, False),
    "nodes": ("node-classification", {"network": {"readout": "nodes", "aggregators": ["mean", "dx2-group"]}}, False),
    "scaled": ("classification", {"network": {"scalers": ["identity", "amplification"]}}, False),
    "ensemble": ("multi-label", {"network": {"ensemble_size": 3}}, False),
    "edge-types": (
        "regression",
        {"data": {"rwse_steps": 3, "ring_sizes": [3, 5]}, "network": {"message": "complex", "edge_dim": 4}},
        False,
    ),
    "unread-edge-types": ("regression", {"data": {"rwse_steps": 2, "ring_sizes": [3, 5]}}, False),
    "counts": (
        "regression",
        {"data": {"ring_sizes": [3]}, "network": {"message": "complex", "edge_dim": 4}},
        True,
    ),
}
PREDICT = """
import sys, torch
import dgn.data.benchmark
def refuse(*_, **__):
    raise AssertionError("the training graphs were asked for")
dgn.data.benchmark.load_benchmark = refuse
from dgn.data.packed import PackedGraphs
from dgn.training.model import load_trained
cases = sys.argv[1:]
predictions = {case: load_trained(case, "cpu").predict(PackedGraphs.load(f"{case}.safetensors")) for case in cases}
torch.save(predictions, "predictions.pt")
"""


def bare(benchmark: Benchmark) -> PackedGraphs:
    """The graphs of a benchmark with their features alone."""
    graphs = benchmark.graphs
    return replace(
        graphs, nodes={"x": graphs.nodes["x"]}, edges={"edge_attr": graphs.edges["edge_attr"]}, graphs={}, info={}
    )


def trained(folder: Path, objective: str = "regression", numbers: bool = False, **changes: Any) -> TrainedModel:
    """A network trained for three epochs, loaded from its folder."""
    experiment = make_experiment(**changes)
    benchmark = make_benchmark(objective, numbers=numbers)
    raw = replace(benchmark, graphs=replace(benchmark.graphs, info={}))
    encoded = with_encodings(raw, experiment.data.rwse_steps, experiment.data.ring_sizes)
    train(experiment, encoded, [7], folder, "cpu")
    return load_trained(folder / "seed-7", "cpu")


def test_models_predict_the_same_to_the_last_bit_in_another_folder_without_their_graphs(tmp_path: Path) -> None:
    elsewhere, expected = tmp_path / "elsewhere", {}
    for case, (objective, changes, numbers) in CASES.items():
        model = trained(tmp_path / "runs" / case, objective, numbers, **changes)
        graphs = bare(make_benchmark(objective, numbers=numbers))
        expected[case] = model.predict(graphs)
        shutil.copytree(tmp_path / "runs" / case / "seed-7" / "model", elsewhere / case)
        graphs.save(elsewhere / f"{case}.safetensors")
    shutil.rmtree(tmp_path / "runs")
    source = Path(__file__).parents[2] / "src"
    environment = {**os.environ, "PYTHONPATH": str(source), "DGN_CACHE": str(elsewhere / "cache")}
    subprocess.run([sys.executable, "-c", PREDICT, *CASES], cwd=elsewhere, env=environment, check=True)
    for case, prediction in torch.load(elsewhere / "predictions.pt").items():
        assert torch.equal(prediction, expected.pop(case)), case
    assert not expected
    assert not (elsewhere / "cache").exists()


def test_the_folder_of_a_model_has_settings_scores_sizes_versions_and_a_card(tmp_path: Path) -> None:
    model = trained(tmp_path, "classification")
    assert sorted(path.name for path in (tmp_path / "seed-7" / "model").iterdir()) == [
        "README.md", "model.json", "weights.safetensors",
    ]  # fmt: skip
    assert model.facts["graphs"] == {"train": 24, "val": 8, "test": 8}
    assert set(model.metrics) == {"train", "val", "test"}
    assert model.facts["seed"] == 7
    assert "torch" in model.facts["versions"]
    assert model.experiment.data.path is None
    card = (tmp_path / "seed-7" / "model" / "README.md").read_text()
    assert f"{model.metrics['test']['accuracy'] * 100:.2f}" in card
    assert "24 train, 8 val, 8 test" in card


def test_a_changed_byte_is_refused_or_changes_no_prediction(tmp_path: Path) -> None:
    changes = {"data": {"rwse_steps": 3, "ring_sizes": [3, 5]}, "network": {"message": "complex", "edge_dim": 4}}
    model, graphs = trained(tmp_path, **changes), bare(make_benchmark())
    expected, draw = model.predict(graphs), random.Random(0)
    folder = tmp_path / "seed-7" / "model"
    contents = {path: path.read_bytes() for path in sorted(folder.iterdir())}
    messages: list[str] = []
    for flip in range(FLIPS):
        path = list(contents)[flip % len(contents)]
        changed = bytearray(contents[path])
        changed[draw.randrange(len(changed))] ^= 1 << draw.randrange(8)
        path.write_bytes(bytes(changed))
        try:
            again = load_trained(folder, "cpu").predict(graphs)
        except ValueError as problem:
            messages.append(str(problem))
        else:
            assert torch.equal(again, expected)
        path.write_bytes(contents[path])
    assert len(messages) > FLIPS / 2  # the card is not read, and whitespace says nothing
    assert all(message.startswith(str(folder)) for message in messages)


def test_weights_of_another_model_are_refused(tmp_path: Path) -> None:
    for name in ("one", "other"):
        trained(tmp_path / name, training={"epochs": 1 + (name == "one")})
    one, other = (tmp_path / name / "seed-7" / "model" / "weights.safetensors" for name in ("one", "other"))
    shutil.copy(other, one)
    with pytest.raises(ValueError, match=r"weights\.safetensors: expected the weights that model\.json was written"):
        load_trained(tmp_path / "one" / "seed-7")


def test_other_preprocessing_is_refused(tmp_path: Path) -> None:
    trained(tmp_path)
    path = tmp_path / "seed-7" / "model" / "model.json"
    config = json.loads(path.read_text())
    config["preprocessing"]["directions"] = "dgn directions 0"
    path.write_text(seal(config))
    with pytest.raises(ValueError, match=r"preprocessing .*'dgn directions 0'.*; train it again"):
        load_trained(path.parent)


def test_folders_without_a_model_are_refused_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"expected the folder of a model, with model\.json, got none"):
        load_trained(tmp_path)
    (tmp_path / "seed-7").mkdir()
    save_checkpoint(tmp_path / "seed-7" / "model.safetensors", {"a": torch.zeros(1)}, {"delta": 1.0})
    with pytest.raises(ValueError, match=r"got one of an earlier version, which needs its training graphs; train"):
        load_trained(tmp_path / "seed-7")
    with pytest.raises(FileNotFoundError, match=r"name the folder of one seed, such as .*seed-7"):
        load_trained(tmp_path)


def test_one_graph_a_batch_and_a_list_are_graphs(tmp_path: Path) -> None:
    model, graphs = trained(tmp_path), bare(make_benchmark())
    expected = model.predict(graphs)
    data = [graphs[index] for index in range(3)]
    torch.testing.assert_close(model.predict(data[0]), expected[:1])
    torch.testing.assert_close(model.predict(data), expected[:3])
    torch.testing.assert_close(model.predict(Batch.from_data_list(data)), expected[:3])
    assert model.predict([]).shape == (0, 1)
    with pytest.raises(TypeError, match="graphs: expected PyG data or packed graphs, got int"):
        model.predict(3)
    with pytest.raises(ValueError, match="graphs: expected PyG data or packed graphs, as small has no SMILES, got"):
        model.predict("CCO")


def test_predictions_of_classes_are_probabilities(tmp_path: Path) -> None:
    graphs = bare(make_benchmark())
    model = trained(tmp_path / "classes", "classification")
    torch.testing.assert_close(model.predict(graphs), model.outputs(graphs)[0].softmax(dim=1))
    model = trained(tmp_path / "labels", "multi-label")
    torch.testing.assert_close(model.predict(graphs), model.outputs(graphs)[0].sigmoid())
    model = trained(tmp_path / "numbers")
    assert torch.equal(model.predict(graphs), model.outputs(graphs)[0])


def test_categories_that_no_training_graph_could_have_are_refused(tmp_path: Path) -> None:
    model = trained(tmp_path)
    wrong = Data(x=torch.tensor([0, 5]), edge_index=torch.tensor([[0, 1], [1, 0]]))
    with pytest.raises(ValueError, match="x: expected categories below 5 in column 0, as in small, got 5"):
        model.predict(wrong)


def test_directions_of_another_laplacian_are_computed_again(tmp_path: Path) -> None:
    from dgn.data.precompute.directions import add_directions

    model, graphs = trained(tmp_path), bare(make_benchmark())
    assert torch.equal(model.predict(add_directions(graphs, 1, "sym")), model.predict(graphs))
