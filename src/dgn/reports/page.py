"""The page of all results beside the paper's, and its summary, written from committed results alone."""

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path

import yaml

from dgn.reports.results import Results, wall_seconds
from dgn.reports.runs import FinishedRun
from dgn.reports.scores import against_paper, main_metric, published_score, summarize
from dgn.reports.tables import TABLES, Table, cells
from dgn.training.experiment import Experiment

Notes = Mapping[str, str]
TITLES = {"table1": "Table 1, the same budget", "table2": "Table 2, tuned"}
DATASETS = {"zinc": "ZINC", "pattern": "PATTERN", "cifar10": "CIFAR10", "molhiv": "MolHIV", "molpcba": "MolPCBA"}
MISSING = "not run yet"
INTRODUCTION = """# Results

`dgn results` writes this page from the files in `results/`, one for each seed, and from the paragraphs in
`results/notes.yaml`. Each file holds every setting, the metrics of all splits, versions and the commit of the code.
`dgn reproduce` runs a table again, `dgn results --collect runs` takes over what it found.

- **ours**: mean ± deviation over seeds on the test graphs; n - 1 in the denominator. Errors as they are, all else in
  percent.
- **against the paper**: *better*, or *as good*: worse by at most two deviations, the paper's where it reports one, else
  ours; or *worse*.
- **time**: seeds that were trained side by side count once. Loading data and eigenvectors is not part of it.
- **data** is named wherever it is not the official one. A run is named as `dgn train` takes it.
"""


def results_page(results: Results, notes: Notes) -> str:
    """The whole page as Markdown."""
    paper = {table: {dataset: cells(table, dataset) for dataset in DATASETS} for table in TABLES}
    names = {cell.name for table in paper.values() for each in table.values() for cell in each}
    _check_notes(notes, [*names, *results])
    parts = [INTRODUCTION.strip()]
    for table, datasets in paper.items():
        told = _told([cell for chosen in datasets.values() for cell in chosen], results)
        parts += [f"## {TITLES[table]}", *_note(notes, table), told]
        for dataset, chosen in datasets.items():
            parts += _dataset(table, dataset, chosen, results, notes)
    others = {name: runs for name, runs in results.items() if name not in names}
    if others:
        parts += ["## Other runs", _others(others).to_markdown(), *_paragraphs(others, notes)]
    return "\n\n".join(parts) + "\n"


def read_notes(path: Path) -> dict[str, str]:
    """Paragraphs by what they are about: ``table1``, ``table1/zinc``, or the name of an experiment."""
    if not path.exists():
        return {}
    found = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    if not isinstance(found, dict) or not all(isinstance(text, str) for text in found.values()):
        raise ValueError(f"{path}: expected lines 'name: text', got something else; see the names in docs/results.md")
    return {str(key): " ".join(text.split()) for key, text in found.items()}


def _check_notes(notes: Notes, names: Sequence[str]) -> None:
    places = [place for table in TABLES for place in (table, *(f"{table}/{dataset}" for dataset in DATASETS))]
    for key in notes:
        if key not in (*places, *names):
            near = get_close_matches(key, [*places, *names], n=1)
            remedy = f"did you mean {near[0]!r}?" if near else "remove it"
            raise ValueError(f"notes: expected a table such as table1/zinc or the name of a run, got {key!r}; {remedy}")


def _note(notes: Notes, key: str) -> list[str]:
    return [notes[key]] if key in notes else []


def _told(experiments: Sequence[Experiment], results: Results) -> str:
    """How much of a table has been run, how long it took, where and when."""
    runs = [run for cell in experiments for run in results.get(cell.name, ())]
    done = sum(cell.name in results for cell in experiments)
    told = f"{done} of {len(experiments)} cells run"
    return f"{told}{_conditions(runs)}."


def _conditions(runs: Sequence[FinishedRun]) -> str:
    if not runs:
        return ""
    dates = sorted({run.date for run in runs if run.date})
    when = [dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"] if dates else []
    devices = " and ".join(sorted({run.device for run in runs}))
    return "; " + ", ".join([f"{duration(wall_seconds(runs))} of training on {devices}", *when])


def _dataset(table: str, dataset: str, chosen: Sequence[Experiment], results: Results, notes: Notes) -> list[str]:
    """The section of one dataset in a table of the paper."""
    found = {cell.name: results[cell.name] for cell in chosen if cell.name in results}
    other = other_data(run for runs in found.values() for run in runs)
    heading = f"### {DATASETS[dataset]}, {main_metric(chosen[0])}{other}"
    header = ("run", "ours", "seeds", "parameters", "paper", "against the paper", "epochs", "time")
    rows = tuple(_row(cell, found.get(cell.name, ())) for cell in chosen)
    explained = _paragraphs({cell.name: found.get(cell.name, ()) for cell in chosen}, notes)
    told = _told(chosen, results)
    return [heading, *_note(notes, f"{table}/{dataset}"), Table("", header, rows).to_markdown(), told, *explained]


def other_data(runs: Iterable[FinishedRun]) -> str:
    """What was really used, in brackets, where it is not the official data."""
    other = " and ".join(sorted({run.data for run in runs if run.data}))
    return f" (data: {other})" if other else ""


def _row(cell: Experiment, runs: Sequence[FinishedRun]) -> tuple[str, ...]:
    name, paper = f"`{cell.name}`", published_score(cell)
    published = cell.published.parameters if cell.published else None
    counted = f" (paper: {published:,})" if published else ""
    if not runs:
        return (name, MISSING, "", counted.strip(" ()"), paper, "", "", "")
    score = summarize(runs)
    return (
        name, str(score), _seeds(cell, runs), f"{runs[0].parameters:,}{counted}", paper,
        against_paper(score, cell.published), _span([run.epochs for run in runs]), duration(wall_seconds(runs)),
    )  # fmt: skip


def _seeds(cell: Experiment, runs: Sequence[FinishedRun]) -> str:
    asked = len(cell.training.seeds)
    return str(len(runs)) if len(runs) >= asked else f"{len(runs)} of {asked}"


def _span(numbers: Sequence[int]) -> str:
    low, high = min(numbers), max(numbers)
    return str(low) if low == high else f"{low} to {high}"


def _paragraphs(found: Results, notes: Notes) -> list[str]:
    """What there is to say of single runs; one that is worse than the paper's is always named."""
    said = []
    for name, runs in found.items():
        worse = bool(runs) and against_paper(summarize(runs), runs[0].experiment.published) == "worse"
        if name in notes or worse:
            said.append(f"`{name}`: {notes.get(name, 'worse than the paper, not explained yet.')}")
    return said


def _others(others: Results) -> Table:
    header = ("run", "data", "metric", "aggregators", "ours", "seeds", "parameters", "time", "date")
    rows = tuple(
        (
            f"`{name}`", f"{_dataset_of(runs)}{other_data(runs)}", main_metric(runs[0].experiment),
            ", ".join(runs[0].experiment.network.aggregators), str(summarize(runs)), str(len(runs)),
            f"{runs[0].parameters:,}", duration(wall_seconds(runs)), max(run.date for run in runs),
        )
        for name, runs in sorted(others.items())
    )  # fmt: skip
    return Table("", header, rows)


def _dataset_of(runs: Sequence[FinishedRun]) -> str:
    dataset = runs[0].experiment.data.dataset
    return DATASETS.get(dataset, dataset)


def duration(seconds: float) -> str:
    """A time in two or three digits.

    >>> duration(47.8), duration(600), duration(36000)
    ('48 s', '10.0 min', '10.0 h')
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.1f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
