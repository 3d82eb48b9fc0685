"""What benchmarks/molecules.py compares: each learns from the training molecules and speaks of all others.

Every function takes the prepared table (columns smiles, t0, t1, ... and split), the task, a seed and the options of the
command, and returns for "val" and "test" what each of its networks says: [members, molecules, targets].
"""

import csv
import os
import shutil
import subprocess
import sys
from argparse import Namespace
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dgn.data.datasets.smiles import parse_smiles
from dgn.molecules.columns import Task
from dgn.molecules.fit import FitOptions, fit_table
from dgn.molecules.rows import TableData, read_table, take
from dgn.molecules.split import SPLITS, split_molecules
from dgn.molecules.table import open_table

Array = NDArray[np.float64]
Said = dict[str, Array]
CHEMPROP = (sys.executable, Path(__file__).with_name("chemprop_seeded.py"))


def run_dgn(path: Path, task: Task, seed: int, asked: Namespace) -> Said:
    """An ensemble with the defaults of ``dgn fit``; an interrupted one is gone on with."""
    data = read_prepared(path, task)
    split = split_molecules(data.molecules, data.task)
    options = FitOptions(asked.members, asked.epochs, 100 * seed, asked.device)
    training = path.parent / f"dgn-{seed}-training"
    fitted = fit_table(data, split, options, training)
    shutil.rmtree(training)
    said = {}
    for number in (1, 2):
        graphs = take(data.molecules, (split.assignment == number).nonzero()[:, 0]).graphs
        found = fitted.model.ensemble(graphs).double()
        found = found * fitted.model.scale + fitted.model.center if task == "regression" else found.sigmoid()
        said[SPLITS[number]] = found.numpy()
    return said


def run_forest(path: Path, task: Task, seed: int, asked: Namespace) -> Said:
    """500 trees for each target on Morgan fingerprints of radius 2 with 2048 bits.

    It has no use for validation molecules and learns from them too, so that it has nothing to say of them.
    """
    return _grow(path, task, seed, asked, SPLITS[:2])


def run_equal_forest(path: Path, task: Task, seed: int, asked: Namespace) -> Said:
    """The same forest, but it learns from no more molecules than the networks do."""
    return _grow(path, task, seed, asked, SPLITS[:1])


def _grow(path: Path, task: Task, seed: int, asked: Namespace, learned: Sequence[str]) -> Said:
    """A forest for each target that learns from some parts and speaks of the others."""
    from rdkit.Chem.rdFingerprintGenerator import GetMorganGenerator
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

    rows, values, parts = read_rows(path)
    generator = GetMorganGenerator(radius=2, fpSize=2048)
    bits = np.stack([generator.GetFingerprintAsNumPy(parse_smiles(one)) for one in rows])
    shown = np.isin(parts, learned)
    kind = RandomForestRegressor if task == "regression" else RandomForestClassifier
    found = []
    for column in values.T:
        known = shown & ~np.isnan(column)
        forest = kind(n_estimators=500, random_state=seed, n_jobs=asked.threads).fit(bits[known], column[known])
        found.append(forest.predict(bits[~shown]) if task == "regression" else _positive(forest, bits[~shown]))
    said = np.stack(found, axis=1)
    return {part: said[parts[~shown] == part][None] for part in SPLITS if part not in learned}


def _positive(forest: Any, bits: NDArray[np.uint8]) -> Array:
    places = np.flatnonzero(forest.classes_ == 1)
    return forest.predict_proba(bits)[:, places[0]] if len(places) else np.zeros(len(bits))


def run_chemprop(path: Path, task: Task, seed: int, asked: Namespace) -> Said:
    """``chemprop train`` with its defaults and a column for the split; an interrupted one is gone on with."""
    smiles, values, parts = read_rows(path)
    names = [f"t{number}" for number in range(values.shape[1])]
    where = ["--accelerator", "cpu" if asked.device == "cpu" else "auto", "-q"]
    folder = path.parent.absolute() / f"chemprop-{seed}-training"
    words = ["train", "-i", path, "-s", "smiles", "--target-columns", *names, "--splits-column", "split", *where]
    words += ["-t", "regression" if task == "regression" else "classification", "-o", folder]
    _chemprop(seed, words + ([] if asked.epochs is None else ["--epochs", asked.epochs]))
    with (folder / "val.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["smiles"], *([one] for one in smiles[parts == "val"])])
    model = folder / "model_0"
    written = {"val": folder / "said.csv", "test": model / "test_predictions.csv"}
    words = ["predict", "-i", folder / "val.csv", "-s", "smiles", "--model-paths", model / "best.pt"]
    _chemprop(seed, [*words, *where, "-o", written["val"]])
    said = {}
    for part, file_path in written.items():
        with file_path.open(newline="") as file:
            found = list(csv.DictReader(file))
        assert [row["smiles"] for row in found] == smiles[parts == part].tolist()
        said[part] = np.array([[[float(row[name]) for name in names] for row in found]])
    shutil.rmtree(folder)
    return said


def _chemprop(seed: int, words: list[Any]) -> None:
    line = [*map(str, [*CHEMPROP, seed, *words])]
    done = subprocess.run(line, check=False, capture_output=True, text=True, env=os.environ)
    if done.returncode:
        raise RuntimeError(f"chemprop: expected it to end well, got {done.stderr[-2000:]}")


CONTENDERS: dict[str, Callable[[Path, Task, int, Namespace], Said]] = {
    "dgn": run_dgn,
    "forest": run_forest,
    "equal-forest": run_equal_forest,
    "chemprop": run_chemprop,
}


def read_prepared(path: Path, task: Task) -> TableData:
    """The prepared table as ``dgn fit`` reads it."""
    opened = open_table(path)
    return read_table(opened, "smiles", list(opened.columns[1:-1]), task, "split")


def read_rows(path: Path) -> tuple[NDArray[Any], Array, NDArray[Any]]:
    """SMILES, targets [R, T] and parts of the prepared table."""
    with path.open(newline="") as file:
        rows = list(csv.reader(file))[1:]
    values = np.array([[float(value) if value else np.nan for value in row[1:-1]] for row in rows])
    return np.array([row[0] for row in rows], dtype=object), values, np.array([row[-1] for row in rows])
