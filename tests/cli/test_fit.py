"""``dgn fit`` and ``dgn predict``: from a table to predictions; errors are one line."""

import csv
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("rdkit", reason="SMILES are read by RDKit, the extra molecules")

from dgn.molecules.descriptor_models import member_outputs
from dgn.molecules.model_io import load_model

QUICK = ("--ensemble-size", "1", "--epochs", "1", "--device", "cpu")


def write(path: str, rows: list[str], header: str = "smiles,y") -> str:
    Path(path).write_text("\n".join([header, *rows]) + "\n")
    return path


def chains(count: int = 24) -> list[str]:
    return [f"{'C' * (n + 1)}O,{n}" for n in range(count)]


def test_from_a_table_to_predictions(dgn: Any) -> None:
    table = write("mine.csv", [*chains(), "C((,5"])
    done = dgn("fit", table, *QUICK, "--no-descriptor-models")
    assert done.exit_code == 0, done.output
    for text in (
        "SMILES: column smiles", "regression: y", "split at random: 19 train, 2 val, 3 test",
        "1 row: RDKit cannot read the SMILES; left out (line 26)", "split by scaffold gives", "seed 0, epoch 1/1",
        "in mine-model: README.md",
    ):  # fmt: skip
        assert text in done.output
    assert not Path("mine-model/training").exists()
    predicted = dgn("predict", "mine-model", table, "--out", "out.csv", "--device", "cpu", "--quiet")
    assert predicted.exit_code == 0, predicted.output
    assert "25 rows in out.csv" in predicted.output
    assert "1 row without a prediction (line 26)" in predicted.output
    lines = Path("out.csv").read_text().splitlines()
    outside = "similarity,nearest_training_molecule,outside_training"
    assert lines[0] == f"smiles,y,y_prediction,y_spread,y_lower,y_upper,{outside},problem"
    assert lines[-1] == "C((,5,,,,,,,,RDKit cannot read it"
    assert all(line.split(",")[3] == "" for line in lines[1:])  # one member has no spread
    refused = dgn("fit", table, *QUICK)
    assert refused.exit_code == 1
    assert "which exists" in refused.output
    same = dgn("predict", "mine-model", table, "--out", table, "--device", "cpu")
    assert "expected another file than the table" in same.output


@pytest.mark.parametrize("freeze", [False, True])
def test_a_fit_starts_from_another_model(dgn: Any, freeze: bool) -> None:
    rows = [f"{'C' * (n + 1)}O,{n % 2}" for n in range(24)]
    assert dgn("fit", write("first.csv", rows), *QUICK).exit_code == 0
    frozen = ("--freeze",) if freeze else ()
    done = dgn("fit", write("second.csv", chains()), *QUICK, "--from", "first-model", *frozen)
    assert done.exit_code == 0, done.output
    first, second = (load_model(f"{name}-model", "cpu") for name in ("first", "second"))
    assert second.experiment.network.aggregators == first.experiment.network.aggregators  # those of classification
    assert second.experiment.network.readout == "sum-mean"  # that of regression
    one, other = (dict(model.network.state_dict()) for model in (first, second))
    assert torch.equal(one["structure.scale"], other["structure.scale"])
    assert torch.equal(one["node_encoder.weight"], other["node_encoder.weight"]) == freeze
    assert ("frozen" if freeze else "fine-tuned") in Path("second-model/README.md").read_text()
    assert dgn("predict", "second-model", "first.csv", "--out", "out.csv", "-q", "--device", "cpu").exit_code == 0


def test_a_fit_from_another_model_refuses_what_does_not_fit(dgn: Any) -> None:
    table = write("mine.csv", chains())
    for options, message in (
        (("--from", "digits/dx-signed"), "training.from: expected x with columns 1, as in digits, got (119, "),
        (("--from", "nowhere"), "nowhere: expected the folder of a model"),
        (("--freeze",), "freeze: expected a network to start from"),
        (("--from", "digits/dx-signed", "--search", "2"), "search: expected 0 with --from"),
    ):
        refused = dgn("fit", table, *QUICK, *options)
        assert refused.exit_code == 1
        assert message in refused.output.replace("\n", "")


