"""Experiments: files, names, overrides, and what is refused."""

from dataclasses import fields
from pathlib import Path

import pytest
import yaml

import dgn
from dgn.training.config import (
    AugmentationSettings,
    DataSettings,
    NetworkSettings,
    Published,
    TrainingSettings,
)
from dgn.training.experiment import Experiment, experiment_names, load_experiment, read_experiment

KINDS = ("simple", "complex", "complex-e")  # of table 1
OURS = ("muv", "tox21")  # not in the paper
SMALL = {"name": "small", "data": {"dataset": "digits"}, "network": {"hidden": 8, "aggregators": ["mean", "dx2"]}}


@pytest.mark.parametrize("name", experiment_names())
def test_every_shipped_experiment_loads_under_its_name_and_survives_yaml(name: str) -> None:
    experiment = load_experiment(name)
    assert experiment.name == name
    assert experiment.data.dataset == name.split("/")[0]
    assert read_experiment(yaml.safe_load(experiment.to_yaml())) == experiment


@pytest.mark.parametrize("name", [name for name in experiment_names() if name.split("/")[-2] in KINDS])
def test_the_name_of_a_fair_experiment_says_what_it_is(name: str) -> None:
    _, kind, row = name.split("/")
    experiment = load_experiment(name)
    network, published = experiment.network, experiment.published
    positions = [f"pos{k}" for k in range(1, network.positional + 1)]
    assert "-".join([*network.aggregators, *positions]) == row
    assert kind == f"{network.message}{'' if network.edge_dim is None else '-e'}"
    assert (published is not None and published.table == "table1") == (experiment.data.dataset not in OURS)


def test_both_tables_are_complete() -> None:
    names = experiment_names()
    cells = {"zinc": 24, "pattern": 16, "cifar10": 6, "molhiv": 8, "molpcba": 12}
    for dataset, count in cells.items():
        assert sum(name.split("/")[0] == dataset and name.split("/")[1] in KINDS for name in names) == count
        assert f"{dataset}/tuned" in names
    assert {"zinc/tuned-no-edges", "cifar10/tuned-no-edges"} < set(names)
    assert {"digits/mean", "digits/av", "digits/dx", "digits/dx-signed"} < set(names)


@pytest.mark.parametrize("name", [name for name in experiment_names() if load_experiment(name).published is not None])
def test_what_the_paper_says_of_every_run_is_followed(name: str) -> None:
    experiment = load_experiment(name)
    training, network, dataset = experiment.training, experiment.network, experiment.data.dataset
    assert training.schedule == "plateau"
    assert (training.report == "best") == (training.monitor == "metric") == (dataset in ("molhiv", "molpcba"))
    assert network.size_norm == (dataset != "molhiv")
    assert (network.readout == "nodes") == (dataset == "pattern")
    assert experiment.published is not None
    dropout = {"zinc": 0.0, "pattern": 0.0, "cifar10": 0.3, "molhiv": 0.3, "molpcba": 0.2}[dataset]
    others = experiment.published.assumed + experiment.published.changed
    assert network.dropout == dropout or "network.dropout" in others
    assert len(training.seeds) == experiment.published.seeds
    assert training.weight_decay > 0


def test_assumed_and_changed_settings_exist() -> None:
    for name in experiment_names():
        experiment = load_experiment(name)
        published = experiment.published
        for key in published.assumed + published.changed if published else ():
            section, _, own = key.partition(".")
            assert hasattr(getattr(experiment, section), own), key


def test_a_file_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("data: {dataset: zinc}\nnetwork: {hidden: 8, aggregators: [mean]}\ntraining: {learning_rate: 1e-2}")
    experiment = load_experiment(
        path, ["training.weight_decay=3e-6", "training.seeds=[1, 2]", "augmentation.rotation=9"]
    )
    assert experiment.name == "mine"
    assert (experiment.training.learning_rate, experiment.training.weight_decay) == (0.01, 3e-6)
    assert experiment.training.seeds == (1, 2)
    assert experiment.augmentation.rotation == 9.0
    assert experiment.published is None


def test_directions_are_as_many_as_the_network_reads() -> None:
    assert read_experiment(SMALL).num_directions == 2
    assert read_experiment(SMALL, ["data.dataset=zinc", "network.num_eigenvector_features=3"]).num_directions == 3
    assert read_experiment(SMALL, ["network.aggregators=[mean]"]).num_directions == 0
    assert read_experiment(SMALL, ["network.aggregators=[mean]", "network.readout=directional"]).num_directions == 1
    assert read_experiment(SMALL, ["data.directions=4"]).num_directions == 4


