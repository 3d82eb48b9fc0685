"""A search: proposals, resuming, and refusals."""

import sys
import threading
from pathlib import Path
from typing import Any

import pytest
import yaml

from dgn.training.experiment import load_experiment
from dgn.tuning.space import Space, read_space
from dgn.tuning.study import Search

pytest.importorskip("optuna", reason="searches need optuna")
GRID = {"settings": {"network.dropout": ["0", "0.1"], "network.num_layers": ["2", "3"]}}
OPEN = {"settings": {"network.dropout": {"low": "0.0", "high": "0.5"}, "network.num_layers": ["2", "3"]}}


def make(folder: Path, data: Any = GRID, name: str = "digits/mean", **changed: Any) -> Search:
    return Search(folder, load_experiment(name), read_space(data), **{"seeds": [41]} | changed)


def run(search: Search, total: int) -> list[dict[str, Any]]:
    """Run trials whose score falls with dropout."""
    values = []
    while (trial := search.next(total)) is not None:
        values.append(trial.values)
        search.tell(trial, 1 - float(trial.values["network.dropout"]))
    return values


def test_a_small_grid_is_searched_completely_and_once(tmp_path: Path) -> None:
    assert run(make(tmp_path), 10) == read_space(GRID).combinations()
    assert run(make(tmp_path), 10) == []


@pytest.mark.parametrize("data", [GRID, OPEN], ids=["grid", "open"])
def test_a_resumed_search_equals_an_uninterrupted_one(tmp_path: Path, data: Any) -> None:
    uninterrupted = run(make(tmp_path / "uninterrupted", data), 3)
    first = run(make(tmp_path / "resumed", data), 1)
    running = make(tmp_path / "resumed", data).next(3)  # killed here
    again = make(tmp_path / "resumed", data).next(3)
    assert running == again
    assert [*first, *run(make(tmp_path / "resumed", data), 3)] == uninterrupted
    assert len(uninterrupted) == 3


def test_running_trials_are_not_returned_again(tmp_path: Path) -> None:
    search = make(tmp_path)
    busy: list[int] = []
    while (trial := search.next(10, busy)) is not None:
        busy.append(trial.number)
    assert busy == [0, 1, 2, 3]
    again = make(tmp_path).next(10, busy[:1])
    assert again is not None
    assert again.number == 1


def test_other_seeds_propose_other_values(tmp_path: Path) -> None:
    assert run(make(tmp_path / "a", OPEN), 2) != run(make(tmp_path / "b", OPEN, seed=1), 2)


def test_an_interrupted_proposal_is_failed(tmp_path: Path) -> None:
    search = make(tmp_path)
    search.study.ask()  # without values yet
    assert run(make(tmp_path), 10) == read_space(GRID).combinations()


@pytest.mark.parametrize(("name", "best"), [("digits/mean", "0"), ("zinc/tuned", "0.1")])
def test_the_best_is_the_highest_accuracy_or_the_lowest_error(tmp_path: Path, name: str, best: str) -> None:
    search = make(tmp_path, name=name)
    run(search, 4)
    assert [trial.values["network.dropout"] for trial in search.ended()][:2] == [best, best]


def test_equal_values_share_a_folder(tmp_path: Path) -> None:
    data = {"settings": {"network.dropout": ["0", "0.1"], "network.num_layers": ["2", "3"], "network.hidden": ["8"]}}
    search = make(tmp_path, data)
    for _ in range(3):
        search.study.enqueue_trial({"network.dropout": "0.1", "network.num_layers": "3", "network.hidden": "8"})
    trials = []
    for _ in range(3):
        trial = search.next(3)
        assert trial is not None
        trials.append(trial)
        search.tell(trial, 0.5)
    assert [trial.number for trial in trials] == [0, 1, 2]
    assert {trial.folder.name for trial in trials} == {"trial-0"}
    assert [trial.number for trial in search.ended()] == [0]


