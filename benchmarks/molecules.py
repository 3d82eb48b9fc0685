"""dgn fit beside chemprop 2 and a random forest on Morgan fingerprints, on the same split of a table.

    python benchmarks/molecules.py TABLE --out FOLDER [--target y] [--split scaffold] [--seeds 0,1,2,3,4] \
        [--rows 1000] [--models chemprop,dgn,forest,equal-forest] [--members 5] [--parallel 1] [--threads 1] \
        [--device auto]
    python benchmarks/molecules.py --summary FOLDER

Every model trains on the same molecules and stops by the same (the forest trains on them too, having no other use for
them; equal-forest does not, so that it learns from what the networks learn from), and is scored on the same held-out
ones: mean ROC-AUC and average precision over labels, or mean absolute error.
Runs differ in the seed of the model alone; the split is the usual deterministic one, the largest scaffolds first, or
the column named. Defaults everywhere: chemprop is one network of 50 epochs, dgn an ensemble of ``--members``.

FOLDER holds the prepared table, a JSON and the predictions of each run; a run whose JSON is there is not run again, and
a folder with a prepared table can be taken to another machine.
``--parallel`` runs are under way at once, those of one model first. The summary tells the networks one by one and
together: the mean of chemprop's five runs is its ensemble. "seconds" is the time of a run by the clock, "processor"
what all cores spent on it; both with reading SMILES.
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
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from contenders import CONTENDERS, Array, read_rows

from dgn.molecules.columns import Target
from dgn.molecules.rows import TableData, read_table, take
from dgn.molecules.scores import mean_scores, score_classification, score_regression
from dgn.molecules.split import SPLITS, Split, split_molecules
from dgn.molecules.table import open_table
from dgn.training.run_folder import write_text

PREPARED, ABOUT = "table.csv", "about.json"
DRAWS = 200  # of molecules, to tell how sure a difference is


def prepare(asked: argparse.Namespace) -> None:
    """Write the table that all models read: SMILES, targets as numbers, and the split."""
    if (asked.out / ABOUT).exists():
        return
    asked.out.mkdir(parents=True, exist_ok=True)
    column = None if asked.split in ("scaffold", "random") else asked.split
    opened = open_table(asked.table)
    data = read_table(opened, targets=asked.target, split=column)
    chosen = sound(data, asked.rows)
    molecules = take(data.molecules, torch.tensor(chosen))
    split = split_molecules(molecules, data.task, None if column else asked.split)
    write_prepared(molecules.smiles, molecules.values, split, asked.out / PREPARED)
    counts = dict(zip(SPLITS, torch.bincount(split.assignment.long()).tolist(), strict=True))
    about = {"table": asked.table.name, "task": data.task, "targets": [each.name for each in data.targets]}
    about |= {"split": asked.split, "molecules": counts}
    write_text(asked.out / ABOUT, json.dumps(about, indent=1))
    print(json.dumps(about))


def sound(data: TableData, rows: int | None) -> list[int]:
    """Molecules whose valences RDKit accepts, for chemprop stops at the first other; evenly spread ``rows`` of them."""
    from rdkit import Chem, rdBase

    with rdBase.BlockLogs():
        found = [number for number, one in enumerate(data.molecules.smiles) if Chem.MolFromSmiles(one) is not None]
    print(f"{len(data.molecules.smiles) - len(found)} molecules left out, whose valences RDKit refuses")
    return found if rows is None else found[:: max(1, len(found) // rows)]


def write_prepared(smiles: tuple[str, ...], values: torch.Tensor, split: Split, path: Path) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["smiles", *(f"t{number}" for number in range(values.size(1))), "split"])
        for one, known, part in zip(smiles, values.tolist(), split.assignment.tolist(), strict=True):
            writer.writerow([one, *("" if v != v else f"{v:g}" for v in known), SPLITS[part]])


def run_one(asked: argparse.Namespace, name: str, seed: int) -> None:
    """One model with one seed, into its JSON."""
    began, used = time.perf_counter(), processor()
    task = json.loads((asked.out / ABOUT).read_text())["task"]
    said = CONTENDERS[name](asked.out / PREPARED, task, seed, asked)
    told: dict[str, Any] = {"model": name, "seed": seed, "seconds": time.perf_counter() - began}
    told["processor"] = processor() - used
    told["options"] = {key: getattr(asked, key) for key in ("epochs", "members", "threads", "device")}
    told["scores"] = {part: scores(asked.out, part, found.mean(axis=0)) for part, found in said.items()}
    np.savez_compressed(asked.out / f"{name}-{seed}.npz", **said)
    write_text(asked.out / f"{name}-{seed}.json", json.dumps(told, indent=1))


def scores(folder: Path, part: str, prediction: Array, rows: Array | None = None) -> dict[str, float]:
    """Means over targets of all scores, on the molecules of a part, or on some ``rows`` of them."""
    about = json.loads((folder / ABOUT).read_text())
    targets = [Target(name) for name in about["targets"]]
    chosen = np.arange(len(prediction)) if rows is None else rows
    truth, said = (
        torch.from_numpy(truths(folder, part)[chosen]),
        torch.from_numpy(prediction[chosen].astype(np.float64)),
    )
    if about["task"] != "regression":
        return mean_scores(score_classification(targets, truth, said))
    return mean_scores(score_regression(targets, truth, said, torch.zeros_like(said), torch.zeros(len(targets))))


@lru_cache
def truths(folder: Path, part: str) -> Array:
    """The values of the molecules of a part, [R, T]."""
    _, values, parts = read_rows(folder / PREPARED)
    return values[parts == part]


def doubt(folder: Path, part: str, metric: str, one: Array, other: Array) -> float:
    """The standard deviation of the difference of two scores over other draws of the molecules (bootstrap)."""
    random, found = np.random.default_rng(0), []
    for _ in range(DRAWS):
        rows = random.integers(0, len(one), len(one))
        found.append(scores(folder, part, one, rows)[metric] - scores(folder, part, other, rows)[metric])
    return statistics.stdev(found)


def processor() -> float:
    """Seconds that this process and those it started have spent on all cores."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def run_all(asked: argparse.Namespace, words: list[str]) -> None:
    """All runs that are not done, each in a process of its own, ``--parallel`` at a time."""
    jobs = [(name, seed) for name in asked.models.split(",") for seed in map(int, asked.seeds.split(","))]
    environment = {**os.environ, "OMP_NUM_THREADS": str(asked.threads)}

    def start(job: tuple[str, int]) -> None:
        if (asked.out / f"{job[0]}-{job[1]}.json").exists():
            return
        line = [sys.executable, __file__, *words, "--only", f"{job[0]}:{job[1]}"]
        done = subprocess.run(line, check=False, env=environment, stderr=subprocess.PIPE, text=True)
        print(f"{job[0]} {job[1]}: {'done' if not done.returncode else done.stderr[-1500:]}", flush=True)

    with ThreadPoolExecutor(asked.parallel) as pool:
        list(pool.map(start, jobs))


