"""``dgn train``: the run folder, resuming, and the default on digits."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml


def test_a_run_writes_its_folder_and_shows_the_paper(dgn: Any, training: Any, tmp_path: Path) -> None:
    done = dgn("train", "zinc/tuned", "--seeds", "41,95", "--device", "cpu", "--set", "training.epochs=2")
    assert done.exit_code == 0, done.output
    assert training.calls == [("zinc/tuned", [41, 95])]
    assert "seed 41, epoch 1/2, loss 1.0000" in done.output
    assert "0.680 ± 0.382" in done.output
    assert "0.168 ± 0.003" in done.output
    assert "data: made up" in done.output
    assert "not as published: training.epochs" in done.output
    folder = tmp_path / "runs" / "zinc" / "tuned"
    assert {path.name for path in folder.iterdir()} == {
        "experiment.yaml", "results.md", "curves.png", "seed-41", "seed-95",
    }  # fmt: skip
    assert yaml.safe_load((folder / "experiment.yaml").read_text())["training"]["epochs"] == 2
    result = json.loads((folder / "seed-95" / "result.json").read_text())
    assert result["metrics"]["test"] == {"mae": 0.95}
    assert result["data"] == "made up"
    assert (folder / "seed-41" / "metrics.csv").read_text().splitlines()[0] == "epoch,train_loss,val_loss,mae"
    assert "| 41 | 0.410 | 0.410 | 2 | 3 |" in (folder / "results.md").read_text()


def test_finished_seeds_are_not_trained_again(dgn: Any, training: Any) -> None:
    run = ("train", "zinc/tuned", "--out", "here", "--device", "cpu", "--seeds")
    dgn(*run, "41")
    again = dgn(*run, "41,95")
    assert training.calls == [("zinc/tuned", [41]), ("zinc/tuned", [95])]
    assert "zinc/tuned in here: finished: seed 41; new: seed 95" in again.output
    assert "0.680 ± 0.382" in again.output
    assert dgn(*run, "95").exit_code == 0
    assert "| 41 | 0.410" in Path("here/results.md").read_text()  # all seeds of the folder, not the last requested
    assert len(training.calls) == 2


def test_an_interrupted_run_can_be_resumed(dgn: Any, training: Any) -> None:
    run = ("train", "zinc/tuned", "--out", "here", "--device", "cpu", "--seeds", "41")
    training.interrupt = True
    stopped = dgn(*run)
    assert stopped.exit_code == 130
    assert "the same command resumes from it" in stopped.output
    training.interrupt = False
    resumed = dgn(*run).output
    assert "resuming: seed 41" in resumed
    assert "seed 41: resuming" in resumed


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGTERM")
def test_sigterm_ends_a_run_as_ctrl_c_does(tmp_path: Path) -> None:
    line = [sys.executable, "-m", "dgn", "train", "digits/mean", "--seeds", "1", "--device", "cpu", "--out", "here"]
    with subprocess.Popen(line, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        assert any("epoch 1/" in printed for printed in iter(running.stdout.readline, ""))
        running.send_signal(signal.SIGTERM)
        output, _ = running.communicate()
    assert running.returncode == 130
    assert "the same command resumes from it" in output.replace("\n", " ")


def test_finished_seeds_are_kept_when_another_fails(dgn: Any, training: Any) -> None:
    training.failing = 95
    failed = dgn("train", "zinc/tuned", "--out", "here", "--device", "cpu", "--seeds", "41,95")
    assert failed.exit_code == 1
    assert "Error: loss: expected a number, got nan" in failed.stderr
    assert Path("here/seed-41/result.json").exists()
    assert not Path("here/seed-95/result.json").exists()


def test_missing_data_leave_no_run_folder(dgn: Any, training: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise FileNotFoundError("zinc: expected a file")

    with monkeypatch.context() as patched:
        patched.setattr("dgn.training.load.load_graphs", fail)
        assert "zinc: expected a file" in dgn("train", "zinc/tuned").stderr
    assert not Path("runs").exists()
    assert dgn("train", "zinc/tuned", "--data", "elsewhere", "--device", "cpu").exit_code == 0
    assert len(training.calls) == 1


def test_missing_teachers_are_reported_before_training(dgn: Any, training: Any) -> None:
    done = dgn("train", "cifar10/plus-distilled", "--device", "cpu")
    assert done.exit_code == 1
    assert "train it first, as with dgn train cifar10/plus" in " ".join(done.output.split())
    assert not training.calls
    assert not Path("runs").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["zinc/tunned"], "did you mean 'zinc/tuned'?"),
        (["zinc/tuned", "--set", "training.epoch=3"], "did you mean 'epochs'?"),
        (["zinc/tuned", "--seeds", "41;95"], "--seeds: expected distinct integers"),
        (["zinc/tuned", "--seeds", "4,4"], "--seeds: expected distinct integers"),
        (["zinc/tuned", "--seeds", str(2**64)], "training.seeds: expected distinct integers from 0, below 2**64"),
        (["none.yaml"], "none.yaml: expected a YAML file"),
    ],
)
def test_wrong_arguments_end_with_one_line(dgn: Any, training: Any, arguments: list[str], message: str) -> None:
    ended = dgn("train", *arguments)
    assert ended.exit_code == 1
    assert message in ended.stderr
    assert not training.calls
    assert not Path("runs").exists()


def test_other_settings_in_the_same_folder_are_refused(dgn: Any, training: Any) -> None:
    run = ("train", "zinc/tuned", "--out", "here", "--device", "cpu", "--seeds", "41")
    dgn(*run)
    refused = dgn(*run, "--set", "network.dropout=0.5", "--data", "elsewhere")
    assert refused.exit_code == 1
    there = Path("elsewhere").resolve()
    message = (
        f"differs in data.path (None there, {there} requested), network.dropout (0.0 there, 0.5 requested); choose"
    )
    assert message in refused.stderr
    assert len(training.calls) == 1


def test_the_default_compares_networks_on_digits(dgn: Any, training: Any, tmp_path: Path) -> None:
    pytest.importorskip("sklearn", reason="the digits come with scikit-learn")
    done = dgn("train", "--device", "cpu")
    assert done.exit_code == 0, done.output
    names = ["mean", "av", "dx", "dx-signed"]
    assert training.calls == [(f"digits/{name}", [41]) for name in names]
    folder = tmp_path / "runs" / "digits"
    assert {path.name for path in folder.iterdir()} == {*names, "results.md", "curves.png"}
    rows = (folder / "results.md").read_text().splitlines()
    assert rows[-1] == "| dx-signed | mean, dx1-signed, dx2-signed | 1,234 | 41.00 | 3 |"


def test_the_default_uses_the_data_options(dgn: Any) -> None:
    pytest.importorskip("sklearn", reason="the digits come with scikit-learn")
    refused = dgn("train", "--device", "cpu", "--data", "nowhere")
    assert refused.exit_code == 1
    assert "path: expected a file or folder, found nothing at " in refused.stderr
    assert "nowhere; check the spelling" in refused.stderr
    settings = ["data.rwse_steps=2", "data.train_fraction=0.01", "training.epochs=1", "network.hidden=4"]
    done = dgn("train", "--device", "cpu", *(arg for setting in settings for arg in ("--set", setting)))
    assert done.exit_code == 0, done.output
    assert Path("runs/digits/digits.png").read_bytes().startswith(b"\x89PNG")


@pytest.fixture
def small(dgn: Any) -> Iterator[Any]:
    """The real training loop on few digits, with one thread."""
    pytest.importorskip("sklearn", reason="the digits come with scikit-learn")
    settings = ["training.epochs=2", "data.train_fraction=0.05", "network.hidden=8"]
    changes = [arg for setting in settings for arg in ("--set", setting)]
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield lambda *more: dgn("train", "digits/dx", *changes, "--out", "here", "--device", "cpu", *more)
    torch.set_num_threads(threads)


def test_the_real_loop_writes_the_folder(small: Any, tmp_path: Path) -> None:
    done = small("--seeds", "1,2")
    assert done.exit_code == 0, done.output
    for seed in (1, 2):
        folder = tmp_path / "here" / f"seed-{seed}"
        assert {path.name for path in folder.iterdir()} >= {"result.json", "metrics.csv", "model"}
        result = json.loads((folder / "result.json").read_text())
        assert (result["epochs"], result["seed"]) == (2, seed)
        assert set(result["metrics"]) == {"train", "val", "test"}
        assert len((folder / "metrics.csv").read_text().splitlines()) == 3


def test_the_real_loop_resumes_with_more_seeds(small: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("dgn.cli.display.Display.update", stop)
        assert small("--seeds", "1").exit_code == 130
    resumed = small("--seeds", "1,2")
    assert resumed.exit_code == 0, resumed.output
    assert "digits/dx in here: resuming: seed 1; new: seed 2" in resumed.output
    assert "seed 1: restarts, as no epoch was saved before it was stopped" in resumed.output


def test_a_missing_metric_is_refused_before_the_graphs_are_loaded(dgn: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dgn.training.load.load_graphs", None)
    failed = dgn("train", "zinc/tuned", "--set", "data.dataset=own", "--data", "mine.safetensors", "--device", "cpu")
    assert failed.exit_code == 1
    assert "training.metric: expected the main metric for the dataset own, got none" in failed.stderr


def test_edge_features_that_the_network_does_not_read_are_named(dgn: Any) -> None:
    from torch_geometric.data import Data

    from dgn.data import benchmark_from_graphs

    ends = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    graphs = [
        Data(x=torch.randn(3, 2), edge_index=ends, edge_attr=torch.randn(4, 3), y=torch.ones(1)) for _ in range(20)
    ]
    benchmark_from_graphs(graphs, "regression").graphs.save("mine.safetensors")
    settings = {
        "data": {"dataset": "own", "path": "mine.safetensors"},
        "training": {"metric": "mae", "epochs": 1, "seeds": [1]},
    }
    for edge_dim in (None, 4):
        network = {"hidden": 4, "message": "complex", "edge_dim": edge_dim}
        Path("mine.yaml").write_text(yaml.safe_dump({**settings, "network": network}))
        done = dgn("train", "mine.yaml", "--device", "cpu", "--out", f"runs/{edge_dim}")
        assert done.exit_code == 0, done.output
        assert ("the network does not read edge_attr" in done.output) == (edge_dim is None)
