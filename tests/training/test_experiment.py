"""Experiments: files, names, overrides, and refusals."""

from dataclasses import fields
from pathlib import Path

import pytest
import yaml

import dgn
from dgn.training.config import DataSettings, NetworkSettings
from dgn.training.experiment import SECTIONS, Experiment, experiment_names, load_experiment, read_experiment

LAYERS = ("simple", "complex", "complex-e")  # of table 1
OURS = ("muv", "tox21")  # not in the paper
SMALL = {"name": "small", "data": {"dataset": "digits"}, "network": {"hidden": 8, "aggregators": ["mean", "dx2"]}}


def test_shipped_experiments_have_the_name_of_their_file_and_round_trip_through_yaml() -> None:
    for name in experiment_names():
        experiment = load_experiment(name)
        assert experiment.name == name
        assert experiment.data.dataset == name.split("/")[0], name
        assert read_experiment(yaml.safe_load(experiment.to_yaml())) == experiment, name


def test_the_names_of_table_1_state_layer_and_aggregators() -> None:
    for name in experiment_names():
        if name.split("/")[-2] not in LAYERS:
            continue
        _, layer, row = name.split("/")
        experiment = load_experiment(name)
        network, published = experiment.network, experiment.published
        positions = [f"pos{k}" for k in range(1, network.num_eigenvector_features + 1)]
        assert "-".join([*network.aggregators, *positions]) == row, name
        assert layer == f"{network.message}{'' if network.edge_dim is None else '-e'}", name
        is_published = published is not None and published.table == "table1"
        assert is_published == (experiment.data.dataset not in OURS), name


def test_both_tables_are_complete() -> None:
    names = experiment_names()
    cells = {"zinc": 24, "pattern": 16, "cifar10": 6, "molhiv": 8, "molpcba": 12}
    for dataset, count in cells.items():
        assert sum(name.split("/")[0] == dataset and name.split("/")[1] in LAYERS for name in names) == count
        assert f"{dataset}/tuned" in names
    assert {"zinc/tuned-no-edges", "cifar10/tuned-no-edges"} < set(names)
    assert {"digits/mean", "digits/av", "digits/dx", "digits/dx-signed"} < set(names)


def test_published_runs_follow_the_common_settings_of_the_paper() -> None:
    dropout = {"zinc": 0.0, "pattern": 0.0, "cifar10": 0.3, "molhiv": 0.3, "molpcba": 0.2}
    for name in experiment_names():
        experiment = load_experiment(name)
        training, network, dataset = experiment.training, experiment.network, experiment.data.dataset
        if experiment.published is None:
            continue
        is_ogb = dataset in ("molhiv", "molpcba")
        assert training.schedule == "plateau", name
        assert (training.checkpoint == "best") == (training.monitor == "metric") == is_ogb, name
        assert network.size_norm == (dataset != "molhiv"), name
        assert (network.readout == "nodes") == (dataset == "pattern"), name
        others = experiment.published.assumed + experiment.published.changed
        assert network.dropout == dropout[dataset] or "network.dropout" in others, name
        assert len(training.seeds) == experiment.published.seeds, name
        assert training.weight_decay > 0, name


def test_assumed_and_changed_settings_exist() -> None:
    for name in experiment_names():
        experiment = load_experiment(name)
        published = experiment.published
        for key in published.assumed + published.changed if published else ():
            section, _, setting = key.partition(".")
            assert hasattr(getattr(experiment, section), setting), key


def test_a_yaml_file_with_overrides(tmp_path: Path) -> None:
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


def test_the_number_of_directions_is_that_of_the_network() -> None:
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


def test_overrides_do_not_modify_the_data() -> None:
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
        ("training.seeds=[1, 1]", "training.seeds: expected distinct integers"),
        ("training.seeds=[]", "training.seeds: expected distinct integers"),
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
def test_an_invalid_file_is_refused_by_its_name(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(ValueError, match=message) as refused:
        load_experiment(path)
    assert str(path) in str(refused.value)


def test_unknown_names_are_refused_with_a_suggestion(tmp_path: Path) -> None:
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


def test_shipped_files_state_no_defaults_except_aggregators() -> None:
    for name in experiment_names():
        path = Path(dgn.__file__).parent / "experiments" / f"{name}.yaml"
        for section, values in yaml.safe_load(path.read_text()).items():
            defaults = {field.name: field.default for field in fields(SECTIONS[section])}
            stated = {key: tuple(value) if isinstance(value, list) else value for key, value in values.items()}
            stated.pop("aggregators", None)  # the name of an experiment: stated in any case
            assert not {key for key, value in stated.items() if value == defaults[key]}, name


def test_the_path_of_the_data_is_relative_to_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "settings").mkdir()
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    file = tmp_path / "settings" / "mine.yaml"
    for written, expected in (
        ("graphs.npz", tmp_path / "settings" / "graphs.npz"),
        ("../graphs.npz", tmp_path / "graphs.npz"),
        (f"{tmp_path}/graphs.npz", tmp_path / "graphs.npz"),
    ):
        file.write_text(f"data: {{dataset: own, path: {written}}}\nnetwork: {{hidden: 8}}")
        for name in (file, "../settings/mine.yaml"):
            assert load_experiment(name).data.path == str(expected)
    # An override is typed in the working directory.
    assert load_experiment(file, ["data.path=graphs.npz"]).data.path == str(tmp_path / "here" / "graphs.npz")
    assert load_experiment("zinc/tuned").data.path is None


@pytest.mark.parametrize(
    ("changes", "came"),
    [
        (["augmentation.resample=true"], "augmentation.resample"),
        (["data.dataset=cifar10"], "the coordinates of cifar10"),
    ],
)
def test_arcsines_are_of_eigenvectors_in_their_own_basis(changes, came) -> None:
    with pytest.raises(ValueError, match=f"data.arcsine: expected eigenvectors in their own basis, got {came}; leave"):
        load_experiment("zinc/simple/mean-dx1", ["data.arcsine=true", *changes])


@pytest.mark.parametrize("text", ["[" * 5000, "{a: " * 5000, "a: [1", "\tb: 1", "&a [*a]"])
def test_malformed_and_deep_yaml_is_refused_in_one_line(tmp_path: Path, text: str) -> None:
    (tmp_path / "mine.yaml").write_text(text)
    with pytest.raises(ValueError, match=r"mine\.yaml: .*expected") as caught:
        load_experiment(tmp_path / "mine.yaml")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("network.hidden", 10**30),
        ("network.num_layers", 10**6),
        ("training.epochs", 2**31),
        ("training.learning_rate", 10**400),
        ("training.weight_decay", 1e300),
        ("data.ring_sizes", [10**20]),
        ("data.directions", 10**9),
    ],
)
def test_settings_out_of_range_are_refused_by_name(key: str, value: object) -> None:
    with pytest.raises(ValueError, match=rf"{key}: expected .*number"):
        load_experiment("zinc/tuned", [f"{key}={value}"])
