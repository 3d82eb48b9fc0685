"""The section of a table for one dataset: every cell next to the paper's score, and the notes on it."""

from collections.abc import Iterable, Mapping, Sequence

from dgn.training.experiment import Experiment
from dgn.training.run_folder import FinishedRun
from dgn.training.scores import against_paper, main_metric, published_score, summarize
from dgn.training.tables import Table
from reproduce.cells import DATASETS, METRIC_LABELS
from reproduce.results import Results, wall_seconds
from reproduce.tables import paper_table

Notes = Mapping[str, str]
MISSING = "not trained yet"
HEADER = ("experiment", "ours", "seeds", "parameters", "paper", "vs. paper", "epochs", "time")
PAPER_COLUMNS = ("paper", "vs. paper")


def dataset_section(table: str, chosen: Sequence[Experiment], results: Results, notes: Notes) -> list[str]:
    """The Markdown blocks of one dataset: the table as in the paper, all cells in detail, notes."""
    dataset = chosen[0].data.dataset
    trained = {cell.name: results[cell.name] for cell in chosen if cell.name in results}
    title = f"### {DATASETS[dataset]}, {METRIC_LABELS[main_metric(chosen[0])]}"
    parts = [title, *data_origins(trained), *note(notes, f"{table}/{dataset}")]
    if table == "table1" and trained:
        parts.append(paper_table(chosen, {name: summarize(runs) for name, runs in trained.items()}).to_markdown())
    lines = [HEADER, *(_row(cell, trained.get(cell.name, ())) for cell in chosen)]
    if not any(cell.published for cell in chosen):
        lines = [_without_paper(line) for line in lines]
    explained = paragraphs({cell.name: trained.get(cell.name, ()) for cell in chosen}, notes)
    return [*parts, Table("", lines[0], tuple(lines[1:])).to_markdown(), coverage(chosen, results), *explained]


def _without_paper(line: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(value for name, value in zip(HEADER, line, strict=True) if name not in PAPER_COLUMNS)


def _row(cell: Experiment, runs: Sequence[FinishedRun]) -> tuple[str, ...]:
    name, paper = f"`{cell.name}`", published_score(cell)
    published = cell.published.parameters if cell.published else None
    paper_size = f" (paper: {published:,})" if published else ""
    if not runs:
        return (name, MISSING, "", paper_size.strip(" ()"), paper, "", "", "")
    score = summarize(runs)
    verdict = against_paper(score, cell.published)
    return (
        name, str(score), _seeds(cell, runs), f"{runs[0].parameters:,}{paper_size}", paper,
        f"**{verdict}**" if verdict == "worse" else verdict, _range([run.epochs for run in runs]),
        duration(wall_seconds(runs)),
    )  # fmt: skip


def note(notes: Notes, key: str) -> list[str]:
    """The note under a key, as a list of no or one block."""
    return [notes[key]] if key in notes else []


def coverage(experiments: Sequence[Experiment], results: Results) -> str:
    """A sentence: number of trained cells, training time, device and dates."""
    runs = [run for cell in experiments for run in results.get(cell.name, ())]
    trained = sum(cell.name in results for cell in experiments)
    return f"{trained} of {len(experiments)} cells trained{_conditions(runs)}."


def _conditions(runs: Sequence[FinishedRun]) -> str:
    if not runs:
        return ""
    dates = sorted({run.date for run in runs if run.date})
    period = [dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"] if dates else []
    devices = " and ".join(sorted({run.device for run in runs}))
    return "; " + ", ".join([f"{duration(wall_seconds(runs))} of training on {devices}", *period])


def data_origins(results: Results) -> list[str]:
    """The origin of the data, and of which cells where they differ; nothing where all are the official ones."""
    cells: dict[str, list[str]] = {}
    for name, runs in results.items():
        cells.setdefault(other_data(runs), []).append(f"`{name}`")
    if not any(cells):
        return []
    if len(cells) == 1:
        return [f"Data: {next(iter(cells))}."]
    return ["\n".join(f"- {', '.join(names)}: {origin or 'official data'}" for origin, names in cells.items())]


def other_data(runs: Iterable[FinishedRun]) -> str:
    """The origin of the data, where it is not the official dataset."""
    return " and ".join(sorted({run.data for run in runs if run.data}))


def in_brackets(data: str) -> str:
    """The origin of the data in brackets, to follow a name.

    >>> "ZINC" + in_brackets("resampled"), "ZINC" + in_brackets("")
    ('ZINC (data: resampled)', 'ZINC')
    """
    return f" (data: {data})" if data else ""


def paragraphs(results: Results, notes: Notes) -> list[str]:
    """The notes on single experiments; one that is worse than the paper always gets a paragraph."""
    texts = []
    for name, runs in results.items():
        worse = bool(runs) and against_paper(summarize(runs), runs[0].experiment.published) == "worse"
        if name in notes or worse:
            texts.append(f"`{name}`: {notes.get(name, 'worse than the paper, not explained yet.')}")
    return texts


def duration(seconds: float) -> str:
    """A duration with two or three digits.

    >>> duration(47.8), duration(600), duration(36000)
    ('48 s', '10.0 min', '10.0 h')
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.1f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def _seeds(cell: Experiment, runs: Sequence[FinishedRun]) -> str:
    expected = len(cell.training.seeds)
    return str(len(runs)) if len(runs) >= expected else f"{len(runs)} of {expected}"


def _range(values: Sequence[int]) -> str:
    low, high = min(values), max(values)
    return str(low) if low == high else f"{low} to {high}"
