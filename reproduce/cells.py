"""The cells of the paper's tables, and of ours beside them: which experiments, and in which order."""

from collections.abc import Mapping, Sequence
from functools import cache
from types import MappingProxyType

from dgn.graph.checks import check_option
from dgn.training.experiment import Experiment, experiment_names, load_experiment

TITLES = {
    "table1": "Table 1, the same budget",
    "table2": "Table 2, tuned",
    "multi-label": "Many labels, most of them missing",
    "augmentation": "Augmentation, a tenth of CIFAR10",
    "plus": "Beyond the paper",
}
DATASETS = {
    "zinc": "ZINC", "pattern": "PATTERN", "cifar10": "CIFAR10", "molhiv": "MolHIV", "molpcba": "MolPCBA",
    "muv": "MUV", "tox21": "Tox21",
}  # fmt: skip
#: Rows of the paper's first table, in its order, and in the order in which they are run: what it says comes first.
ROWS = ("mean", "mean-pos1", "mean-pos1-pos2", "mean-dx1", "mean-dx1-dx2", "mean-av1", "mean-av1-av2", "mean-dx1-av1")
TURNS = ("mean", "mean-dx1", "mean-dx1-av1", "mean-av1", "mean-dx1-dx2", "mean-av1-av2", "mean-pos1", "mean-pos1-pos2")
KINDS = ("simple", "complex", "complex-e")
#: What networks beyond the paper are without, or with, in the order in which it is run: what is asked first comes
#: first, and graphs without structural numbers, which have to be loaded again, last.
PARTS = (
    "", "no-directions", "with-directions", "no-ema", "no-ffn", "no-ensemble", "no-augmentation",
    "no-structure",
)  # fmt: skip


@cache  # the files of the package do not change while it runs
def shipped() -> Mapping[str, Experiment]:
    """All experiments that come with the package, by name.

    >>> shipped()["zinc/tuned"] == load_experiment("zinc/tuned")
    True
    """
    return MappingProxyType({name: load_experiment(name) for name in experiment_names()})


def table_of(experiment: Experiment) -> str | None:
    """The table that an experiment belongs to: one of the paper's, or one of ours beside it.

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
    found = {each.data.dataset for each in shipped().values() if table_of(each) == table}
    return [dataset for dataset in DATASETS if dataset in found]


def cells(table: str, dataset: str) -> list[Experiment]:
    """The experiments of a table for one dataset, in the order of the paper.

    >>> [cell.name for cell in cells("table2", "zinc")]
    ['zinc/tuned', 'zinc/tuned-no-edges']
    """
    check_option(f"dataset of {table}", dataset, tuple(table_datasets(table)))
    return in_order([each for each in shipped().values() if each.data.dataset == dataset and table_of(each) == table])


def choose(table: str, datasets: Sequence[str], rows: Sequence[str] = ()) -> list[Experiment]:
    """The experiments of a table for some datasets, one dataset after the other, each in the order in which it is run.

    ``rows`` are names such as ``mean-dx1``, or of whole experiments such as ``complex/mean``; none means all. Each has
    to be one of some dataset: those that have none are left out.

    >>> [cell.name for cell in choose("table2", ["pattern", "zinc", "molhiv"], ["tuned-no-edges"])]
    ['zinc/tuned-no-edges']
    """
    known = [(each, _names(each)) for dataset in datasets for each in in_turn(cells(table, dataset))]
    for row in rows:
        check_option("row", row, tuple(dict.fromkeys(name for _, names in known for name in names)))
    return [each for each, names in known if not rows or set(names) & set(rows)]


def _names(experiment: Experiment) -> tuple[str, str]:
    """What an experiment is called as a row of its dataset."""
    name = experiment.name.removeprefix(f"{experiment.data.dataset}/")
    return name, name.rpartition("/")[2]


def in_order(experiments: Sequence[Experiment]) -> list[Experiment]:
    """The order of the paper: by kind of layer, then rows; then by strength of augmentation."""
    return sorted(experiments, key=_place)


def in_turn(experiments: Sequence[Experiment]) -> list[Experiment]:
    """The order in which cells are run: whole rows, so that a sitting that is cut leaves some; weak augmentation first.

    >>> [cell.name for cell in in_turn(cells("table1", "zinc"))][2:4]
    ['zinc/complex-e/mean', 'zinc/simple/mean-dx1']
    """
    return sorted(experiments, key=_turn)


def _turn(experiment: Experiment) -> tuple[float, ...]:
    kind, row = _parts(experiment)
    return (
        _missing(experiment)[1],
        experiment.augmentation.distortion,
        experiment.augmentation.rotation,
        TURNS.index(row) if row in TURNS else len(TURNS),
        KINDS.index(kind) if kind in KINDS else 0,
    )


def _place(experiment: Experiment) -> tuple[str, int, int, int, float, float, str]:
    (kind, row), change = _parts(experiment), experiment.augmentation
    place = ROWS.index(row) if row in ROWS else len(ROWS)
    kinds = KINDS.index(kind) if kind in KINDS else 0
    return (*_missing(experiment), kinds, place, change.distortion, change.rotation, row)


def _missing(experiment: Experiment) -> tuple[str, int]:
    """The network beyond the paper, and the place of what it is without."""
    name, _, part = experiment.name.partition("-ablation/")
    return (name, PARTS.index(part)) if table_of(experiment) == "plus" else ("", 0)


def _parts(experiment: Experiment) -> tuple[str, str]:
    """The kind of layer, and the row; the strength of an augmentation is no part of it."""
    _, *kind, row = experiment.name.split("/")
    return "/".join(kind), row.partition("-rotation")[0].partition("-distortion")[0]
