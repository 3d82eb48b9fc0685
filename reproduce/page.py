"""The page of all results beside the paper's, written from committed results alone."""

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path

import yaml

from dgn.training.experiment import Experiment
from dgn.training.scores import against_paper, main_metric, summarize
from dgn.training.tables import Table
from reproduce.augmentation import augmentation_section
from reproduce.cells import DATASETS, TITLES, cells, table_datasets
from reproduce.results import Results, wall_seconds
from reproduce.sections import Notes, dataset_section, duration, in_brackets, note, other_data, paragraphs, told
from reproduce.times import times_section

Cells = Mapping[str, Mapping[str, Sequence[Experiment]]]  # by table and dataset
INTRODUCTION = """# Results

Written by `python -m reproduce results` from the files in `results/`, one for each seed, and from the paragraphs in
`results/notes.yaml`. Each file holds every setting, the metrics of all splits, versions and the commit of the code,
with a `+` where files differed from it. `python -m reproduce table1` trains a table again, and
`python -m reproduce results --collect runs` takes over its results. What is called table 1 and table 2 here is printed
in the paper as figures 5 and 6.

- **ours**: mean ± deviation over seeds on the test graphs; n - 1 in the denominator. Errors as they are, all else in
  percent.
- **against the paper**: better; or as good, which is worse by at most two deviations over seeds, the paper's where it
  gives one, else ours; or **worse** by more, with a paragraph below the table.
- **time**: on the device named below the table; seeds that were trained side by side count once. Loading data and
  eigenvectors is not part of it.
- **data** is named wherever it is not the official one. A run is named as `dgn train` takes it.
"""


def results_page(results: Results, notes: Notes, eigenvectors: Mapping[str, float] | None = None) -> str:
    """The whole page as Markdown; ``eigenvectors`` are seconds by dataset (:func:`reproduce.times.times_section`)."""
    known = {table: found for table in TITLES if (found := _table_cells(table, results))}
    names = {cell.name for table in known.values() for each in table.values() for cell in each}
    _check_notes(notes, known, [*names, *results])
    parts = [INTRODUCTION.strip(), _overview(known, results).to_markdown()]
    for table, datasets in known.items():
        parts += _section(table, datasets, results, notes)
    parts += ["## Running times", *note(notes, "times"), *times_section(results, eigenvectors or {})]
    others = {name: runs for name, runs in results.items() if name not in names}
    if others:
        parts += ["## Other runs", _others(others).to_markdown(), *paragraphs(others, notes)]
    return "\n\n".join(parts) + "\n"


def _table_cells(table: str, results: Results) -> dict[str, list[Experiment]]:
    """All cells of the paper by dataset; of ours beyond it those of datasets that were begun: a draft is no gap."""
    found = {dataset: cells(table, dataset) for dataset in table_datasets(table)}
    return {
        dataset: chosen
        for dataset, chosen in found.items()
        if table != "plus" or any(cell.name in results for cell in chosen)
    }


def read_notes(path: Path) -> dict[str, str]:
    """Paragraphs by what they are about: ``table1``, ``table1/zinc``, ``times``, or the name of an experiment."""
    if not path.exists():
        return {}
    found = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    if not isinstance(found, dict) or not all(isinstance(text, str) for text in found.values()):
        raise ValueError(f"{path}: expected lines 'name: text', got something else; see the names in docs/results.md")
    return {str(key): " ".join(text.split()) for key, text in found.items()}


def _check_notes(notes: Notes, known: Cells, names: Sequence[str]) -> None:
    places = [place for table, each in known.items() for place in (table, *(f"{table}/{dataset}" for dataset in each))]
    for key in notes:
        if key not in (*places, "times", *names):
            near = get_close_matches(key, [*places, *names], n=1)
            remedy = f"did you mean {near[0]!r}?" if near else "remove it"
            raise ValueError(f"notes: expected a table such as table1/zinc or the name of a run, got {key!r}; {remedy}")


def _overview(known: Cells, results: Results) -> Table:
    """How much of each table has been run, how it compares, and how long it took."""
    rows = []
    for table, datasets in known.items():
        whole = [cell for chosen in datasets.values() for cell in chosen]
        rows.append((f"**{TITLES[table]}**", *_counts(whole, results)))
        if len(datasets) > 1:
            rows += [(DATASETS[dataset], *_counts(chosen, results)) for dataset, chosen in datasets.items()]
    return Table("", ("", "cells run", "better or as good", "worse", "runs", "time"), tuple(rows))


def _counts(chosen: Sequence[Experiment], results: Results) -> tuple[str, ...]:
    found = [results[cell.name] for cell in chosen if cell.name in results]
    verdicts = [against_paper(summarize(runs), runs[0].experiment.published) for runs in found]
    worse, known = verdicts.count("worse"), sum(map(bool, verdicts))
    runs = [run for each in found for run in each]
    judged = (str(known - worse), str(worse)) if known else ("", "")
    return (
        f"{len(found)} of {len(chosen)}",
        *judged,
        str(len(runs) or ""),
        duration(wall_seconds(runs)) if runs else "",
    )


def _section(table: str, datasets: Mapping[str, Sequence[Experiment]], results: Results, notes: Notes) -> list[str]:
    """A table of the paper, or one of ours."""
    whole = [cell for chosen in datasets.values() for cell in chosen]
    parts = [f"## {TITLES[table]}", *note(notes, table), told(whole, results)]
    if table == "augmentation":
        return [*parts, *augmentation_section(whole, results), *paragraphs(_found(whole, results), notes)]
    for chosen in datasets.values():
        parts += dataset_section(table, chosen, results, notes)
    return parts


def _found(chosen: Sequence[Experiment], results: Results) -> Results:
    return {cell.name: results.get(cell.name, ()) for cell in chosen}


def _others(others: Results) -> Table:
    header = ("run", "data", "metric", "aggregators", "ours", "seeds", "parameters", "time", "date")
    rows = tuple(
        (
            f"`{name}`", f"{_dataset_of(runs[0].experiment)}{in_brackets(other_data(runs))}",
            main_metric(runs[0].experiment),
            ", ".join(runs[0].experiment.network.aggregators), str(summarize(runs)), str(len(runs)),
            f"{runs[0].parameters:,}", duration(wall_seconds(runs)), max(run.date for run in runs),
        )
        for name, runs in sorted(others.items())
    )  # fmt: skip
    return Table("", header, rows)


def _dataset_of(experiment: Experiment) -> str:
    return DATASETS.get(experiment.data.dataset, experiment.data.dataset)
