"""The models that one_table.py compares: each trains on the training molecules and predicts the others.

Every function takes the prepared table (columns smiles, t0, t1, ... and split), the task, a seed and the arguments of
the command, and returns the predictions for "val" and "test": [members, molecules, targets]. An ensemble with
descriptor models returns its prediction for "test" alone, and those of its networks as "networks_val" and
"networks_test". chemprop, which runs in processes of its own and keeps finished networks, also returns their CPU
seconds.
"""

import csv
import os
import shutil
import subprocess
import sys
from argparse import Namespace
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dgn.data.datasets.descriptors import describe
from dgn.data.datasets.smiles import parse_smiles
from dgn.data.io.atomic import atomic_file
from dgn.molecules.columns import Task
from dgn.molecules.fit import FitOptions, fit_table
from dgn.molecules.rows import TableData, read_table, take
from dgn.molecules.split import SPLITS, split_molecules
from dgn.molecules.table import open_table

Array = NDArray[np.float64]
Predictions = dict[str, Array]
PROCESSOR = "processor"  # the CPU seconds among predictions
NETWORKS = "networks_"  # before the split in the name of predictions of the networks of an ensemble alone
CHEMPROP = (sys.executable, Path(__file__).with_name("chemprop_seeded.py"))


def run_dgn(
    path: Path, task: Task, seed: int, arguments: Namespace, descriptors: str = "", descriptor_models: bool = True
) -> Predictions:
    """An ensemble with the defaults of ``dgn fit``, and ``--descriptors``; an interrupted run is resumed."""
    data = read_prepared(path, task)
    split = split_molecules(data.molecules, data.task)
    settings = {"descriptors": descriptors, "descriptor_models": descriptor_models}
    options = FitOptions(arguments.members, arguments.epochs, 100 * seed, arguments.device, **settings)
    training = path.parent / f"dgn-{descriptors}{seed}-training"
    fitted = fit_table(data, split, options, training)
    shutil.rmtree(training)
    predictions = {}
    for index in (1, 2):
        graphs = take(fitted.molecules, (split.assignment == index).nonzero()[:, 0]).graphs  # with descriptors
        prediction = fitted.model.ensemble.outputs(graphs).double()
        prediction = (
            prediction * fitted.model.scale + fitted.model.center if task == "regression" else prediction.sigmoid()
        )
        predictions[SPLITS[index]] = prediction.numpy()
    if not descriptor_models:
        return predictions
    assert fitted.prediction is not None
    networks = {f"{NETWORKS}{split}": prediction for split, prediction in predictions.items()}
    return {"test": fitted.prediction.mean.numpy()[None], **networks}


def run_forest(path: Path, task: Task, seed: int, arguments: Namespace) -> Predictions:
    """500 trees for each target on Morgan fingerprints of radius 2 with 2048 bits.

    It needs no validation molecules: they are training molecules too, and are not predicted.
    """
    return _fit_forests(path, task, seed, arguments, SPLITS[:2])


def run_equal_forest(path: Path, task: Task, seed: int, arguments: Namespace) -> Predictions:
    """The same forest, trained on the training molecules of the networks alone."""
    return _fit_forests(path, task, seed, arguments, SPLITS[:1])


def run_descriptor_forest(path: Path, task: Task, seed: int, arguments: Namespace) -> Predictions:
    """The forest on RDKit's descriptors, those of ``dgn fit --descriptors rdkit``."""
    return _fit_forests(path, task, seed, arguments, SPLITS[:2], _descriptors)


def _fingerprints(smiles: Sequence[str]) -> Array:
    from rdkit.Chem.rdFingerprintGenerator import GetMorganGenerator

    generator = GetMorganGenerator(radius=2, fpSize=2048)
    return np.stack([generator.GetFingerprintAsNumPy(parse_smiles(one)) for one in smiles])


def _descriptors(smiles: Sequence[str]) -> Array:
    return np.nan_to_num(describe((parse_smiles(one) for one in smiles), ("rdkit",)))


def _fit_forests(
    path: Path,
    task: Task,
    seed: int,
    arguments: Namespace,
    train_splits: Sequence[str],
    features: Callable[[Sequence[str]], Array] = _fingerprints,
) -> Predictions:
    """A forest for each target (one for several numbers, if none is missing), trained on some splits."""
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

    smiles, values, splits = read_rows(path)
    bits = features(smiles)
    in_training = np.isin(splits, train_splits)
    others, other_splits = bits[~in_training], splits[~in_training]
    forest_class = RandomForestRegressor if task == "regression" else RandomForestClassifier
    parts = []
    for targets in [values] if task == "regression" and not np.isnan(values).any() else values.T[:, :, None]:
        labeled = in_training & ~np.isnan(targets).any(axis=1)
        forest = forest_class(n_estimators=500, random_state=seed, n_jobs=arguments.threads)
        forest.fit(bits[labeled], np.squeeze(targets[labeled]))
        part = forest.predict(others) if task == "regression" else _positive(forest, others)
        parts.append(part.reshape(len(others), -1))
    prediction = np.concatenate(parts, axis=1)
    return {split: prediction[other_splits == split][None] for split in SPLITS if split not in train_splits}


