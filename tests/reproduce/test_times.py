"""Running times beside the paper's."""

from pathlib import Path
from typing import Any

import pytest

from reproduce.cells import cells
from reproduce.times import PAPER, ROWS, read_eigenvectors, times_section


def test_every_published_time_is_that_of_a_cell() -> None:
    known = {cell.name for name in PAPER for cell in cells("table1", name.split("/")[0])}
    named = {f"{kind}/{row}" for kind, each in PAPER.items() for row, told in zip(ROWS, each, strict=True) if told}
    assert len(named) == 54
    assert named < known


def test_seeds_side_by_side_share_their_time(make_run: Any) -> None:
    runs = [make_run("zinc/simple/mean", seed, epochs=100, seconds=10.0, beside=(1, 2)) for seed in (1, 2)]
    text = "\n".join(times_section({"zinc/simple/mean": runs, "zinc/tuned": [make_run()]}, {}))
    assert "| `zinc/simple/mean` | 3.29 s | 0.050 s | 1,505 s | 10 s for 2 | 301 |" in text
    assert "tuned" not in text
    assert times_section({}, {}) == ["Nothing run yet."]


def test_eigenvectors_beside_the_paper(tmp_path: Path) -> None:
    file = tmp_path / "eigenvectors.yaml"
    assert read_eigenvectors(file) == {}
    file.write_text("# measured\nzinc: 1.25\npattern: 20\n")
    text = "\n".join(times_section({}, read_eigenvectors(file)))
    assert "| ZINC | 38 s | 1.2 s |" in text
    assert "| PATTERN | 96 s | 20.0 s |" in text
    assert "MolHIV" not in text
    file.write_text("zinc: fast\n")
    with pytest.raises(ValueError, match="expected lines 'dataset: seconds'"):
        read_eigenvectors(file)