def summarize(folder: Path, metric: str | None = None, part: str = "test") -> None:
    """Networks one by one and together: mean and standard deviation over runs, and times."""
    about = json.loads((folder / ABOUT).read_text())
    metric = metric or ("mae" if about["task"] == "regression" else "roc-auc")
    print(f"{about['table']}, {about['split']} split {about['molecules']}; {part} {metric}")
    print("model        runs  one network       all of a run      all of all runs   seconds  processor")
    for name in CONTENDERS:
        runs = [json.loads(path.read_text()) for path in sorted(folder.glob(f"{name}-*.json"))]
        files = [np.load(folder / f"{name}-{run['seed']}.npz") for run in runs]
        said = [file[part] for file in files if part in file]
        if not said:
            continue
        single = [scores(folder, part, one)[metric] for found in said for one in found]
        whole = [scores(folder, part, found.mean(axis=0))[metric] for found in said]
        together = scores(folder, part, np.concatenate(said).mean(axis=0))[metric]
        seconds, spent = (statistics.median(run[key] for run in runs) for key in ("seconds", "processor"))
        print(
            f"{name:<12} {len(runs):4d}  {spread(single):<17} {spread(whole):<17} {together:<17.4f}"
            f"{seconds:8.0f} {spent:10.0f}"
        )
    for name in sorted(CONTENDERS.keys() - {"dgn"}):
        beside(folder, name, part, metric)


def beside(folder: Path, name: str, part: str, metric: str) -> None:
    """dgn with another model of the same seed: the mean of both, and by how much they differ on these molecules."""
    ours = {path.name.removeprefix("dgn-"): path for path in sorted(folder.glob("dgn-*.npz"))}
    found = [(path, folder / f"{name}-{seed}") for seed, path in ours.items() if (folder / f"{name}-{seed}").exists()]
    pairs = [(np.load(a)[part].mean(axis=0), np.load(b)[part].mean(axis=0)) for a, b in found if part in np.load(b)]
    if not pairs:
        return
    means = [scores(folder, part, (a + b) / 2)[metric] for a, b in pairs]
    apart = [scores(folder, part, a)[metric] - scores(folder, part, b)[metric] for a, b in pairs]
    print(
        f"dgn and {name}: mean of both {spread(means)}; dgn less {name} {statistics.fmean(apart):.4f}, "
        f"± {doubt(folder, part, metric, *pairs[0]):.4f} over draws of the molecules"
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
    parser.add_argument("--summary", type=Path, help="tell what a folder holds, and run nothing")
    parser.add_argument("--part", default="test")
    parser.add_argument("--metric")
    asked = parser.parse_args()
    if asked.summary:
        summarize(asked.summary, asked.metric, asked.part)
    elif asked.table is None:
        parser.error("expected a TABLE, or --summary FOLDER")
    elif asked.only:
        name, _, seed = asked.only.partition(":")
        run_one(asked, name, int(seed))
    else:
        prepare(asked)
        if not asked.prepare:
            run_all(asked, sys.argv[1:])
            summarize(asked.out, asked.metric, asked.part)


if __name__ == "__main__":
    main()
