"""dgn fit beside a random forest on Morgan fingerprints and chemprop 2, on the same split of a table.

    python benchmarks/molecules.py TABLE [--target y] [--split scaffold] [--runs 5] [--rows 1000] \
        [--models dgn,forest,chemprop] [--members 5] [--chemprop PATH/TO/chemprop]

Every model trains on the same molecules, stops by the same (the forest has no use for them and trains on them too),
and is scored once on the same held-out ones: mean ROC-AUC over labels, or mean absolute error. Runs differ in the seed
of the model alone. "seconds" is the time of training on this machine, "processor" what all its cores spent on it; both
with reading SMILES. Defaults everywhere: chemprop is one network of 50 epochs, dgn an ensemble of ``--members``.
"""

import argparse
import csv
import resource
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from dgn.data.molecules import parse_smiles
from dgn.fitting.fit import FitOptions, fit_table
from dgn.fitting.rows import TableData, read_table, take
from dgn.fitting.scores import mean_scores, score_classes, score_numbers
from dgn.fitting.split import PARTS, Split, split_molecules
from dgn.fitting.table import open_table

Array = NDArray[np.float64]


def run_dgn(data: TableData, split: Split, seed: int, asked: Any) -> Array:
    """An ensemble with the defaults of ``dgn fit``."""
    options = FitOptions(asked.members, asked.epochs, 100 * seed, asked.device)
    with tempfile.TemporaryDirectory() as folder:
        fitted = fit_table(data, split, options, Path(folder) / "training")
    assert fitted.prediction is not None
    return fitted.prediction.mean.numpy()


def run_forest(data: TableData, split: Split, seed: int, asked: Any) -> Array:
    """500 trees for each target on Morgan fingerprints of radius 2 with 2048 bits."""
    from rdkit.Chem.rdFingerprintGenerator import GetMorganGenerator
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

    generator = GetMorganGenerator(radius=2, fpSize=2048)
    bits = np.stack([generator.GetFingerprintAsNumPy(parse_smiles(one)) for one in data.molecules.smiles])
    part, values = split.part.numpy(), data.molecules.values.numpy()
    kind = RandomForestRegressor if data.task == "regression" else RandomForestClassifier
    found = []
    for column in values.T:
        known = (part < 2) & ~np.isnan(column)
        forest = kind(n_estimators=500, random_state=seed, n_jobs=asked.threads).fit(bits[known], column[known])
        held = bits[part == 2]
        found.append(forest.predict(held) if data.task == "regression" else _positive(forest, held))
    return np.stack(found, axis=1)


def _positive(forest: Any, bits: NDArray[np.uint8]) -> Array:
    places = np.flatnonzero(forest.classes_ == 1)
    return forest.predict_proba(bits)[:, places[0]] if len(places) else np.zeros(len(bits))


def run_chemprop(data: TableData, split: Split, seed: int, asked: Any) -> Array:
    """The command ``chemprop train`` with its defaults and a column for the split."""
    names = [f"t{number}" for number in range(len(data.targets))]
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        with (folder / "data.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["smiles", *names, "split"])
            rows = zip(data.molecules.smiles, data.molecules.values.tolist(), split.part.tolist(), strict=True)
            for smiles, values, part in rows:
                writer.writerow([smiles, *("" if v != v else f"{v:g}" for v in values), PARTS[part]])
        task = "regression" if data.task == "regression" else "classification"
        words = [asked.chemprop, "train", "-i", folder / "data.csv", "-s", "smiles", "--target-columns", *names]
        words += ["-t", task, "--splits-column", "split", "-o", folder / "out", "--pytorch-seed", seed, "-q"]
        words += ["--accelerator", "cpu" if asked.device == "cpu" else "auto"]
        words += [] if asked.epochs is None else ["--epochs", asked.epochs]
        done = subprocess.run([str(word) for word in words], check=False, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"chemprop: expected it to end well, got {done.stderr[-2000:]}")
        with next(iter(sorted(folder.glob("out/**/test_predictions.csv")))).open(newline="") as file:
            said = list(csv.DictReader(file))
    held = [one for one, part in zip(data.molecules.smiles, split.part.tolist(), strict=True) if part == 2]
    assert [row["smiles"] for row in said] == held
    return np.array([[float(row[name]) for name in names] for row in said])


MODELS: dict[str, Callable[[TableData, Split, int, Any], Array]] = {
    "dgn": run_dgn,
    "forest": run_forest,
    "chemprop": run_chemprop,
}


def score(data: TableData, split: Split, said: Array) -> float:
    """Mean ROC-AUC over labels, or mean absolute error, on the molecules held out."""
    truth = take(data.molecules, (split.part == 2).nonzero()[:, 0]).values
    prediction = torch.from_numpy(np.asarray(said, dtype=np.float64))
    if data.task != "regression":
        return mean_scores(score_classes(data.targets, truth, prediction))["roc-auc"]
    half, guess = torch.zeros_like(prediction), torch.zeros(len(data.targets))
    return mean_scores(score_numbers(data.targets, truth, prediction, half, guess))["mae"]


def processor() -> float:
    """Seconds that this process and those it started have spent on all cores."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def first_rows(path: Path, rows: int | None, folder: Path) -> Path:
    """The table, or a copy of every so-and-so-manieth row of it."""
    if rows is None:
        return path
    table = open_table(path)
    total = sum(1 for _ in table.rows())
    step = max(1, total // rows)
    with (folder / "some.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(table.columns)
        writer.writerows(row.values for number, row in enumerate(table.rows()) if number % step == 0)
    return folder / "some.csv"


def for_all(data: TableData) -> TableData:
    """Without the molecules that RDKit refuses for their valences: chemprop stops at the first of them."""
    from rdkit import Chem, rdBase

    with rdBase.BlockLogs():
        sound = [number for number, one in enumerate(data.molecules.smiles) if Chem.MolFromSmiles(one) is not None]
    print(f"{len(data.molecules.smiles) - len(sound)} molecules left out, whose valences RDKit refuses")
    return replace(data, molecules=take(data.molecules, torch.tensor(sound)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", type=Path)
    parser.add_argument("--target", action="append", default=[])
    parser.add_argument("--split", default="scaffold")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--rows", type=int)
    parser.add_argument("--models", default="dgn,forest,chemprop")
    parser.add_argument("--members", type=int, default=5)
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--device", default="auto")
    parser.add_argument("--chemprop", default="chemprop", help="the command, also of another environment")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        column = None if asked.split in ("scaffold", "random") else asked.split
        opened = open_table(first_rows(asked.table, asked.rows, Path(folder)))
        data = for_all(read_table(opened, targets=asked.target, split=column))
    split = split_molecules(data.molecules, data.task, None if column else asked.split)
    counts = torch.bincount(split.part.long()).tolist()
    print(f"{asked.table.name}: {data.task}, {len(data.targets)} targets; {asked.split} split {counts}")
    print("model      score             seconds  processor")
    for name in asked.models.split(","):
        scores, seconds, spent = [], [], []
        for seed in range(asked.runs):
            began, used = time.perf_counter(), processor()
            said = MODELS[name](data, split, seed, asked)
            seconds.append(time.perf_counter() - began)
            spent.append(processor() - used)
            scores.append(score(data, split, said))
        spread = f" ± {statistics.stdev(scores):.4f}" if len(scores) > 1 else ""
        text = f"{statistics.fmean(scores):.4f}{spread}"
        print(f"{name:<10} {text:<16} {statistics.median(seconds):8.1f} {statistics.median(spent):10.1f}", flush=True)


if __name__ == "__main__":
    main()
