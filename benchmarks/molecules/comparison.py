"""dgn fit beside chemprop and random forests on ten tables, with equal splits.

    python -m benchmarks.molecules.comparison FOLDER --tables TABLES [--only delaney,sider] [--models dgn,forest] \
        [--seeds 0,1,2] [--split scaffold] [--rows 1000] [--members 5] [--epochs 2] [--device auto] [--hours 8] \
        [--parallel 1] [--dearest-first]
    python -m benchmarks.molecules.comparison FOLDER --summary [--models dgn,forest] [--seeds 0]

TABLES is a folder with MoleculeNet's tables (delaney.csv.gz, ...). A seed decides the split of a table and the seeds of
all models: FOLDER/delaney-0 holds the first split of ESOL, which all models read, and a JSON for each model. A cell
whose JSON is there is not run again; an interrupted one resumes. Cells run in processes of their own, ``--parallel`` of
them at a time, each of which trains as many networks of chemprop at a time, the cheapest tables first or last; one that
fails is reported, and run again by the next call. With ``--hours``, no cell begins later.

The summary is made of the cells of these models and seeds alone: mean and standard deviation of the test score over the
splits, which are those that all models of the table have, the mean rank over the tables that all models have, and CPU
seconds per cell. Ensembles also give the score of one network, at their CPU
time over the number of members; dgn, whose ensemble has descriptor models, also that of its networks alone.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.molecules.one_table import ONE

TABLES = {  # the target columns (none: detected) and the metric, from the cheapest to the dearest
    "freesolv": ((), "rmse"),
    "delaney": ((), "rmse"),
    "bace": (("Class",), "roc-auc"),
    "clintox": ((), "roc-auc"),
    "sider": ((), "roc-auc"),
    "bbbp": ((), "roc-auc"),
    "lipo": ((), "rmse"),
    "qm7": ((), "mae"),
    "tox21": ((), "roc-auc"),
    "qm8": (tuple(f"{kind}-{method}" for method in ("CC2", "PBE0", "CAM") for kind in ("E1", "E2", "f1", "f2")), "mae"),
}
MODELS = ("forest", "descriptor-forest", "dgn", "chemprop-ensemble", "chemprop-rdkit")
ENSEMBLES = {"dgn": "dgn", "chemprop-ensemble": "chemprop"}  # whose parts are scored too


class Cell(NamedTuple):
    """One model on one split of a table."""

    table: str
    seed: int
    model: str

    def folder(self, root: Path) -> Path:
        return root / f"{self.table}-{self.seed}"

    def file(self, root: Path) -> Path:
        return self.folder(root) / f"{self.model}-{self.seed}.json"


class Result(NamedTuple):
    """The test score of a model on a split, and its CPU seconds."""

    score: float
    processor: float


def cells(arguments: argparse.Namespace) -> list[Cell]:
    """All cells, those of the cheapest tables first; all models on a split before the next one."""
    tables = arguments.only.split(",") if arguments.only else list(TABLES)
    seeds, models = map(int, arguments.seeds.split(",")), arguments.models.split(",")
    return [Cell(table, seed, model) for seed in seeds for table in tables for model in models]


def run(arguments: argparse.Namespace) -> list[Cell]:
    """Run the unfinished cells; returns those that failed."""
    end = time.monotonic() + 3600 * arguments.hours
    todo = [cell for cell in cells(arguments) if not cell.file(arguments.folder).exists()]
    todo = todo[::-1] if arguments.dearest_first else todo

    def prepare(cell: Cell) -> str:
        process = _start(cell, arguments, "--prepare")
        return process.stderr[-1500:] if process.returncode else ""

    def run_cell(cell: Cell) -> bool:
        error = errors[cell.folder(arguments.folder)]
        if not error and time.monotonic() > end:
            return True
        if not error:
            process = _start(cell, arguments, "--only", f"{cell.model}:{cell.seed}")
            error = process.stderr[-1500:] if process.returncode else ""
        print(*cell, error or "done", flush=True)
        return not error

    with ThreadPoolExecutor(arguments.parallel) as pool:
        tables = {cell.folder(arguments.folder): cell for cell in todo}
        errors = dict(zip(tables, pool.map(prepare, tables.values()), strict=True))
        passed = list(pool.map(run_cell, todo))
    if time.monotonic() > end:
        print("out of time; the same command continues")
    return [cell for cell, ok in zip(todo, passed, strict=True) if not ok]


def _start(cell: Cell, arguments: argparse.Namespace, *more: str) -> subprocess.CompletedProcess[str]:
    """Run one_table.py for a cell, in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.molecules.one_table", *_options(cell, arguments), *more]
    environment = {**os.environ, "OMP_NUM_THREADS": str(arguments.threads)}
    return subprocess.run(
        command, check=False, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )


def _options(cell: Cell, arguments: argparse.Namespace) -> list[str]:
    options = [str(arguments.tables / f"{cell.table}.csv.gz"), "--out", str(cell.folder(arguments.folder))]
    options += [text for target in TABLES[cell.table][0] for text in ("--target", target)]
    options += ["--split", arguments.split, "--split-seed", str(cell.seed), "--members", str(arguments.members)]
    options += ["--device", arguments.device, "--threads", str(arguments.threads)]
    options += ["--parallel", str(arguments.parallel)]
    options += [] if arguments.rows is None else ["--rows", str(arguments.rows)]
    return options + ([] if arguments.epochs is None else ["--epochs", str(arguments.epochs)])


