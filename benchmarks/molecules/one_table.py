"""dgn fit beside chemprop 2 and a random forest on Morgan fingerprints, on the same split of a table.

    python -m benchmarks.molecules.one_table TABLE --out FOLDER [--target y] [--split scaffold] [--seeds 0,1,2,3,4] \
        [--rows 1000] [--models chemprop,dgn,dgn-rdkit,forest,descriptor-forest] [--members 5] [--parallel 1] \
        [--threads 1] [--device auto]
    python -m benchmarks.molecules.one_table --summary FOLDER

All models have the same training, validation and test molecules. The forest trains on the validation molecules too,
having no other use for them; equal-forest does not. Scores are mean ROC-AUC and average precision over labels, or mean
absolute error. Runs differ in the seed of the model alone; the split is the usual deterministic one, the largest
scaffolds first, or a column of the table. Defaults everywhere: chemprop is one network of 50 epochs, dgn an ensemble of
``--members``.

FOLDER holds the prepared table, a JSON and the predictions of each run; a run whose JSON is there is not run again, and
a folder with a prepared table can be taken to another machine.
``--parallel`` runs at once, those of one model first. The summary has the scores of single networks and of ensembles:
the mean of chemprop's five runs is its ensemble. "seconds" is the wall time of a run, "processor" its CPU time on all
cores; both include reading SMILES.
"""

import argparse
import csv
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.molecules.contenders import CONTENDERS, NETWORKS, PROCESSOR, Array, read_rows
from dgn.molecules.columns import Target
from dgn.molecules.rows import TableData, read_table, take
from dgn.molecules.scores import mean_scores, score_classification, score_regression
from dgn.molecules.split import SPLITS, Split, split_molecules
from dgn.molecules.table import open_table
from dgn.training.run_folder import write_text

PREPARED, ABOUT = "table.csv", "about.json"
ALL, ONE = "networks alone", "one network"  # parts of an ensemble
DRAWS = 200  # bootstrap samples of the molecules


def prepare(arguments: argparse.Namespace) -> None:
    """Write the table that all models read: SMILES, targets as numbers, and the split."""
    if (arguments.out / ABOUT).exists():
        return
    arguments.out.mkdir(parents=True, exist_ok=True)
    column = None if arguments.split in ("scaffold", "random") else arguments.split
    opened = open_table(arguments.table)
    data = read_table(opened, targets=arguments.target, split=column)
    chosen = valid_rows(data, arguments.rows)
    molecules = take(data.molecules, torch.tensor(chosen))
    split = split_molecules(molecules, data.task, None if column else arguments.split, arguments.split_seed)
    write_prepared(molecules.smiles, molecules.values, split, arguments.out / PREPARED)
    counts = dict(zip(SPLITS, torch.bincount(split.assignment.long()).tolist(), strict=True))
    about = {"table": arguments.table.name, "task": data.task, "targets": [target.name for target in data.targets]}
    about |= {"split": arguments.split, "molecules": counts}
    write_text(arguments.out / ABOUT, json.dumps(about, indent=1))
    print(json.dumps(about))


