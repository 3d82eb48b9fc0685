"""Folds of MolHIV's training and validation molecules, to compare settings by more than 81 active ones.

    python -m benchmarks.choices.molhiv_folds FOLDER OUT [--folds 2]

FOLDER has ``molhiv.npz`` and ``molhiv_smiles.csv.gz``. The official validation and test molecules are the only ones of
their scaffold. So are many training molecules. These and the validation molecules are assigned to folds at random: in
OUT/FOLD/molhiv.safetensors one fold is the validation split, and all others are training molecules.
"""

import argparse
import csv
import gzip
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from dgn.data.benchmark import load_benchmark
from dgn.data.splits import group, scaffold

TRAIN, VALIDATION, TEST = 0, 1, 2


def draw_splits(smiles: list[str], split: NDArray[np.uint8], folds: int) -> list[NDArray[np.uint8]]:
    """For each fold the split of every molecule, 0 (training), 1 (validation) or 2 (test)."""
    groups = group(map(scaffold, smiles)).values()
    alone = [rows[0] for rows in groups if len(rows) == 1 and split[rows[0]] != TEST]
    shuffled = np.random.default_rng(0).permutation(alone)
    drawn = []
    for fold in range(folds):
        drawn.append(np.where(split == TEST, TEST, TRAIN).astype(np.uint8))
        drawn[-1][shuffled[fold::folds]] = VALIDATION
    return drawn


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--folds", type=int, default=2)
    arguments = parser.parse_args()
    with gzip.open(arguments.folder / "molhiv_smiles.csv.gz", "rt") as file:
        smiles = [row["smiles"] for row in csv.DictReader(file)]
    graphs = load_benchmark("molhiv", arguments.folder).graphs
    for fold, split in enumerate(draw_splits(smiles, graphs.graphs["split"].numpy(), arguments.folds)):
        (arguments.out / str(fold)).mkdir(parents=True, exist_ok=True)
        changed = graphs.with_values(graphs={"split": torch.from_numpy(split)})
        replace(changed, info={"note": f"not the official split: fold {fold}"}).save(
            arguments.out / str(fold) / "molhiv.safetensors"
        )
        active = int(graphs.graphs["y"][split == VALIDATION].sum())
        print(f"fold {fold}: {(split == VALIDATION).sum():,} validate, {active} of them active")


if __name__ == "__main__":
    main()
