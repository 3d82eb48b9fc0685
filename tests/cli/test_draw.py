"""``dgn draw`` as it is called."""

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import Result

from dgn.data import PackedGraphs, add_directions
from dgn.data.datasets.smiles import CENTRES, pack_smiles
from dgn.molecules.columns import Target
from dgn.molecules.domain import Domain
from dgn.molecules.explain import MOST, explain
from dgn.molecules.model_io import Model
from dgn.nn import ATOM_SIZES, BOND_SIZES
from dgn.training.build import Inputs, build_for_inputs
from dgn.training.config import DataSettings, NetworkSettings
from dgn.training.experiment import Experiment
from dgn.training.model import TrainedModel
from dgn.training.signature import Signature

pytest.importorskip("rdkit", reason="RDKit is optional")


def test_a_picture_and_a_page_are_written(dgn: Callable[..., Result]) -> None:
    result = dgn("draw", "CCO", "--out", "a.svg", "--html", "a.html", "-k", "2", "--normalization", "rw")
    assert result.exit_code == 0, result.output
    assert result.output == "wrote a.svg and a.html\n"
    assert Path("a.svg").exists()
    assert Path("a.html").exists()


def test_a_page_takes_many_molecules(dgn: Callable[..., Result]) -> None:
    assert dgn("draw", "CCO", "c1ccccc1", "--html", "two.html").exit_code == 0
    assert "c1ccccc1" in Path("two.html").read_text()


def test_brackets_in_a_file_name_are_printed(dgn: Callable[..., Result]) -> None:
    result = dgn("draw", "c1cc[nH]c1", "--html", "c1cc[nH]c1.html")
    assert result.output == "wrote c1cc[nH]c1.html\n"


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["C1CC", "--out", "a.png"], "smiles: expected a molecule that RDKit can read, got 'C1CC'"),
        (["CC", "--out", "a.jpg"], "a.jpg: expected a picture called .svg or .png, got .jpg"),
        (["CC", "--html", "a.txt"], "a.txt: expected a page called .html, got .txt"),
        (["CC", "--out", "a.svg", "--html", "a.txt"], "a.txt: expected a page called .html, got .txt"),
        (["C" * 301, "--out", "a.svg", "--html", "a.html"], "expected at most 300 nodes on a page, got 301"),
        (["CC"], "out: expected --out picture.svg, --html page.html or both, got neither"),
        (["CC", "--html", "a.txt", "--model", "m"], "a.txt: expected a file called .html, got .txt"),
        (["CC", "--out", "a.svg", "--model", "m", "--graph", "1"], "graph: expected an index only with a file of many"),
        (["CC", "--table", "a.csv"], "table: expected --model, whose prediction it names"),
        (["CC", "--out", "a.svg", "--target", "y"], "target: expected --model, whose prediction it names"),
        (["CC", "--out", "a.svg", "--model", "m"], "m: expected the folder of a model"),
        (["CC", "CO", "--out", "a.svg"], "out: expected one graph for a picture, got 2"),
    ],
)
def test_errors_are_one_line(dgn: Callable[..., Result], args: list[str], message: str) -> None:
    result = dgn("draw", *args)
    assert result.exit_code == 1
    assert message in result.output
    assert result.output.count("\n") == 1
    assert not list(Path().iterdir())


def test_a_model_explains_only_molecules(dgn: Callable[..., Result]) -> None:
    ends = torch.tensor([[0, 1], [1, 0]])
    PackedGraphs.pack([(ends, 2)]).save("two.safetensors")
    result = dgn("draw", "two.safetensors", "--model", "m", "--out", "a.svg")
    assert "model: expected the SMILES of a molecule or a table beside it, got two.safetensors" in result.output


