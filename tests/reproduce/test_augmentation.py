"""The augmentation figure, from made-up results."""

from pathlib import Path
from typing import Any

from reproduce.augmentation import augmentation_section, curves, draw_augmentation
from reproduce.cells import cells
from reproduce.results import Results
from tests.reproduce.markdown import rows


def make_results(make_run: Any) -> Results:
    """Two seeds for every cell; the strongest rotation of av has no results."""
    results = {}
    for index, cell in enumerate(cells("augmentation", "cifar10")):
        if cell.name != "cifar10/augmentation/mean-av1-av2-rotation-90":
            metrics = [{split: {"accuracy": (index + seed) / 100} for split in ("train", "test")} for seed in (1, 2)]
            results[cell.name] = [make_run(cell.name, seed, metrics=values) for seed, values in enumerate(metrics)]
    return results


def test_names_of_cells_contain_aggregators_and_strength() -> None:
    chosen = cells("augmentation", "cifar10")
    assert len(chosen) == 20
    assert {cell.data.train_fraction for cell in chosen} == {0.1}
    for cell in chosen:
        augmentation = cell.augmentation
        strengths = [f"-rotation-{augmentation.rotation:g}"] * bool(augmentation.rotation)
        noise = {"field": "distortion", "potential": "potential"}[augmentation.distortion_of]
        strengths += [f"-{noise}-{100 * augmentation.distortion:g}"] * bool(augmentation.distortion)
        assert len(strengths) <= 1
        assert cell.name == f"cifar10/augmentation/{'-'.join(cell.network.aggregators)}{''.join(strengths)}"


def test_curves_are_sorted_by_strength(make_run: Any) -> None:
    chosen, results = cells("augmentation", "cifar10"), make_results(make_run)
    rotation = curves(chosen, results, "rotation")
    assert list(rotation) == ["mean", "mean dx1 dx2", "mean av1 av2"]
    assert [point.strength for point in rotation["mean dx1 dx2"]] == [0, 10, 30, 90]
    assert [point.strength for point in rotation["mean av1 av2"]] == [0, 10, 30]
    assert [point.strength for point in curves(chosen, results, "field")["mean av1 av2"]] == [0, 30, 100, 300]
    assert [point.strength for point in curves(chosen, results, "potential")["mean dx1 dx2"]] == [0, 3, 10, 30]
    assert [len(point.runs) for point in rotation["mean"]] == [2]


def test_the_figure_is_drawn_only_with_results(make_run: Any, tmp_path: Path) -> None:
    chosen, results = cells("augmentation", "cifar10"), make_results(make_run)
    assert draw_augmentation(chosen, results, tmp_path / "some.png")
    assert (tmp_path / "some.png").read_bytes().startswith(b"\x89PNG")
    assert not draw_augmentation(chosen, {}, tmp_path / "none.png")
    assert not (tmp_path / "none.png").exists()


def test_the_table_has_strengths_and_marks_missing_cells(make_run: Any) -> None:
    chosen = cells("augmentation", "cifar10")
    picture, table = augmentation_section(chosen, make_results(make_run))
    assert picture.startswith("![")
    by_name = {row["experiment"].removeprefix("cifar10/augmentation/"): row for row in rows(table)}
    mean, missing = by_name["mean"], by_name["mean-av1-av2-rotation-90"]
    assert (mean["rotation"], mean["noise on the field"]) == ("", "")
    assert (mean["train"], mean["test"], mean["seeds"]) == ("1.50 ± 0.71", "1.50 ± 0.71", "2")
    assert (missing["rotation"], missing["test"], missing["seeds"]) == ("90°", "not trained yet", "")
    assert by_name["mean-av1-av2-distortion-30"]["noise on the field"] == "30%"
    assert by_name["mean-dx1-dx2-potential-3"]["noise on the potential"] == "3%"
    assert len(augmentation_section(chosen, {})) == 1
