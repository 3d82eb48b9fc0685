"""The comparison of benchmarks/molecules/comparison.py: cells that resume, and a table made of them alone."""

import gzip
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("rdkit", reason="SMILES are read by RDKit, the extra molecules")
ROOT = Path(__file__).parents[1]
DATA = ROOT.parent / "shared" / "data" / "moleculenet"


@pytest.fixture
def comparison(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(ROOT)  # where modules of the benchmarks run
    return pytest.importorskip(
        "benchmarks.molecules.comparison", reason="the benchmarks are not part of this installation"
    )


def write_cell(root: Path, table: str, seed: int, model: str, score: float, metric: str) -> None:
    folder = root / f"{table}-{seed}"
    folder.mkdir(parents=True, exist_ok=True)
    report = {"model": model, "seed": seed, "processor": 10.0, "scores": {"test": {metric: score}}}
    (folder / f"{model}-{seed}.json").write_text(json.dumps(report))


def test_the_table_is_made_of_the_cells(comparison: Any, tmp_path: Path) -> None:
    for seed in (0, 1):
        write_cell(tmp_path, "delaney", seed, "forest", 1.0 + seed, "rmse")
        write_cell(tmp_path, "delaney", seed, "dgn-rdkit", 0.5 + seed, "rmse")
        write_cell(tmp_path, "sider", seed, "forest", 0.7, "roc-auc")
        write_cell(tmp_path, "sider", seed, "dgn-rdkit", 0.6, "roc-auc")
    write_cell(tmp_path, "bace", 0, "forest", 0.9, "roc-auc")
    write_cell(tmp_path, "sider", 2, "forest", 0.1, "roc-auc")  # a split that the other model lacks
    write_cell(tmp_path, "sider", 0, "chemprop", 0.1, "roc-auc")
    models = ["forest", "dgn-rdkit"]
    lines = comparison.to_markdown(comparison.read_results(tmp_path, models, [0, 1, 2])).splitlines()
    assert lines[0] == "| table | metric | forest | dgn-rdkit |"
    assert lines[2] == "| delaney | rmse | 1.500 ± 0.707 (2) | 1.000 ± 0.707 (2) |"
    assert lines[3] == "| bace | roc-auc | 0.900 (1) |  |"
    assert lines[4] == "| sider | roc-auc | 0.700 ± 0.000 (2) | 0.600 ± 0.000 (2) |"
    assert lines[5] == "| mean rank |  | 1.50 | 1.50 |"
    assert lines[6] == "| CPU seconds per cell |  | 10 | 10 |"
    first = comparison.to_markdown(comparison.read_results(tmp_path, models, [0])).splitlines()
    assert first[2] == "| delaney | rmse | 1.000 (1) | 0.500 (1) |"


def test_a_table_that_cannot_be_read_stops_no_other(
    comparison: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tables, molecules = tmp_path / "tables", ["C" * (1 + i % 20) + "O" * (i % 3) for i in range(40)]
    tables.mkdir()
    rows = [f"{smiles},{len(smiles)}.5" for smiles in dict.fromkeys(molecules)]
    for name, lines in {"freesolv": ["molecule,y", "water,a", "salt,b"], "delaney": ["smiles,y", *rows]}.items():
        (tables / f"{name}.csv.gz").write_bytes(gzip.compress("\n".join(lines).encode()))
    options = ["--tables", str(tables), "--only", "freesolv,delaney", "--seeds", "0", "--models", "forest"]
    monkeypatch.setattr(sys, "argv", ["comparison.py", str(tmp_path / "out"), *options, "--split", "random"])
    with pytest.raises(SystemExit, match="1 cells failed"):
        comparison.main()
    output = capsys.readouterr().out
    assert "freesolv 0 forest" in output
    assert "smiles: expected a column of SMILES" in output.partition("delaney")[0]
    assert "delaney 0 forest done" in output


@pytest.mark.slow
@pytest.mark.skipif(not DATA.exists(), reason="the tables of MoleculeNet are not in this repository")
def test_a_tiny_comparison_resumes(
    comparison: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--tables", str(DATA), "--only", "delaney", "--seeds", "0", "--rows", "60", "--members", "2"]
    options += ["--models", "dgn,dgn-morgan", "--epochs", "1", "--device", "cpu"]
    monkeypatch.setattr(sys, "argv", ["comparison.py", str(tmp_path), *options])
    for _ in range(2):
        with pytest.raises(SystemExit) as ended:
            comparison.main()
        assert not ended.value.code
    output = capsys.readouterr().out
    assert output.count("done") == 2
    assert "| dgn | dgn, networks alone | dgn, one network | dgn-morgan |" in output
    with np.load(tmp_path / "delaney-0" / "dgn-0.npz") as predictions:
        assert len(predictions["networks_test"]) == 2
        assert len(predictions["test"]) == 1  # with the forest
