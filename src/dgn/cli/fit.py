"""``dgn fit``: a model from a table of molecules."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from dgn.cli.display import Display, make_console, print_table, say
from dgn.cli.run_seeds import install_sigterm_handler, stopped

if TYPE_CHECKING:
    from dgn.molecules.fit import FitOptions, Fitted
    from dgn.molecules.rows import TableData
    from dgn.molecules.split import Split
    from dgn.molecules.table import Table


def command(
    table: Annotated[Path, typer.Argument(metavar="TABLE", help="Molecules: .csv, .csv.gz, .tsv or .parquet.")],
    target: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="Column to predict; give it again for more.", show_default="guessed"),
    ] = None,
    smiles: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Column of SMILES.", show_default="found")
    ] = None,
    task: Annotated[
        str | None,
        typer.Option(help="regression (numbers), binary (two classes) or multi-label.", show_default="guessed"),
    ] = None,
    split: Annotated[
        str | None,
        typer.Option(
            help="scaffold, random, or the name of a column with train, val and test in it.",
            show_default="a column called split, set, fold or subset, else scaffold",
        ),
    ] = None,
    test: Annotated[
        float | None, typer.Option(help="Share of the molecules held out for the scores; 0: none.", show_default="0.1")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="New folder for the model.", show_default="TABLE-model")] = None,
    epochs: Annotated[
        int | None,
        typer.Option(help="Passes over the training molecules, at most.", min=1, show_default="by their number"),
    ] = None,
    members: Annotated[
        int, typer.Option(help="Networks in the ensemble; they are averaged, and their spread is told.", min=1)
    ] = 5,
    search: Annotated[
        int,
        typer.Option(
            help="Try so many settings first, and keep the best on the validation part; 0: the usual ones.", min=0
        ),
    ] = 0,
    seed: Annotated[
        int, typer.Option(help="Random seed of the split and of the first network; others take the next ones.", min=0)
    ] = 0,
    device: Annotated[str, typer.Option(help="auto (a GPU if there is one), cpu or cuda.")] = "auto",
) -> None:
    """Fit an ensemble of directional networks to a table of molecules.

    Finds the SMILES, guesses what is to be predicted and says so, splits, trains with early stopping, scores the
    molecules held out, and leaves a folder with the model, its card and a picture.

    For example: dgn fit molecules.csv --target solubility
    """
    from dgn.molecules.fit import FitOptions
    from dgn.molecules.folder import check_free, write_folder
    from dgn.molecules.table import open_table

    install_sigterm_handler()
    console, options = make_console(), FitOptions(members, epochs, seed, device, search)
    check_settings(task, test, search, device)
    opened, name = open_table(table), table.name.split(".")[0]
    out = out or Path(f"{name}-model")
    check_free(out)
    data, parts, column = read_parts(opened, smiles, target or (), task, split, seed, test)
    say_data(console, data, parts, column)
    fitted = train(console, data, parts, options, out)
    write_folder(fitted, out, name, data.problems)
    say_model(console, fitted, out)


def train(console: Console, data: "TableData", parts: "Split", options: "FitOptions", out: Path) -> "Fitted":
    """Fit with a display; what was stopped can go on later."""
    from dgn.molecules.fit import fit_table
    from dgn.molecules.folder import TRAINING

    display = Display(console, "mae" if data.task == "regression" else "roc-auc", early=True)
    try:
        with display:
            return fit_table(data, parts, options, out / TRAINING, display.update, display.say)
    except KeyboardInterrupt:
        raise stopped(console, out) from None


def check_settings(task: str | None, test: float | None, search: int, device: str) -> None:
    """Refuse at once what would be refused after the table was read."""
    from dgn.graph.checks import check_option, check_package
    from dgn.molecules.columns import TASKS
    from dgn.molecules.split import check_share
    from dgn.training.devices import choose_device

    if task is not None:
        check_option("task", task, TASKS)
    check_share(test)
    choose_device(device)
    if search:
        check_package("search", "optuna")


def read_parts(
    table: "Table",
    smiles: str | None,
    targets: Sequence[str],
    task: str | None,
    split: str | None,
    seed: int,
    test: float | None,
) -> "tuple[TableData, Split, str | None]":
    """The molecules of a table, their parts, and the column that says these, if one does."""
    from dgn.molecules.rows import read_table
    from dgn.molecules.split import drop_unlearnable, split_molecules

    column, unused = split_column(table, split, "val" if test == 0 else "test")
    data = read_table(table, smiles, targets, task, column)
    parts = split_molecules(data.molecules, data.task, None if column else split, seed, test)
    data, parts = drop_unlearnable(data, parts._replace(notes=(*unused, *parts.notes)))
    return data, parts, column


def split_column(table: "Table", split: str | None, needed: str) -> tuple[str | None, tuple[str, ...]]:
    """The column that holds the split, if one does, and remarks on those that only look like it.

    It is the one named, or one called so in which train and the part ``needed`` stand. Rows that cannot be used do not
    count here: a word that is missing or wrong is refused later, where the row is one to learn from.
    """
    from dgn.graph.checks import check_option
    from dgn.molecules.split import PARTS, SPLIT_NAMES, WORDS

    if split in ("scaffold", "random"):
        return None, ()
    if split is not None:
        check_option("split", split, ("scaffold", "random", *table.columns))
        return split, ()
    unused = []
    for name in (name for name in table.columns if name.lower() in SPLIT_NAMES):
        place = table.place(name)
        words = {row.values[place].strip().lower() for row in table.rows() if not row.problem}
        if {PARTS[WORDS[word]] for word in words & WORDS.keys()} >= {"train", needed}:
            return name, ()
        unused.append(f"column {name} is not used for the split: it does not say both train and {needed}")
    return None, tuple(unused)


def say_data(console: Console, data: "TableData", parts: "Split", column: str | None) -> None:
    """What was read and guessed, and every remark on rows."""
    names = ", ".join(each.name for each in data.targets[:12]) + (", ..." if len(data.targets) > 12 else "")
    counts = [int((parts.part == number).sum()) for number in range(3)]
    how = f"by column {column}" if column else {"random": "at random"}.get(parts.how, f"by {parts.how}")
    lines = [
        f"SMILES: column {data.smiles}",
        f"{data.task}: {names}",
        *(
            f"  {each.name}: 1 is {each.classes[1]}"
            for each in data.targets
            if each.classes and each.classes != ("0", "1")
        ),
        f"{data.rows} rows, {len(data.molecules.smiles)} molecules to use; split {how}: "
        f"{counts[0]} train, {counts[1]} val, {counts[2]} test",
        *map(str, data.problems),
        *data.notes,
        *parts.notes,
        *(["errors while training are in standard deviations of the target"] if data.task == "regression" else []),
    ]
    for line in lines:
        say(console, line)


def say_model(console: Console, fitted: "Fitted", out: Path) -> None:
    """Scores on the molecules held out, and where everything is."""
    from dgn.molecules.model_card import interval_words, score_table, scored_words

    model = fitted.model
    others = sorted(path.name for path in out.iterdir() if path.is_file() and path.name != "README.md")
    print_table(console, score_table(model))
    words = [
        "" if fitted.prediction else scored_words(model),
        interval_words(model),
        f"in {out}: README.md (the model card), {', '.join(others)}",
    ]
    for line in (*filter(None, words), f"dgn predict {out} TABLE --out FILE uses it"):
        say(console, line)
