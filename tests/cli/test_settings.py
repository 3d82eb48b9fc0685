"""Options of ``dgn fit`` from a file: the command line wins, unknown keys are refused, a folder repeats its fit."""

from pathlib import Path
from typing import Any

import pytest
import yaml

pytest.importorskip("rdkit", reason="SMILES are read by RDKit, the extra molecules")

from dgn.molecules.model_io import load_model
from tests.cli.test_fit import chains, write

QUICK = "ensemble-size: 1\nepochs: 1\ndevice: cpu\n"


def settings(text: str, path: str = "settings.yaml") -> str:
    Path(path).parent.mkdir(exist_ok=True)
    Path(path).write_text(text)
    return path


def test_options_are_read_from_a_file_and_those_of_the_command_line_win(dgn: Any) -> None:
    table = write("t.csv", [f"{row},{n * n}" for n, row in enumerate(chains())], "smiles,y,no")
    file = settings(f"{QUICK}target: [y, no]\nseed: 3\ntest: 0\nvalence:\nsplit: random\n")
    done = dgn("fit", table, "--config", file, "--seed", "4", "--out", "m")
    assert done.exit_code == 0, done.output
    for text in ("regression: y, no", "seed 4, epoch 1/1", "split at random: 21 train, 3 val, 0 test"):
        assert text in done.output
    assert dgn("fit", table, "--config", file, "--target", "no", "--out", "n").exit_code == 0
    assert [target.name for target in load_model("n", "cpu").targets] == ["no"]


def test_the_settings_of_a_folder_repeat_its_fit(dgn: Any) -> None:
    table = write("t.csv", [f"{row},{n / 7}" for n, row in enumerate(chains())], "smiles,y,pH")
    options = ("--ensemble-size", "2", "--epochs", "1", "--device", "cpu", "--seed", "5", "--features", "pH")
    assert dgn("fit", table, *options, "--target", "y", "--out", "first").exit_code == 0
    written = yaml.safe_load(Path("first/settings.yaml").read_text())
    assert written["ensemble-size"] == 2
    assert written["features"] == ["pH"]
    assert not {"out", "device", "config", "table"} & set(written)
    again = dgn("fit", table, "--config", "first/settings.yaml", "--out", "second", "--device", "cpu")
    assert again.exit_code == 0, again.output
    one, other = (load_model(name, "cpu").network.state_dict() for name in ("first", "second"))
    assert all(one[name].equal(other[name]) for name in one)
    assert Path("first/splits.csv").read_text() == Path("second/splits.csv").read_text()
    assert Path("first/settings.yaml").read_text() == Path("second/settings.yaml").read_text()


def test_flags_paths_and_several_fits(dgn: Any) -> None:
    table = write("t.csv", [f"{'C' * (n + 1)}O,{10.0**n}" for n in range(24)])
    assert dgn("fit", table, "--config", settings(f"{QUICK}log: true\n"), "--out", "sub").exit_code == 0
    assert load_model("sub", "cpu").targets[0].log
    file = settings(f"{QUICK}log: yes\nsplits: splits.csv\nfrom: .\n", "sub/mine.yaml")  # beside the file
    done = dgn("fit", table, "--config", file, "--out", "m")
    assert done.exit_code == 0, done.output
    written = yaml.safe_load(Path("m/settings.yaml").read_text())
    assert written["splits"] == str(Path("sub/splits.csv").resolve())
    assert written["from"] == str(Path("sub").resolve())
    many = dgn("fit", table, "--config", settings(f"{QUICK}replicates: 2\nsplit: random\n"), "--out", "many")
    assert many.exit_code == 0, many.output
    assert yaml.safe_load(Path("many/settings.yaml").read_text())["replicates"] == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ensemble_sise: 2\n", "settings.yaml: option: expected one of"),
        ("ensemble_sise: 2\n", "did you mean 'ensemble-size'?"),
        ("config: other.yaml\n", "option: expected one of"),
        ("epochs: [1, 2]\n", "settings.yaml: expected one value for epochs, got ['1', '2']"),
        ("epochs: 1\nepochs: 2\n", "key 'epochs': expected once"),
        ("epochs\n", "expected options such as 'epochs: 20', got 'epochs'"),
        ("a: [\n", "settings.yaml: expected YAML"),
    ],
)
def test_wrong_settings_are_refused(dgn: Any, text: str, message: str) -> None:
    refused = dgn("fit", write("t.csv", chains()), "--config", settings(text))
    assert refused.exit_code == 1
    assert message in refused.output.replace("\n", "")


def test_wrong_values_are_those_of_the_command_line(dgn: Any) -> None:
    refused = dgn("fit", write("t.csv", chains()), "--config", settings("epochs: 0\n"))
    assert refused.exit_code == 2
    assert "epochs" in refused.output
    missing = dgn("fit", "t.csv", "--config", "nowhere.yaml")
    assert "nowhere.yaml: expected a YAML file of options, found none" in missing.output.replace("\n", "")
