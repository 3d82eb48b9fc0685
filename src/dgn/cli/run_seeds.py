"""Train the seeds of one experiment into its folder, or bring back what was finished there."""

import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.console import Console

from dgn.cli.display import Display, print_table, say

if TYPE_CHECKING:
    from dgn.data.benchmark import Benchmark
    from dgn.training.experiment import Experiment
    from dgn.training.run import EpochReport
    from dgn.training.run_folder import FinishedRun

CURVES = "curves.png"
STOPPED = 130  # what a shell expects of a command that Ctrl-C ended
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

    ``load`` gives the graphs; it is not called when every seed is finished. Without ``curves``, they are left to
    :func:`draw_summary`. ``watch`` hears of every epoch, and ends the training by raising.
    """
    from dgn.training.run_folder import finished_runs, is_begun, write_experiment

    if int(os.environ.get("RANK", "0")) > 0:
        _help_train(experiment, load, seeds, out, device)
    begun, done = is_begun(out, experiment), finished_runs(out)
    # Several processes train the same seeds; those that are finished end at once.
    missing = list(seeds) if int(os.environ.get("WORLD_SIZE", "1")) > 1 else [s for s in seeds if s not in done]
    if begun:
        say_resumed(console, experiment, out, [seed for seed in seeds if seed in done], missing)
    if missing:
        if experiment.training.distill_from is not None:  # before the graphs, which take a while
            _say_teachers(console, experiment, out)
        benchmark = load()  # may fail: a folder without a run would be in the way of the next try
        write_experiment(out, experiment)
        train_seeds(console, experiment, benchmark, missing, out, device, watch)
        done = finished_runs(out)
        (out / CURVES).unlink(missing_ok=True)  # those of fewer seeds
    write_summary(out, [done[seed] for seed in sorted(done)])
    if curves:
        draw_summary(out)
    return [done[seed] for seed in seeds]


def _say_teachers(console: Console, experiment: "Experiment", out: Path) -> None:
    from dgn.training.distillation import find_teacher_runs

    found = find_teacher_runs(experiment, out)
    say(console, f"taught by {', '.join(folder.name for folder in found)} of {found[0].parent}")


def _help_train(experiment: "Experiment", load: Load, seeds: Sequence[int], out: Path, device: str) -> None:
    """The part of a process that is not the first of several: it shares the work and leaves the rest to the first."""
    from dgn.training.trainer import train

    train(experiment, load(), seeds, out, device)
    raise typer.Exit


def say_resumed(
    console: Console, experiment: "Experiment", out: Path, done: Sequence[int], missing: Sequence[int]
) -> None:
    """Say what of a run was there already."""
    from dgn.training.run_folder import seed_folder

    begun = [seed for seed in missing if seed_folder(out, seed).exists()]
    parts = [("finished", done), ("resuming", begun), ("new", [seed for seed in missing if seed not in begun])]
    told = "; ".join(f"{word}: seed {', '.join(map(str, seeds))}" for word, seeds in parts if seeds)
    say(console, f"{experiment.name} in {out}: {told}")


def install_sigterm_handler() -> None:
    """Let SIGTERM, with which a batch system asks to end, be the same to a training as Ctrl-C in a terminal."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)


def stopped(console: Console, out: Path) -> typer.Exit:
    """Say that a training was stopped, and how to go on; the end of the command."""
    say(console, f"Stopped. The last checkpoint is in {out}; the same command goes on from there.")
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
    """Train with a display, and keep every result; what ended early can go on later."""
    from dgn.training.errors import TrainingError
    from dgn.training.run_folder import FinishedRun, write_run
    from dgn.training.scores import main_metric
    from dgn.training.trainer import train

    display = Display(console, main_metric(experiment), experiment.training.schedule == "plateau")

    def hear(report: "EpochReport") -> None:
        display.update(report)
        if watch is not None:
            watch(report)

    try:
        with display:
            results = train(experiment, benchmark, seeds, out, device, hear, on_resume=display.say)
    except KeyboardInterrupt:
        raise stopped(console, out) from None
    except TrainingError as problem:
        for result in problem.results:
            write_run(out, FinishedRun.of(experiment, result, benchmark.note, seeds), result.history)
        raise
    for result in results:
        write_run(out, FinishedRun.of(experiment, result, benchmark.note, seeds), result.history)


def write_summary(out: Path, runs: Sequence["FinishedRun"]) -> None:
    """The table of all finished seeds of a folder."""
    from dgn.training.run_folder import write_text
    from dgn.training.tables import seeds_table

    table = seeds_table(runs)
    write_text(out / "results.md", f"# {table.title}\n\n{table.to_markdown()}\n")


def draw_summary(out: Path) -> None:
    """The curves of all finished seeds of a folder, unless they are there."""
    from dgn.plot.curves import draw_curves
    from dgn.training.run_folder import finished_runs, read_history
    from dgn.training.scores import main_metric

    if not (out / CURVES).exists():
        runs = finished_runs(out)
        histories = {f"seed {seed}": read_history(out, seed) for seed in sorted(runs)}
        draw_curves(histories, main_metric(next(iter(runs.values())).experiment), out / CURVES)


def report_seeds(console: Console, out: Path, runs: Sequence["FinishedRun"]) -> None:
    """Print the table of all seeds and say where everything is."""
    from dgn.training.tables import seeds_table

    print_table(console, seeds_table(runs))
    say_conditions(console, runs)
    say(console, f"in {out}: experiment.yaml, results.md, curves.png, and a folder for each seed")


def say_conditions(console: Console, runs: Sequence["FinishedRun"]) -> None:
    """Say under which conditions scores stand beside the paper's: other data, other settings."""
    from dgn.training.scores import changed_settings

    for note in sorted({run.data for run in runs if run.data}):
        say(console, f"data: {note}")
    changed = sorted({key for run in runs for key in changed_settings(run.experiment)})
    if changed:
        say(console, f"not as published: {', '.join(changed)}")


def read_seeds(text: str | None) -> list[int] | None:
    """Seeds of the command line.

    >>> read_seeds("41,95"), read_seeds(None)
    ([41, 95], None)
    """
    if text is None:
        return None
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() for part in parts) or len(set(parts)) < len(parts):
        raise ValueError(f"--seeds: expected different whole numbers with commas between, got {text!r}; write 41,95")
    return [int(part) for part in parts]
