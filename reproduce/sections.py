"""The part of a table that belongs to one dataset: every cell beside the paper's, and what there is to say of it."""

from collections.abc import Iterable, Mapping, Sequence

from dgn.training.experiment import Experiment
from dgn.training.run_folder import FinishedRun
from dgn.training.scores import against_paper, main_metric, published_score, summarize
from dgn.training.tables import Table
from reproduce.cells import DATASETS
from reproduce.results import Results, wall_seconds
from reproduce.tables import paper_table

Notes = Mapping[str, str]
MISSING = "not run yet"
HEADER = ("run", "ours", "seeds", "parameters", "paper", "against the paper", "epochs", "time")
OURS = (0, 1, 2, 3, 6, 7)  # columns without the paper's


def dataset_section(table: str, chosen: Sequence[Experiment], results: Results, notes: Notes) -> list[str]:
    """The cells of one dataset: at a glance as in the paper, then one by one, then paragraphs."""
    dataset = chosen[0].data.dataset
    found = {cell.name: results[cell.name] for cell in chosen if cell.name in results}
    other = in_brackets(other_data(run for runs in found.values() for run in runs))
    parts = [f"### {DATASETS[dataset]}, {main_metric(chosen[0])}{other}", *note(notes, f"{table}/{dataset}")]
    if table == "table1" and found:
        parts.append(paper_table(chosen, {name: summarize(runs) for name, runs in found.items()}).to_markdown())
    columns = range(len(HEADER)) if any(cell.published for cell in chosen) else OURS
    lines = [HEADER, *(_row(cell, found.get(cell.name, ())) for cell in chosen)]
    header, *rows = (tuple(line[column] for column in columns) for line in lines)
    explained = paragraphs({cell.name: found.get(cell.name, ()) for cell in chosen}, notes)
    return [*parts, Table("", header, tuple(rows)).to_markdown(), told(chosen, results), *explained]


def _row(cell: Experiment, runs: Sequence[FinishedRun]) -> tuple[str, ...]:
    name, paper = f"`{cell.name}`", published_score(cell)
    published = cell.published.parameters if cell.published else None
    counted = f" (paper: {published:,})" if published else ""
    if not runs:
        return (name, MISSING, "", counted.strip(" ()"), paper, "", "", "")
    score = summarize(runs)
    verdict = against_paper(score, cell.published)
    return (
        name, str(score), _seeds(cell, runs), f"{runs[0].parameters:,}{counted}", paper,
        f"**{verdict}**" if verdict == "worse" else verdict, _span([run.epochs for run in runs]),
        duration(wall_seconds(runs)),
    )  # fmt: skip


def note(notes: Notes, key: str) -> list[str]:
    """The paragraph under a key, if there is one."""
    return [notes[key]] if key in notes else []


def told(experiments: Sequence[Experiment], results: Results) -> str:
    """How much of a table has been run, how long it took, where and when."""
    runs = [run for cell in experiments for run in results.get(cell.name, ())]
    done = sum(cell.name in results for cell in experiments)
    return f"{done} of {len(experiments)} cells run{_conditions(runs)}."


def _conditions(runs: Sequence[FinishedRun]) -> str:
    if not runs:
        return ""
    dates = sorted({run.date for run in runs if run.date})
    when = [dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"] if dates else []
    devices = " and ".join(sorted({run.device for run in runs}))
    return "; " + ", ".join([f"{duration(wall_seconds(runs))} of training on {devices}", *when])


def other_data(runs: Iterable[FinishedRun]) -> str:
    """What was really used, where it is not the official data."""
    return " and ".join(sorted({run.data for run in runs if run.data}))


def in_brackets(data: str) -> str:
    """What was really used, behind a name.

    >>> "ZINC" + in_brackets("resampled"), "ZINC" + in_brackets("")
    ('ZINC (data: resampled)', 'ZINC')
    """
    return f" (data: {data})" if data else ""


def paragraphs(found: Results, notes: Notes) -> list[str]:
    """What there is to say of single runs; one that is worse than the paper's is always named."""
    said = []
    for name, runs in found.items():
        worse = bool(runs) and against_paper(summarize(runs), runs[0].experiment.published) == "worse"
        if name in notes or worse:
            said.append(f"`{name}`: {notes.get(name, 'worse than the paper, not explained yet.')}")
    return said


def duration(seconds: float) -> str:
    """A time in two or three digits.

    >>> duration(47.8), duration(600), duration(36000)
    ('48 s', '10.0 min', '10.0 h')
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.1f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def _seeds(cell: Experiment, runs: Sequence[FinishedRun]) -> str:
    asked = len(cell.training.seeds)
    return str(len(runs)) if len(runs) >= asked else f"{len(runs)} of {asked}"


def _span(numbers: Sequence[int]) -> str:
    low, high = min(numbers), max(numbers)
    return str(low) if low == high else f"{low} to {high}"
