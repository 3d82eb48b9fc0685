"""Running times next to the paper's."""

from pathlib import Path
from typing import Any

import pytest

from reproduce.cells import cells
from reproduce.times import PAPER, ROWS, read_eigenvectors, times_section
from tests.reproduce.markdown import find_row, find_rows


def test_every_published_time_belongs_to_a_cell() -> None:
    names = {cell.name for layer in PAPER for cell in cells("table1", layer.split("/")[0])}
    timed = {f"{layer}/{row}" for layer, line in PAPER.items() for row, times in zip(ROWS, line, strict=True) if times}
    assert len(timed) == 54
    assert timed < names


def test_seeds_trained_in_parallel_share_their_time(make_run: Any) -> None:
    runs = [make_run("zinc/simple/mean", seed, epochs=100, seconds=10.0, beside=(1, 2)) for seed in (1, 2)]
    text = "\n".join(times_section({"zinc/simple/mean": runs, "zinc/tuned": [make_run()]}, {}))
    row = find_row(text, "zinc/simple/mean", "speed-up")
    assert (row["paper, per epoch"], row["ours, per epoch"]) == ("3.29 s", "0.050 s")
    assert (row["paper, total"], row["ours, total"], row["speed-up"]) == ("1,505 s", "10 s for 2", "301")
    assert "tuned" not in text
    assert times_section({}, {}) == ["No results yet."]


def test_eigenvector_times_stand_next_to_the_paper(tmp_path: Path) -> None:
    file = tmp_path / "eigenvectors.yaml"
    assert read_eigenvectors(file) == {}
    file.write_text("# measured\nzinc: 1.25\npattern: 20\n")
    text = "\n".join(times_section({}, read_eigenvectors(file)))
    assert find_row(text, "ZINC", "ours") == {"dataset": "ZINC", "paper": "38 s", "ours": "1.2 s"}
    assert find_row(text, "PATTERN", "ours") == {"dataset": "PATTERN", "paper": "96 s", "ours": "20.0 s"}
    assert not find_rows(text, "MolHIV")
    file.write_text("zinc: fast\n")
    with pytest.raises(ValueError, match="expected lines 'dataset: seconds'"):
        read_eigenvectors(file)
