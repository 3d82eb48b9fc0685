"""The constructions of the paper's appendix A in a network, each at the number of parameters of the plain one.

    python -m benchmarks.paper.appendix --data FOLDER [--runs runs] [--only zinc/split ...] [--minutes 9]

Unfinished cells are trained in turn, all seeds of a cell at once, and resumed after an interruption; whatever is
finished is printed as a table of test scores. ``--list`` prints the cells with their sizes and trains none.
"""

import argparse
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import dgn
from dgn.data.benchmark import Benchmark, load_benchmark
from dgn.training.experiment import Experiment, load_experiment
from dgn.training.load import add_inputs
from dgn.training.run_folder import finished_runs
from dgn.training.scores import summarize
from dgn.tuning.width import fit_width, size

# By directions 1 and 2, or 1 alone: {k} is the direction.
DERIVATIVES = {
    "plain": "dx{k}",
    "centre-balanced": "dx{k}-center",
    "zero-padded": "dx{k}-pad",
    "global norm": "dx{k}-global",
    "hard": "dx{k}-hard",
    "soft": "dx{k}-soft10",
    "split, hard": "dx{k}-split-hard",
    "split, soft": "dx{k}-split-soft10",
}
AVERAGES = {name: pattern.replace("dx", "av") for name, pattern in DERIVATIVES.items()}
# A copy of the neighbour furthest along the field, or against it, is a hard forward or backward sum.
PAIRS = {"forward, backward": ["fwd{k}", "bwd{k}"], "copies": ["fwd{k}-hard", "bwd{k}-hard"]}
BASES = {"zinc": ("zinc/complex-e/mean-dx1", 1, 4), "cifar10": ("cifar10/complex/mean-dx1-dx2", 2, 2)}


class Cell(NamedTuple):
    """An experiment of the table, in the column of its dataset and the row of its construction."""

    dataset: str
    construction: str
    experiment: Experiment


def make_cells(changes: list[str]) -> Iterator[Cell]:
    for dataset, (name, directions, seeds) in BASES.items():
        base = load_experiment(name, changes)
        for construction, aggregators, data in constructions(directions, dataset):
            network = replace(base.network, aggregators=("mean", *aggregators))
            experiment = replace(
                base,
                name=f"appendix/{dataset}/{construction.replace(', ', '-').replace(' ', '-')}",
                network=network,
                data=replace(base.data, **data),
                training=replace(base.training, seeds=base.training.seeds[:seeds]),
                published=None,
            )
            yield Cell(dataset, construction, fit_width(experiment, size(base)))


def constructions(directions: int, dataset: str) -> Iterator[tuple[str, list[str], dict[str, Any]]]:
    """Name, directional aggregators and settings of the data of each row."""
    numbers = range(1, directions + 1)
    for operator, patterns in (("dx", DERIVATIVES), ("av", AVERAGES)):
        for name, pattern in patterns.items():
            yield f"{operator}, {name}", [pattern.format(k=k) for k in numbers], {}
    for name, pair in PAIRS.items():
        yield name, [pattern.format(k=k) for k in numbers for pattern in pair], {}
    yield "walks of 2 steps", [f"walks2of{directions}"], {}
    if dataset == "zinc":  # superpixels have coordinates, no eigenvectors
        yield "dx, arcsine", ["dx1"], {"arcsine": True}


def score(cell: Cell, runs: Path) -> str:
    done = finished_runs(runs / cell.experiment.name)
    return str(summarize(list(done.values()))) if done else ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--runs", type=Path, default=Path("runs"))
    parser.add_argument("--only", nargs="*", default=[], help="datasets, or DATASET/CONSTRUCTION")
    parser.add_argument("--minutes", type=float)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--set", nargs="*", default=[], metavar="KEY=VALUE", help="change a setting of every cell")
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    if options.minutes:
        signal.signal(signal.SIGALRM, signal.default_int_handler)  # as Ctrl-C: checkpoints are kept
        signal.setitimer(signal.ITIMER_REAL, 60 * options.minutes)
    cells = [cell for cell in make_cells(options.set) if not options.only or is_chosen(cell, options.only)]
    try:
        if not options.list:
            train(cells, options)
    except KeyboardInterrupt:
        print("stopped; the same command resumes")
    print("| construction | dataset | aggregators | parameters | test |\n|---|---|---|---|---|")
    for cell in cells:
        names = ", ".join(cell.experiment.network.aggregators)
        row = (cell.construction, cell.dataset, names, f"{size(cell.experiment):,}", score(cell, options.runs))
        print(f"| {' | '.join(row)} |")


def is_chosen(cell: Cell, only: list[str]) -> bool:
    return cell.dataset in only or f"{cell.dataset}/{cell.construction}" in only


def train(cells: list[Cell], options: argparse.Namespace) -> None:
    loaded: dict[str, Benchmark] = {}
    for cell in cells:
        if set(cell.experiment.training.seeds) <= set(finished_runs(options.runs / cell.experiment.name)):
            continue
        if cell.dataset not in loaded:
            loaded[cell.dataset] = load_benchmark(cell.dataset, options.data)
        graphs = add_inputs(loaded[cell.dataset], cell.experiment)
        dgn.train_experiment(cell.experiment, options.runs / cell.experiment.name, graphs, device=options.device)
        print(f"{cell.experiment.name}: {score(cell, options.runs)}", flush=True)


if __name__ == "__main__":
    main()
