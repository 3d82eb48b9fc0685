"""The graphs of an experiment: what cannot be trained is refused before directions are computed."""

from pathlib import Path

import pytest
import torch
from torch_geometric.data import Data

from dgn.data import benchmark_from_graphs
from dgn.training import load
from dgn.training.experiment import load_experiment

PATH = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])


def test_a_metric_of_another_objective_is_refused_before_directions_are_computed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graphs = [Data(x=torch.rand(3, 4), edge_index=PATH, y=torch.rand(1)) for _ in range(20)]
    benchmark_from_graphs(graphs, "regression").graphs.save(tmp_path / "mine.safetensors")
    monkeypatch.setattr(load, "with_directions", None)
    changes = ["data.dataset=own", f"data.path={tmp_path / 'mine.safetensors'}", "training.metric=roc-auc"]
    with pytest.raises(ValueError, match="metric: expected one of 'mae', got 'roc-auc'"):
        load.load_graphs(load_experiment("zinc/complex/mean-dx1", changes))
