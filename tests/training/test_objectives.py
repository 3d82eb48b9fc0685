"""Losses equal those of torch, padding changes nothing, and sums over any batches give the whole."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from dgn.training.objectives import OBJECTIVES, classes, make_objective


def class_weighted(prediction: Tensor, target: Tensor) -> Tensor:
    count = torch.bincount(target, minlength=prediction.size(1))
    weight = (len(target) - count).to(prediction.dtype) / len(target)
    return functional.cross_entropy(prediction, target, weight=weight * (count > 0))


def labelled_binary(prediction: Tensor, target: Tensor) -> Tensor:
    labelled = ~target.isnan()
    return functional.binary_cross_entropy_with_logits(prediction[labelled], target[labelled])


PLAIN: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "regression": functional.l1_loss,
    "node-regression": functional.l1_loss,
    "node-classification": class_weighted,
    "classification": functional.cross_entropy,
    "multi-label": labelled_binary,
}


def make_rows(name: str, rows: int, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    random = torch.Generator().manual_seed(rows)
    prediction = torch.randn(rows, 3, generator=random, dtype=dtype)
    if "classification" in name:
        return prediction, torch.randint(3, (rows,), generator=random)
    if name.endswith("regression"):
        return prediction, torch.randn(rows, 3, generator=random, dtype=dtype)
    target = torch.randint(2, (rows, 3), generator=random).to(dtype)
    return prediction, target.masked_fill(torch.rand(rows, 3, generator=random) < 0.3, torch.nan)


def unlabelled(target: Tensor, rows: int) -> Tensor:
    garbage = torch.full((rows, *target.shape[1:]), -1 if not target.is_floating_point() else torch.nan)
    return torch.cat([target, garbage.to(target.dtype)])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", OBJECTIVES)
def test_losses_and_gradients_equal_those_of_torch(name: str, dtype: torch.dtype) -> None:
    prediction, target = make_rows(name, 20, dtype)
    prediction.requires_grad_()
    numerator, denominator = make_objective(name).loss(prediction, target, torch.ones(20))
    expected = PLAIN[name](prediction, target)
    torch.testing.assert_close(numerator / denominator, expected)
    ours = torch.autograd.grad(numerator / denominator, prediction)
    torch.testing.assert_close(ours, torch.autograd.grad(expected, prediction))


@pytest.mark.parametrize("name", OBJECTIVES)
def test_padding_changes_no_term_and_no_gradient_whatever_it_holds(name: str) -> None:
    prediction, target = make_rows(name, 20)
    bad = torch.tensor([[torch.nan, torch.inf, -torch.inf], [1e30, 2.0, 3.0]], dtype=prediction.dtype)
    padded = torch.cat([prediction, bad]).requires_grad_()
    weight = torch.cat([torch.ones(20), torch.zeros(2)])
    objective = make_objective(name)
    terms = objective.loss(padded, unlabelled(target, 2), weight)
    torch.testing.assert_close(terms, objective.loss(prediction, target, torch.ones(20)))
    (gradient,) = torch.autograd.grad(terms[0], padded)
    assert not gradient[20:].any()
    assert gradient[:20].isfinite().all()
    # Padding usually repeats a real label: it must not count either.
    repeated = torch.cat([target, target[:2]])
    torch.testing.assert_close(objective.loss(padded, repeated, weight), terms)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_terms_add_up_over_batches(name: str) -> None:
    prediction, target = make_rows(name, 30)
    weight = torch.cat([torch.ones(27), torch.zeros(3)])
    objective = make_objective(name)
    parts = list(zip(prediction.split(7), target.split(7), weight.split(7), strict=True))
    partial = [objective.statistics(*part) for part in parts]
    statistics = None if partial[0] is None else torch.stack([one for one in partial if one is not None]).sum(dim=0)
    terms = [objective.loss(*part, statistics) for part in parts]
    whole = objective.loss(prediction, target, weight)
    torch.testing.assert_close(sum(numerator for numerator, _ in terms), whole[0])
    torch.testing.assert_close(sum(denominator for _, denominator in terms), whole[1])


@pytest.mark.parametrize("name", OBJECTIVES)
def test_nothing_counts_in_an_empty_or_unlabelled_batch(name: str) -> None:
    for rows in (0, 4):
        prediction, target = torch.ones(rows, 3, requires_grad=True), make_rows(name, 4)[1][:rows]
        numerator, denominator = make_objective(name).loss(prediction, target, torch.zeros(rows))
        assert (numerator.item(), denominator.item()) == (0.0, 0.0)


def test_missing_classes_are_left_out() -> None:
    prediction = torch.randn(4, 3, generator=torch.Generator().manual_seed(0))
    target, labelled = torch.tensor([0, -1, 2, 2]), torch.tensor([0, 2, 3])
    for name in ("classification", "node-classification"):
        numerator, denominator = make_objective(name).loss(prediction, target, torch.ones(4))
        torch.testing.assert_close(numerator / denominator, PLAIN[name](prediction[labelled], target[labelled]))


@pytest.mark.parametrize("name", ["classification", "node-classification"])
def test_smoothed_labels_are_spread_over_all_classes(name: str) -> None:
    prediction, target = make_rows(name, 20)
    prediction.requires_grad_()
    bad = torch.cat([prediction, torch.full((2, 3), torch.nan, dtype=prediction.dtype)])
    weight = torch.cat([torch.ones(20), torch.zeros(2)])
    spread = 0.7 * functional.one_hot(target, 3) + 0.1
    share = torch.ones(20, dtype=prediction.dtype)
    if name == "node-classification":
        share = 1 - torch.bincount(target, minlength=3)[target] / torch.tensor(20.0).to(share.dtype)
    expected = -(share * (spread * prediction.log_softmax(dim=1)).sum(dim=1)).sum(), share.sum()
    terms = make_objective(name).smoothed(0.3).loss(bad, unlabelled(target, 2), weight)
    torch.testing.assert_close(terms, expected)
    torch.testing.assert_close(*(torch.autograd.grad(each[0], prediction) for each in (terms, expected)))


def test_labels_without_classes_are_not_smoothed() -> None:
    for name in ("regression", "multi-label"):
        assert make_objective(name).smoothed(0.0) == make_objective(name)
        with pytest.raises(ValueError, match=f"training.label_smoothing: expected 0 for {name}, got 0.1"):
            make_objective(name).smoothed(0.1)


def test_class_weights_are_those_of_the_paper() -> None:
    target = torch.tensor([0] * 6 + [1] * 2)
    numerator, denominator = make_objective("node-classification").loss(torch.zeros(8, 3), target, torch.ones(8))
    assert denominator.item() == pytest.approx(6 * (8 - 6) / 8 + 2 * (8 - 2) / 8)  # the third class is absent
    assert (numerator / denominator).item() == pytest.approx(torch.tensor(3.0).log().item())


def test_integer_labels_and_one_column_are_taken_as_they_come() -> None:
    prediction = torch.tensor([[0.3], [-2.0], [1.0]])
    numerator, denominator = make_objective("multi-label").loss(
        prediction, torch.tensor([1, 0, -1], dtype=torch.int8), torch.ones(3)
    )
    expected = functional.binary_cross_entropy_with_logits(prediction[:2, 0], torch.tensor([1.0, 0.0]))
    torch.testing.assert_close(numerator / denominator, expected)


def test_half_precision_predictions_are_summed_in_float32() -> None:
    prediction, target = make_rows("regression", 3000, torch.float32)
    numerator, _ = make_objective("regression").loss(prediction.bfloat16(), target, torch.ones(3000))
    assert numerator.dtype == torch.float32


@pytest.mark.parametrize("name", OBJECTIVES)
def test_losses_trace_without_breaks(name: str) -> None:
    prediction, target = make_rows(name, 8, torch.float32)
    objective = make_objective(name)
    compiled = torch.compile(objective.loss, backend="eager", fullgraph=True)
    torch.testing.assert_close(
        compiled(prediction, target, torch.ones(8)), objective.loss(prediction, target, torch.ones(8))
    )


def test_unknown_names_are_refused_with_the_nearest() -> None:
    with pytest.raises(ValueError, match="did you mean 'regression'"):
        make_objective("regresion")
    with pytest.raises(ValueError, match="metric: expected one of 'mae'"):
        make_objective("regression", "roc-auc")


def test_numbers_of_classes_may_be_floats() -> None:
    prediction, target = torch.randn(4, 3, generator=torch.Generator().manual_seed(0)), torch.tensor([0, 2, 1, -1])
    expected = classes(prediction, target, torch.ones(4))
    for labels in (target.float(), target.float()[:, None]):
        torch.testing.assert_close(classes(prediction, labels, torch.ones(4)), expected)