def valid_rows(data: TableData, rows: int | None) -> list[int]:
    """Molecules whose valences RDKit accepts, for chemprop stops at the first other; evenly spread ``rows`` of them."""
    from rdkit import Chem, rdBase

    with rdBase.BlockLogs():
        valid = [row for row, smiles in enumerate(data.molecules.smiles) if Chem.MolFromSmiles(smiles) is not None]
    print(f"{len(data.molecules.smiles) - len(valid)} molecules left out, whose valences RDKit refuses")
    return valid if rows is None else valid[:: max(1, len(valid) // rows)]


def write_prepared(smiles: tuple[str, ...], values: torch.Tensor, split: Split, path: Path) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["smiles", *(f"t{column}" for column in range(values.size(1))), "split"])
        for molecule, targets, index in zip(smiles, values.tolist(), split.assignment.tolist(), strict=True):
            writer.writerow([molecule, *("" if v != v else f"{v:g}" for v in targets), SPLITS[index]])


def run_one(arguments: argparse.Namespace, name: str, seed: int) -> None:
    """One model with one seed, into its JSON."""
    start, cpu_start = time.perf_counter(), processor()
    task = json.loads((arguments.out / ABOUT).read_text())["task"]
    predictions = CONTENDERS[name](arguments.out / PREPARED, task, seed, arguments)
    report: dict[str, Any] = {"model": name, "seed": seed, "seconds": time.perf_counter() - start}
    report["processor"] = float(predictions.pop(PROCESSOR, processor() - cpu_start))
    report["options"] = {key: getattr(arguments, key) for key in ("epochs", "members", "threads", "device")}
    report["scores"] = {
        split: scores(arguments.out, split, predictions[split].mean(axis=0)) for split in SPLITS if split in predictions
    }
    report["parts"] = part_scores(arguments.out, predictions)
    np.savez_compressed(arguments.out / f"{name}-{seed}.npz", **predictions)
    write_text(arguments.out / f"{name}-{seed}.json", json.dumps(report, indent=1))


def part_scores(folder: Path, predictions: Mapping[str, Array]) -> dict[str, dict[str, float]]:
    """Test scores of one network of an ensemble (the mean), and of all networks, if it has descriptor models too."""
    networks = predictions.get(f"{NETWORKS}test", predictions["test"])
    if len(networks) == 1:
        return {}
    single = [scores(folder, "test", member) for member in networks]
    parts = {ONE: {name: statistics.fmean(each[name] for each in single) for name in single[0]}}
    return parts if networks is predictions["test"] else {ALL: scores(folder, "test", networks.mean(axis=0)), **parts}


def scores(folder: Path, split: str, prediction: Array, rows: Array | None = None) -> dict[str, float]:
    """Means over targets of all scores, on the molecules of a split, or on some ``rows`` of them."""
    about = json.loads((folder / ABOUT).read_text())
    targets = [Target(name) for name in about["targets"]]
    chosen = np.arange(len(prediction)) if rows is None else rows
    truth = torch.from_numpy(truths(folder, split)[chosen])
    predicted = torch.from_numpy(prediction[chosen].astype(np.float64))
    if about["task"] != "regression":
        return mean_scores(score_classification(targets, truth, predicted))
    return mean_scores(
        score_regression(targets, truth, predicted, torch.zeros_like(predicted), torch.zeros(len(targets)))
    )


@lru_cache
def truths(folder: Path, split: str) -> Array:
    """The targets of the molecules of a split, [R, T]."""
    _, values, splits = read_rows(folder / PREPARED)
    return values[splits == split]


def bootstrap_error(folder: Path, split: str, metric: str, one: Array, other: Array) -> float:
    """The standard error of the difference of two scores, by bootstrap over the molecules."""
    random, differences = np.random.default_rng(0), []
    for _ in range(DRAWS):
        rows = random.integers(0, len(one), len(one))
        differences.append(scores(folder, split, one, rows)[metric] - scores(folder, split, other, rows)[metric])
    return statistics.stdev(differences)


def processor() -> float:
    """CPU seconds of this process and its children, on all cores."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def run_all(arguments: argparse.Namespace, options: list[str]) -> None:
    """All unfinished runs, each in a process of its own, ``--parallel`` at a time."""
    jobs = [(name, seed) for name in arguments.models.split(",") for seed in map(int, arguments.seeds.split(","))]
    environment = {**os.environ, "OMP_NUM_THREADS": str(arguments.threads)}

    def start(job: tuple[str, int]) -> None:
        if (arguments.out / f"{job[0]}-{job[1]}.json").exists():
            return
        command = [sys.executable, "-m", "benchmarks.molecules.one_table", *options, "--only", f"{job[0]}:{job[1]}"]
        process = subprocess.run(command, check=False, env=environment, stderr=subprocess.PIPE, text=True)
        print(f"{job[0]} {job[1]}: {'done' if not process.returncode else process.stderr[-1500:]}", flush=True)

    with ThreadPoolExecutor(arguments.parallel) as pool:
        list(pool.map(start, jobs))


def summarize(folder: Path, metric: str | None = None, split: str = "test") -> None:
    """Scores of single networks and of ensembles: mean and standard deviation over runs, and times."""
    about = json.loads((folder / ABOUT).read_text())
    metric = metric or ("mae" if about["task"] == "regression" else "roc-auc")
    print(f"{about['table']}, {about['split']} split {about['molecules']}; {split} {metric}")
    print("model        runs  one network       one run           all runs          seconds  processor")
    for name in CONTENDERS:
        runs = [json.loads(path.read_text()) for path in sorted(folder.glob(f"{name}-[0-9]*.json"))]
        files = [np.load(folder / f"{name}-{run['seed']}.npz") for run in runs]
        predictions = [file[split] for file in files if split in file]
        if not predictions:
            continue
        networks = [file.get(f"{NETWORKS}{split}", file[split]) for file in files if split in file]
        single = [scores(folder, split, member)[metric] for members in networks for member in members]
        ensemble = [scores(folder, split, members.mean(axis=0))[metric] for members in predictions]
        together = scores(folder, split, np.concatenate(predictions).mean(axis=0))[metric]
        seconds, cpu_seconds = (statistics.median(run[key] for run in runs) for key in ("seconds", "processor"))
        print(
            f"{name:<12} {len(runs):4d}  {spread(single):<17} {spread(ensemble):<17} {together:<17.4f}"
            f"{seconds:8.0f} {cpu_seconds:10.0f}"
        )
    for name in sorted(CONTENDERS.keys() - {"dgn"}):
        compare_with(folder, name, split, metric)


def compare_with(folder: Path, name: str, split: str, metric: str) -> None:
    """dgn and another model of the same seed: the score of their mean prediction, the difference of their scores."""
    ours = {path.name.removeprefix("dgn-"): path for path in sorted(folder.glob("dgn-[0-9]*.npz"))}
    files = [(path, folder / f"{name}-{seed}") for seed, path in ours.items() if (folder / f"{name}-{seed}").exists()]
    loaded = [(np.load(a), np.load(b)) for a, b in files]
    pairs = [(a[split].mean(axis=0), b[split].mean(axis=0)) for a, b in loaded if split in b]
    if not pairs:
        return
    means = [scores(folder, split, (a + b) / 2)[metric] for a, b in pairs]
    differences = [scores(folder, split, a)[metric] - scores(folder, split, b)[metric] for a, b in pairs]
    print(
        f"dgn and {name}: mean of both {spread(means)}; dgn less {name} {statistics.fmean(differences):.4f}, "
        f"± {bootstrap_error(folder, split, metric, *pairs[0]):.4f} (bootstrap over the molecules)"
    )


def spread(values: list[float]) -> str:
    """Mean and standard deviation.

    >>> spread([1.0, 3.0])
    '2.0000 ± 1.4142'
    """
    return f"{statistics.fmean(values):.4f}" + (f" ± {statistics.stdev(values):.4f}" if len(values) > 1 else "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", type=Path, nargs="?")
    parser.add_argument("--out", type=Path, default=Path("comparison"))
    parser.add_argument("--target", action="append", default=[])
    parser.add_argument("--split", default="scaffold")
    parser.add_argument("--split-seed", type=int, default=0)
    parser.add_argument("--seeds", default="0,1,2,3,4")
    parser.add_argument("--rows", type=int)
    parser.add_argument("--models", default="chemprop,dgn,forest")
    parser.add_argument("--members", type=int, default=5)
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--parallel", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--prepare", action="store_true", help="write the prepared table, and run nothing")
    parser.add_argument("--only", help="MODEL:SEED, one run in this process")
    parser.add_argument("--summary", type=Path, help="summarize the runs of a folder, and run nothing")
    parser.add_argument("--score-split", default="test")
    parser.add_argument("--metric")
    arguments = parser.parse_args()
    if arguments.summary:
        summarize(arguments.summary, arguments.metric, arguments.score_split)
    elif arguments.table is None:
        parser.error("expected a TABLE, or --summary FOLDER")
    elif arguments.only:
        name, _, seed = arguments.only.partition(":")
        run_one(arguments, name, int(seed))
    else:
        prepare(arguments)
        if not arguments.prepare:
            run_all(arguments, sys.argv[1:])
            summarize(arguments.out, arguments.metric, arguments.score_split)


if __name__ == "__main__":
    main()
