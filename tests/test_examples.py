"""The examples run, and show what they claim."""

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
import torch

EXAMPLES = Path(__file__).parents[1] / "examples"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """What a training reaches must not depend on the cores of a machine; threads that wait for each other are slow."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def test_a_graph_regression_beats_the_mean() -> None:
    ours, baseline = load("graph_regression").main(graphs=300, epochs=8)
    assert ours < 0.8 * baseline


def test_the_nodes_of_one_graph_are_learnt_from_few_labels() -> None:
    pytest.importorskip("sklearn", reason="the digits come with scikit-learn")
    accuracy, nearest = load("node_classification").main()
    assert accuracy > nearest + 0.03


def test_wind_needs_a_field() -> None:
    explained = load("own_field").main(junctions=150, steps=150)
    assert explained["mean, bwd1"] > 0.8
    assert explained["mean"] < 0.3


def test_an_explanation_finds_the_edges_that_matter() -> None:
    accuracy, inside, outside = load("explain_prediction").main(graphs=300, epochs=20, explained=4)
    assert accuracy > 0.85
    assert inside > outside + 0.1


@pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning")  # in Lightning
def test_a_lightning_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("lightning", reason="Lightning is not installed")
    monkeypatch.chdir(tmp_path)
    assert load("lightning_module").main(graphs=300, epochs=10) > 0.7


def test_examples_are_short() -> None:
    lengths = {file.name: len(file.read_text().splitlines()) for file in EXAMPLES.glob("*.py")}
    assert [name for name, length in lengths.items() if length > 80] == []
