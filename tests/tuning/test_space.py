"""Search spaces: what can be written, and what is refused."""

from pathlib import Path

import pytest

from dgn.training.experiment import load_experiment, read_experiment
from dgn.tuning.space import Range, load_space, read_space, space_names
from dgn.tuning.study import _check_names

TEXT = """
parameters: 30_000
settings:
  training.weight_decay: [1e-5, 0]
  network.aggregators: [[mean, dx1], [mean]]
  network.hidden: {low: 8, high: 16, step: 4}
  training.learning_rate: {low: 1e-4, high: 1e-2, log: true}
  network.scalers: {subset: [identity, amplification]}
  kind: {small: {network.num_layers: 2}, large: {network.num_layers: 4, network.towers: 2}}
"""


def test_every_type_of_domain(tmp_path: Path) -> None:
    path = tmp_path / "space.yaml"
    path.write_text(TEXT)
    space = load_space(path)
    assert dict(space.domains) == {
        "training.weight_decay": ("1e-5", "0"),
        "network.aggregators": ("[mean, dx1]", "[mean]"),
        "network.hidden": Range(8, 16, step=4, integer=True),
        "training.learning_rate": Range(1e-4, 1e-2, log=True),
        "network.scalers:identity": ("yes", "no"),
        "network.scalers:amplification": ("yes", "no"),
        "kind": ("small", "large"),
    }
    assert (space.parameters, space.size) == (30_000, None)
    values = {
        "training.weight_decay": "1e-5", "network.aggregators": "[mean, dx1]", "network.hidden": 12,
        "training.learning_rate": 0.0003, "network.scalers:identity": "no", "network.scalers:amplification": "yes",
        "kind": "large",
    }  # fmt: skip
    experiment = read_experiment(load_experiment("digits/mean").to_dict(), space.changes(values))
    assert (experiment.training.weight_decay, experiment.training.learning_rate) == (1e-5, 0.0003)
    assert experiment.network.aggregators == ("mean", "dx1")
    assert experiment.network.scalers == ("amplification",)
    assert (experiment.network.hidden, experiment.network.num_layers, experiment.network.towers) == (12, 4, 2)


def test_finite_spaces_are_counted_and_listed() -> None:
    space = read_space({"settings": {"network.dropout": ["0", "0.1"], "network.num_layers": ["2", "3", "4"]}})
    combinations = space.combinations()
    assert space.size == len(combinations) == 6
    assert combinations[1] == {"network.dropout": "0", "network.num_layers": "3"}


@pytest.mark.parametrize(("name", "size"), [("zinc", 15), ("cifar10", 10), ("pattern", 12), ("molhiv", 36)])
def test_the_papers_spaces_are_grids_of_possible_settings(name: str, size: int) -> None:
    space, base = load_space(name), load_experiment(f"{name}/tuned").to_dict()
    assert space.size == size
    for values in space.combinations():
        read_experiment(base, space.changes(values))


def test_every_shipped_space_names_settings() -> None:
    for name in space_names():
        _check_names(load_experiment(name if "/" in name else f"{name}/tuned"), load_space(name))
    assert load_space("molpcba").size == 2**8 * 4 * 3 * 5 * 4 * 4 * 3 * 2 * 4 * 3


@pytest.mark.parametrize("name", [name for name in space_names() if "/" in name])
def test_values_of_spaces_beyond_the_paper_fit_together(name: str) -> None:
    space, base = load_space(name), load_experiment(name)
    assert space.parameters is not None
    seen = set()
    for setting, domain in space.domains.items():
        assert isinstance(domain, tuple)
        for value in domain:
            others = {key: values[0] for key, values in space.domains.items() if isinstance(values, tuple)}
            experiment = read_experiment(base.to_dict(), space.changes(others | {setting: value}))
            seen.add(bool(experiment.num_directions))
    assert seen == {True, False}  # the search may do without directions


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([], "expected a section 'settings'"),
        ({"settings": {}}, "expected a section 'settings'"),
        ({"setting": {}, "settings": {"a.b": ["1"]}}, "did you mean 'settings'"),
        ({"settings": {"a.b": "1"}}, "a.b: expected a list of values"),
        ({"settings": {"a.b": []}}, "a.b: expected a list of values"),
        ({"settings": {"a.b": {"low": "1"}}}, "a.b: expected a list of values"),
        ({"settings": {"a.b": {"low": "x", "high": "1"}}}, "a.b: expected numbers"),
        ({"settings": {"a.b": {"low": "2", "high": "1"}}}, "a.b: expected low at most high"),
        ({"settings": {"a.b": {"low": "1", "high": "2", "log": "yes"}}}, "log of a.b: expected one of 'true', 'false'"),
        ({"settings": {"a.b": {"low": "1", "high": "2", "log": "1"}}}, "log of a.b: expected one of 'true', 'false'"),
        ({"parameters": "many", "settings": {"a.b": ["1"]}}, "parameters: expected a whole number, got 'many'"),
    ],
)
def test_an_invalid_space_is_refused(data: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_space(data)


def test_unknown_spaces_and_broken_files_are_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"space: .* did you mean 'zinc'"):
        load_space("zink")
    (tmp_path / "space.yaml").write_text("settings: [")
    with pytest.raises(ValueError, match=r"space.yaml: "):
        load_space(tmp_path / "space.yaml")
    with pytest.raises(FileNotFoundError, match=r"none\.yaml: expected a YAML file with a space, got none; check"):
        load_space(tmp_path / "none.yaml")


def test_a_duplicate_setting_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "space.yaml"
    path.write_text("settings:\n  network.hidden: [8]\n  network.num_layers: [2]\n  network.hidden: [16]\n")
    with pytest.raises(ValueError, match=r"space\.yaml: key 'network\.hidden': expected once .* got it twice"):
        load_space(path)


@pytest.mark.parametrize(("text", "log"), [("true", True), ("True", True), ("false", False), ("FALSE", False)])
def test_true_and_false_as_yaml_writes_them(text: str, log: bool) -> None:
    assert read_space({"settings": {"a.b": {"low": "1", "high": "2", "log": text}}}).domains["a.b"] == Range(
        1, 2, log=log, integer=True
    )
