"""Finished runs to report on."""

from collections.abc import Callable
from typing import Any

import pytest

from dgn.reports.runs import FinishedRun
from dgn.reports.scores import main_metric
from dgn.training.experiment import load_experiment

MakeRun = Callable[..., FinishedRun]


@pytest.fixture
def make_run() -> MakeRun:
    def make(name: str = "zinc/tuned", seed: int = 41, test: float = 0.17, **changed: Any) -> FinishedRun:
        metric = main_metric(load_experiment(name))
        told = {
            "parameters": 98_035, "epochs": 3, "steps": 24, "seconds": 1.5, "stopped": "done", "device": "cpu",
            "data": "", "metrics": {"val": {metric: 0.2}, "test": {metric: test}}, "versions": {"dgn": "0"},
        }  # fmt: skip
        return FinishedRun(experiment=load_experiment(name), seed=seed, **told | changed)

    return make
