"""The folder that ``dgn fit`` leaves: weights, configuration, picture, card, settings tried, remarkable rows."""

import shutil
from pathlib import Path

from dgn.molecules.fit import LEVEL, Fitted
from dgn.molecules.model_card import write_card
from dgn.molecules.model_io import CONFIGURATION, WEIGHTS
from dgn.molecules.plots import draw_parity, draw_roc
from dgn.molecules.rows import Problem
from dgn.training.run_folder import to_csv, write_text

CARD, ROWS, SEARCH, TRAINING = "README.md", "rows.csv", "search.csv", "training"
PARITY, ROC = "parity.png", "roc.png"


def check_free(out: Path) -> None:
    """Refuse a folder in which something else would be lost; an unfinished fit is gone on with."""
    if out.is_file() or (out / CONFIGURATION).exists():
        raise ValueError(f"out: expected a new folder, got {out}, which is taken; choose another, or remove it")
    # Beside checkpoints of a fit, files of ours are what it left when it could not write them all. A folder of that
    # name without any may be another's.
    begun = next(out.glob(f"{TRAINING}/**/*.safetensors"), None) is not None
    empty = not any(path.is_file() for path in out.glob(f"{TRAINING}/**/*"))
    ours = [TRAINING] * (begun or empty) + [CARD, ROWS, SEARCH, PARITY, ROC, WEIGHTS] * begun
    found = [path.name for path in out.iterdir()] if out.is_dir() else []
    unfinished = tuple(f".{name}." for name in ours)  # a file on its way to its name
    others = [name for name in found if name not in ours and not name.startswith(unfinished)]
    if others:
        raise ValueError(f"out: expected a new folder, got {out} with {others[0]} in it; choose another")


def write_folder(fitted: Fitted, out: Path, name: str, problems: tuple[Problem, ...]) -> None:
    """Write everything, the configuration last, for with it the model is complete; then remove the checkpoints."""
    model, held, prediction = fitted
    for old in (ROWS, SEARCH, PARITY, ROC):  # of a fit that could not be written in full
        (out / old).unlink(missing_ok=True)
    picture = None
    if held is not None and prediction is not None:
        picture = PARITY if model.task == "regression" else ROC
        if model.task == "regression":
            draw_parity(model, held.values, prediction, LEVEL, out / picture)
        else:
            draw_roc(model, held.values, prediction, out / picture)
    if problems:
        told = [{"line": line, "what": one.what, "done": one.done} for one in problems for line in one.lines]
        write_text(out / ROWS, to_csv(sorted(told, key=lambda row: int(str(row["line"])))))
    if "search" in model.facts:
        write_text(out / SEARCH, to_csv(model.facts["search"]))
    write_text(out / CARD, write_card(model, name, picture))
    model.save(out)
    if (out / TRAINING).is_dir():
        shutil.rmtree(out / TRAINING)