def read_results(root: Path, models: Sequence[str], seeds: Sequence[int]) -> dict[str, dict[str, list[Result]]]:
    """The results of the finished cells of some models and seeds, by table and model, on the splits they share."""
    reports: dict[str, dict[int, list[dict[str, Any]]]] = {}
    for path in sorted(root.glob("*-*/*.json")):
        report = json.loads(path.read_text())
        table, _, seed = path.parent.name.rpartition("-")
        if report.get("model") in models and table in TABLES and int(seed) in seeds:
            reports.setdefault(table, {}).setdefault(int(seed), []).append(report)
    results: dict[str, dict[str, list[Result]]] = {}
    for table, by_seed in reports.items():
        present = {report["model"] for cells in by_seed.values() for report in cells}
        shared = [cells for cells in by_seed.values() if len(cells) == len(present)]
        of_table, metric = results.setdefault(table, {}), TABLES[table][1]
        for report in (report for cells in shared for report in cells):
            name = report["model"]
            of_table.setdefault(name, []).append(Result(report["scores"]["test"][metric], report["processor"]))
            for part, result in _parts(report, metric) if name in ENSEMBLES else ():
                of_table.setdefault(f"{ENSEMBLES[name]}, {part}", []).append(result)
    return {table: of_table for table, of_table in results.items() if of_table}


def _parts(report: Mapping[str, Any], metric: str) -> list[tuple[str, Result]]:
    """The results of parts of an ensemble, by name."""
    seconds, members = report["processor"], report["options"]["members"]
    return [
        (part, Result(scores[metric], seconds / members if part == ONE else seconds))
        for part, scores in report["parts"].items()
    ]


def mean_ranks(results: Mapping[str, Mapping[str, Sequence[Result]]], models: Sequence[str]) -> dict[str, float]:
    """The rank of each model by its mean score, 1 for the best, averaged over the tables that all of them have.

    >>> tables = {"delaney": {"a": [Result(1.0, 0)], "b": [Result(2.0, 0)]}, "sider": {"a": [Result(0.6, 0)]}}
    >>> mean_ranks(tables, ["a", "b"])
    {'a': 1.0, 'b': 2.0}
    """
    ranks: dict[str, list[int]] = {model: [] for model in models}
    for table, of_table in results.items():
        if all(model in of_table for model in models):
            sign = -1 if TABLES[table][1] == "roc-auc" else 1
            means = {model: sign * statistics.fmean(result.score for result in of_table[model]) for model in models}
            for model in models:
                ranks[model].append(1 + sum(mean < means[model] for mean in means.values()))
    return {model: statistics.fmean(values) for model, values in ranks.items() if values}


def to_markdown(results: Mapping[str, Mapping[str, Sequence[Result]]]) -> str:
    """The table of all scores, with mean ranks and CPU seconds."""
    present = {model for of_table in results.values() for model in of_table}
    order = {name: index for index, model in enumerate(MODELS) for name in (model, ENSEMBLES.get(model))}
    models = sorted(present, key=lambda name: (order.get(name.partition(",")[0], len(MODELS)), name))
    lines = [["table", "metric", *models], ["---"] * (len(models) + 2)]
    for table in (table for table in TABLES if table in results):
        row = [_spread([result.score for result in results[table].get(model, ())]) for model in models]
        lines.append([table, TABLES[table][1], *row])
    ranks = mean_ranks(results, models)
    lines.append(["mean rank", "", *(f"{ranks[model]:.2f}" if model in ranks else "" for model in models)])
    seconds = [
        [result.processor for of_table in results.values() for result in of_table.get(model, ())] for model in models
    ]
    lines.append(["CPU seconds per cell", "", *(f"{statistics.fmean(values):.0f}" for values in seconds)])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _spread(values: Sequence[float]) -> str:
    if not values:
        return ""
    deviation = f" ± {statistics.stdev(values):.3f}" if len(values) > 1 else ""
    return f"{statistics.fmean(values):.3f}{deviation} ({len(values)})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tables", type=Path, help="the folder with the tables")
    parser.add_argument("--only", help=f"some of {','.join(TABLES)}")
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--split", default="scaffold", choices=("scaffold", "random"))
    parser.add_argument("--rows", type=int)
    parser.add_argument("--members", type=int, default=5)
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--parallel", type=int, default=1)
    parser.add_argument("--dearest-first", action="store_true")
    parser.add_argument("--hours", type=float, default=float("inf"))
    parser.add_argument("--summary", action="store_true", help="print the table of the finished cells, and run nothing")
    arguments = parser.parse_args()
    failed: list[Cell] = []
    if not arguments.summary:
        if arguments.tables is None:
            parser.error("expected --tables, the folder with the tables, or --summary")
        failed = run(arguments)
    models, seeds = arguments.models.split(","), list(map(int, arguments.seeds.split(",")))
    print(to_markdown(read_results(arguments.folder, models, seeds)))
    sys.exit(f"{len(failed)} cells failed" if failed else 0)


if __name__ == "__main__":
    main()
