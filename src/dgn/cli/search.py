"""``dgn search``: find settings by validation."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape

from dgn.cli.display import make_console, print_table
from dgn.cli.errors import say_error
from dgn.cli.running import read_seeds, run_seeds

if TYPE_CHECKING:
    from dgn.data.benchmarks import Benchmark
    from dgn.reports.tables import Table
    from dgn.search.study import Search, Trial
    from dgn.training.experiment import Experiment
    from dgn.training.settings import DataSettings

SHOWN = 10  # trials in the table


def command(
    experiment: Annotated[str, typer.Argument(help="Where to start: a name that 'dgn info' lists, or a YAML file.")],
    space: Annotated[
        str | None,
        typer.Option(help="A YAML file, or the paper's space of a dataset.", show_default="that of the dataset"),
    ] = None,
    trials: Annotated[int, typer.Option(help="So many in all, those of before included.", min=1)] = 20,
    out: Annotated[
        Path | None, typer.Option(help="Folder of the search; an unfinished one goes on.", show_default="searches/NAME")
    ] = None,
    seeds: Annotated[
        str | None, typer.Option(help="Seeds of each trial.", show_default="the first of the experiment")
    ] = None,
    sampler_seed: Annotated[int, typer.Option(help="Seed of what is proposed.", min=0)] = 0,
    change: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a setting of every trial.")
    ] = None,
    data: Annotated[str | None, typer.Option(help="File or folder with the graphs.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
) -> None:
    """Try settings of an experiment and keep those that score best on the validation graphs.

    Each trial is an ordinary run in a folder of its own. Test scores are neither looked at nor shown.
    """
    from dgn.search.space import load_space
    from dgn.search.study import Search
    from dgn.training.experiment import load_experiment

    base = load_experiment(experiment, [*(change or ()), *([] if data is None else [f"data.path={data}"])])
    chosen = read_seeds(seeds) or [base.training.seeds[0]]
    where = out or Path("searches") / base.name
    search = Search(where, base, load_space(space or base.data.dataset), chosen, sampler_seed)
    run_search(make_console(), search, trials, device)


def run_search(console: Console, search: "Search", trials: int, device: str) -> None:
    """Run trials until there are enough, then show and write down the best."""
    graphs = Graphs()
    while (trial := search.next(trials)) is not None:
        told = ", ".join(f"{name} {value}" for name, value in trial.values.items())
        console.print(f"[bold]{trial.number + 1}/{trials}[/bold] {escape(told)}", highlight=False, soft_wrap=True)
        search.tell(trial, run_trial(console, search, trial, graphs, device))
    best = search.ended()
    if not best:
        raise RuntimeError(f"{search.folder}: expected a trial with a score, got none; see why above")
    print_table(console, trials_table(search, best[:SHOWN]))
    path = search.write_best(best[0])
    console.print(
        f"chosen by validation: trial {best[0].number}; dgn train {path} trains it with all seeds",
        highlight=False,
        soft_wrap=True,
    )


def run_trial(console: Console, search: "Search", trial: "Trial", graphs: "Graphs", device: str) -> float | None:
    """The validation score of a trial; nothing for settings that do not fit together, and where training failed."""
    from dgn.reports.scores import summarize, unit
    from dgn.training.errors import DivergedError, OutOfMemoryError

    try:
        experiment = search.resolve(trial)
    except ValueError as problem:
        console.print(f"left out: {problem}", highlight=False, soft_wrap=True, markup=False)
        return None
    try:
        runs = run_seeds(console, experiment, lambda: graphs(experiment), search.seeds, trial.folder, device)
    except (DivergedError, OutOfMemoryError) as problem:
        say_error(f"trial {trial.number}: {problem}")
        return None
    score = summarize(runs, "val")
    console.print(f"validation {search.metric} {score}", highlight=False)
    return score.mean / unit(search.metric)


def trials_table(search: "Search", trials: "list[Trial]") -> "Table":
    """The best trials: validation scores, sizes, times, and what was searched."""
    from dgn.reports.runs import finished_runs
    from dgn.reports.scores import summarize
    from dgn.reports.tables import Table

    rows = []
    for trial in trials:
        done = finished_runs(trial.folder)
        runs = [done[seed] for seed in search.seeds]
        seconds = max(run.seconds for run in runs)
        told = (str(summarize(runs, "val")), f"{runs[0].parameters:,}", f"{seconds:.0f}")
        rows.append((str(trial.number), *told, *map(str, trial.values.values())))
    names = (name.partition(".")[2] or name for name in search.space.domains)
    header = ("trial", f"val {search.metric}", "parameters", "seconds", *names)
    return Table(f"{search.experiment.name}: the best trials", header, tuple(rows))


class Graphs:
    """The graphs of the last trial, loaded again only when the next needs others or more directions."""

    def __init__(self) -> None:
        self.benchmark: Benchmark | None = None
        self.directions = 0
        self.data: DataSettings | None = None

    def __call__(self, experiment: "Experiment") -> "Benchmark":
        from dgn.training.load import any_directions, load_graphs

        data = any_directions(experiment.data)
        if self.benchmark is None or data != self.data or self.directions < experiment.num_directions:
            self.benchmark = load_graphs(experiment, True)
            self.directions, self.data = experiment.num_directions, data
        return self.benchmark