def test_impossible_molecules_are_refused_by_the_atom_or_kept_with_the_problem(dgn: Any) -> None:
    table = write("mine.csv", [*chains(), "CF(F)F,3", "CC(C)(C)(C)C,4"])
    done = dgn("fit", table, *QUICK)
    assert "1 row: impossible valence of fluorine; left out (line 26)" in done.output
    assert "1 row: impossible valence of carbon; left out (line 27)" in done.output
    lenient = dgn("fit", table, *QUICK, "--valence", "keep", "--out", "kept")
    assert "26 rows, 26 molecules used" in lenient.output
    assert "1 row: impossible valence of fluorine; kept (line 26)" in lenient.output
    reason = "impossible valence of fluorine (atom 2 has 3 bonds)"
    for option, is_predicted in (("refuse", False), ("keep", True)):
        arguments = ("--out", "out.csv", "--device", "cpu", "--quiet", "--valence", option)
        assert dgn("predict", "mine-model", table, *arguments).exit_code == 0
        cells = Path("out.csv").read_text().splitlines()[25].split(",")
        assert cells[-1] == reason
        assert bool(cells[2]) == is_predicted
    assert "expected one of 'refuse', 'keep', got 'drop'" in dgn("fit", table, "--valence", "drop").output


def test_labels_with_gaps_and_a_column_for_the_split(dgn: Any) -> None:
    rows = [
        f"{'C' * (n + 1)}O,{['no', 'yes'][n % 2]},{'' if n % 5 == 0 else n % 3 // 2},{split}"
        for n, split in enumerate(["train"] * 16 + ["val"] * 4 + ["test"] * 4)
    ]
    done = dgn(
        "fit", write("tox.csv", rows, "smiles,a,b,split"), *QUICK, "--out", "m", "--target", "a", "--target", "b"
    )
    assert done.exit_code == 0, done.output
    assert "multi-label: a, b" in done.output
    assert "a: 1 is yes" in done.output
    assert "b: 1 is" not in done.output
    assert "split by column split: 16 train, 4 val, 4 test" in done.output
    assert "some target values missing; kept" in done.output
    assert Path("m/roc.png").exists()
    dgn("predict", "m", "tox.csv", "-o", "p.csv", "--device", "cpu", "-q")
    assert ",a_probability,a_spread,b_probability,b_spread,similarity," in Path("p.csv").read_text().splitlines()[0]


def test_a_column_without_a_test_split_is_not_used(dgn: Any) -> None:
    done = dgn("fit", write("t.csv", [f"{row},train" for row in chains()], "smiles,y,split"), *QUICK)
    assert done.exit_code == 0, done.output
    assert "split at random" in done.output
    assert "column split is not used for the split: it does not contain both train and test" in done.output


def test_unused_rows_do_not_invalidate_the_split_column(dgn: Any) -> None:
    rows = [f"{row},{'test' if n % 4 == 0 else 'train'}" for n, row in enumerate(chains())]
    done = dgn("fit", write("t.csv", [*rows, "CCO,3", "C((,,", "C((,1,tset"], "smiles,y,split"), *QUICK)
    assert "split by column split: 16 train, 2 val, 6 test" in done.output
    for word in ("", "tset"):
        failed = dgn("fit", write("u.csv", [*rows, f"CCF,1,{word}"], "smiles,y,split"), *QUICK)
        assert f"split: expected train, val or test in every row, got {word!r} in line 26" in failed.output


