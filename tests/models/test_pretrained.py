"""Networks that come with the package score what their cards say."""

import os
from pathlib import Path

import pytest

import dgn
from dgn.data.benchmark import load_benchmark
from dgn.training.model import predict_split
from dgn.training.objectives import make_objective
from dgn.training.pretrained import find_pretrained, pretrained_names
from dgn.training.scores import format_score, unit

DATA = Path(__file__).parents[3] / "shared" / "data"
LARGE = ("cifar10", "pattern", "molpcba", "peptides-func")  # minutes each


@pytest.mark.parametrize("name", pretrained_names())
def test_a_pretrained_network_scores_what_its_card_says(name: str) -> None:
    model = dgn.load_pretrained(name, "cpu")
    signature = model.signature
    is_bundled = signature.dataset == "digits"
    if is_bundled:
        pytest.importorskip("sklearn", reason="the digits come with scikit-learn")
    elif not DATA.exists():
        pytest.skip(f"needs the data of {signature.dataset} in {DATA}")
    elif signature.dataset in LARGE and "DGN_TEST_PRETRAINED" not in os.environ:
        pytest.skip(f"scoring {name} takes minutes; set DGN_TEST_PRETRAINED=1")
    benchmark = load_benchmark(signature.dataset, None if is_bundled else DATA)
    prediction, target = predict_split(model, benchmark, "test")
    score = make_objective(signature.objective, signature.metric).metric(prediction, target)
    expected = model.metrics["test"][signature.metric]
    assert score == pytest.approx(expected, abs=1e-3)
    card = (find_pretrained(name) / "README.md").read_text()
    assert format_score(signature.metric, expected * unit(signature.metric)) in card
    assert f'dgn.load_pretrained("{name}")' in card


@pytest.mark.parametrize("name", pretrained_names())
def test_pretrained_networks_are_small(name: str) -> None:
    assert sum(parameter.numel() for parameter in dgn.load_pretrained(name, "cpu").network.parameters()) <= 500_000
    assert sum(path.stat().st_size for path in find_pretrained(name).iterdir()) < 2.2e6


def test_unknown_names_are_refused_with_the_nearest() -> None:
    with pytest.raises(ValueError, match=r"got 'digits/dx-sined'; did you mean 'digits/dx-signed'\?"):
        dgn.load_pretrained("digits/dx-sined")
    assert "digits/dx-signed" in pretrained_names()
