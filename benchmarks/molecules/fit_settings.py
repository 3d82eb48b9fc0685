"""The networks of ``dgn fit`` with other settings, on one scaffold split of a table of MoleculeNet.

    python -m benchmarks.molecules.fit_settings TABLES/lipo.csv.gz [--split-seed 100] [--members 2] [hidden=96 ...]

Settings are those of an experiment's ``network`` or ``training``. Prints CPU seconds, parameters, and RMSE and MAE of a
single network (the mean) and of the ensemble, on validation and test molecules. The comparison has the seeds 0, 1
and 2: choose settings with others.
"""

import argparse
import tempfile
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
import yaml

from dgn.molecules import fit
from dgn.molecules.defaults import default_experiment
from dgn.molecules.rows import read_table
from dgn.molecules.split import SPLITS, split_molecules
from dgn.molecules.table import open_table
from dgn.training.experiment import Experiment


def changed(experiment: Experiment, settings: Mapping[str, Any]) -> Experiment:
    """The experiment with settings of its network and its training replaced."""
    network = {name: value for name, value in settings.items() if hasattr(experiment.network, name)}
    training = {name: value for name, value in settings.items() if name not in network}
    return replace(
        experiment,
        network=replace(experiment.network, **network),
        training=replace(experiment.training, **training),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", type=Path)
    parser.add_argument("settings", nargs="*", help="KEY=VALUE")
    parser.add_argument("--split-seed", type=int, default=100)
    parser.add_argument("--members", type=int, default=2)
    arguments = parser.parse_args()
    settings = {key: yaml.safe_load(value) for key, _, value in (each.partition("=") for each in arguments.settings)}
    torch.set_num_threads(1)
    data = read_table(open_table(arguments.table))
    split = split_molecules(data.molecules, data.task, "scaffold", arguments.split_seed)
    options = fit.FitOptions(arguments.members, seed=100 * arguments.split_seed, device="cpu", descriptor_models=False)
    start = time.process_time()
    with (
        tempfile.TemporaryDirectory() as folder,
        patch.object(fit, "default_experiment", lambda *given: changed(default_experiment(*given), settings)),
    ):
        fitted = fit.fit_table(data, split, options, Path(folder))
    model, seconds = fitted.model, time.process_time() - start
    print(f"{arguments.table.name} {settings}: {seconds:.0f} CPU s, {model.facts['parameters']:,} parameters")
    learned = model.learned(model.ensemble.outputs(fitted.molecules.graphs)).double()
    for index in (1, 2):
        rows = split.assignment == index
        error = learned[:, rows] - fitted.molecules.values[rows]
        for name, each in (("one network", error), ("ensemble", error.mean(dim=0, keepdim=True))):
            rmse = each.square().nanmean(dim=(1, 2)).sqrt().mean()
            print(f"{SPLITS[index]}, {name}: RMSE {rmse:.4f}, MAE {each.abs().nanmean():.4f}")


if __name__ == "__main__":
    main()