def test_a_target_without_training_values_is_not_predicted(dgn: Any) -> None:
    splits = ["train"] * 16 + ["val"] * 4 + ["test"] * 4
    rows = [f"{row},{n if n > 17 else ''},{splits[n]}" for n, row in enumerate(chains())]
    options = ("--target", "y", "--target", "z")
    done = dgn("fit", write("t.csv", rows, "smiles,y,z,split"), *QUICK, *options)
    assert "targets without a value in the training split, left out: z" in done.output
    dgn("predict", "t-model", "t.csv", "-o", "p.csv", "--device", "cpu", "-q")
    assert "z_prediction" not in Path("p.csv").read_text()


def test_a_fit_without_a_test_split(dgn: Any) -> None:
    done = dgn("fit", write("t.csv", chains()), *QUICK, "--test", "0", "--search", "1")
    assert done.exit_code == 0, done.output
    assert "trial 1 of 1: hidden 32" in done.output
    assert "21 train, 3 val, 0 test" in done.output
    assert "There is no test split." in done.output
    assert "There is no test split." in Path("t-model/README.md").read_text()


def test_from_a_workbook_to_a_workbook(dgn: Any) -> None:
    openpyxl = pytest.importorskip("openpyxl", reason="Excel files are read by openpyxl, the extra tables")
    workbook = openpyxl.Workbook()
    for row in [("smiles", "y"), *(row.split(",") for row in chains())]:
        workbook.active.append([row[0], row[1] if row[1] == "y" else float(row[1])])
    workbook.create_sheet("Notes")
    workbook.save("mine.xlsx")
    done = dgn("fit", "mine.xlsx", *QUICK)
    assert done.exit_code == 0, done.output
    assert "sheet Sheet is read, not Notes" in done.output
    predicted = dgn("predict", "mine-model", "mine.xlsx", "--out", "out.xlsx", "--device", "cpu", "-q")
    assert "sheet Sheet is read, not Notes" in predicted.output
    assert "24 rows in out.xlsx" in predicted.output
    header, *rows = openpyxl.load_workbook("out.xlsx").active.iter_rows(values_only=True)
    assert header[:3] == ("smiles", "y", "y_prediction")
    assert all(isinstance(row[2], float) for row in rows)


def test_pairs_of_molecules(dgn: Any) -> None:
    rows = [f"{'C' * (n + 1)}O,{['O', 'CCO'][n % 2]},{n}" for n in range(24)]
    table = write("t.csv", rows, "solute,solvent,y")
    done = dgn("fit", table, *QUICK, "--smiles", "solute", "--smiles", "solvent")
    assert done.exit_code == 0, done.output
    assert "SMILES: column solute, paired with column solvent" in done.output
    assert "regression: y" in done.output
    assert "smiles: [solute, solvent]" in Path("t-model/settings.yaml").read_text()
    predicted = dgn("predict", "t-model", table, "--out", "p.csv", "--device", "cpu", "-q")
    assert predicted.exit_code == 0, predicted.output
    other = write("u.csv", ["O,CCCO"], "b,a")
    named = dgn(
        "predict", "t-model", other, "--out", "q.csv", "--device", "cpu", "-q", "--smiles", "a", "--smiles", "b"
    )
    assert named.exit_code == 0, named.output
    row = next(line for line in Path("p.csv").read_text().splitlines() if line.startswith("CCCO,O,"))
    assert Path("q.csv").read_text().splitlines()[1].split(",")[2:7] == row.split(",")[3:8]
    again = dgn("fit", table, "--config", "t-model/settings.yaml", "--out", "again", "--device", "cpu")
    assert "paired with column solvent" in again.output
    three = dgn("fit", table, *[text for name in ("solute", "solvent", "y") for text in ("--smiles", name)])
    assert "smiles: expected one or two columns, got solute, solvent, y" in three.output


