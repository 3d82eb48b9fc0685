"""``dgn search``: hyperparameter search on the validation split."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from dgn.cli.display import echo, make_console, print_table
from dgn.cli.run_seeds import read_seeds
from dgn.cli.search_runner import as_text, run_in_parallel, run_sequentially

if TYPE_CHECKING:
    from dgn.training.tables import Table
    from dgn.tuning.study import Search, Trial

SHOWN = 10  # trials in the table
EXAMPLE = """give --space space.yaml, a file such as
settings:
  training.learning_rate: {low: 1e-4, high: 1e-2, log: true}"""


def command(
    experiment: Annotated[str, typer.Argument(help="Base experiment: a name that 'dgn info' lists, or a YAML file.")],
    space: Annotated[
        str | None,
        typer.Option(
            help="Search space: a YAML file, or the name of a built-in space (zinc is the paper's).",
            show_default="that of the experiment, else of the dataset",
        ),
    ] = None,
    trials: Annotated[int, typer.Option(help="Total number of trials, including those of earlier starts.", min=1)] = 20,
    out: Annotated[
        Path | None, typer.Option(help="Folder of the search; an unfinished one resumes.", show_default="searches/NAME")
    ] = None,
    seeds: Annotated[
        str | None, typer.Option(help="Seeds of each trial.", show_default="the first of the experiment")
    ] = None,
    parallel: Annotated[int, typer.Option(help="Trials trained in parallel, one process each.", min=1)] = 1,
    prune: Annotated[
        bool,
        typer.Option("--prune", help="Prune trials behind the median of the others after 30 and 60 % of their epochs."),
    ] = False,
    sampler_seed: Annotated[int, typer.Option(help="Seed of the sampler.", min=0)] = 0,
    change: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a setting of every trial.")
    ] = None,
    data: Annotated[str | None, typer.Option(help="File or folder with the graphs.")] = None,
    device: Annotated[str, typer.Option(help="auto (a GPU if there is one), cpu or cuda.")] = "auto",
) -> None:
    """Search the settings of an experiment that score best on the validation split.

    Each trial is an ordinary run in a folder of its own. Test scores are neither used nor shown.
    """
    from dgn.training.experiment import load_experiment
    from dgn.tuning.space import load_space, space_names
    from dgn.tuning.study import Search

    base = load_experiment(experiment, [*(change or ()), *([] if data is None else [f"data.path={data}"])])
    trial_seeds = read_seeds(seeds) or [base.training.seeds[0]]
    folder = out or Path("searches") / base.name
    built_in = next((name for name in (base.name, base.data.dataset) if name in space_names()), None)
    if space is None and built_in is None:
        raise ValueError(f"--space: expected a file, as {base.data.dataset} has no built-in space, got none; {EXAMPLE}")
    search = Search(folder, base, load_space(space or str(built_in)), trial_seeds, sampler_seed)
    run_search(make_console(), search, trials, device, parallel, prune)


def run_search(
    console: Console, search: "Search", trials: int, device: str, parallel: int = 1, prune: bool = False
) -> None:
    """Run trials up to the total, then print the best and write its settings."""
    if parallel > 1:
        run_in_parallel(console, search, trials, device, parallel, prune)
    else:
        run_sequentially(console, search, trials, device, prune)
    best = search.ended()
    if not best:
        raise RuntimeError(f"{search.folder}: expected a trial with a score, got none; see the errors above")
    print_table(console, trials_table(search, best[:SHOWN]))
    path = search.write_best(best[0])
    echo(
        console,
        f"best on validation: trial {best[0].number}; dgn train {path} trains it with all seeds",
    )


def trials_table(search: "Search", trials: "list[Trial]") -> "Table":
    """The best trials: validation scores, parameters, seconds and the searched settings."""
    from dgn.training.run_folder import finished_runs
    from dgn.training.scores import summarize
    from dgn.training.tables import Table

    rows = []
    for trial in trials:
        done = finished_runs(trial.folder)
        runs = [done[seed] for seed in search.seeds]
        seconds = max(run.seconds for run in runs)
        results = (str(summarize(runs, "val")), f"{runs[0].parameters:,}", f"{seconds:.0f}")
        rows.append((str(trial.number), *results, *map(as_text, trial.values.values())))
    names = (name.partition(".")[2] or name for name in search.space.domains)
    header = ("trial", f"val {search.metric}", "parameters", "seconds", *names)
    return Table(f"{search.experiment.name}: the best trials", header, tuple(rows))
