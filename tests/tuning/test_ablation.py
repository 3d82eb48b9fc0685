"""Ablations: only one part is missing, and as many parameters are there."""

from pathlib import Path

import pytest

from dgn.training.config import AugmentationSettings
from dgn.training.experiment import experiment_names, load_experiment
from dgn.tuning.ablation import ablations, to_short_yaml, with_directions, without_directions
from dgn.tuning.width import size

#: Experiments beyond the paper, with their budgets of parameters.
BUDGETS = {"zinc/plus": 100_000, "zinc/plus-500k": 500_000, "cifar10/plus": 110_000, "pattern/plus": 110_000}
BUDGETS["molhiv/plus"] = 150_000


@pytest.mark.parametrize("name", BUDGETS)
def test_the_shipped_ablations_are_those_of_the_shipped_experiment(name: str) -> None:
    wanted = {f"{name}-ablation/{missing}": each for missing, each in ablations(load_experiment(name)).items()}
    shipped = {each: load_experiment(each) for each in experiment_names() if each.startswith(f"{name}-ablation/")}
    assert shipped == wanted


@pytest.mark.parametrize("name", BUDGETS)
def test_sizes_keep_to_the_budget_and_to_each_other(name: str) -> None:
    plus = load_experiment(name)
    # Five towers widen by five channels at a time, and five more are too many.
    least = {"molhiv/plus": 0.7, "cifar10/plus": 0.92}.get(name, 0.93)
    assert least * BUDGETS[name] < size(plus) <= BUDGETS[name]
    # Without features of edges, nothing is finer than one channel of all layers.
    near = 0.025 if plus.network.edge_dim is None else 0.01
    for each in ablations(plus).values():
        assert abs(size(each) / size(plus) - 1) < near


@pytest.mark.parametrize("name", BUDGETS)
def test_an_ablation_changes_the_part_and_widths_alone(name: str) -> None:
    widths = {"network.hidden", "network.edge_dim"}
    parts = {
        "no-directions": {"network.aggregators", *widths},
        "with-directions": {"network.aggregators"},
        "no-ema": {"training.ema_decay"},
        "no-ffn": {"network.ffn_expansion", "network.ffn_dropout", *widths},
        "no-ensemble": {"network.ensemble_size", *widths},
        "no-augmentation": {"augmentation.mirror", "augmentation.cutout", "augmentation.input_noise"},
        "no-structure": {"data.random_walk", "data.rings", *widths},
    }
    edges = ["network.message=complex", "network.edge_dim=12"]
    has_them = load_experiment(name).network.num_directions > 0
    more = ["training.ema_decay=0.9"]
    plus = load_experiment(name, more if name == "pattern/plus" else [*edges, *more])
    assert {"no-directions" if has_them else "with-directions", "no-ema"} < set(ablations(plus))
    for missing, each in ablations(plus).items():
        assert 0 < len(set(each.differences(plus)) & parts[missing]) == len(each.differences(plus))
        assert each.training.seeds == plus.training.seeds


def test_edges_that_have_rings_alone_are_bare_without_structure() -> None:
    plus = load_experiment("pattern/plus", ["data.ring_sizes=[3]", "network.edge_dim=8"])
    bare = ablations(plus)["no-structure"]
    assert (bare.data.rings, bare.network.edge_dim) == ((), None)
    assert abs(size(bare) / size(plus) - 1) < 0.025


def test_without_directions_no_field_is_left() -> None:
    changes = [
        "network.aggregators=[av1, mean, dx2, min]",
        "network.num_eigenvector_features=2",
        "augmentation.distortion=0.1",
    ]
    blind = without_directions(load_experiment("zinc/plus", changes))
    assert blind.network.aggregators == ("sum", "mean", "max", "min")
    assert blind.num_directions == 0
    assert not blind.augmentation.distortion


def test_without_directions_to_leave_out_there_is_one_to_add() -> None:
    blind = load_experiment("zinc/plus", ["network.aggregators=[sum, mean, min]"])
    assert "no-directions" not in ablations(blind)
    assert ablations(blind)["with-directions"].network.aggregators == ("sum", "mean", "dx1")
    placed = load_experiment("zinc/plus", ["network.aggregators=[sum, mean]", "network.num_eigenvector_features=2"])
    assert with_directions(placed) is placed


def test_without_directions_inputs_are_augmented_as_before() -> None:
    blind = without_directions(
        load_experiment("cifar10/plus", ["augmentation.input_noise=0.1", "augmentation.rotation=10"])
    )
    assert blind.augmentation == AugmentationSettings(mirror=True, cutout=0.3, input_noise=0.1)


def test_there_are_six_isotropic_aggregators_for_any_number_of_directions() -> None:
    many = load_experiment("zinc/plus", ["network.aggregators=[dx1, mean, dx2, dx3, av1, av2, av3, max]"])
    assert without_directions(many).network.aggregators == ("sum", "mean", "min", "std", "var", "max")
    deep = load_experiment("cifar10/plus-deep")
    blind = ablations(deep)["no-directions"]
    assert (deep.network.towers, deep.network.hidden) == (25, 100)  # four channels each, and a fifth is too much
    assert (blind.network.towers, blind.network.hidden) == (26, 104)
    assert abs(size(blind) / size(deep) - 1) < 0.01
    assert blind == load_experiment("cifar10/plus-deep-ablation/no-directions")


def test_without_directions_teachers_have_none_either() -> None:
    taught = load_experiment("cifar10/plus-distilled")
    blind = ablations(taught)["no-directions"]
    assert blind == load_experiment("cifar10/plus-distilled-ablation/no-directions")
    assert load_experiment(str(blind.training.teachers)) == ablations(load_experiment("cifar10/plus"))["no-directions"]
    assert size(blind) == size(taught)


def test_branches_make_room_for_one_network_of_their_size() -> None:
    four = load_experiment("molhiv/plus")
    one = ablations(four)["no-ensemble"]
    assert (four.network.branches, four.network.hidden) == (4, 49)
    assert (one.network.branches, one.network.hidden) == (1, 106)
    assert abs(size(one) / size(four) - 1) < 0.025


def test_a_short_file_says_all(tmp_path: Path) -> None:
    plus = load_experiment("zinc/plus", ["augmentation.reflection=true", "training.learning_rate=0.00123"])
    (tmp_path / "mine.yaml").write_text(to_short_yaml(plus, "Mine."))
    assert not load_experiment(tmp_path / "mine.yaml").differences(plus)
