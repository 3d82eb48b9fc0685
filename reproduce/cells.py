"""The cells of the paper's tables and of our own: which experiments a table has, and in which order."""

from collections.abc import Mapping, Sequence
from functools import cache
from types import MappingProxyType

from dgn.graph.checks import check_option
from dgn.training.experiment import Experiment, experiment_names, load_experiment

TITLES = {
    "table1": "Table 1, the same parameter budget",
    "table2": "Table 2, tuned",
    "multi-label": "Multi-label datasets with missing labels",
    "augmentation": "Augmentation, a tenth of CIFAR10",
    "plus": "Beyond the paper",
}
DATASETS = {
    "zinc": "ZINC", "pattern": "PATTERN", "cifar10": "CIFAR10", "molhiv": "MolHIV", "molpcba": "MolPCBA",
    "peptides-func": "Peptides-func", "muv": "MUV", "tox21": "Tox21",
}  # fmt: skip
#: How a metric is written in titles.
METRIC_LABELS = {
    "mae": "MAE", "accuracy": "accuracy", "balanced-accuracy": "balanced accuracy", "roc-auc": "ROC-AUC",
    "average-precision": "average precision",
}  # fmt: skip
#: Rows of the paper's first table in its order, then in training order: the rows of its main claim come first.
ROWS = ("mean", "mean-pos1", "mean-pos1-pos2", "mean-dx1", "mean-dx1-dx2", "mean-av1", "mean-av1-av2", "mean-dx1-av1")
TRAINING_ORDER = (
    "mean",
    "mean-dx1",
    "mean-dx1-av1",
    "mean-av1",
    "mean-dx1-dx2",
    "mean-av1-av2",
    "mean-pos1",
    "mean-pos1-pos2",
)
MESSAGES = ("simple", "complex", "complex-e")
#: Ablations of networks beyond the paper in training order. Graphs without structural encodings have to be loaded
#: again, so that ablation comes last.
ABLATIONS = (
    "", "no-directions", "with-directions", "no-ema", "no-ffn", "no-ensemble", "no-augmentation",
    "no-structure",
)  # fmt: skip


@cache  # the files of the package do not change while it runs
def shipped() -> Mapping[str, Experiment]:
    """All experiments shipped with the package, by name.

    >>> shipped()["zinc/tuned"] == load_experiment("zinc/tuned")
    True
    """
    return MappingProxyType({name: load_experiment(name) for name in experiment_names()})


def table_of(experiment: Experiment) -> str | None:
    """The table that an experiment belongs to, one of the paper's or of our own; None for others.

    >>> [table_of(load_experiment(name)) for name in ("zinc/tuned", "muv/simple/mean", "zinc/plus", "digits/dx")]
    ['table2', 'multi-label', 'plus', None]
    """
    if experiment.published is not None:
        return experiment.published.table
    if experiment.name.startswith("cifar10/augmentation/"):
        return "augmentation"
    if "/plus" in experiment.name:
        return "plus"
    return "multi-label" if experiment.data.dataset in ("muv", "tox21") else None


def table_datasets(table: str) -> list[str]:
    """The datasets of a table.

    >>> table_datasets("multi-label")
    ['muv', 'tox21']
    """
    check_option("table", table, tuple(TITLES))
    datasets = {experiment.data.dataset for experiment in shipped().values() if table_of(experiment) == table}
    return [dataset for dataset in DATASETS if dataset in datasets]


def cells(table: str, dataset: str) -> list[Experiment]:
    """The experiments of a table for one dataset, in the order of the paper.

    >>> [cell.name for cell in cells("table2", "zinc")]
    ['zinc/tuned', 'zinc/tuned-no-edges']
    """
    check_option(f"dataset of {table}", dataset, tuple(table_datasets(table)))
    experiments = [experiment for experiment in shipped().values() if table_of(experiment) == table]
    return in_order([experiment for experiment in experiments if experiment.data.dataset == dataset])


def choose(table: str, datasets: Sequence[str], rows: Sequence[str] = ()) -> list[Experiment]:
    """The experiments of a table for some datasets, dataset by dataset, each in training order.

    ``rows`` are names such as ``mean-dx1`` or ``complex/mean``; empty means all. Every row must exist for at least one
    of the datasets; datasets without it are left out.

    >>> [cell.name for cell in choose("table2", ["pattern", "zinc", "molhiv"], ["tuned-no-edges"])]
    ['zinc/tuned-no-edges']
    """
    experiments = [cell for dataset in datasets for cell in in_training_order(cells(table, dataset))]
    row_names = dict.fromkeys(name for cell in experiments for name in _row_names(cell))
    for row in rows:
        check_option("row", row, tuple(row_names))
    return [cell for cell in experiments if not rows or set(_row_names(cell)) & set(rows)]


def _row_names(experiment: Experiment) -> tuple[str, str]:
    """The names that select an experiment within its dataset, such as ``complex/mean`` and ``mean``."""
    name = experiment.name.removeprefix(f"{experiment.data.dataset}/")
    return name, name.rpartition("/")[2]


def in_order(experiments: Sequence[Experiment]) -> list[Experiment]:
    """Experiments in the order of the paper: by messages, then rows, then augmentation strength."""
    return sorted(experiments, key=_paper_key)


def in_training_order(experiments: Sequence[Experiment]) -> list[Experiment]:
    """Experiments in training order: row by row, so that an interrupted session leaves complete rows.

    >>> [cell.name for cell in in_training_order(cells("table1", "zinc"))][2:4]
    ['zinc/complex-e/mean', 'zinc/simple/mean-dx1']
    """
    return sorted(experiments, key=_training_key)


def _training_key(experiment: Experiment) -> tuple[float, ...]:
    messages, row = _messages_and_row(experiment)
    return (
        _network_and_ablation(experiment)[1],
        experiment.augmentation.distortion,
        experiment.augmentation.rotation,
        TRAINING_ORDER.index(row) if row in TRAINING_ORDER else len(TRAINING_ORDER),
        MESSAGES.index(messages) if messages in MESSAGES else 0,
    )


def _paper_key(experiment: Experiment) -> tuple[str, int, int, int, bool, float, float, str]:
    (messages, row), augmentation = _messages_and_row(experiment), experiment.augmentation
    row_index = ROWS.index(row) if row in ROWS else len(ROWS)
    message_index = MESSAGES.index(messages) if messages in MESSAGES else 0
    return (
        *_network_and_ablation(experiment), message_index, row_index, augmentation.distortion_of == "potential",
        augmentation.distortion, augmentation.rotation, row,
    )  # fmt: skip


def _network_and_ablation(experiment: Experiment) -> tuple[str, int]:
    """The name of a network beyond the paper, and the index of its ablation."""
    name, _, ablation = experiment.name.partition("-ablation/")
    return (name, ABLATIONS.index(ablation)) if table_of(experiment) == "plus" else ("", 0)


def _messages_and_row(experiment: Experiment) -> tuple[str, str]:
    """The messages (simple, complex, complex-e) and the row, without augmentation strength."""
    _, *messages, row = experiment.name.split("/")
    for augmentation in ("-rotation", "-distortion", "-potential"):
        row = row.partition(augmentation)[0]
    return "/".join(messages), row
