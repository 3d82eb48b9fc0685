"""``python -m reproduce package`` takes the best seed by validation, and only with the score of its card."""

from pathlib import Path
from typing import Any

import pytest

from dgn.training.experiment import load_experiment
from dgn.training.model import load_trained
from dgn.training.run_experiment import train_experiment
from reproduce import package


@pytest.fixture
def run(tmp_path: Path) -> Path:
    pytest.importorskip("sklearn", reason="the digits come with scikit-learn")
    settings = ["training.epochs=1", "data.train_fraction=0.02", "network.hidden=8", "network.num_layers=1"]
    train_experiment(load_experiment("digits/dx", settings), tmp_path / "run", seeds=[1, 2, 3], device="cpu")
    return tmp_path / "run"


def test_the_best_seed_becomes_a_pretrained_network(run: Path, reproduce: Any, tmp_path: Path) -> None:
    scores = {seed: load_trained(run / f"seed-{seed}", "cpu").metrics["val"]["accuracy"] for seed in (1, 2, 3)}
    done = reproduce("package", str(run), "digits/mine", "--root", str(tmp_path / "here"), "--device", "cpu")
    assert done.exit_code == 0, done.output
    model = load_trained(tmp_path / "here" / "digits" / "mine", "cpu")
    assert model.facts["seed"] == max(scores, key=lambda seed: (scores[seed], -seed))
    assert 'dgn.load_pretrained("digits/mine")' in (tmp_path / "here" / "digits" / "mine" / "README.md").read_text()


def test_large_networks_and_other_data_are_refused(
    run: Path, reproduce: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ("package", str(run), "digits/mine", "--root", str(tmp_path / "here"), "--device", "cpu")
    monkeypatch.setattr(package, "PARAMETERS", 100)
    assert "expected at most 100 parameters" in reproduce(*arguments).stderr
    monkeypatch.undo()
    monkeypatch.setattr(package, "TOLERANCE", -1.0)
    assert "expected a test accuracy of" in reproduce(*arguments).stderr
    assert not (tmp_path / "here").exists()
    assert "expected a run folder with finished seeds" in reproduce("package", str(tmp_path), "a/b").stderr
