"""The summary of all results for the README, between two markers."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from dgn.training.experiment import Experiment
from dgn.training.scores import main_metric, published_score, summarize
from dgn.training.tables import Table
from reproduce.cells import DATASETS, METRIC_LABELS, cells, table_datasets
from reproduce.results import Results, wall_seconds
from reproduce.sections import duration, other_data

BEGIN, END = "<!-- results: written by python -m reproduce results -->", "<!-- end of results -->"
PAPER = ("table1", "table2")
TABLES = (*PAPER, "multi-label", "plus")
EXPLANATION = (
    "Test scores: mean ± standard deviation over seeds, the paper's score in brackets.\n"
    "**mean only** aggregates neighbours by their mean; **+ B_av** and **+ B_dx** add the directional average and the "
    "directional derivative along the first direction (on CIFAR10 along both axes); **tuned** is the paper's second "
    "table.\n"
    "**Messages** are the features of a neighbour (simple), a linear map of both endpoints (complex), or of both "
    "endpoints and the edge features (complex-E)."
)
BEYOND = (
    "**beyond the paper** adds newer blocks and training recipes and, except on CIFAR10, ring or random-walk "
    "encodings: see [docs/beyond.md](docs/beyond.md)."
)
MESSAGES = {"simple": "simple", "complex": "complex", "complex-e": "complex-E"}
LABELS = ("dataset, metric", "messages")
#: Columns of the summary and their experiments; the second one is used where the first does not exist.
COLUMNS = {
    "mean only": ("mean",),
    "+ B_av": ("mean-av1", "mean-av1-av2"),
    "+ B_dx": ("mean-dx1", "mean-dx1-dx2"),
    "+ B_dx + B_av": ("mean-dx1-av1",),
    "tuned": ("tuned",),
    "tuned, no edge features": ("tuned-no-edges",),
    "beyond the paper": ("plus",),
}


def results_summary(results: Results) -> str:
    """A table with a row per dataset and messages, and what it means, as Markdown."""
    table = summary_table(results)
    if not table.rows:
        return "No results yet."
    runs = [run for seeds in results.values() for run in seeds]
    paper = {
        cell.name: dataset for table in PAPER for dataset in table_datasets(table) for cell in cells(table, dataset)
    }
    missing = dict.fromkeys(DATASETS[dataset] for name, dataset in paper.items() if name not in results)
    trained = sum(name in results for name in paper)
    sentences = [
        EXPLANATION,
        *([BEYOND] if any("/plus" in name for name in results) else []),
        *_data_origins(results),
        f"{trained} of the {len(paper)} cells of the paper's two tables are trained"
        f"{' (missing: ' + ', '.join(missing) + ')' if missing else ''}; all results took "
        f"{duration(wall_seconds(runs))} of training.",
        "[docs/results.md](docs/results.md) has every cell, with settings, seeds and times.",
    ]
    return f"{table.to_markdown()}\n\n" + "\n".join(sentences)


def summary_table(results: Results) -> Table:
    """Our scores, the paper's in brackets; rows and columns without results are left out."""
    rows = [row for dataset in DATASETS for row in _rows(dataset, results)]
    used = [column for column in COLUMNS if any(row[column] for row in rows)]
    header = (*LABELS, *used)
    return Table("", header, tuple(tuple(row[name] for name in header) for row in rows))


def _rows(dataset: str, results: Results) -> list[dict[str, str]]:
    """The rows of a dataset by column: one for each kind of messages with results."""
    by_messages: dict[str, dict[str, Experiment]] = {}
    for cell in _cells(dataset):
        *messages, row = cell.name.split("/")[1:]
        if any(row in names for names in COLUMNS.values()):
            by_messages.setdefault("".join(messages), {})[row] = cell
    rows = []
    for kind, experiments in by_messages.items():
        if any(cell.name in results for cell in experiments.values()):
            scores = {column: _score(names, experiments, results) for column, names in COLUMNS.items()}
            metric = main_metric(next(iter(experiments.values())))
            labels = (f"{DATASETS[dataset]}, {_metric_label(metric)}", MESSAGES.get(kind, kind))
            rows.append(dict(zip(LABELS, labels, strict=True)) | scores)
    return rows


def _cells(dataset: str) -> list[Experiment]:
    return [cell for table in TABLES if dataset in table_datasets(table) for cell in cells(table, dataset)]


def _metric_label(metric: str) -> str:
    """A metric with its unit, or its direction.

    >>> _metric_label("mae"), _metric_label("roc-auc")
    ('MAE (lower is better)', 'ROC-AUC in %')
    """
    return f"{METRIC_LABELS[metric]} (lower is better)" if metric == "mae" else f"{METRIC_LABELS[metric]} in %"


def _data_origins(results: Results) -> list[str]:
    """A sentence on the datasets that are not the official ones, if there are any."""
    datasets: dict[str, list[str]] = {}
    for dataset, label in DATASETS.items():
        if origin := other_data(run for cell in _cells(dataset) for run in results.get(cell.name, ())):
            datasets.setdefault(origin, []).append(label)
    origins = (f"{' and '.join(labels)} ({origin})" for origin, labels in datasets.items())
    return [f"Not the official data: {', '.join(origins)}."] if datasets else []


def _score(names: Sequence[str], experiments: Mapping[str, Experiment], results: Results) -> str:
    """The score of the first of ``names`` that is an experiment, the paper's in brackets; empty without results."""
    cell = next((experiments[name] for name in names if name in experiments), None)
    if cell is None or cell.name not in results:
        return ""
    runs = results[cell.name]
    seeds = f", {len(runs)} seed{'s' * (len(runs) > 1)}" if len(runs) < len(cell.training.seeds) else ""
    paper = "" if cell.published is None else f" ({published_score(cell)})"
    return f"{summarize(runs)}{seeds}{paper}"


def replace_summary(text: str, summary: str, path: Path) -> str:
    """The text of a file with the summary between the two markers.

    >>> replace_summary(f"{BEGIN} old {END} rest", "new", Path("README.md")).splitlines()[1:]
    ['new', '<!-- end of results --> rest']
    """
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{path}: expected the lines {BEGIN!r} and {END!r}, got none; add them")
    return f"{before}{BEGIN}\n{summary}\n{END}{after}"
