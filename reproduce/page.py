"""The page of all results next to the paper's, written from committed results alone."""

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path

import yaml

from dgn.training.experiment import Experiment
from dgn.training.scores import against_paper, main_metric, summarize
from dgn.training.tables import Table
from reproduce.augmentation import augmentation_section
from reproduce.cells import DATASETS, METRIC_LABELS, TITLES, cells, table_datasets
from reproduce.results import Results, wall_seconds
from reproduce.sections import Notes, coverage, dataset_section, duration, in_brackets, note, other_data, paragraphs
from reproduce.times import times_section

Cells = Mapping[str, Mapping[str, Sequence[Experiment]]]  # by table and dataset
INTRODUCTION = """# Results

Written by `python -m reproduce results` from `results/` (one file per seed) and the notes in `results/notes.yaml`. Each
file records all settings, the metrics of all splits, package versions and the commit, with a `+` if the working tree
was dirty. `python -m reproduce table1` trains a table again, `python -m reproduce results --collect runs` collects its
results. Tables 1 and 2 are figures 5 and 6 of the paper.

- **experiment**: the name that `dgn train` takes.
- **ours**: mean ± sample standard deviation over seeds on the test split. MAE is in the units of the target, all other
  metrics are in percent.
- **vs. paper**: "as good": it differs by at most two standard deviations over seeds (the paper's if reported, else
  ours); "better" or "**worse**" otherwise, the latter with a note below the table.
- **time**: wall time of training on the device named below the table. Seeds trained in parallel count once. Loading
  data and computing eigenvectors are not included.
- **data**: named where it is not the official dataset.

Messages are the features of a neighbour (simple), a linear map of both endpoints (complex), or of both endpoints and
the edge features (complex-E). `av1` and `dx1` are the directional average and the absolute directional derivative along
the first eigenvector; `pos1` adds the first eigenvector to the node features instead.
"""


def results_page(results: Results, notes: Notes, eigenvectors: Mapping[str, float] | None = None) -> str:
    """The page as Markdown; ``eigenvectors`` are seconds by dataset (:func:`reproduce.times.times_section`)."""
    tables = {table: datasets for table in TITLES if (datasets := _table_cells(table, results))}
    names = {cell.name for datasets in tables.values() for chosen in datasets.values() for cell in chosen}
    _check_notes(notes, tables, [*names, *results])
    parts = [INTRODUCTION.strip(), _overview(tables, results).to_markdown()]
    for table, datasets in tables.items():
        parts += _section(table, datasets, results, notes)
    parts += ["## Running times", *note(notes, "times"), *times_section(results, eigenvectors or {})]
    others = {name: runs for name, runs in results.items() if name not in names}
    if others:
        parts += ["## Other experiments", _others(others).to_markdown(), *paragraphs(others, notes)]
    return "\n\n".join(parts) + "\n"


def _table_cells(table: str, results: Results) -> dict[str, list[Experiment]]:
    """The cells of a table by dataset; beyond the paper, only datasets with results."""
    datasets = {dataset: cells(table, dataset) for dataset in table_datasets(table)}
    return {
        dataset: chosen
        for dataset, chosen in datasets.items()
        if table != "plus" or any(cell.name in results for cell in chosen)
    }


def read_notes(path: Path) -> dict[str, str]:
    """Notes by subject: ``table1``, ``table1/zinc``, ``times``, or an experiment name."""
    if not path.exists():
        return {}
    notes = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    if not isinstance(notes, dict) or not all(isinstance(text, str) for text in notes.values()):
        raise ValueError(f"{path}: expected lines 'name: text', got something else; see the names in docs/results.md")
    return {str(key): " ".join(text.split()) for key, text in notes.items()}


def _check_notes(notes: Notes, tables: Cells, names: Sequence[str]) -> None:
    subjects = [*tables, *(f"{table}/{dataset}" for table, datasets in tables.items() for dataset in datasets), *names]
    for key in notes:
        if key not in (*subjects, "times"):
            near = get_close_matches(key, subjects, n=1)
            remedy = f"did you mean {near[0]!r}?" if near else "remove it"
            raise ValueError(f"notes: expected a table such as table1/zinc or an experiment, got {key!r}; {remedy}")


def _overview(tables: Cells, results: Results) -> Table:
    """The number of trained cells, verdicts and training time of each table."""
    rows = []
    for table, datasets in tables.items():
        all_cells = [cell for chosen in datasets.values() for cell in chosen]
        rows.append((f"**{TITLES[table]}**", *_counts(all_cells, results)))
        if len(datasets) > 1:
            rows += [(DATASETS[dataset], *_counts(chosen, results)) for dataset, chosen in datasets.items()]
    return Table("", ("table", "cells trained", "better or as good", "worse", "runs", "time"), tuple(rows))


def _counts(chosen: Sequence[Experiment], results: Results) -> tuple[str, ...]:
    trained = [results[cell.name] for cell in chosen if cell.name in results]
    verdicts = [against_paper(summarize(runs), runs[0].experiment.published) for runs in trained]
    worse, compared = verdicts.count("worse"), sum(map(bool, verdicts))
    all_runs = [run for runs in trained for run in runs]
    return (
        f"{len(trained)} of {len(chosen)}",
        *((str(compared - worse), str(worse)) if compared else ("", "")),
        str(len(all_runs) or ""),
        duration(wall_seconds(all_runs)) if all_runs else "",
    )


def _section(table: str, datasets: Mapping[str, Sequence[Experiment]], results: Results, notes: Notes) -> list[str]:
    """The Markdown blocks of one table."""
    all_cells = [cell for chosen in datasets.values() for cell in chosen]
    parts = [f"## {TITLES[table]}", *note(notes, table), coverage(all_cells, results)]
    if table == "augmentation":
        runs = {cell.name: results.get(cell.name, ()) for cell in all_cells}
        return [*parts, *augmentation_section(all_cells, results), *paragraphs(runs, notes)]
    for chosen in datasets.values():
        parts += dataset_section(table, chosen, results, notes)
    return parts


def _others(others: Results) -> Table:
    """Experiments that are not shipped."""
    header = ("experiment", "data", "metric", "aggregators", "ours", "seeds", "parameters", "time", "date")
    rows = tuple(
        (
            f"`{name}`", f"{_dataset_label(runs[0].experiment)}{in_brackets(other_data(runs))}",
            _metric_label(runs[0].experiment),
            ", ".join(runs[0].experiment.network.aggregators), str(summarize(runs)), str(len(runs)),
            f"{runs[0].parameters:,}", duration(wall_seconds(runs)), max(run.date for run in runs),
        )
        for name, runs in sorted(others.items())
    )  # fmt: skip
    return Table("", header, rows)


def _dataset_label(experiment: Experiment) -> str:
    return DATASETS.get(experiment.data.dataset, experiment.data.dataset)


def _metric_label(experiment: Experiment) -> str:
    return METRIC_LABELS.get(main_metric(experiment), main_metric(experiment))