def test_trials_without_a_score_count_but_are_never_the_best(tmp_path: Path) -> None:
    search = make(tmp_path)
    for index in range(4):
        trial = search.next(4)
        assert trial is not None
        search.tell(trial, None if index else 0.5)
    assert search.next(4) is None
    assert [trial.number for trial in search.ended()] == [0]


def test_a_trial_is_an_experiment_and_the_best_a_file(tmp_path: Path) -> None:
    search = make(tmp_path, {"parameters": "50000", **GRID}, "zinc/simple/mean")
    run(search, 4)
    best = search.ended()[0]
    experiment = search.resolve(best)
    assert (experiment.training.seeds, experiment.published) == ((41,), None)
    assert experiment.network.dropout == 0.1
    written = load_experiment(search.write_best(best))
    assert written.network == experiment.network
    assert written.name == "zinc/simple/mean-search"
    assert written.training.seeds == (41, 95, 12, 35)


def test_another_search_in_the_folder_is_refused(tmp_path: Path) -> None:
    make(tmp_path)
    for data, changed, what in ((OPEN, {}, "space"), (GRID, {"seeds": [1]}, "seeds"), (GRID, {"seed": 1}, "seed")):
        with pytest.raises(ValueError, match=f"expected a new folder or one of the same search.*differs in {what};"):
            make(tmp_path, data, **changed)
    with pytest.raises(
        ValueError, match=r"differs in network\.hidden \(78 there, 48 requested\), network\.aggregators"
    ):
        make(tmp_path, name="digits/dx")


def test_a_search_resumes_when_dgn_has_a_new_setting(tmp_path: Path) -> None:
    running = make(tmp_path).next(4)
    path = tmp_path / "search.yaml"
    description = yaml.safe_load(path.read_text())
    del description["experiment"]["network"]["dropout"]  # as if written before the setting existed
    path.write_text(yaml.safe_dump(description))
    assert make(tmp_path).next(4) == running
    assert yaml.safe_load(path.read_text())["experiment"]["network"]["dropout"] == 0


def test_unknown_settings_are_refused_before_the_first_trial(tmp_path: Path) -> None:
    space: Space = read_space({"settings": {"network.droput": ["0"]}})
    with pytest.raises(ValueError, match=r"setting of the space: .* did you mean 'network.dropout'"):
        Search(tmp_path, load_experiment("digits/mean"), space, [41])
    assert not list(tmp_path.iterdir())


def test_without_optuna_no_folder_is_created(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(ImportError, match=r"pip install 'dgn\[search\]'"):
        make(tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_a_truncated_line_is_written_again(tmp_path: Path) -> None:
    values = run(make(tmp_path, OPEN), 2)
    log = tmp_path / "study.log"
    log.write_bytes(log.read_bytes()[:-20])  # the score of the second trial, on a disk that was full
    assert run(make(tmp_path, OPEN), 3)[0] == values[1]
    assert len(make(tmp_path, OPEN).ended()) == 3


def test_the_lock_of_a_killed_process_is_taken_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("dgn.tuning.study.GRACE", 3)
    here = Path("search")  # relative, as searches are by default
    killed = make(here)

    def die(_: int) -> None:
        raise SystemExit

    with monkeypatch.context() as patched:
        patched.setattr("os.fsync", die)
        for lock in ("JournalFileOpenLock", "JournalFileSymlinkLock"):
            patched.setattr(f"optuna.storages.journal._file.{lock}.release", lambda _: None)
        with pytest.raises(SystemExit):
            killed.next(10)
    assert [path.name for path in here.glob("*.lock")] == ["study.log.lock"]
    values: list[Any] = []
    resumed = threading.Thread(target=lambda: values.extend(run(make(here), 10)), daemon=True)
    resumed.start()
    resumed.join(20)
    assert len(values) == 4


def test_two_searches_in_a_folder_share_their_trials(tmp_path: Path) -> None:
    one, two = make(tmp_path), make(tmp_path)
    trial = one.next(10)
    assert trial is not None
    assert two.next(10) == trial
    one.tell(trial, 0.5)
    two.tell(trial, 0.25)
    assert one.study.trials[0].value == 0.5
    assert len(run(two, 10)) == 3
