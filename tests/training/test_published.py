"""Every shipped experiment of the paper's tables has the settings that the paper and its authors published."""

from typing import Any

import pytest

from dgn.training.experiment import Experiment, experiment_names, load_experiment

PLATEAU = {"lr_decay_factor": 0.5, "patience": 5, "min_learning_rate": 1e-5, "epochs": 1000, "learning_rate": 1e-3}
ALL, ONE = ("identity", "amplification", "attenuation"), ("identity",)
COMMON: dict[str, dict[str, Any]] = {  # of table 1
    "zinc": {**PLATEAU, "batch_size": 128, "patience": 20, "scalers": ALL, "readout": "mean"},
    "pattern": {**PLATEAU, "batch_size": 128, "weight_decay": 1e-8, "scalers": ALL, "readout": "nodes"},
    "cifar10": {**PLATEAU, "batch_size": 128, "dropout": 0.3, "scalers": ONE, "readout": "mean"},
    "molhiv": {
        **PLATEAU, "batch_size": 128, "learning_rate": 1e-2, "patience": 20, "min_learning_rate": 1e-4, "epochs": 200,
        "weight_decay": 3e-6, "dropout": 0.3, "scalers": ONE, "readout": "mean",
    },
    "molpcba": {
        **PLATEAU, "batch_size": 512, "learning_rate": 5e-4, "epochs": 200, "weight_decay": 3e-6, "dropout": 0.2,
        "scalers": ALL, "readout": "sum", "initialization": "authors",
    },
}  # fmt: skip
ROWS = ("mean", "mean-pos1", "mean-pos1-pos2", "mean-dx1", "mean-dx1-dx2", "mean-av1", "mean-av1-av2", "mean-dx1-av1")
AXES = ("mean", "mean-dx1-dx2", "mean-av1-av2")
# Widths in the order of the rows, 0 for unpublished ones, None without a cell; and scores.
CELLS: dict[str, tuple[tuple[int | None, ...], tuple[float, ...]]] = {
    "zinc/simple": ((80, 0, 0, 63, 52, 63, 52, 52), (0.316, 0.349, 0.344, 0.296, 0.337, 0.317, 0.367, 0.290)),
    "zinc/complex": ((65, 0, 0, 52, 45, 52, 45, 45), (0.353, 0.332, 0.330, 0.233, 0.271, 0.332, 0.332, 0.245)),
    "zinc/complex-e": ((65, 0, 0, 52, 45, 52, 45, 45), (0.262, 0.297, 0.284, 0.191, 0.205, 0.276, 0.260, 0.192)),
    "pattern/simple": ((80, 0, 0, 63, 52, 63, 52, 52), (80.77, 80.76, 84.51, 84.22, 81.61, 84.54, 85.12, 85.17)),
    "pattern/complex": ((55, 0, 0, 52, 47, 52, 47, 47), (83.34, 83.74, 81.25, 83.44, 86.62, 83.21, 85.38, 86.68)),
    "molhiv/simple": ((145, 0, 0, 100, 90, 100, 90, 90), (75.1, 75.8, 76.1, 78.0, 76.5, 78.4, 77.1, 79.0)),
    "molpcba/complex": ((440, None, None, 360, 310, 360, 310, 310), (26.04, 0, 0, 26.79, 27.16, 25.97, 25.61, 26.40)),
    "molpcba/complex-e": ((512, None, None, 450, 400, 450, 400, 400), (26.38, 0, 0, 27.91, 26.55, 26.66, 26.67, 27.47)),
    "cifar10/simple": ((145, 90, 90), (55.9, 52.9, 60.6)),
    "cifar10/complex": ((75, 65, 65), (62.8, 69.8, 65.1)),
}
TUNED: dict[str, dict[str, Any]] = {  # where they differ from table 1
    "zinc/tuned": {
        "towers": 5, "hidden": 75, "last": 70, "edge_dim": 10, "weight_decay": 3e-7, "readout": "sum", "score": 0.168,
    },
    "zinc/tuned-no-edges": {"edge_dim": None, "score": 0.219},
    "cifar10/tuned": {
        "towers": 5, "hidden": 100, "last": 95, "edge_dim": 10, "weight_decay": 3e-6, "readout": "sum", "score": 72.84,
    },
    "cifar10/tuned-no-edges": {"edge_dim": None, "weight_decay": 3e-6, "readout": "sum", "score": 72.70},
    "pattern/tuned": {"message": "complex", "hidden": 47, "score": 86.68},
    "molhiv/tuned": {"message": "simple", "hidden": 70, "score": 79.70},
    "molpcba/tuned": {
        "message": "complex", "hidden": 480, "edge_dim": 16, "scalers": ONE, "weight_decay": 1e-5, "batch_size": 2048,
        "lr_decay_factor": 0.8, "patience": 8, "min_learning_rate": 2e-5, "score": 28.88,
    },
}  # fmt: skip
CAPTION = {
    "zinc": {"mean", "dx1", "max", "min"},
    "pattern": {"mean", "dx1", "av1"},
    "cifar10": {"mean", "dx1", "dx2", "max"},
    "molhiv": {"mean", "dx1", "av1", "max", "min"},
    "molpcba": {"mean", "sum", "max", "dx1"},
}


