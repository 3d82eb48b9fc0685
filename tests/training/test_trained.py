"""Networks read again from their run folders say what they said when they were scored."""

from pathlib import Path
from typing import Any

import pytest
import torch

from dgn.data.structure import with_structure
from dgn.training.experiment import load_experiment
from dgn.training.load import load_graphs
from dgn.training.loop import train
from dgn.training.material import SPLITS
from dgn.training.objectives import make_objective
from dgn.training.trained import load_trained, predict_part
from tests.training.small import make_benchmark, make_experiment

CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "plain": ("regression", {}),
    "best-of-averaged": ("multi-label", {"training": {"averaging": 0.9, "report": "best"}}),
    "nodes": ("node-classification", {"network": {"readout": "nodes"}}),
    "scaled": ("classification", {"network": {"scalers": ["identity", "amplification"]}}),
    "structure": ("regression", {"data": {"random_walk": 3, "rings": [3, 5]}, "network": {"readout": "directional"}}),
}


@pytest.mark.parametrize("case", CASES)
def test_predictions_have_the_scores_of_the_run(case: str, tmp_path: Path) -> None:
    objective, changes = CASES[case]
    experiment = make_experiment(**changes)
    benchmark = with_structure(make_benchmark(objective), experiment.data.random_walk, experiment.data.rings, ())
    (result,) = train(experiment, benchmark, [7], tmp_path, "cpu")
    trained = load_trained(tmp_path / "seed-7", benchmark)
    assert trained.experiment == experiment
    assert trained.metrics == result.metrics
    assert not trained.network.training
    scored = make_objective(objective, benchmark.metric)
    split = benchmark.graphs.graphs["split"]
    for number, part in enumerate(SPLITS):
        said, truth = predict_part(trained, part, "cpu")
        place = benchmark.graphs.nodes if "y" in benchmark.graphs.nodes else benchmark.graphs.graphs
        rows = split == number if place is benchmark.graphs.graphs else split[benchmark.graphs.graph.batch] == number
        wanted = place["y"][rows]
        assert truth.shape == (wanted.shape if "class" in objective else said.shape)
        torch.testing.assert_close(truth.view_as(wanted), wanted, equal_nan=True)
        found, name = scored.metrics(said, truth, [len(truth)]), benchmark.metric
        assert found[name] == pytest.approx(result.metrics[part][name], abs=1e-6)


def test_graphs_are_loaded_from_where_they_were(tmp_path: Path) -> None:
    experiment = load_experiment("digits/dx", ["training.epochs=1", "data.train_fraction=0.1"])
    (result,) = train(experiment, load_graphs(experiment), [0], tmp_path, "cpu")
    trained = load_trained(tmp_path / "seed-0")
    said, truth = predict_part(trained, "val", "cpu")
    accuracy = float((said.argmax(dim=1) == truth.flatten()).float().mean())
    assert accuracy == pytest.approx(result.metrics["val"]["accuracy"], abs=1e-6)


def test_what_cannot_be_read_is_said(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"expected the folder of a finished seed.*model\.safetensors"):
        load_trained(tmp_path)
    train(make_experiment(), make_benchmark(), [0], tmp_path, "cpu")
    with pytest.raises(ValueError, match="expected weights for the graphs of"):
        load_trained(tmp_path / "seed-0", make_benchmark("classification"))
    with pytest.raises(ValueError, match="part: expected"):
        predict_part(load_trained(tmp_path / "seed-0", make_benchmark()), "validation", "cpu")
    with pytest.raises(FileNotFoundError, match="zinc: expected one of"):
        load_trained(tmp_path / "seed-0", tmp_path)
