"""Train the seeds of one experiment into its folder, and read those that are finished."""

import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.console import Console

from dgn.cli.display import Display, echo, print_table
from dgn.cli.errors import STOPPED

if TYPE_CHECKING:
    from dgn.data.benchmark import Benchmark
    from dgn.training.experiment import Experiment
    from dgn.training.run import EpochReport
    from dgn.training.run_folder import FinishedRun

CURVES = "curves.png"
Load = Callable[[], "Benchmark"]
Watch = Callable[["EpochReport"], None]


def run_seeds(
    console: Console,
    experiment: "Experiment",
    load: Load,
    seeds: Sequence[int],
    out: Path,
    device: str,
    curves: bool = True,
    watch: Watch | None = None,
) -> list["FinishedRun"]:
    """Train the seeds that are not finished in ``out`` yet, and return the runs of all of them.

    ``load`` returns the graphs; it is not called if every seed is finished. Without ``curves``, they are left to
    :func:`draw_summary`. ``watch`` is called after every epoch, and ends the training by raising.
    """
    from dgn.training.run_folder import finished_runs, is_begun, write_experiment
    from dgn.training.scores import main_metric

    if int(os.environ.get("RANK", "0")) > 0:
        _train_rank(experiment, load, seeds, out, device)
    begun, done = is_begun(out, experiment), finished_runs(out)
    # Under torchrun all ranks train the same seeds; finished ones return at once.
    missing = list(seeds) if int(os.environ.get("WORLD_SIZE", "1")) > 1 else [s for s in seeds if s not in done]
    if begun:
        echo_resumed(console, experiment, out, [seed for seed in seeds if seed in done], missing)
    if missing:
        if experiment.training.distill_from is not None:  # fail before loading the graphs, which takes a while
            _echo_teachers(console, experiment, out)
        main_metric(experiment)  # refused here if there is none, before directions are computed
        benchmark = load()  # may fail: before the folder exists, so that a retry finds none
        write_experiment(out, experiment)
        train_seeds(console, experiment, benchmark, missing, out, device, watch)
        done = finished_runs(out)
        (out / CURVES).unlink(missing_ok=True)  # drawn from fewer seeds
    write_summary(out, [done[seed] for seed in sorted(done)])
    if curves:
        draw_summary(out)
    return [done[seed] for seed in seeds]


def _echo_teachers(console: Console, experiment: "Experiment", out: Path) -> None:
    from dgn.training.distillation import find_teacher_runs

    teachers = find_teacher_runs(experiment, out)
    echo(console, f"distilling from {', '.join(folder.name for folder in teachers)} of {teachers[0].parent}")


def _train_rank(experiment: "Experiment", load: Load, seeds: Sequence[int], out: Path, device: str) -> None:
    """Train as a rank other than 0, which leaves results and tables to rank 0."""
    from dgn.training.trainer import train

    train(experiment, load(), seeds, out, device)
    raise typer.Exit


def echo_resumed(
    console: Console, experiment: "Experiment", out: Path, done: Sequence[int], missing: Sequence[int]
) -> None:
    """Print which seeds are finished, resumed and new."""
    from dgn.training.run_folder import seed_folder

    begun = [seed for seed in missing if seed_folder(out, seed).exists()]
    states = [("finished", done), ("resuming", begun), ("new", [seed for seed in missing if seed not in begun])]
    message = "; ".join(f"{state}: seed {', '.join(map(str, seeds))}" for state, seeds in states if seeds)
    echo(console, f"{experiment.name} in {out}: {message}")


def install_sigterm_handler() -> None:
    """Handle SIGTERM, sent by batch systems, as Ctrl-C."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)


def stopped(console: Console, out: Path) -> typer.Exit:
    """Print how to resume; returns the exit of the command."""
    echo(console, f"Stopped. The last checkpoint is in {out}; the same command resumes from it.")
    return typer.Exit(STOPPED)


def train_seeds(
    console: Console,
    experiment: "Experiment",
    benchmark: "Benchmark",
    seeds: Sequence[int],
    out: Path,
    device: str,
    watch: Watch | None = None,
) -> None:
    """Train with a display and write every result; an interrupted run can be resumed."""
    from dgn.training.run_experiment import train_missing
    from dgn.training.scores import main_metric

    display = Display(console, main_metric(experiment), experiment.training.schedule == "plateau")

    def on_epoch(report: "EpochReport") -> None:
        display.update(report)
        if watch is not None:
            watch(report)

    try:
        with display:
            display.echo("preparing batches and kernels for the first epoch")
            train_missing(experiment, benchmark, seeds, out, device, on_epoch, display.echo)
    except KeyboardInterrupt:
        raise stopped(console, out) from None


def write_summary(out: Path, runs: Sequence["FinishedRun"]) -> None:
    """Write the table of all finished seeds of a folder."""
    from dgn.training.run_folder import write_text
    from dgn.training.tables import seeds_table

    table = seeds_table(runs)
    write_text(out / "results.md", f"# {table.title}\n\n{table.to_markdown()}\n")


def draw_summary(out: Path) -> None:
    """Draw the curves of all finished seeds of a folder, unless they exist."""
    from dgn.plot.curves import draw_curves
    from dgn.training.run_folder import finished_runs, read_history
    from dgn.training.scores import main_metric

    if not (out / CURVES).exists():
        runs = finished_runs(out)
        histories = {f"seed {seed}": read_history(out, seed) for seed in sorted(runs)}
        draw_curves(histories, main_metric(next(iter(runs.values())).experiment), out / CURVES)


def report_seeds(console: Console, out: Path, runs: Sequence["FinishedRun"]) -> None:
    """Print the table of all seeds and the files written."""
    from dgn.training.tables import seeds_table

    print_table(console, seeds_table(runs))
    echo_conditions(console, runs)
    echo(console, f"in {out}: experiment.yaml, results.md, curves.png, and a folder for each seed")


def echo_conditions(console: Console, runs: Sequence["FinishedRun"]) -> None:
    """Print what differs from the paper's conditions: data and settings."""
    from dgn.training.scores import changed_settings

    for note in sorted({run.data for run in runs if run.data}):
        echo(console, f"data: {note}")
    changed = sorted({key for run in runs for key in changed_settings(run.experiment)})
    if changed:
        echo(console, f"not as published: {', '.join(changed)}")


def read_seeds(text: str | None) -> list[int] | None:
    """The seeds in a comma-separated list.

    >>> read_seeds("41,95"), read_seeds(None)
    ([41, 95], None)
    """
    if text is None:
        return None
    seeds = [seed.strip() for seed in text.split(",")]
    if not all(seed.isdecimal() for seed in seeds) or len(set(seeds)) < len(seeds):
        raise ValueError(f"--seeds: expected distinct integers separated by commas, got {text!r}; write 41,95")
    return [int(seed) for seed in seeds]
