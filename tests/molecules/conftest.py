"""Small tables of molecules, and a model fitted to one of them."""

import csv
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

pytest.importorskip("rdkit", reason="SMILES are read by RDKit, the extra molecules")

from dgn.molecules.fit import FitOptions, Fitted, fit_table
from dgn.molecules.folder import write_folder
from dgn.molecules.rows import read_table
from dgn.molecules.split import split_molecules
from dgn.molecules.table import open_table

Rows = Sequence[Sequence[object]]
MakeTable = Callable[..., Path]

HEADS, TAILS = ("C", "N", "O", "F", "Cl", "OC", "NC"), ("c1ccccc1", "C1CCCCC1", "c1ccncc1", "CC(C)C", "C(=O)O", "C#N")
SMILES = tuple(f"{head}C{'C' * length}{tail}" for length in range(2) for head in HEADS for tail in TAILS)


@pytest.fixture
def make_table(tmp_path: Path) -> MakeTable:
    def make(rows: Rows, header: Sequence[str] = ("smiles", "y"), name: str = "table.csv") -> Path:
        with (tmp_path / name).open("w", newline="") as file:
            csv.writer(file).writerows([header, *rows])
        return tmp_path / name

    return make


@pytest.fixture(scope="session")
def numbers() -> list[tuple[str, float]]:
    """SMILES, and a number computed from their letters."""
    return [(one, len(one) + 2.0 * one.count("O") - one.count("1")) for one in SMILES]


@pytest.fixture(scope="session")
def fitted(numbers: list[tuple[str, float]], tmp_path_factory: pytest.TempPathFactory) -> tuple[Fitted, Path]:
    """A small regression ensemble, and its folder."""
    folder = tmp_path_factory.mktemp("fit")
    path = folder / "table.csv"
    path.write_text("id,smiles,y\n" + "".join(f"m{n},{s},{y}\n" for n, (s, y) in enumerate(numbers)) + "m84,C(,1\n")
    data = read_table(open_table(path))
    split = split_molecules(data.molecules, data.task, "random")
    result = fit_table(data, split, FitOptions(ensemble_size=2, epochs=3, device="cpu"), folder / "model" / "training")
    write_folder(result, folder / "model", "table", data.problems)
    return result, folder / "model"
