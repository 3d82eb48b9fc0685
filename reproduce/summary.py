"""The summary of all results for the README, between two markers."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from dgn.training.experiment import Experiment
from dgn.training.run_folder import FinishedRun
from dgn.training.scores import main_metric, published_score, summarize
from dgn.training.tables import Table
from reproduce.cells import DATASETS, METRIC_LABELS, cells, table_datasets
from reproduce.results import Results, wall_seconds
from reproduce.sections import duration, other_data

BEGIN, END = "<!-- results: written by python -m reproduce results -->", "<!-- end of results -->"
PAPER = ("table1", "table2")
TABLES = (*PAPER, "multi-label", "plus")
HEADER = ("dataset, metric", "mean only", "directional", "paper", "beyond the paper")
EXPLANATION = (
    "Test scores, mean ± standard deviation over seeds. **mean only** aggregates neighbours by their mean, with the "
    "richest messages of the paper's first table; **directional** is the tuned network of its second table (MUV and "
    "Tox21: `mean dx1`), **paper** its published score. The two columns differ in more than directions: pairs that do "
    "not are in [docs/results.md](docs/results.md)."
)
BEYOND = "**Beyond the paper** come newer blocks, training recipes and encodings: [docs/beyond.md](docs/beyond.md)."
MESSAGES = ("complex-e", "complex", "simple")  # the richest first
#: Columns of the summary and their experiments; the first one with results counts.
COLUMNS = {
    "mean only": tuple(f"{messages}/mean" for messages in MESSAGES),
    "directional": ("tuned", *(f"{messages}/mean-dx1" for messages in MESSAGES)),
    "beyond the paper": ("plus",),
}


def results_summary(results: Results) -> str:
    """A table with a row per dataset, and what it means, as Markdown."""
    table = summary_table(results)
    if not table.rows:
        return "No results yet."
    runs = [run for seeds in results.values() for run in seeds]
    paper = {
        cell.name: dataset for table in PAPER for dataset in table_datasets(table) for cell in cells(table, dataset)
    }
    missing = Counter(DATASETS[dataset] for name, dataset in paper.items() if name not in results)
    missing_cells = ", ".join(f"{count} of {dataset}" for dataset, count in missing.items())
    trained = sum(name in results for name in paper)
    sentences = [
        EXPLANATION,
        *([BEYOND] if any("/plus" in name for name in results) else []),
        *_data_origins(results),
        f"{trained} of the {len(paper)} cells of the paper's two tables are trained"
        f"{f' (missing: {missing_cells})' if missing else ''}; all results took "
        f"{duration(wall_seconds(runs))} of training.",
        "[docs/results.md](docs/results.md) has every cell, with settings, seeds and times.",
    ]
    return f"{table.to_markdown()}\n\n" + "\n".join(sentences)


def summary_table(results: Results) -> Table:
    """Our scores and the paper's, a row for each dataset; rows and columns without results are left out."""
    rows = [row for dataset in DATASETS if len(row := _row(dataset, results)) > 1]
    header = tuple(name for name in HEADER if any(name in row for row in rows))
    return Table("", header, tuple(tuple(row.get(name, "") for name in header) for row in rows))


def _row(dataset: str, results: Results) -> dict[str, str]:
    """The row of a dataset by column."""
    trained = {cell.name: cell for cell in _cells(dataset) if cell.name in results}
    row: dict[str, str] = {}
    for column, names in COLUMNS.items():
        cell = next((trained[name] for end in names if (name := f"{dataset}/{end}") in trained), None)
        if cell is None:
            continue
        row[HEADER[0]] = f"{DATASETS[dataset]}, {_metric_label(main_metric(cell))}"
        row[column] = _score(cell, results[cell.name])
        if column == "directional" and cell.published is not None:
            row["paper"] = published_score(cell)
    return row


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
    labels = [
        label
        for dataset, label in DATASETS.items()
        if other_data(run for cell in _cells(dataset) for run in results.get(cell.name, ()))
    ]
    differs = "not bitwise the official data ([what differs](docs/data.md#what-is-official))"
    return [f"{join_words(labels)} {'is' if len(labels) == 1 else 'are'} {differs}."] if labels else []


def join_words(words: Sequence[str]) -> str:
    """Words as a list in a sentence.

    >>> join_words(["ZINC"]), join_words(["ZINC", "MUV", "Tox21"])
    ('ZINC', 'ZINC, MUV and Tox21')
    """
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last


def _score(cell: Experiment, runs: Sequence[FinishedRun]) -> str:
    """The score of a cell, with the number of seeds if some are missing."""
    seeds = f", {len(runs)} seed{'s' * (len(runs) > 1)}" if len(runs) < len(cell.training.seeds) else ""
    return f"{summarize(runs)}{seeds}"


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
