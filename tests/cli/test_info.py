"""``dgn info``: experiments described without their data."""

from pathlib import Path
from typing import Any

import pytest

from dgn.training.experiment import experiment_names


def test_every_experiment_is_listed_with_its_score(dgn: Any) -> None:
    done = dgn("info")
    assert done.exit_code == 0
    assert all(name in done.output for name in experiment_names())
    assert "79.70 ± 0.97" in done.output


def test_an_experiment_is_described_without_its_data(dgn: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("the data were loaded")

    monkeypatch.setattr("dgn.data.benchmark.load_benchmark", refuse)
    shown = dgn("info", "zinc/tuned-no-edges").output
    for text in ("94,995", "0.219 ± 0.010", "network.towers, network.hidden", "5 towers", "mean, min, max, dx1"):
        assert text in shown
    assert "DGNConv(75, 75" in shown
    assert "delta=1" in shown
    assert "delta is 1 here as the graphs are not loaded; training uses the mean of log(degree + 1)" in shown
    assert "delta" not in dgn("info", "molhiv/tuned").output
    assert "98,035 (paper: 98,035)" in dgn("info", "zinc/tuned").output
    assert "2 eigenvector(s) as node features" in dgn("info", "zinc/simple/mean-pos1-pos2").output
    assert "coordinates" in dgn("info", "cifar10/tuned").output
    assert "rings of 3, 4" in dgn("info", "pattern/plus", "--set", "data.ring_sizes=[3, 4]").output


def test_overrides_and_yaml_files(dgn: Any) -> None:
    assert "4 layers of width 16" in dgn("info", "digits/mean", "--set", "network.hidden=16").output
    Path("mine.yaml").write_text("data: {dataset: zinc}\nnetwork: {hidden: 8, aggregators: [mean], virtual_node: true}")
    shown = dgn("info", "mine.yaml").output
    assert "no field" in shown
    assert "a virtual node" in shown
    assert "paper" not in shown


def test_an_unknown_dataset_is_refused(dgn: Any) -> None:
    Path("mine.yaml").write_text("data: {dataset: zink}\nnetwork: {hidden: 8, aggregators: [mean]}")
    refused = dgn("info", "mine.yaml")
    assert refused.exit_code == 1
    assert "did you mean 'zinc'?" in refused.stderr
