"""``dgn fit``: fit a model to a table of molecules."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple, cast

import typer
from rich.console import Console

from dgn.cli.display import Display, echo, make_console, print_table
from dgn.cli.run_seeds import stopped
from dgn.cli.settings import read_settings, write_settings

if TYPE_CHECKING:
    from dgn.molecules.featurize import Valence
    from dgn.molecules.fit import FitOptions, Fitted
    from dgn.molecules.model_io import Model
    from dgn.molecules.rows import Censored, TableData
    from dgn.molecules.split import Split
    from dgn.molecules.table import Table
    from dgn.training.run import EpochReport


TableFile = Annotated[
    Path, typer.Argument(metavar="TABLE", help="Molecules: .csv, .csv.gz, .tsv, .xlsx, .smi, .sdf or .parquet.")
]
TargetColumns = Annotated[
    list[str] | None,
    typer.Option(metavar="COLUMN", help="Column to predict; may be repeated.", show_default="detected"),
]
SmilesColumns = Annotated[
    list[str] | None,
    typer.Option(
        metavar="COLUMN",
        help="Column of SMILES; given twice, rows are pairs of molecules, such as solute and solvent.",
        show_default="detected",
    ),
]
TaskName = Annotated[
    str | None,
    typer.Option(
        help="regression, binary (two classes), multi-label or multiclass (three or more; also of integers).",
        show_default="detected",
    ),
]
FeatureColumns = Annotated[
    list[str] | None,
    typer.Option(metavar="COLUMN", help="Column of numbers to read beside the graph; may be repeated."),
]
Descriptors = Annotated[
    str,
    typer.Option(
        help="Descriptors of whole molecules for the head of the networks: rdkit, morgan or rdkit+morgan.",
        show_default="none",
    ),
]
Weights = Annotated[
    str | None, typer.Option(metavar="COLUMN", help="Column of weights of the rows in training, 0 or more.")
]
DescriptorMembers = Annotated[
    bool,
    typer.Option(
        "--descriptor-models/--no-descriptor-models",
        help="Add a random forest and a kernel ridge regression on descriptors to the ensemble.",
    ),
]
ClassWeights = Annotated[
    str | None, typer.Option(help="balanced: all classes of a target count the same in training.", show_default="none")
]
SplitMethod = Annotated[
    str | None,
    typer.Option(
        help="scaffold, random, or the name of a column with values train, val and test.",
        show_default="a column called split, set, fold or subset, else scaffold",
    ),
]
SplitsFile = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Splits of another fit: the splits.csv of its folder, read by molecule."),
]
Folds = Annotated[
    int, typer.Option(help="Cross-validation: that many fits, each molecule tested once; 0: none.", min=0)
]
Logarithm = Annotated[
    bool, typer.Option("--log", help="Learn the logarithm of the targets; predictions are in their unit.")
]
CensoredOption = Annotated[
    str, typer.Option(help="Target values such as > 10: keep (as bounds) or drop (treat as missing).")
]
ValenceOption = Annotated[
    str, typer.Option(help="Molecules with impossible valences, such as CF(F)F: refuse (leave out) or keep.")
]
Seed = Annotated[
    int,
    typer.Option(help="Seed of the split and of the first ensemble member; the others take the next ones.", min=0),
]
SearchTrials = Annotated[
    int,
    typer.Option(help="Trials of a hyperparameter search on the validation split; 0: default settings.", min=0),
]
StartModel = Annotated[
    str | None, typer.Option("--from", metavar="MODEL", help="Pretrained network or model folder to fine-tune.")
]
TestFraction = Annotated[
    float | None, typer.Option(help="Fraction of the molecules in the test split; 0: none.", show_default="0.1")
]
LogFolder = Annotated[Path | None, typer.Option(metavar="DIR", help="Folder of logs for TensorBoard.")]
SettingsFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="YAML file of these options, such as settings.yaml of a model folder; those given here win.",
        callback=read_settings,
        is_eager=True,
    ),
]


def command(
    context: typer.Context,
    table: TableFile,
    target: TargetColumns = None,
    smiles: SmilesColumns = None,
    features: FeatureColumns = None,
    descriptors: Descriptors = "",
    weights: Weights = None,
    class_weights: ClassWeights = None,
    task: TaskName = None,
    split: SplitMethod = None,
    valence: ValenceOption = "refuse",
    splits: SplitsFile = None,
    folds: Folds = 0,
    replicates: Annotated[int, typer.Option(help="Fits with other seeds of split and networks.", min=1)] = 1,
    log: Logarithm = False,
    censored: CensoredOption = "keep",
    test: TestFraction = None,
    out: Annotated[Path | None, typer.Option(help="New folder for the model.", show_default="TABLE-model")] = None,
    epochs: Annotated[
        int | None,
        typer.Option(help="Maximum number of epochs.", min=1, show_default="by size of the table"),
    ] = None,
    ensemble_size: Annotated[
        int, typer.Option(help="Ensemble members; predictions are their mean and standard deviation.", min=1)
    ] = 5,
    descriptor_models: DescriptorMembers = True,
    search: SearchTrials = 0,
    start: StartModel = None,
    freeze: Annotated[bool, typer.Option("--freeze", help="With --from: train the head alone.")] = False,
    seed: Seed = 0,
    device: Annotated[str, typer.Option(help="auto (a GPU if there is one), cpu or cuda.")] = "auto",
    logs: LogFolder = None,
    config: SettingsFile = None,  # noqa: ARG001, read by its callback
) -> None:
    """Fit an ensemble of directional graph networks to a table of molecules.

    Detects and prints the SMILES column, the targets and the task; splits; trains with early stopping; scores the test
    split; and writes a folder with the model, a model card and a plot.

    For example: dgn fit molecules.csv --target solubility
    """
    from dgn.cli.fit_many import fit_many
    from dgn.molecules.fit import FitOptions
    from dgn.molecules.folder import check_free
    from dgn.molecules.table import open_table

    console = make_console()
    options = FitOptions(
        ensemble_size, epochs, seed, device, search, start, freeze, descriptors, class_weights, descriptor_models
    )
    first, partner = check_columns(smiles)
    columns = (first, partner, tuple(target or ()), tuple(features or ()), weights)
    reading = TableOptions(*columns, task, split, test, valence, log, censored, splits)
    check_settings(reading, search, device, logs)
    opened, name = open_table(table), table.name.split(".")[0]
    out = out or Path(f"{name}-model")
    outputs = Outputs(out, logs, write_settings(context, table))
    if folds or replicates > 1:
        fit_many(console, opened, reading, options, outputs, folds, replicates)
        return
    check_free(out)
    fit_one(console, opened, reading, options, outputs)
    echo(console, f"to predict: dgn predict {out} TABLE --out FILE")


@dataclass(frozen=True)
class TableOptions:
    """How a table is read and split; ``fold`` is a number from 0, and how many there are."""

    smiles: str | None
    partner: str | None
    targets: tuple[str, ...]
    features: tuple[str, ...]
    weights: str | None
    task: str | None
    split: str | None
    test: float | None
    valence: str
    log: bool
    censored: str
    splits: Path | None
    fold: tuple[int, int] | None = None


class Outputs(NamedTuple):
    """The folder of a model, that of its logs, and the settings that repeat the fit."""

    folder: Path
    logs: Path | None = None
    settings: str | None = None


def fit_one(
    console: Console, table: "Table", reading: TableOptions, options: "FitOptions", outputs: Outputs
) -> "Model":
    """Read the table, fit, and write the folder, with all that is printed."""
    from dgn.molecules.folder import write_folder

    data, splits, column = read_splits(table, reading, options.seed)
    echo_data(console, data, splits, column)
    fitted = train(console, data, splits, options, outputs)
    write_folder(fitted, outputs.folder, table.path.name.split(".")[0], data.problems, outputs.settings)
    echo_model(console, fitted, outputs.folder)
    return fitted.model


def train(console: Console, data: "TableData", splits: "Split", options: "FitOptions", outputs: Outputs) -> "Fitted":
    """Fit with a display; an interrupted fit can be resumed."""
    from dgn.molecules.ensemble_training import OBJECTIVES
    from dgn.molecules.fit import fit_table
    from dgn.molecules.folder import TRAINING
    from dgn.training.event_log import event_log

    display = Display(console, OBJECTIVES[data.task][1], early=True)
    try:
        with display, event_log(outputs.logs) as log:

            def on_epoch(report: "EpochReport") -> None:
                display.update(report)
                log(report)

            return fit_table(data, splits, options, outputs.folder / TRAINING, on_epoch, display.echo)
    except KeyboardInterrupt:
        raise stopped(console, outputs.folder) from None


def check_columns(smiles: list[str] | None) -> tuple[str | None, str | None]:
    """The first and the second column of SMILES; more are refused.

    >>> check_columns(None), check_columns(["solute", "solvent"])
    ((None, None), ('solute', 'solvent'))
    """
    columns = smiles or []
    if len(columns) > 2:
        raise ValueError(f"smiles: expected one or two columns, got {', '.join(columns)}; leave some out")
    return (columns[0] if columns else None), (columns[1] if len(columns) == 2 else None)


def check_settings(reading: TableOptions, search: int, device: str, logs: Path | None) -> None:
    """Refuse invalid options before the table is read."""
    from dgn.graph.checks import check_option, check_package
    from dgn.molecules.columns import TASKS
    from dgn.molecules.featurize import VALENCES
    from dgn.molecules.rows import CENSORED
    from dgn.molecules.split import check_test_fraction
    from dgn.training.devices import choose_device

    if reading.task is not None:
        check_option("task", reading.task, TASKS)
    check_option("valence", reading.valence, VALENCES)
    check_option("censored", reading.censored, CENSORED)
    check_test_fraction(reading.test)
    if reading.splits is not None and (reading.split is not None or reading.test):
        raise ValueError("splits: expected no --split and --test beside it, except --test 0, got one; leave it out")
    choose_device(device)
    if search:
        check_package("search", "optuna")
    if logs is not None:
        check_package("logs", "tensorboard")
        if search:
            raise ValueError("logs: expected no --search beside it, whose trials share their seeds; leave one out")


def read_splits(table: "Table", reading: TableOptions, seed: int) -> "tuple[TableData, Split, str | None]":
    """The molecules of a table, their splits, and the split column, if one is used."""
    from dgn.molecules.logarithm import learn_logarithm, suggest_logarithm
    from dgn.molecules.rows import read_table
    from dgn.molecules.split import assign_splits, cross_validation, drop_unlearnable, split_molecules, unequal_targets
    from dgn.molecules.table import open_table

    column: str | None = None
    unused: tuple[str, ...] = ()
    if reading.splits is None and reading.fold is None:
        column, unused = split_column(table, reading.split, "val" if reading.test == 0 else "test")
    valence = cast("Valence", reading.valence)
    more = (valence, reading.features, reading.weights, cast("Censored", reading.censored))
    data = read_table(table, reading.smiles, reading.targets, reading.task, column, *more, reading.partner)
    data = learn_logarithm(data) if reading.log else suggest_logarithm(data)
    if reading.splits is not None:
        data = replace(data, molecules=assign_splits(data.molecules, open_table(reading.splits)))
    if reading.fold is not None:
        index, folds = reading.fold
        splits = cross_validation(data.molecules, data.task, folds, reading.split, seed)[index]
    else:
        source = "the column" if reading.splits is None else str(reading.splits)
        method = None if column else reading.split
        splits = split_molecules(data.molecules, data.task, method, seed, reading.test, source)
    data, splits = drop_unlearnable(data, splits)
    unequal = unequal_targets(data.molecules.values, splits.assignment, data.targets)
    splits = splits._replace(notes=(*unused, *splits.notes, *unequal))
    return data, splits, column or (str(reading.splits) if reading.splits else None)


def split_column(table: "Table", split: str | None, needed: str) -> tuple[str | None, tuple[str, ...]]:
    """The column that holds the split, if there is one, and notes on columns that are only named like it.

    It is the one given, or one of ``SPLIT_NAMES`` that holds train and the split ``needed``. Its other values are
    checked later, in the rows that are used.
    """
    from dgn.graph.checks import check_option
    from dgn.molecules.split import SPLIT_ALIASES, SPLIT_NAMES, SPLITS

    if split in ("scaffold", "random"):
        return None, ()
    if split is not None:
        check_option("split", split, ("scaffold", "random", *table.columns))
        return split, ()
    unused = []
    for name in (name for name in table.columns if name.lower() in SPLIT_NAMES):
        position = table.position(name)
        values = {row.values[position].strip().lower() for row in table.rows() if not row.problem}
        if {SPLITS[SPLIT_ALIASES[value]] for value in values & SPLIT_ALIASES.keys()} >= {"train", needed}:
            return name, ()
        unused.append(f"column {name} is not used for the split: it does not contain both train and {needed}")
    return None, tuple(unused)


def echo_data(console: Console, data: "TableData", splits: "Split", column: str | None) -> None:
    """Print what was read and detected, and every remark on rows."""
    names = ", ".join(target.name for target in data.targets[:12]) + (", ..." if len(data.targets) > 12 else "")
    counts = [int((splits.assignment == split).sum()) for split in range(3)]
    method = (
        f"by {'column ' * (splits.method == 'column' and not Path(column).is_file())}{column}"
        if column
        else {"random": "at random"}.get(splits.method, f"by {splits.method}")
    )
    lines = [
        f"SMILES: column {data.smiles}" + (f", paired with column {data.partner}" if data.partner else ""),
        f"{data.task}: {names}",
        *_class_lines(data),
        f"{data.rows} rows, {len(data.molecules.smiles)} molecules used; split {method}: "
        f"{counts[0]} train, {counts[1]} val, {counts[2]} test",
        *map(str, data.problems),
        *data.notes,
        *splits.notes,
        *(
            ["errors shown during training are in standard deviations of the target"]
            if data.task == "regression"
            else []
        ),
    ]
    for line in lines:
        echo(console, line)


def _class_lines(data: "TableData") -> list[str]:
    """The positive class of each target, or several classes with their numbers of molecules."""
    if data.task == "multiclass":
        (target,), labels = data.targets, data.molecules.values[:, 0]
        counts = [f"{name} ({int((labels == label).sum())})" for label, name in enumerate(target.classes or ())]
        return [f"  {target.name}: {', '.join(counts)}"]
    return [
        f"  {target.name}: 1 is {target.classes[1]}"
        for target in data.targets
        if target.classes and target.classes != ("0", "1")
    ]


def echo_model(console: Console, fitted: "Fitted", out: Path) -> None:
    """Print the scores on the test split and the files written."""
    from dgn.molecules.model_card import interval_text, score_table, scored_text

    model = fitted.model
    others = sorted(path.name for path in out.iterdir() if path.is_file() and path.name != "README.md")
    print_table(console, score_table(model))
    lines = [
        "" if fitted.prediction else scored_text(model),
        interval_text(model),
        f"in {out}: README.md (the model card), {', '.join(others)}",
    ]
    for line in filter(None, lines):
        echo(console, line)
