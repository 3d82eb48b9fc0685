"""Tables of the seeds of a run, and of several runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dgn.training.run_folder import FinishedRun
from dgn.training.scores import format_score, main_metric, published_score, summarize, unit


@dataclass(frozen=True)
class Table:
    """A table of text with a title and column names.

    >>> print(Table("", ("a", "b"), (("1", "2"),)).to_markdown())
    | a | b |
    |---|---|
    | 1 | 2 |
    """

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def to_markdown(self) -> str:
        lines = [self.header, ("",) * len(self.header), *self.rows]
        text = [f"| {' | '.join(line)} |" for line in lines]
        text[1] = "|" + "---|" * len(self.header)
        return "\n".join(text)


def seeds_table(runs: Sequence[FinishedRun]) -> Table:
    """A row for each seed of one experiment, their mean, and the published score."""
    experiment = runs[0].experiment
    metric = main_metric(experiment)
    splits = [split for split in ("val", "test") if split in runs[0].metrics]
    rows = []
    for run in runs:
        scores = [format_score(metric, run.metrics[split][metric] * unit(metric)) for split in splits]
        rows.append((str(run.seed), *scores, str(run.epochs), f"{run.seconds:.0f}"))
    if len(runs) > 1:
        rows.append(("mean", *(str(summarize(runs, split)) for split in splits), "", ""))
    if experiment.published is not None:
        rows.append(("paper", *("" for _ in splits[1:]), published_score(experiment), "", ""))
    header = ("seed", *(f"{split} {metric}" for split in splits), "epochs", "seconds")
    return Table(f"{experiment.name}, {runs[0].parameters:,} parameters", header, tuple(rows))


def comparison_table(groups: Mapping[str, Sequence[FinishedRun]], title: str = "") -> Table:
    """A row for each group of runs: aggregators, parameters, score, time."""
    first = next(iter(groups.values()))[0]
    rows = tuple(
        (
            name,
            ", ".join(runs[0].experiment.network.aggregators),
            f"{runs[0].parameters:,}",
            str(summarize(runs)),
            f"{sum(run.seconds for run in runs):.0f}",
        )
        for name, runs in groups.items()
    )
    return Table(title, ("run", "aggregators", "parameters", f"test {main_metric(first.experiment)}", "seconds"), rows)
