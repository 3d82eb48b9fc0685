"""Predictions for a table: rows in order, columns kept, problems marked, values as in memory."""

import csv
import gzip
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from dgn.molecules import predict
from dgn.molecules.conformal import half_width
from dgn.molecules.fit import Fitted
from dgn.molecules.model_io import Prediction
from dgn.molecules.predict import PredictOptions, format_prediction, predict_smiles, predict_table
from dgn.molecules.table import open_table

SMILES = ["CCO", "C(", "c1ccccc1", "", "CCN", "[Na+].[Cl-]", "CCCCC"]


def write(path: Path) -> Path:
    path.write_text("code,structure,note\n" + "".join(f'00{n},{one},"a, b"\n' for n, one in enumerate(SMILES)))
    return path


def read(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_rows_stay_in_order_with_their_columns(
    fitted: tuple[Fitted, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(predict, "CHUNK", 3)
    counted: list[int] = []
    out = tmp_path / "deep" / "out.csv"
    done = predict_table(
        fitted[0].model, open_table(write(tmp_path / "t.csv")), out, PredictOptions(interval=0.5), counted.append
    )
    rows = read(out)
    assert [(row["code"], row["structure"], row["note"]) for row in rows] == [
        (f"00{n}", one, "a, b") for n, one in enumerate(SMILES)
    ]
    assert [bool(row["problem"]) for row in rows] == [False, True, False, True, False, False, False]
    assert [row["y_prediction"] == "" for row in rows] == [bool(row["problem"]) for row in rows]
    assert (done.rows, done.unreadable, done.lines) == (7, 2, (3, 5))
    assert counted == [3, 3, 1]
    in_memory = predict_smiles(fitted[0].model, SMILES)[0].mean[:, 0].tolist()
    for row, value in zip(rows, in_memory, strict=True):
        if not row["problem"]:
            assert float(row["y_prediction"]) == pytest.approx(value, rel=1e-4)
            assert float(row["y_lower"]) < float(row["y_prediction"]) < float(row["y_upper"])
            assert float(row["y_spread"]) > 0
    assert sorted(path.name for path in out.parent.iterdir()) == ["out.csv"]


def test_workers_write_bitwise_identical_predictions(fitted: tuple[Fitted, Path], tmp_path: Path) -> None:
    table, model = open_table(write(tmp_path / "t.csv")), fitted[0].model
    for workers in (0, 1):
        predict_table(model, table, tmp_path / f"{workers}.csv", PredictOptions(workers=workers))
    assert (tmp_path / "0.csv").read_bytes() == (tmp_path / "1.csv").read_bytes()


def test_prediction_does_not_load_lightning() -> None:
    code = "import sys, dgn.molecules.predict, dgn.molecules.model_io; print('lightning' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "False"


def test_infinite_intervals_are_left_empty(fitted: tuple[Fitted, Path], tmp_path: Path) -> None:
    predict_table(fitted[0].model, open_table(write(tmp_path / "t.csv")), tmp_path / "out.csv")
    assert {row["y_upper"] for row in read(tmp_path / "out.csv")} == {""}


def test_malformed_rows_keep_their_values_and_have_no_prediction(fitted: tuple[Fitted, Path], tmp_path: Path) -> None:
    path, out = tmp_path / "t.csv", tmp_path / "out.csv"
    path.write_text('id,smiles,note\n1,CCO,a\n2,CCN,b,more,values\n3,CCC\n4,CCF,"c\n5,CC,d\n')
    done = predict_table(fitted[0].model, open_table(path), out)
    rows = read(out)
    assert [row["note"] for row in rows] == ["a", "b,more,values", "", "c", "d"]
    assert [row["problem"] for row in rows] == [
        "", "expected 3 values, got 5", "expected 3 values, got 2", "a quote that is not closed", "",
    ]  # fmt: skip
    assert [row["y_prediction"] == "" for row in rows] == [False, True, True, True, False]
    assert (done.rows, done.unreadable, done.lines) == (5, 3, (3, 4, 5))


def test_numbers_have_the_digits_that_their_scale_needs(fitted: tuple[Fitted, Path]) -> None:
    model = replace(fitted[0].model, scale=torch.tensor([0.01]))
    prediction = Prediction(*(torch.tensor([[value]]).double() for value in (-76123.4, 1e-3, 2e-3)))
    half = half_width(model.scores, 0.5, prediction.difficulty).item()
    mean, spread, lower, upper = map(float, format_prediction(model, prediction, 0.5)[0])
    assert lower < mean < upper
    assert (upper - lower) / 2 == pytest.approx(half, abs=1e-7)
    assert spread == pytest.approx(1e-3)


def test_packed_output_and_other_bytes(fitted: tuple[Fitted, Path], tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(b"smiles,name\nCO,caf\xe9\n")
    predict_table(fitted[0].model, open_table(path), tmp_path / "out.csv.gz")
    assert gzip.decompress((tmp_path / "out.csv.gz").read_bytes()).splitlines()[1].startswith(b"CO,caf\xe9,")


@pytest.mark.parametrize(
    ("header", "out", "options", "message"),
    [
        ("smiles,y_prediction", "o.csv", {}, "expected no column called 'y_prediction'"),
        ("smiles,y", "o.xls", {}, "ends in .csv, .csv.gz or .xlsx"),
        ("smiles,y", "o.csv", {"smiles": "smile"}, "did you mean 'smiles'"),
        ("smiles,y", "o.csv", {"interval": 2.0}, "between 0 and 1"),
    ],
)
def test_wrong_options_are_refused_and_write_nothing(
    fitted: tuple[Fitted, Path], tmp_path: Path, header: str, out: str, options: dict[str, Any], message: str
) -> None:
    (tmp_path / "t.csv").write_text(f"{header}\nCO,1\n")
    with pytest.raises(ValueError, match=message):
        predict_table(fitted[0].model, open_table(tmp_path / "t.csv"), tmp_path / "o" / out, PredictOptions(**options))
    assert not list(tmp_path.glob("o/*"))