@pytest.mark.parametrize(("task", "name"), [("regression", "y"), ("multi-label", "log-odds of y")])
def test_attributions_are_in_units_of_the_target(
    dgn: Callable[..., Result], monkeypatch: pytest.MonkeyPatch, task: str, name: str
) -> None:
    settings = NetworkSettings(hidden=8, num_layers=2, aggregators=("mean", "dx1"), edge_dim=4, message="complex")
    experiment = Experiment(name="table", data=DataSettings(dataset="table"), network=settings)
    inputs = Inputs(ATOM_SIZES, BOND_SIZES, 2)
    torch.manual_seed(0)
    networks = [build_for_inputs(settings, inputs).eval() for _ in range(3)]
    ensemble = TrainedModel(experiment, Signature("table", task, "", inputs, 1, featurization=CENTRES), networks)
    training = ["CCO", "CCN", "c1ccccc1"]
    classes = None if task == "regression" else ("no", "yes")
    model = Model(
        task, (Target("x", classes), Target("y", classes)), "smiles", ensemble, center=torch.tensor([0.0, 5.0]),
        scale=torch.tensor([1.0, 10.0]), scores=torch.zeros(0, 2), floor=torch.ones(2),
        domain=Domain.of(pack_smiles(training, featurization=CENTRES), training),
    )  # fmt: skip
    monkeypatch.setattr("dgn.molecules.model_io.load_model", lambda *_: model)
    arguments = ("--model", "folder", "--target", "y", "--html", "why.html", "--table", "why.csv")
    result = dgn("draw", "CCO", "OCC", "C[Si]C", *arguments)
    assert result.exit_code == 0, result.output
    assert result.output == "wrote why.html and why.csv\n"
    first, second, _ = explanations = explain(model, ["CCO", "OCC", "C[Si]C"], "y")
    assert {each.unit for each in explanations} == {name}
    torch.testing.assert_close(first.attribution.nodes, second.attribution.nodes)  # the same molecule
    data = add_directions(pack_smiles(["CCO"], featurization=CENTRES), k=1)[0]
    output = torch.stack([network(data)[0, 1] for network in networks]).mean().item()
    shares = first.attribution
    assert shares.prediction == pytest.approx(5 + 10 * output if task == "regression" else output, abs=1e-4)
    assert abs(shares.rest) < 0.02 * float(shares.nodes.abs().sum() + shares.edges.abs().sum())
    with Path("why.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["kind"] for row in rows].count("atom") == 9
    assert sum(float(row["share"]) for row in rows[:5]) == pytest.approx(shares.prediction - shares.baseline, rel=0.05)
    assert {row["agreement"] for row in rows} <= {"1/3", "2/3", "3/3"}
    page = Path("why.html").read_text()
    assert page.count("<img") == 3
    assert f"{name} {shares.prediction:.3g} instead of {shares.baseline:.3g} with average atoms" in page
    assert "Nearest training molecule: CCO, similarity 1.00." in page
    assert "Training did not have: element Si" in page
    missing = dgn("draw", "CCO", "--model", "folder", "--target", "z", "--out", "why.svg")
    assert "target: expected one of 'x', 'y', got 'z'" in missing.output
    impossible = dgn("draw", "CF(F)F", "--model", "folder", "--out", "why.svg")
    assert "CF(F)F: expected a possible molecule, got impossible valence of fluorine (atom 2" in impossible.output
    Path("more.csv").write_text("name,smiles\na,CCO\nb,CF(F)F\nc,C[Si]C\n")
    several = dgn("draw", "more.csv", "--model", "folder", "--html", "more.html")
    assert several.output == "1 row: impossible valence of fluorine; left out (line 3)\nwrote more.html\n"
    assert Path("more.html").read_text().count("<img") == 2
    refused = dgn("draw", "more.csv", "--model", "folder", "--out", "more.svg")
    assert "more.csv: expected one molecule for a picture, got 2; name others, or use --html" in refused.output
    Path("none.csv").write_text("name,smiles\nb,CF(F)F\n")
    nothing = dgn("draw", "none.csv", "--model", "folder", "--html", "none.html")
    assert "none.csv: expected at least one molecule, got 0" in nothing.output
    Path("many.smi").write_text("C\n" * (MOST + 1))
    many = dgn("draw", "many.smi", "--model", "folder", "--html", "many.html")
    assert f"many.smi: expected at most {MOST} molecules to explain, got more" in many.output


@pytest.mark.parametrize("option", ["--out", "--html"])
def test_a_folder_as_output_is_refused_before_anything_is_drawn(
    dgn: Any, option: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dgn.plot.sources.read_scene", None)
    Path("folder.svg").mkdir()
    failed = dgn("draw", "CCO", option, "folder.svg")
    assert failed.exit_code == 1
    assert "folder.svg: expected a file to write, got a folder; name a file in it" in failed.stderr