def test_coordinates_are_two_directions() -> None:
    three = "network.aggregators=[mean, dx3]"
    with pytest.raises(
        ValueError, match=r"network: expected at most 2 directions, the coordinates of digits, got .* 3"
    ):
        load_experiment("digits/dx", [three])
    assert load_experiment("zinc/tuned", [three]).num_directions == 3


def test_overrides_leave_the_data_as_it_was() -> None:
    read_experiment(SMALL, ["network.hidden=9"])
    assert SMALL["network"] == {"hidden": 8, "aggregators": ["mean", "dx2"]}


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("training.epoch=5", "key of training: .* did you mean 'epochs'"),
        ("trainning.epochs=5", "--set: .*, got 'trainning.epochs'; did you mean training.epochs"),
        ("trainning.epoch=5", "key of experiment: .* did you mean 'training'"),
        ("hidden=3", "--set: .*, got 'hidden'; did you mean network.hidden"),
        ("training.dropout=0.1", "--set: .*, got 'training.dropout'; did you mean network.dropout"),
        ("seeds=[1]", "--set: .*, got 'seeds'; did you mean training.seeds or published.seeds"),
        ("training.epochs", "--set: expected key=value, got 'training.epochs'"),
        ("=5", "--set: expected key=value"),
        ("name.first=5", "--set: expected a section before the dot"),
        ("training.epochs=many", "training.epochs: expected a whole number, got 'many'"),
        ("training.epochs=0", "training.epochs: expected a number at least 1, got 0"),
        ("training.seeds=[1, 1]", "training.seeds: expected different whole numbers"),
        ("training.seeds=[]", "training.seeds: expected different whole numbers"),
        ("training.min_learning_rate=1", "training.min_learning_rate: expected at most the learning rate"),
        ("network.aggregators=[mean, dy1]", "aggregator 'dy1': .* did you mean 'dx1'"),
        ("network.aggregators=[]", "aggregators: expected a list of one or more names"),
        ("network.scalers=[amplify]", r"network.scalers\[0\]: .* did you mean 'amplification'"),
        ("network.scalers=[]", "network.scalers: expected at least one"),
        ("network.edge_dim=4", "network.edge_dim: expected none with simple messages"),
        ("network.towers=3", "network.hidden: expected a multiple of the 3 towers, got 8"),
        ("network.dropout=1", "network.dropout: expected a number at least 0 and below 1"),
        ("data.directions=1", "data.directions: expected at least the 2 that the network reads, got 1"),
    ],
)
def test_wrong_overrides_are_refused(override: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_experiment(SMALL, [override])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- 1", "expected sections data, network and training"),
        ("data: {dataset: zinc}", "experiment: expected a value for network"),
        ("data: {dataset: zinc, dataset: zinc}", "key 'dataset': expected once"),
        ("data: {dataset: [", "mine.yaml"),
    ],
)
def test_a_broken_file_is_refused_by_its_name(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(ValueError, match=message) as refused:
        load_experiment(path)
    assert str(path) in str(refused.value)


def test_unknown_names_are_refused_and_the_nearest_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="did you mean 'zinc/tuned'"):
        load_experiment("zinc/tunned")
    with pytest.raises(ValueError, match="got 'zinc'; did you mean 'zinc/tuned'"):
        load_experiment("zinc")
    with pytest.raises(ValueError, match=r"got 'molecules.csv'; 'dgn fit' takes tables"):
        load_experiment("molecules.csv")
    with pytest.raises(ValueError, match="'dgn info' lists them"):
        load_experiment("nothing like it")
    with pytest.raises(FileNotFoundError, match=r"none.yaml: expected a YAML file"):
        load_experiment(tmp_path / "none.yaml")


def test_an_experiment_can_be_written_in_python() -> None:
    network = NetworkSettings(hidden=8, aggregators=("mean", "av1"))
    experiment = Experiment(name="mine", data=DataSettings(dataset="zinc"), network=network)
    assert experiment.num_directions == 1
    assert read_experiment(experiment.to_dict()) == experiment


@pytest.mark.parametrize("name", experiment_names())
def test_a_shipped_file_says_nothing_twice(name: str) -> None:
    path = Path(dgn.__file__).parent / "experiments" / f"{name}.yaml"
    kinds = {"data": DataSettings, "network": NetworkSettings, "training": TrainingSettings, "published": Published}
    kinds["augmentation"] = AugmentationSettings
    for section, values in yaml.safe_load(path.read_text()).items():
        defaults = {each.name: each.default for each in fields(kinds[section])}
        stated = {key: tuple(value) if isinstance(value, list) else value for key, value in values.items()}
        assert not {key for key, value in stated.items() if value == defaults[key]}