def test_several_classes(dgn: Any) -> None:
    rows = [f"{'C' * (n + 1)}O,{['low', 'high', 'mid'][n % 3]},{n % 3}" for n in range(30)]
    table = write("t.csv", rows, "smiles,level,number")
    done = dgn("fit", table, *QUICK, "--target", "level", "--class-weights", "balanced")
    assert done.exit_code == 0, done.output
    for text in ("multiclass: level", "level: high (10), low (10), mid (10)", "balanced-accuracy", "log loss"):
        assert text in done.output
    assert dgn("predict", "t-model", table, "--out", "p.csv", "--device", "cpu", "-q").exit_code == 0
    header = Path("p.csv").read_text().splitlines()[0]
    assert ",level_prediction,level_spread,level_probability_high,level_probability_low," in header
    refused = dgn("draw", "CCO", "--model", "t-model", "--out", "p.svg").output.replace("\n", "")
    assert "model: expected one of numbers or two classes, got one of high, low, mid; fit one to a column" in refused
    folds = dgn("fit", table, *QUICK, "--target", "number", "--task", "multiclass", "--folds", "3", "--out", "folds")
    assert folds.exit_code == 0, folds.output
    assert "number: 0 (10), 1 (10), 2 (10)" in folds.output
    assert "balanced accuracy" in Path("folds/README.md").read_text()


def test_the_splits_of_a_fit_without_a_test_split_are_read_back(dgn: Any) -> None:
    table = write("t.csv", chains())
    assert dgn("fit", table, *QUICK, "--test", "0", "--out", "first").exit_code == 0
    options = (*QUICK, "--splits", "first/splits.csv", "--out", "second")
    refused = dgn("fit", table, *options).output.replace("\n", "")
    assert "expected first/splits.csv to fill every split, got no molecule for test; correct it, or fit" in refused
    done = dgn("fit", table, *options, "--test", "0")
    assert done.exit_code == 0, done.output
    assert "split by first/splits.csv: 21 train, 3 val, 0 test" in done.output


def test_a_column_of_training_and_validation(dgn: Any) -> None:
    rows = [f"{row},{'val' if n % 4 == 0 else 'train'}" for n, row in enumerate(chains())]
    done = dgn("fit", write("t.csv", rows, "smiles,y,split"), *QUICK, "--test", "0")
    assert "split by column split: 18 train, 6 val, 0 test" in done.output
    rows[3] = rows[3].replace("train", "test")
    failed = dgn("fit", write("u.csv", rows, "smiles,y,split"), *QUICK, "--test", "0")
    assert "test: expected no fraction, as the column defines" in failed.output


@pytest.mark.parametrize(
    ("rows", "header", "options", "message"),
    [
        ([], "smiles,y", (), "got only a header"),
        (["a,1"] * 12, "name,y", (), "expected a column of SMILES"),
        ([f"{'C' * (n + 1)},1" for n in range(12)], "smiles,y", (), "expected at least two distinct values, got 1"),
        (chains(), "smiles,y", ("--target", "z"), "--target: expected one of 'y', got 'z'"),
        (chains(), "smiles,y", ("--split", "scafold"), "did you mean 'scaffold'"),
        (chains(), "smiles,y", ("--split", "scaffold"), "got no molecule for train; use random"),
        (chains(5), "smiles,y", (), "expected at least 10 molecules"),
        (chains(), "smiles,y", ("--test", "0.9"), "test: expected a fraction from 0 to 0.8, got 0.9"),
        (chains(), "smiles,y", ("--task", "binary"), "expected two classes, got 24"),
    ],
)
def test_errors_are_one_line(dgn: Any, rows: list[str], header: str, options: tuple[str, ...], message: str) -> None:
    failed = dgn("fit", write("t.csv", rows, header), *QUICK, *options)
    assert failed.exit_code == 1
    assert message in failed.output
    assert failed.output.count("\n") == 1
    assert not Path("t-model").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("predict", "--out", "o.xls"), "ends in .csv, .csv.gz or .xlsx, got 'o.xls'"),
        (("predict", "--out", "folder.csv"), "folder.csv: expected a file to write, got a folder"),
        (("predict", "--out", "file/o.csv"), "expected a folder that can be written to, got"),
        (("predict", "--out", "o.csv", "--interval", "90"), "expected a level between 0 and 1, got 90.0"),
        (("predict", "--out", "o.csv", "--device", "gpu"), "expected auto, cpu, cuda or cuda:0, got 'gpu'; cuda is"),
        (("fit", "--device", "gpu"), "expected auto, cpu, cuda or cuda:0, got 'gpu'; cuda is"),
        (("fit", "--task", "regresion"), "did you mean 'regression'"),
        (("fit", "--test", "0.9"), "expected a fraction from 0 to 0.8, got 0.9"),
    ],
)
def test_options_are_checked_before_anything_is_read(dgn: Any, options: tuple[str, ...], message: str) -> None:
    Path("folder.csv").mkdir()
    Path("file").touch()
    command, *rest = options
    failed = dgn(command, *(["no-model"] if command == "predict" else []), "no-table.csv", *rest)
    assert failed.exit_code == 1
    assert message in failed.output
    assert sorted(path.name for path in Path().iterdir()) == ["file", "folder.csv"]


