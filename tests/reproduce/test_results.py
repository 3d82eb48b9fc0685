"""Committed results: what is accepted and refused, and that the committed pages are up to date."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dgn.training.experiment import load_experiment
from dgn.training.run_folder import seal, to_json, write_run, write_text
from reproduce.beyond import beyond_sections
from reproduce.page import read_notes, results_page
from reproduce.results import collect_results, read_results, wall_seconds
from reproduce.summary import replace_summary, results_summary
from reproduce.times import read_eigenvectors

ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(not (ROOT / "results").exists(), reason="results are part of the repository, not of the package")
def test_the_committed_pages_are_up_to_date() -> None:
    results = read_results(ROOT / "results")
    page, readme = ROOT / "docs" / "results.md", ROOT / "README.md"
    assert page.read_text() == results_page(
        results, read_notes(ROOT / "results" / "notes.yaml"), read_eigenvectors(ROOT / "results" / "eigenvectors.yaml")
    ), "run python -m reproduce results"
    assert readme.read_text() == replace_summary(readme.read_text(), results_summary(results), readme), (
        "run python -m reproduce results"
    )
    beyond = ROOT / "docs" / "beyond.md"
    assert beyond.read_text() == replace_summary(beyond.read_text(), beyond_sections(results), beyond), (
        "run python -m reproduce results"
    )


def test_collected_seeds_are_read_back(tmp_path: Path, make_run: Any) -> None:
    runs = [make_run(seed=seed, test=seed / 100) for seed in (95, 41)]
    for run in runs:
        write_run(tmp_path / "runs" / "zinc" / "tuned", run, [])
    written = collect_results(tmp_path / "runs", tmp_path / "results")
    assert [str(path.relative_to(tmp_path)) for path in written] == [
        "results/zinc/tuned/seed-41.json",
        "results/zinc/tuned/seed-95.json",
    ]
    assert read_results(tmp_path / "results") == {"zinc/tuned": runs[::-1]}
    collect_results(tmp_path / "runs", tmp_path / "results")  # the same again is no conflict


def test_other_settings_need_another_name(tmp_path: Path, make_run: Any) -> None:
    run = replace(make_run(), experiment=load_experiment("zinc/tuned", ["network.hidden=80"]))
    write_run(tmp_path / "run", run, [])
    with pytest.raises(ValueError, match=r"expected the settings of zinc/tuned, got others in network.hidden; choose"):
        collect_results(tmp_path / "run", tmp_path / "results")
    with pytest.raises(ValueError, match="expected the settings of zinc/simple/mean"):
        collect_results(tmp_path / "run", tmp_path / "results", "zinc/simple/mean")
    assert not (tmp_path / "results").exists()
    collect_results(tmp_path / "run", tmp_path / "results", "zinc/wider")
    (run,) = read_results(tmp_path / "results")["zinc/wider"]
    assert (run.experiment.name, run.experiment.network.hidden) == ("zinc/wider", 80)


def test_a_search_result_under_a_shipped_name_gets_its_published_score(tmp_path: Path, make_run: Any) -> None:
    experiment = replace(load_experiment("zinc/tuned"), name="zinc/tuned-search", published=None)
    write_run(tmp_path / "run", replace(make_run(), experiment=experiment), [])
    collect_results(tmp_path / "run", tmp_path / "results", "zinc/tuned")
    assert read_results(tmp_path / "results")["zinc/tuned"] == [make_run()]


def test_seeds_of_one_name_have_the_same_settings(tmp_path: Path, make_run: Any) -> None:
    for hidden in (80, 90):
        experiment = load_experiment("zinc/tuned", [f"network.hidden={hidden}"])
        write_run(tmp_path / str(hidden), replace(make_run(seed=hidden), experiment=experiment), [])
    with pytest.raises(ValueError, match=r"seeds 80 and 90 that differ in network.hidden; collect them under"):
        collect_results(tmp_path, tmp_path / "results", "zinc/wider")


def test_seeds_that_differ_from_stored_ones_are_refused_before_anything_is_written(
    tmp_path: Path, make_run: Any
) -> None:
    for seed, hidden in ((41, 80), (95, 85)):
        run = replace(make_run(seed=seed), experiment=load_experiment("zinc/tuned", [f"network.hidden={hidden}"]))
        write_run(tmp_path / f"run{seed}", run, [])
    collect_results(tmp_path / "run41", tmp_path / "results", "mine")
    with pytest.raises(ValueError, match=r"mine: expected seeds of one experiment, got seeds 41 and 95 that differ"):
        collect_results(tmp_path / "run95", tmp_path / "results", "mine", overwrite=True)
    assert [run.seed for run in read_results(tmp_path / "results")["mine"]] == [41]


@pytest.mark.parametrize("name", ["", ".", "../mine", "/mine"])
def test_a_name_outside_the_folder_is_refused(tmp_path: Path, make_run: Any, name: str) -> None:
    write_run(tmp_path / "run", make_run(), [])
    with pytest.raises(ValueError, match="name: expected a path inside the results folder"):
        collect_results(tmp_path / "run", tmp_path / "a" / "results", name)
    assert not (tmp_path / "a").exists()


def test_an_older_result_is_replaced_only_with_overwrite(tmp_path: Path, make_run: Any) -> None:
    write_run(tmp_path / "a", make_run(test=0.1), [])
    write_run(tmp_path / "b", make_run(test=0.2), [])
    collect_results(tmp_path / "a", tmp_path / "results")
    for overwrite, runs in ((False, tmp_path / "b"), (True, tmp_path)):  # two runs of one seed are always refused
        with pytest.raises(ValueError, match=r"seed-41.json: expected no other result for this seed"):
            collect_results(runs, tmp_path / "results", overwrite=overwrite)
    collect_results(tmp_path / "b", tmp_path / "results", overwrite=True)
    assert read_results(tmp_path / "results")["zinc/tuned"][0].metrics["test"] == {"mae": 0.2}


def test_a_folder_without_finished_runs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="expected run folders with finished seeds, found none"):
        collect_results(tmp_path, tmp_path / "results")


def test_a_file_at_the_wrong_path_is_refused(tmp_path: Path, make_run: Any) -> None:
    write_text(tmp_path / "zinc" / "tuned" / "seed-95.json", to_json(make_run(seed=41)))
    with pytest.raises(ValueError, match=r"seed-95.json: expected .*seed-41.json for its name and seed; move it there"):
        read_results(tmp_path)


def test_a_file_with_changed_settings_is_refused(tmp_path: Path, make_run: Any) -> None:
    content = json.loads(to_json(make_run()))
    content["experiment"]["training"]["epochs"] = 3
    write_text(tmp_path / "zinc" / "tuned" / "seed-41.json", seal(content))
    with pytest.raises(
        ValueError, match=r"seed-41.json: expected the settings of zinc/tuned, got others in training.ep"
    ):
        read_results(tmp_path)


def test_seeds_trained_in_parallel_take_the_time_of_the_longest(make_run: Any) -> None:
    together = [make_run(seed=seed, seconds=float(seed), beside=(1, 2)) for seed in (1, 2)]
    assert wall_seconds(together) == 2.0
    assert wall_seconds([*together, make_run(seed=3, seconds=4.0)]) == 6.0
