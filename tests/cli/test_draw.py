"""``dgn draw`` as it is called."""

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

pytest.importorskip("rdkit", reason="RDKit is optional")


def test_it_draws_a_picture_and_a_page(dgn: Callable[..., Result]) -> None:
    result = dgn("draw", "CCO", "--out", "a.svg", "--html", "a.html", "-k", "2", "--normalization", "rw")
    assert result.exit_code == 0, result.output
    assert result.output == "drawn: a.svg and a.html\n"
    assert Path("a.svg").exists()
    assert Path("a.html").exists()


def test_a_page_takes_many_molecules(dgn: Callable[..., Result]) -> None:
    assert dgn("draw", "CCO", "c1ccccc1", "--html", "two.html").exit_code == 0
    assert "c1ccccc1" in Path("two.html").read_text()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["C1CC", "--out", "a.png"], "smiles: expected a molecule that RDKit can read, got 'C1CC'"),
        (["CC", "--out", "a.jpg"], "a.jpg: expected a picture called .svg or .png, got .jpg"),
        (["CC", "--html", "a.txt"], "a.txt: expected a page called .html, got .txt"),
        (["CC"], "out: expected --out picture.svg, --html page.html or both, got neither"),
        (["CC", "CO", "--out", "a.svg"], "out: expected one graph for a picture, got 2"),
    ],
)
def test_errors_are_one_line(dgn: Callable[..., Result], words: list[str], message: str) -> None:
    result = dgn("draw", *words)
    assert result.exit_code == 1
    assert message in result.output
    assert result.output.count("\n") == 1
    assert not list(Path().iterdir())
