"""``dgn train``: train an experiment, by default on the built-in digits."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.text import Text

from dgn.cli.datasets import Graphs
from dgn.cli.display import echo, make_console, print_table
from dgn.cli.run_seeds import read_seeds, report_seeds, run_seeds

if TYPE_CHECKING:
    from dgn.data.benchmark import Benchmark
    from dgn.training.experiment import Experiment

DIGITS = ("mean", "av", "dx", "dx-signed")


def command(
    experiment: Annotated[
        str | None,
        typer.Argument(help="A name that 'dgn info' lists, or a YAML file; without one, handwritten digits."),
    ] = None,
    change: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="Override a setting, such as training.epochs=5; may be repeated."
        ),
    ] = None,
    seeds: Annotated[
        str | None, typer.Option(help="Seeds, comma-separated: 41,95.", show_default="those of the experiment")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder of the run; an unfinished one is resumed.", show_default="runs/EXPERIMENT"),
    ] = None,
    data: Annotated[
        str | None, typer.Option(help="File or folder with the graphs.", show_default="downloaded once")
    ] = None,
    device: Annotated[str, typer.Option(help="auto (a GPU if there is one), cpu or cuda.")] = "auto",
    logs: Annotated[Path | None, typer.Option(metavar="DIR", help="Folder of logs for TensorBoard.")] = None,
) -> None:
    """Train an experiment and compare its score with the paper's.

    Without a name, networks with and without directions are trained on handwritten digits, with no download.

    For example: dgn train zinc/tuned --seeds 41 (for your own table of molecules, see dgn fit)
    """
    from dgn.graph.checks import check_package
    from dgn.training.experiment import load_experiment

    if logs is not None:
        check_package("logs", "tensorboard")
    changes = [*(change or ()), *([] if data is None else [f"data.path={data}"])]
    run_only = read_seeds(seeds)
    if run_only is not None:
        changes.append(f"training.seeds={run_only}")
    console = make_console()
    if experiment is None or experiment == "digits":
        variants = {name: load_experiment(f"digits/{name}", changes) for name in DIGITS}
        train_digits(console, variants, out or Path("runs") / "digits", device, logs)
    else:
        config = load_experiment(experiment, changes)
        train_one(console, config, out or Path("runs") / config.name, device, logs)


def train_one(console: Console, experiment: "Experiment", out: Path, device: str, logs: Path | None = None) -> None:
    """Train one experiment and print its table."""
    from dgn.training.event_log import event_log
    from dgn.training.load import load_graphs

    def load() -> "Benchmark":
        benchmark = load_graphs(experiment, True)
        is_unread = experiment.data.dataset == "own" and experiment.network.edge_dim is None
        if is_unread and "edge_attr" in benchmark.graphs.edges:
            echo(console, "the network does not read edge_attr: set network.message and network.edge_dim if it should")
        return benchmark

    seeds = experiment.training.seeds
    with event_log(logs) as log:
        runs = run_seeds(console, experiment, load, seeds, out, device, watch=log)
    report_seeds(console, out, runs)


def train_digits(
    console: Console, variants: dict[str, "Experiment"], out: Path, device: str, logs: Path | None = None
) -> None:
    """Train the variants on digits; write a table, the curves and a picture."""
    from dgn.plot.curves import draw_curves
    from dgn.training.event_log import event_log
    from dgn.training.run_folder import read_history, write_text
    from dgn.training.tables import comparison_table

    load = Graphs()
    groups, histories = {}, {}
    for name, experiment in variants.items():
        aggregators = ", ".join(experiment.network.aggregators)
        echo(console, Text.assemble((name, "bold"), f": {aggregators}"))
        seeds = experiment.training.seeds
        with event_log(logs and logs / name) as log:
            groups[name] = run_seeds(
                console, experiment, partial(load, experiment), seeds, out / name, device, watch=log
            )
        histories[name] = read_history(out / name, seeds[0])
    table = comparison_table(groups, "Handwritten digits as 8 x 8 grid graphs, with and without directions")
    write_text(out / "results.md", f"# {table.title}\n\n{table.to_markdown()}\n")
    draw_curves(histories, "accuracy", out / "curves.png")
    draw_misread(variants, load, out)
    print_table(console, table)
    echo(console, f"in {out}: digits.png (what direction adds), curves.png, results.md, and a folder for each network")


def draw_misread(variants: dict[str, "Experiment"], load: Graphs, out: Path) -> None:
    """Draw the test digits that the trained networks misread, and why."""
    from dgn.data.benchmark import graphs_in_split
    from dgn.plot.digits import draw_digits
    from dgn.training.model import load_trained, predict_split
    from dgn.training.run_folder import seed_folder

    predictions = {}
    for name, experiment in variants.items():
        model = load_trained(seed_folder(out / name, experiment.training.seeds[0]), "cpu")
        benchmark = load(experiment)
        predictions[name] = predict_split(model, benchmark, "test").prediction.argmax(dim=1)
    graphs = benchmark.graphs
    draw_digits(graphs.select(graphs_in_split(graphs, 2)), predictions, out / "digits.png")
