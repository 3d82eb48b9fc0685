"""The figure on augmentation, from made-up results."""

from pathlib import Path
from typing import Any

from reproduce.augmentation import augmentation_section, curves, draw_augmentation
from reproduce.cells import cells
from reproduce.results import Results


def made_up(make_run: Any) -> Results:
    """Two seeds for every cell; the strongest rotation of av is missing."""
    found = {}
    for number, cell in enumerate(cells("augmentation", "cifar10")):
        if cell.name != "cifar10/augmentation/mean-av1-av2-rotation-90":
            metrics = [{split: {"accuracy": (number + seed) / 100} for split in ("train", "test")} for seed in (1, 2)]
            found[cell.name] = [make_run(cell.name, seed, metrics=each) for seed, each in enumerate(metrics)]
    return found


def test_the_cells_are_those_of_the_figure() -> None:
    chosen = cells("augmentation", "cifar10")
    assert len(chosen) == 15
    assert {cell.data.train_fraction for cell in chosen} == {0.1}
    for cell in chosen:
        change = cell.augmentation
        words = [f"-rotation-{change.rotation:g}"] * bool(change.rotation)
        words += [f"-distortion-{100 * change.distortion:g}"] * bool(change.distortion)
        assert cell.name == "/".join(["cifar10", "augmentation", "-".join(cell.network.aggregators) + "".join(words)])
        assert len(words) <= 1


def test_curves_go_from_none_to_the_strongest(make_run: Any) -> None:
    chosen, results = cells("augmentation", "cifar10"), made_up(make_run)
    found = curves(chosen, results, "rotation")
    assert list(found) == ["mean", "mean dx1 dx2", "mean av1 av2"]
    assert [point.strength for point in found["mean dx1 dx2"]] == [0, 10, 30, 90]
    assert [point.strength for point in found["mean av1 av2"]] == [0, 10, 30]
    assert [point.strength for point in curves(chosen, results, "distortion")["mean av1 av2"]] == [0, 30, 100, 300]
    assert [len(point.runs) for point in found["mean"]] == [2]


def test_the_figure_is_drawn_from_what_there_is(make_run: Any, tmp_path: Path) -> None:
    chosen, results = cells("augmentation", "cifar10"), made_up(make_run)
    assert draw_augmentation(chosen, results, tmp_path / "some.png")
    assert (tmp_path / "some.png").read_bytes().startswith(b"\x89PNG")
    assert not draw_augmentation(chosen, {}, tmp_path / "none.png")
    assert not (tmp_path / "none.png").exists()


def test_the_table_names_strength_and_what_is_missing(make_run: Any) -> None:
    chosen = cells("augmentation", "cifar10")
    picture, table = augmentation_section(chosen, made_up(make_run))
    assert picture.startswith("![")
    assert "| `cifar10/augmentation/mean` |  |  | 1.50 ± 0.71 | 1.50 ± 0.71 | 2 |" in table
    assert "| `cifar10/augmentation/mean-av1-av2-rotation-90` | 90° |  |  | not run yet |  |" in table
    assert "distortion-30` |  | 30% |" in table
    assert len(augmentation_section(chosen, {})) == 1
