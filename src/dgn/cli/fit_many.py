"""Cross-validation and replicates of ``dgn fit``: several fits, and their scores with a standard deviation."""

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from dgn.cli.display import echo, print_table

if TYPE_CHECKING:
    from dgn.cli.fit import Outputs, TableOptions
    from dgn.molecules.fit import FitOptions
    from dgn.molecules.model_io import Model
    from dgn.molecules.table import Table

SETTINGS, SCORES, CARD = "settings.json", "scores.csv", "README.md"
STRIDE = 1000  # between the seeds of replicates: their ensembles share no member


def fit_many(
    console: Console,
    table: "Table",
    reading: "TableOptions",
    options: "FitOptions",
    outputs: "Outputs",
    folds: int,
    replicates: int,
) -> None:
    """Fit each fold or replicate to a folder of its own, then write their scores with mean and deviation.

    The same command resumes: finished fits are read.
    """
    from dgn.cli.fit import Outputs, fit_one
    from dgn.molecules.folder import OPTIONS
    from dgn.molecules.model_io import load_model
    from dgn.training.pretrained import CONFIGURATION
    from dgn.training.run_folder import write_text

    _check(reading, folds, replicates)
    out, logs = outputs.folder, outputs.logs
    _start(table, reading, options, out, folds, replicates)
    write_text(out / OPTIONS, str(outputs.settings))
    models = []
    for index in range(folds or replicates):
        folder = out / (f"fold-{index + 1}" if folds else f"replicate-{index + 1}")
        if (folder / CONFIGURATION).is_file():
            echo(console, f"{folder}: already fitted")
            models.append(load_model(folder, "cpu"))
            continue
        echo(console, f"{folder}:")
        fold = replace(reading, fold=(index, folds) if folds else None)
        seed = options.seed if folds else options.seed + STRIDE * index
        models.append(
            fit_one(console, table, fold, replace(options, seed=seed), Outputs(folder, logs and logs / folder.name))
        )
    _write_summary(console, table.path.name, models, out, folds)


def _check(reading: "TableOptions", folds: int, replicates: int) -> None:
    if folds and replicates > 1:
        raise ValueError(f"folds: expected no --replicates beside it, got {folds} and {replicates}; leave one out")
    if folds == 1:
        raise ValueError("folds: expected two or more, got 1; for example 5")
    if folds and (reading.splits is not None or reading.test is not None):
        raise ValueError("folds: expected no --splits and --test beside it, which they replace, got one; leave it out")
    if folds and reading.split not in (None, "scaffold", "random"):
        raise ValueError(f"folds: expected --split scaffold or random beside it, got {reading.split!r}; change it")
    if replicates > 1 and reading.test == 0:
        raise ValueError("replicates: expected a test split to score, got --test 0; leave it out")


def _start(
    table: "Table", reading: "TableOptions", options: "FitOptions", out: Path, folds: int, replicates: int
) -> None:
    """Write the settings to a new folder; those of an unfinished run must be the same."""
    from dgn.data.datasets.paths import describe_files
    from dgn.training.model_io import find_model
    from dgn.training.pretrained import CONFIGURATION, find_network
    from dgn.training.run_folder import write_text

    files = [table.path, *([reading.splits] if reading.splits else [])]
    if options.start is not None:  # the configuration holds a checksum of the weights
        files.append(find_model(find_network(options.start)) / CONFIGURATION)
    settings = {**asdict(reading), **asdict(options), "folds": folds, "replicates": replicates}
    text = json.dumps({**settings, "files": describe_files(files)}, indent=1, default=str) + "\n"
    names = sorted(path.name for path in out.iterdir()) if out.is_dir() else []
    if out.is_file() or CARD in names or (names and SETTINGS not in names):
        raise ValueError(f"out: expected a new folder, got {out}, which exists; choose another, or remove it")
    if names and (out / SETTINGS).read_text() != text:
        raise ValueError(f"out: expected the settings and the files of {out / SETTINGS}, got others; choose another")
    if not names:
        write_text(out / SETTINGS, text)


def _write_summary(console: Console, name: str, models: "list[Model]", out: Path, folds: int) -> None:
    from dgn.molecules.model_card import mean_table
    from dgn.training.model_io import plain
    from dgn.training.run_folder import to_csv, write_text

    rows = [
        {"fit": index + 1, "target": target, **plain(scores)}
        for index, model in enumerate(models)
        for target, scores in model.facts["metrics"]["test"]["targets"].items()
    ]
    write_text(out / SCORES, to_csv(rows))
    kind = f"{len(models)}-fold cross-validation" if folds else f"{len(models)} replicates"
    title = f"{kind} of {name}: mean and standard deviation of the test scores"
    table = mean_table(models)
    lines = [f"# {title}", table.to_markdown(), f"The scores of each fit are in `{SCORES}`; its folder has a model."]
    write_text(out / CARD, "\n\n".join(lines) + "\n")
    echo(console, title)
    print_table(console, table)
    echo(console, f"in {out}: {CARD}, {SCORES}, and a folder of each fit")