def test_the_column_is_checked_before_the_model_is_loaded(dgn: Any) -> None:
    failed = dgn("predict", "no-model", write("t.csv", chains()), "--out", "o.csv", "--smiles", "smile")
    assert "did you mean 'smiles'" in failed.output


def test_an_empty_file_and_no_file(dgn: Any) -> None:
    Path("empty.csv").touch()
    assert "is the file empty?" in dgn("fit", "empty.csv").output
    assert "found no file" in dgn("fit", "none.csv").output
    assert "'dgn fit' write one" in dgn("predict", "none", write("t.csv", chains()), "--out", "o.csv").output


def test_without_rdkit_the_error_names_the_extra(dgn: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    table = write("t.csv", chains())
    monkeypatch.setitem(sys.modules, "rdkit", None)
    failed = dgn("fit", table)
    assert failed.exit_code == 1
    assert "pip install 'dgn[molecules]'" in failed.output


def test_an_interrupted_fit_resumes(dgn: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from dgn.cli.display import Display

    table, update = write("t.csv", chains()), Display.update

    def stop(self: Display, report: Any) -> None:
        update(self, report)
        raise KeyboardInterrupt

    monkeypatch.setattr(Display, "update", stop)
    stopped = dgn("fit", table, *QUICK, "--epochs", "3")
    assert stopped.exit_code == 130
    assert "the same command resumes from it" in stopped.output
    monkeypatch.setattr(Display, "update", update)
    other = dgn("fit", write("t.csv", chains(30)), *QUICK, "--epochs", "3")
    assert "differs in data.dataset" in other.output
    resumed = dgn("fit", write("t.csv", chains()), *QUICK, "--epochs", "3")
    assert resumed.exit_code == 0, resumed.output
    assert "seed 0: restarts" in resumed.output


def test_a_fit_whose_folder_cannot_be_written_resumes(dgn: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from dgn.molecules import folder

    def fail(*_: Any) -> str:
        raise OSError("no space left")

    table, write_card = write("t.csv", [*chains(), "C((,5"], "smiles,price_$_per_$"), folder.write_card
    monkeypatch.setattr(folder, "write_card", fail)
    assert "no space left" in dgn("fit", table, *QUICK).output
    assert sorted(path.name for path in Path("t-model").iterdir()) == [
        "parity.png",
        "rows.csv",
        "settings.yaml",
        "splits.csv",
        "training",
    ]
    monkeypatch.setattr(folder, "write_card", write_card)
    again = dgn("fit", table, *QUICK)
    assert again.exit_code == 0, again.output
    assert "seed 0: already trained (1 epoch)" in again.output
    assert not Path("t-model/training").exists()


def read_csv(path: str) -> list[dict[str, str]]:
    with Path(path).open(newline="") as file:
        return list(csv.DictReader(file))


def test_the_splits_and_test_predictions_are_kept_and_read_back(dgn: Any) -> None:
    rows = chains()
    first = dgn("fit", write("mine.csv", [*rows, "C((,5"]), *QUICK)
    assert first.exit_code == 0, first.output
    records = read_csv("mine-model/splits.csv")
    assert [(row["line"], row["smiles"]) for row in records] == [(str(n + 2), f"{'C' * (n + 1)}O") for n in range(24)]
    assert [bool(row["y_prediction"]) for row in records] == [row["split"] == "test" for row in records]
    predicted = dgn("predict", "mine-model", "mine.csv", "-o", "out.csv", "-q", "--device", "cpu")
    assert predicted.exit_code == 0
    by_smiles = {row["smiles"]: row["y_prediction"] for row in read_csv("out.csv")}
    assert all(float(row["y_prediction"]) == pytest.approx(float(by_smiles[row["smiles"]]), rel=1e-4)
               for row in records if row["split"] == "test")  # fmt: skip
    respelled = [f"O{smiles[:-1]},{y}" for smiles, y in (row.split(",") for row in reversed(rows))]
    again = dgn("fit", write("other.csv", respelled), *QUICK, "--seed", "7", "--splits", "mine-model/splits.csv")
    assert again.exit_code == 0, again.output
    assert "split by mine-model/splits.csv: 19 train, 2 val, 3 test" in again.output
    splits = [{row["y"]: row["split"] for row in read_csv(f"{name}-model/splits.csv")} for name in ("mine", "other")]
    assert splits[0] == splits[1]
    more = dgn("fit", write("more.csv", [*rows, "CCF,3"]), *QUICK, "--splits", "mine-model/splits.csv")
    assert "expected one split for each molecule, got none for CCF (line 26 of the table)" in more.output
    both = dgn("fit", "more.csv", *QUICK, "--splits", "mine-model/splits.csv", "--split", "random")
    assert "splits: expected no --split and --test beside it" in both.output


def test_a_target_called_like_a_column_of_the_splits_overwrites_nothing(dgn: Any) -> None:
    done = dgn("fit", write("mine.csv", chains(), "smiles,line"), *QUICK)
    assert done.exit_code == 0, done.output
    records = read_csv("mine-model/splits.csv")
    assert [row["line"] for row in records] == [str(n + 2) for n in range(24)]
    assert [row["line_measured"] for row in records] == [str(n) for n in range(24)]


def test_cross_validation_tests_every_molecule_once_and_resumes(dgn: Any) -> None:
    table = write("mine.csv", chains(30))
    done = dgn("fit", table, *QUICK, "--folds", "3", "--split", "random", "--out", "cv")
    assert done.exit_code == 0, done.output
    assert "3-fold cross-validation of mine.csv: mean and standard deviation of the test scores" in done.output
    assert " ± " in Path("cv/README.md").read_text()
    tested = [
        row["line"] for fold in (1, 2, 3) for row in read_csv(f"cv/fold-{fold}/splits.csv") if row["split"] == "test"
    ]
    assert sorted(tested, key=int) == [str(line) for line in range(2, 32)]
    scores = read_csv("cv/scores.csv")
    assert [row["fit"] for row in scores] == ["1", "2", "3"]
    assert all(float(row["mae"]) > 0 for row in scores)
    assert "which exists" in dgn("fit", table, *QUICK, "--folds", "3", "--split", "random", "--out", "cv").output
    Path("cv/README.md").unlink()
    shutil.rmtree("cv/fold-2")
    again = dgn("fit", table, *QUICK, "--folds", "3", "--split", "random", "--out", "cv")
    assert again.exit_code == 0, again.output
    assert again.output.count("already fitted") == 2
    assert read_csv("cv/scores.csv") == scores
    Path("cv/README.md").unlink()
    assert "got others" in dgn("fit", table, *QUICK, "--folds", "4", "--split", "random", "--out", "cv").output


def test_replicates_have_splits_of_their_own(dgn: Any) -> None:
    done = dgn("fit", write("mine.csv", chains()), *QUICK, "--replicates", "2")
    assert done.exit_code == 0, done.output
    one, other = (read_csv(f"mine-model/replicate-{index}/splits.csv") for index in (1, 2))
    assert [row["split"] for row in one] != [row["split"] for row in other]
    assert "2 replicates of mine.csv" in done.output
    for options, message in (
        (("--folds", "1"), "folds: expected two or more"),
        (("--folds", "3", "--test", "0.2"), "folds: expected no --splits and --test"),
        (("--folds", "3", "--replicates", "2"), "folds: expected no --replicates beside it"),
    ):
        assert message in dgn("fit", "mine.csv", *QUICK, *options, "--out", "x").output


def test_replicates_do_not_resume_with_other_splits_or_another_network(dgn: Any) -> None:
    table = write("mine.csv", chains())
    assert dgn("fit", table, *QUICK, "--out", "first").exit_code == 0
    options = (*QUICK, "--replicates", "2", "--splits", "first/splits.csv", "--from", "first", "--out", "many")
    assert dgn("fit", table, *options).exit_code == 0
    Path("many/README.md").unlink()
    splits, model = Path("first/splits.csv"), Path("first/model.json")
    for path, other in (
        (splits, splits.read_text().replace("train", "held").replace("test", "train").replace("held", "test")),
        (model, model.read_text().replace("{", "{ ", 1)),
    ):
        text = path.read_text()
        path.write_text(other)
        assert "expected the settings and the files of" in dgn("fit", table, *options).output
        path.write_text(text)
    assert dgn("fit", table, *options).output.count("already fitted") == 2


def test_logarithms_are_learned_and_predictions_are_in_the_unit(dgn: Any) -> None:
    rows = [f"{'C' * (n + 1)}O,{10 ** (n / 4):.6g}" for n in range(30)]
    plain = dgn("fit", write("ki.csv", rows, "smiles,Ki"), *QUICK, "--out", "plain")
    assert "positive values that span 3 decades or more: Ki; --log learns their logarithm" in plain.output
    done = dgn("fit", write("zero.csv", [*rows, "CCF,0"], "smiles,Ki"), *QUICK, "--log", "--out", "m")
    assert done.exit_code == 0, done.output
    assert "1 row: no positive value; left out (line 32)" in done.output
    assert "log10 Ki" in done.output
    assert "span 3 decades" not in done.output
    dgn("predict", "m", "ki.csv", "-o", "out.csv", "-q", "--device", "cpu", "--interval", "0.3")
    for row in read_csv("out.csv"):
        assert 0 < float(row["Ki_lower"]) < float(row["Ki_prediction"]) < float(row["Ki_upper"])
    model = load_model("m", "cpu")
    outputs = member_outputs(model.ensemble, model.ensemble.pack(["CCCO"]), model.descriptor_models).double()
    assert len(outputs) == 3  # a network, the forest and the regression
    assert model.descriptor_models is not None
    learned = model.descriptor_models.shares[:, 0] * (outputs * model.scale + model.center).flatten()
    expected = 10 ** learned.sum().item()
    assert model.predict(["CCCO"]).mean.item() == pytest.approx(expected)
    refused = dgn("fit", write("c.csv", [f"{'C' * (n + 1)},{n % 2}" for n in range(20)]), *QUICK, "--log")
    assert "log: expected numbers to take the logarithm of, got binary" in refused.output


def test_features_are_read_beside_the_graph(dgn: Any) -> None:
    """A target that only the column decides; the column is in other units at prediction time if it is scaled twice."""
    rows = [f"{'C' * (n % 7 + 1)}O,{300 + 10 * (n % 5)},{n % 5}" for n in range(70)]
    table = write("t.csv", [*rows, "CCO,1e40,3", "CCO,hot,3"], "smiles,kelvin,y")
    options = ("--ensemble-size", "2", "--epochs", "60", "--device", "cpu", "--split", "random", "--features", "kelvin")
    done = dgn("fit", table, *options)
    assert done.exit_code == 0, done.output
    assert "regression: y" in done.output
    assert "2 rows: no number in a column of --features; left out (lines 72, 73)" in done.output
    for workers in ("0", "1"):
        arguments = ("-o", f"{workers}.csv", "-q", "--device", "cpu", "--workers", workers)
        assert dgn("predict", "t-model", table, *arguments).exit_code == 0
    assert Path("0.csv").read_bytes() == Path("1.csv").read_bytes()
    predicted = read_csv("0.csv")
    assert [row["problem"] for row in predicted[-2:]] == ["no number in kelvin"] * 2
    cold, hot = ([float(row["y_prediction"]) for row in predicted[:70] if row["kelvin"] == k] for k in ("300", "340"))
    assert max(cold) + 1 < min(hot)
    without = dgn(
        "predict", "t-model", write("u.csv", ["CCO,1"], "smiles,x"), "-o", "u-out.csv", "-q", "--device", "cpu"
    )
    assert "expected the column 'kelvin', which the model reads beside the graph, got smiles, x" in without.output
    assert "They also read the numbers in kelvin" in Path("t-model/README.md").read_text()
    drawn = dgn("draw", "CCO", "--model", "t-model", "--out", "why.svg")
    assert "got one that also reads kelvin, which a SMILES does not give; fit one without" in drawn.output
    start = ("--epochs", "1", "--from", "t-model", "--out", "second")
    other = dgn("fit", table, *options[:-2], *start, "--target", "y")
    assert other.exit_code == 0, other.output  # features enter the head, which is not copied
    assert load_model("second", "cpu").features == ()
    with pytest.raises(ValueError, match="graph_attr: expected numbers in 1 columns, as in table, got nothing"):
        load_model("t-model", "cpu").predict(["CCO"])


def test_descriptors_are_computed_in_fit_and_predict(dgn: Any) -> None:
    """Beside a column of numbers, from any spelling, in workers too."""
    rows = [f"{'C' * (n % 7 + 1)}{'NO'[n % 2]},{n % 5},{n % 7 + n % 5}" for n in range(70)]
    table = write("t.csv", rows, "smiles,kelvin,y")
    options = ("--ensemble-size", "1", "--epochs", "3", "--device", "cpu", "--split", "random", "--features", "kelvin")
    done = dgn("fit", table, *options, "--descriptors", "rdkit+morgan")
    assert done.exit_code == 0, done.output
    assert (
        "networks read RDKit's descriptors and Morgan fingerprints. They also read"
        in Path("t-model/README.md").read_text()
    )
    other = write("u.csv", ["CCCO,2", "OCCC,2", "OCCC,3", "C((,2", "[Na+].[Cl-],2"], "smiles,kelvin")
    for workers in ("0", "1"):
        assert dgn("predict", "t-model", other, "-o", f"{workers}.csv", "-q", "--workers", workers).exit_code == 0
    assert Path("0.csv").read_bytes() == Path("1.csv").read_bytes()
    first, second, third, bad, _ = (row["y_prediction"] for row in read_csv("0.csv"))
    assert first == second
    assert first != third
    assert bad == ""
    refused = dgn("fit", table, *options, "--descriptors", "rdki", "--out", "other")
    assert "descriptors: expected one of 'rdkit', 'morgan', got 'rdki'" in refused.output
    start = ("--epochs", "1", "--from", "t-model", "--freeze", "--out", "second", "--descriptors", "morgan")
    assert dgn("fit", table, *options[:4], "--device", "cpu", *start, "--target", "y").exit_code == 0
    assert load_model("second", "cpu").predict(["CCO"]).mean.isfinite().all()
    drawn = dgn("draw", "CCO", "--model", "second", "--out", "why.svg")
    assert drawn.exit_code == 0, drawn.output