def _positive(forest: Any, bits: NDArray[np.uint8]) -> Array:
    positive = np.flatnonzero(forest.classes_ == 1)
    return forest.predict_proba(bits)[:, positive[0]] if len(positive) else np.zeros(len(bits))


def run_chemprop_ensemble(
    path: Path, task: Task, seed: int, arguments: Namespace, featurizers: Sequence[str] = ()
) -> Predictions:
    """``--members`` networks of chemprop with seeds of their own, ``--parallel`` of them at a time.

    Those that are finished are not trained again; their CPU seconds are those of when they were.
    """

    def member_predictions(member: int) -> Predictions:
        file = path.parent / f"chemprop{''.join(featurizers)}-{seed}-member-{member}.npz"
        if not file.exists():
            predictions = run_chemprop(path, task, 100 * seed + member, arguments, featurizers)
            with atomic_file(file) as unfinished, unfinished.open("wb") as stream:
                np.savez(stream, **predictions)
        return dict(np.load(file))

    with ThreadPoolExecutor(arguments.parallel) as pool:
        members = list(pool.map(member_predictions, range(arguments.members)))
    processor = np.sum([member.pop(PROCESSOR) for member in members])
    return {PROCESSOR: processor} | {split: np.concatenate([one[split] for one in members]) for split in members[0]}


def run_chemprop(
    path: Path, task: Task, seed: int, arguments: Namespace, featurizers: Sequence[str] = ()
) -> Predictions:
    """``chemprop train`` with its defaults and a column for the split; an interrupted run is resumed."""
    smiles, values, splits = read_rows(path)
    names = [f"t{column}" for column in range(values.shape[1])]
    device = ["--accelerator", "cpu" if arguments.device == "cpu" else "auto", "-q"]
    device += ["--molecule-featurizers", *featurizers] if featurizers else []
    folder = path.parent.absolute() / f"chemprop{''.join(featurizers)}-{seed}-training"
    options = [
        "train",
        "-i",
        path,
        "-s",
        "smiles",
        "--target-columns",
        *names,
        "--splits-column",
        "split",
        *device,
    ]
    options += ["-t", "regression" if task == "regression" else "classification", "-o", folder]
    seconds = _chemprop(seed, options + ([] if arguments.epochs is None else ["--epochs", arguments.epochs]))
    with (folder / "val.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["smiles"], *([one] for one in smiles[splits == "val"])])
    model = folder / "model_0"
    files = {"val": folder / "val_predictions.csv", "test": model / "test_predictions.csv"}
    options = ["predict", "-i", folder / "val.csv", "-s", "smiles", "--model-paths", model / "best.pt"]
    seconds += _chemprop(seed, [*options, *device, "-o", files["val"]])
    predictions = {PROCESSOR: np.array(seconds)}
    for split, file_path in files.items():
        with file_path.open(newline="") as file:
            rows = list(csv.DictReader(file))
        assert [row["smiles"] for row in rows] == smiles[splits == split].tolist()
        predictions[split] = np.array([[[float(row[name]) for name in names] for row in rows]])
    shutil.rmtree(folder)
    return predictions


def _chemprop(seed: int, options: list[Any]) -> float:
    """Run a command of chemprop; returns its CPU seconds."""
    with TemporaryFile("w+") as output:
        process = subprocess.Popen([*map(str, [*CHEMPROP, seed, *options])], stdout=output, stderr=output)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        if process.returncode:
            raise RuntimeError(f"chemprop: expected exit status 0, got {process.returncode}: {output.read()[-2000:]}")
    return usage.ru_utime + usage.ru_stime


CONTENDERS: dict[str, Callable[[Path, Task, int, Namespace], Predictions]] = {
    "dgn": run_dgn,
    "dgn-rdkit": partial(run_dgn, descriptors="rdkit", descriptor_models=False),
    "dgn-morgan": partial(run_dgn, descriptors="morgan", descriptor_models=False),
    "dgn-rdkit+morgan": partial(run_dgn, descriptors="rdkit+morgan", descriptor_models=False),
    "forest": run_forest,
    "equal-forest": run_equal_forest,
    "descriptor-forest": run_descriptor_forest,
    "chemprop": run_chemprop,
    "chemprop-ensemble": run_chemprop_ensemble,
    "chemprop-rdkit": partial(run_chemprop_ensemble, featurizers=("rdkit_2d",)),
}


def read_prepared(path: Path, task: Task) -> TableData:
    """The prepared table as ``dgn fit`` reads it."""
    opened = open_table(path)
    return read_table(opened, "smiles", list(opened.columns[1:-1]), task, "split")


def read_rows(path: Path) -> tuple[NDArray[Any], Array, NDArray[Any]]:
    """SMILES, targets [R, T] and splits of the prepared table."""
    with path.open(newline="") as file:
        rows = list(csv.reader(file))[1:]
    values = np.array([[float(value) if value else np.nan for value in row[1:-1]] for row in rows])
    return np.array([row[0] for row in rows], dtype=object), values, np.array([row[-1] for row in rows])
