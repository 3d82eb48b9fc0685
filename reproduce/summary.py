"""The summary of all results for the README, between two markers."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from dgn.training.experiment import Experiment
from dgn.training.scores import main_metric, published_score, summarize
from dgn.training.tables import Table
from reproduce.cells import DATASETS, cells, table_datasets
from reproduce.results import Results, wall_seconds
from reproduce.sections import duration, other_data

BEGIN, END = "<!-- results: written by python -m reproduce results -->", "<!-- end of results -->"
PAPER = ("table1", "table2")
SHOWN = (*PAPER, "multi-label", "plus")
EXPLAINED = (
    "mae: less is better, all else in percent. av and dx are along the first direction, on CIFAR10 along both axes. "
    "Simple messages are features of a neighbour, complex ones a map of both ends, complex-e of the bond too."
)
#: Columns of the summary: the row of the paper's first table, and where it has none the one with both axes.
COLUMNS = {
    "mean": ("mean",),
    "mean av": ("mean-av1", "mean-av1-av2"),
    "mean dx": ("mean-dx1", "mean-dx1-dx2"),
    "mean dx av": ("mean-dx1-av1",),
    "tuned": ("tuned",),
    "tuned, no edges": ("tuned-no-edges",),
    "plus": ("plus",),
}


def results_summary(results: Results) -> str:
    """A row for each dataset and layer that has been run: ours, and the paper's in brackets."""
    tables = {table: table_datasets(table) for table in SHOWN}
    known = {dataset: [table for table in SHOWN if dataset in tables[table]] for dataset in DATASETS}
    rows = tuple(row for dataset, own in known.items() for row in _rows(dataset, own, results))
    if not rows:
        return "No results yet."
    runs = [run for each in results.values() for run in each]
    paper = {cell.name: dataset for table in PAPER for dataset in tables[table] for cell in cells(table, dataset)}
    left = dict.fromkeys(DATASETS[dataset] for name, dataset in paper.items() if name not in results)
    told = (
        f"Test scores, mean ± deviation over seeds, the paper's in brackets; {EXPLAINED}{_data(known, results)}\n"
        f"{sum(name in results for name in paper)} of the {len(paper)} cells of the paper's two tables have been run"
        f"{' (left: ' + ', '.join(left) + ')' if left else ''}; "
        f"{duration(wall_seconds(runs))} of training in all.\n"
        "Everything else is in [docs/results.md](docs/results.md)."
    )
    if any("/plus" in name for name in results):
        told += "\nplus: newer blocks and, but for CIFAR10, structural inputs, [beyond the paper](docs/beyond.md)."
    used = [column for number, column in enumerate(COLUMNS, 1) if any(row[number] for row in rows)]
    places = [0, *(list(COLUMNS).index(column) + 1 for column in used)]
    chosen = tuple(tuple(row[place] for place in places) for row in rows)
    return f"{Table('', ('', *used), chosen).to_markdown()}\n\n{told}"


def _rows(dataset: str, tables: Sequence[str], results: Results) -> list[tuple[str, ...]]:
    by_layer: dict[str, dict[str, Experiment]] = {}
    for table in tables:
        for cell in cells(table, dataset):
            *kind, row = cell.name.split("/")[1:]
            if any(row in names for names in COLUMNS.values()):
                by_layer.setdefault(" ".join(kind), {})[row] = cell
    found = []
    for layer, row_cells in by_layer.items():
        runs = [run for cell in row_cells.values() for run in results.get(cell.name, ())]
        if runs:
            metric = main_metric(runs[0].experiment)
            title = f"{' '.join([DATASETS[dataset], *layer.split()])}, {metric}"
            found.append((title, *(_cell(names, row_cells, results) for names in COLUMNS.values())))
    return found


def _data(tables: Mapping[str, Sequence[str]], results: Results) -> str:
    """What was really used, and for which datasets, where it is not the official data."""
    used: dict[str, list[str]] = {}
    for dataset, own in tables.items():
        runs = [run for table in own for cell in cells(table, dataset) for run in results.get(cell.name, ())]
        if other := other_data(runs):
            used.setdefault(other, []).append(DATASETS[dataset])
    told = (f"{' and '.join(datasets)} ({other})" for other, datasets in used.items())
    return f"\nNot the official data: {', '.join(told)}." if used else ""


def _cell(names: tuple[str, ...], row_cells: dict[str, Experiment], results: Results) -> str:
    cell = next((row_cells[name] for name in names if name in row_cells), None)
    if cell is None or cell.name not in results:
        return ""
    runs = results[cell.name]
    fewer = f", {len(runs)} seed{'s' * (len(runs) > 1)}" if len(runs) < len(cell.training.seeds) else ""
    paper = "" if cell.published is None else f" ({published_score(cell)})"
    return f"{summarize(runs)}{fewer}{paper}"


def replace_summary(text: str, summary: str, path: Path) -> str:
    """The text of a file with the summary between the two markers.

    >>> replace_summary(f"{BEGIN} old {END} rest", "new", Path("README.md")).splitlines()[1:]
    ['new', '<!-- end of results --> rest']
    """
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{path}: expected the lines {BEGIN!r} and {END!r}, got none; add them where results belong")
    return f"{before}{BEGIN}\n{summary}\n{END}{after}"
