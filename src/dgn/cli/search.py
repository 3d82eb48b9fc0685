"""``dgn search``: find settings by validation."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from dgn.cli.display import make_console, print_table, say
from dgn.cli.run_seeds import install_sigterm_handler, read_seeds
from dgn.cli.search_runner import as_text, run_at_once, run_in_turn

if TYPE_CHECKING:
    from dgn.training.tables import Table
    from dgn.tuning.study import Search, Trial

SHOWN = 10  # trials in the table
EXAMPLE = """give --space space.yaml, a file such as
settings:
  training.learning_rate: {low: 1e-4, high: 1e-2, log: true}"""


def command(
    experiment: Annotated[str, typer.Argument(help="Where to start: a name that 'dgn info' lists, or a YAML file.")],
    space: Annotated[
        str | None,
        typer.Option(
            help="A YAML file, or the name of a space that comes with dgn: zinc is the paper's.",
            show_default="that of the experiment, else of the dataset",
        ),
    ] = None,
    trials: Annotated[int, typer.Option(help="Trials in all, counting those of an earlier start.", min=1)] = 20,
    out: Annotated[
        Path | None, typer.Option(help="Folder of the search; an unfinished one goes on.", show_default="searches/NAME")
    ] = None,
    seeds: Annotated[
        str | None, typer.Option(help="Seeds of each trial.", show_default="the first of the experiment")
    ] = None,
    parallel: Annotated[int, typer.Option(help="So many trials at once, each in a process of its own.", min=1)] = 1,
    prune: Annotated[
        bool,
        typer.Option(
            "--prune", help="Give up trials behind the median of the others after 30 and 60 % of their epochs."
        ),
    ] = False,
    sampler_seed: Annotated[int, typer.Option(help="Seed of what is proposed.", min=0)] = 0,
    change: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a setting of every trial.")
    ] = None,
    data: Annotated[str | None, typer.Option(help="File or folder with the graphs.")] = None,
    device: Annotated[str, typer.Option(help="auto (a GPU if there is one), cpu or cuda.")] = "auto",
) -> None:
    """Try settings of an experiment and keep those that score best on the validation graphs.

    Each trial is an ordinary run in a folder of its own. Test scores are neither looked at nor shown.
    """
    from dgn.training.experiment import load_experiment
    from dgn.tuning.space import load_space, space_names
    from dgn.tuning.study import Search

    install_sigterm_handler()
    base = load_experiment(experiment, [*(change or ()), *([] if data is None else [f"data.path={data}"])])
    chosen = read_seeds(seeds) or [base.training.seeds[0]]
    where = out or Path("searches") / base.name
    known = next((name for name in (base.name, base.data.dataset) if name in space_names()), None)
    if space is None and known is None:
        raise ValueError(f"--space: expected a file, for no space comes with {base.data.dataset}, got none; {EXAMPLE}")
    search = Search(where, base, load_space(space or str(known)), chosen, sampler_seed)
    run_search(make_console(), search, trials, device, parallel, prune)


def run_search(
    console: Console, search: "Search", trials: int, device: str, parallel: int = 1, prune: bool = False
) -> None:
    """Run trials until there are enough, then show and write down the best."""
    if parallel > 1:
        run_at_once(console, search, trials, device, parallel, prune)
    else:
        run_in_turn(console, search, trials, device, prune)
    best = search.ended()
    if not best:
        raise RuntimeError(f"{search.folder}: expected a trial with a score, got none; see why above")
    print_table(console, trials_table(search, best[:SHOWN]))
    path = search.write_best(best[0])
    say(
        console,
        f"chosen by validation: trial {best[0].number}; dgn train {path} trains it with all seeds",
    )


def trials_table(search: "Search", trials: "list[Trial]") -> "Table":
    """The best trials: validation scores, sizes, times, and what was searched."""
    from dgn.training.run_folder import finished_runs
    from dgn.training.scores import summarize
    from dgn.training.tables import Table

    rows = []
    for trial in trials:
        done = finished_runs(trial.folder)
        runs = [done[seed] for seed in search.seeds]
        seconds = max(run.seconds for run in runs)
        told = (str(summarize(runs, "val")), f"{runs[0].parameters:,}", f"{seconds:.0f}")
        rows.append((str(trial.number), *told, *map(as_text, trial.values.values())))
    names = (name.partition(".")[2] or name for name in search.space.domains)
    header = ("trial", f"val {search.metric}", "parameters", "seconds", *names)
    return Table(f"{search.experiment.name}: the best trials", header, tuple(rows))
