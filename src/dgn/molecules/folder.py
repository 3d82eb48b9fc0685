"""The folder that ``dgn fit`` writes: weights, configuration, plot, model card, search trials, remarks on rows."""

import shutil
from pathlib import Path

from dgn.data.io.atomic import SCRATCH
from dgn.molecules.fit import LEVEL, Fitted
from dgn.molecules.model_card import write_card
from dgn.molecules.plots import draw_parity, draw_roc
from dgn.molecules.predict import format_prediction, prediction_columns
from dgn.molecules.rows import Problem, censoring_of
from dgn.molecules.split import SPLITS
from dgn.training.model_io import CARD, WEIGHTS
from dgn.training.pretrained import CONFIGURATION
from dgn.training.run_folder import to_csv, write_text

ROWS, SEARCH, SPLITS_FILE, TRAINING = "rows.csv", "search.csv", "splits.csv", "training"
OPTIONS = "settings.yaml"  # that repeat the fit
ROW = ("line", "smiles", "split")  # columns of SPLITS_FILE before those of the targets
PARITY, ROC = "parity.png", "roc.png"


def check_free(out: Path) -> None:
    """Refuse a folder with other contents; an unfinished fit is resumed."""
    if out.is_file() or (out / CONFIGURATION).exists():
        raise ValueError(f"out: expected a new folder, got {out}, which exists; choose another, or remove it")
    # With checkpoints of a fit, our files are those of a write that was interrupted. Without any, a folder called
    # training may belong to someone else.
    begun = next(out.glob(f"{TRAINING}/**/*.safetensors"), None) is not None
    empty = not any(path.is_file() for path in out.glob(f"{TRAINING}/**/*"))
    ours = [TRAINING] * (begun or empty) + [CARD, ROWS, SEARCH, SPLITS_FILE, OPTIONS, PARITY, ROC, WEIGHTS] * begun
    names = [path.name for path in out.iterdir()] if out.is_dir() else []
    others = [name for name in names if name not in ours and not name.startswith(SCRATCH)]
    if others:
        raise ValueError(f"out: expected a new folder, got {out} with {others[0]} in it; choose another")


def split_rows(fitted: Fitted) -> list[dict[str, str]]:
    """Line, SMILES, split and measured values of every molecule, and the predictions of those in the test split.

    The values of a target called like one of the first three columns are in ``line_measured`` and so on.
    """
    model, molecules = fitted.model, fitted.molecules
    names = prediction_columns(model)
    targets = [f"{target.name}_measured" if target.name in ROW else target.name for target in model.targets]
    cells = iter([] if fitted.prediction is None else format_prediction(model, fitted.prediction, LEVEL))
    rows, signs = [], censoring_of(molecules).tolist()
    for row, split in enumerate(fitted.split.tolist()):
        values = zip(signs[row], molecules.values[row].tolist(), strict=True)
        measured = [f"{('', '>', '<')[sign]}{value:.10g}" if value == value else "" for sign, value in values]
        if model.task == "multiclass":
            measured = [model.classes[int(molecules.values[row, 0])]]
        predicted = next(cells) if SPLITS[split] == "test" else [""] * len(names)
        rows.append(
            dict(zip(ROW, (str(molecules.lines[row]), molecules.smiles[row], SPLITS[split]), strict=True))
            | dict(zip(targets, measured, strict=True))
            | dict(zip(names, predicted, strict=True))
        )
    return rows


def write_folder(
    fitted: Fitted, out: Path, name: str, problems: tuple[Problem, ...], settings: str | None = None
) -> None:
    """Write all files, the configuration last, as it marks a complete model; then remove the checkpoints.

    ``settings`` are the options of the command that repeats the fit, as YAML.
    """
    model, held_out, prediction = fitted[:3]
    for old in (ROWS, SEARCH, SPLITS_FILE, OPTIONS, PARITY, ROC):  # of an interrupted write
        (out / old).unlink(missing_ok=True)
    picture = None
    if held_out is not None and prediction is not None:
        picture = PARITY if model.task == "regression" else ROC
        if model.task == "regression":
            measured = held_out.values.masked_fill(censoring_of(held_out) != 0, float("nan"))
            draw_parity(model, measured, prediction, LEVEL, out / picture)
        else:
            draw_roc(model, held_out.values, prediction, out / picture)
    if problems:
        rows = [{"line": line, "what": each.what, "done": each.action} for each in problems for line in each.lines]
        write_text(out / ROWS, to_csv(sorted(rows, key=lambda row: int(str(row["line"])))))
    if "search" in model.facts:
        write_text(out / SEARCH, to_csv(model.facts["search"]))
    if settings is not None:
        write_text(out / OPTIONS, settings)
    write_text(out / SPLITS_FILE, to_csv(split_rows(fitted)))
    model.save(out, write_card(model, name, picture))
    if (out / TRAINING).is_dir():
        shutil.rmtree(out / TRAINING)
