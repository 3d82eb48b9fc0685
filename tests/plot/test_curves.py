"""Training curves."""

from pathlib import Path

import pytest

from dgn.plot.curves import draw_curves

matplotlib = pytest.importorskip("matplotlib")
HISTORY = [{"epoch": n, "train_loss": 1 / n, "val_loss": 2 / n, "mae": 3 / n} for n in (1, 2, 3)]


def test_curves_are_written_as_png(tmp_path: Path) -> None:
    draw_curves({"seed 41": HISTORY}, "mae", tmp_path / "one.png")
    draw_curves({"seed 41": HISTORY, "seed 95": HISTORY[1:]}, "mae", tmp_path / "two.png")
    one, two = ((tmp_path / name).read_bytes() for name in ("one.png", "two.png"))
    assert one.startswith(b"\x89PNG")
    assert one != two
    assert {path.name for path in tmp_path.iterdir()} == {"one.png", "two.png"}


def test_missing_values_and_empty_histories_are_drawn(tmp_path: Path) -> None:
    draw_curves({"a": [{"epoch": 1}, {"epoch": 2, "mae": 0.5}], "b": []}, "mae", tmp_path / "gaps.png")
    draw_curves({}, "mae", tmp_path / "empty.png")
    assert (tmp_path / "empty.png").exists()
