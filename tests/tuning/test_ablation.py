"""Ablations: only one component is missing, at the same number of parameters."""

from pathlib import Path

import pytest

from dgn.training.config import AugmentationSettings
from dgn.training.experiment import experiment_names, load_experiment
from dgn.tuning.ablation import ablations, to_short_yaml, with_directions, without_directions
from dgn.tuning.width import size

#: Experiments beyond the paper, with their budgets of parameters.
BUDGETS = {"zinc/plus": 100_000, "zinc/plus-500k": 500_000, "cifar10/plus": 110_000, "pattern/plus": 110_000}
BUDGETS |= {"peptides-func/plus": 500_000}
BUDGETS["molhiv/plus"] = 150_000


@pytest.mark.parametrize("name", BUDGETS)
def test_the_shipped_ablations_are_those_of_the_shipped_experiment(name: str) -> None:
    expected = {f"{name}-ablation/{missing}": variant for missing, variant in ablations(load_experiment(name)).items()}
    names = [other for other in experiment_names() if other.startswith(f"{name}-ablation/")]
    assert {other: load_experiment(other) for other in names} == expected


@pytest.mark.parametrize("name", BUDGETS)
def test_ablations_have_the_size_of_the_experiment_within_its_budget(name: str) -> None:
    plus = load_experiment(name)
    # Five towers widen by five channels at a time, and five more are too many.
    least = {"molhiv/plus": 0.7, "cifar10/plus": 0.92}.get(name, 0.93)
    assert least * BUDGETS[name] < size(plus) <= BUDGETS[name]
    # Without edge features, the smallest step is one channel of all layers.
    tolerance = 0.025 if plus.network.edge_dim is None else 0.01
    for variant in ablations(plus).values():
        assert abs(size(variant) / size(plus) - 1) < tolerance


@pytest.mark.parametrize("name", BUDGETS)
def test_an_ablation_changes_its_component_and_widths_only(name: str) -> None:
    widths = {"network.hidden", "network.edge_dim"}
    components = {
        "no-directions": {"network.aggregators", *widths},
        "with-directions": {"network.aggregators"},
        "no-ema": {"training.ema_decay"},
        "no-ffn": {"network.ffn_expansion", "network.ffn_dropout", *widths},
        "no-ensemble": {"network.ensemble_size", *widths},
        "no-augmentation": {"augmentation.mirror", "augmentation.cutout", "augmentation.input_noise"},
        "no-structure": {"data.rwse_steps", "data.ring_sizes", *widths},
    }
    edges = ["network.message=complex", "network.edge_dim=12"]
    has_directions = load_experiment(name).network.num_directions > 0
    more = ["training.ema_decay=0.9"]
    plus = load_experiment(name, more if name == "pattern/plus" else [*edges, *more])
    assert {"no-directions" if has_directions else "with-directions", "no-ema"} < set(ablations(plus))
    for missing, variant in ablations(plus).items():
        changed = set(variant.differences(plus))
        assert changed
        assert changed <= components[missing]
        assert variant.training.seeds == plus.training.seeds


def test_edges_without_other_features_have_none_without_structure() -> None:
    plus = load_experiment("pattern/plus", ["data.ring_sizes=[3]", "network.edge_dim=8"])
    bare = ablations(plus)["no-structure"]
    assert (bare.data.ring_sizes, bare.network.edge_dim) == ((), None)
    assert abs(size(bare) / size(plus) - 1) < 0.025


def test_no_directions_removes_all_uses_of_the_field() -> None:
    changes = [
        "network.aggregators=[av1, mean, dx2, min]",
        "network.num_eigenvector_features=2",
        "augmentation.distortion=0.1",
    ]
    isotropic = without_directions(load_experiment("zinc/plus", changes))
    assert isotropic.network.aggregators == ("sum", "mean", "max", "min")
    assert isotropic.num_directions == 0
    assert not isotropic.augmentation.distortion


def test_an_isotropic_network_gets_a_derivative() -> None:
    isotropic = load_experiment("zinc/plus", ["network.aggregators=[sum, mean, min]"])
    assert "no-directions" not in ablations(isotropic)
    assert ablations(isotropic)["with-directions"].network.aggregators == ("sum", "mean", "dx1")
    positional = load_experiment("zinc/plus", ["network.aggregators=[sum, mean]", "network.num_eigenvector_features=2"])
    assert with_directions(positional) is positional


def test_no_directions_keeps_the_augmentation_of_inputs() -> None:
    isotropic = without_directions(
        load_experiment("cifar10/plus", ["augmentation.input_noise=0.1", "augmentation.rotation=10"])
    )
    assert isotropic.augmentation == AugmentationSettings(mirror=True, cutout=0.3, input_noise=0.1)


def test_at_most_six_isotropic_aggregators_replace_directional_ones() -> None:
    many = load_experiment("zinc/plus", ["network.aggregators=[dx1, mean, dx2, dx3, av1, av2, av3, max]"])
    assert without_directions(many).network.aggregators == ("sum", "mean", "min", "std", "var", "max")
    deep = load_experiment("cifar10/plus-deep")
    isotropic = ablations(deep)["no-directions"]
    assert (deep.network.towers, deep.network.hidden) == (25, 100)  # four channels each, and a fifth is too much
    assert (isotropic.network.towers, isotropic.network.hidden) == (26, 104)
    assert abs(size(isotropic) / size(deep) - 1) < 0.01
    assert isotropic == load_experiment("cifar10/plus-deep-ablation/no-directions")


def test_no_directions_distils_from_teachers_without_directions() -> None:
    student = load_experiment("cifar10/plus-distilled")
    isotropic = ablations(student)["no-directions"]
    assert isotropic == load_experiment("cifar10/plus-distilled-ablation/no-directions")
    assert (
        load_experiment(str(isotropic.training.distill_from))
        == ablations(load_experiment("cifar10/plus"))["no-directions"]
    )
    assert size(isotropic) == size(student)


def test_no_ensemble_is_one_network_of_the_same_size() -> None:
    four = load_experiment("molhiv/plus")
    one = ablations(four)["no-ensemble"]
    assert (four.network.ensemble_size, four.network.hidden) == (4, 49)
    assert (one.network.ensemble_size, one.network.hidden) == (1, 106)
    assert abs(size(one) / size(four) - 1) < 0.025


def test_a_short_file_has_all_changed_settings(tmp_path: Path) -> None:
    plus = load_experiment("zinc/plus", ["augmentation.reflection=true", "training.learning_rate=0.00123"])
    (tmp_path / "mine.yaml").write_text(to_short_yaml(plus, "Mine."))
    assert not load_experiment(tmp_path / "mine.yaml").differences(plus)