def fair(column: str, row: str) -> dict[str, Any]:
    """The published settings of a cell of table 1, without width and score."""
    dataset, kind = column.split("/")
    edges = {"zinc": 10, "molpcba": 16}[dataset] if kind == "complex-e" else None
    published = {
        "message": kind.removesuffix("-e"),
        "edge_dim": edges,
        "num_layers": 6 if column == "molpcba/complex" else 4,
    }
    published |= {"towers": 1, "last": None, "num_eigenvector_features": row.count("pos"), "table": "table1"}
    if dataset == "zinc":
        published["weight_decay"] = 1e-8 if kind == "simple" and row in AXES else 3e-6
    if dataset == "cifar10":
        published["weight_decay"] = 1e-8 if kind == "simple" else 3e-6
    if column == "molhiv/simple" and row in ("mean-av1-av2", "mean-dx1-av1"):
        published["min_learning_rate"] = 1e-3
    return COMMON[dataset] | published


def differences(experiment: Experiment, published: dict[str, Any]) -> dict[str, Any]:
    """Settings, by their dotted names, that differ from the published ones."""
    changed = {}
    for key, value in published.items():
        for section in ("network", "training", "published"):
            settings = getattr(experiment, section)
            if hasattr(settings, key) and getattr(settings, key) != value:
                changed[f"{section}.{key}"] = getattr(settings, key)
    return changed


@pytest.mark.parametrize("column", CELLS)
def test_the_cells_of_table_1_are_as_published(column: str) -> None:
    widths, scores = CELLS[column]
    for row, width, score in zip(AXES if column.startswith("cifar10") else ROWS, widths, scores, strict=True):
        if width is None:
            continue
        experiment = load_experiment(f"{column}/{row}")
        aggregators = tuple(name for name in row.split("-") if "pos" not in name)
        expected = fair(column, row) | {"score": score, "aggregators": aggregators}
        assert differences(experiment, expected | ({"hidden": width} if width else {})) == {}, row
        assert experiment.published is not None
        assert ("network.hidden" in experiment.published.assumed) == (width == 0), row


@pytest.mark.parametrize("name", TUNED)
def test_the_runs_of_table_2_are_as_published_or_list_their_changes(name: str) -> None:
    experiment, dataset = load_experiment(name), name.split("/")[0]
    published = experiment.published
    assert published is not None
    expected = COMMON[dataset] | {
        "num_layers": 4,
        "num_eigenvector_features": 0,
        "dropout": COMMON[dataset].get("dropout", 0.0),
    }
    changed = differences(experiment, expected | {"table": "table2"} | TUNED[name])
    if set(experiment.network.aggregators) != CAPTION[dataset]:
        changed["network.aggregators"] = experiment.network.aggregators
    unknown = {"network.readout", "network.scalers", "training.weight_decay"} & set(published.assumed)
    assert set(changed) - unknown == set(published.changed)
    assert not set(published.changed) & set(published.assumed)
    assert "network.aggregators" not in published.assumed


def test_a_precision_below_float32_is_ours_and_says_so() -> None:
    reduced = {"molpcba"}  # by name of the dataset
    for name in experiment_names():
        experiment = load_experiment(name)
        if experiment.published is not None and experiment.published.table is not None:
            precision = "tf32-true" if experiment.data.dataset in reduced else "32-true"
            assert experiment.training.precision == precision, name
            assert ("training.precision" in experiment.published.assumed) == (precision != "32-true"), name
