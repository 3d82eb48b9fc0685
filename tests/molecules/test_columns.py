"""Columns and tasks are detected, and targets that cannot be learned are refused."""

import math

import pytest

from dgn.molecules.columns import Target, find_smiles, find_targets, read_targets, read_value

MANY = ["CCO", "c1ccccc1", "CCN"]


def test_smiles_are_detected_by_name_or_by_content() -> None:
    assert find_smiles(["id", "SMILES"], {"id": ["C", "N", "O"], "SMILES": MANY}) == "SMILES"
    assert find_smiles(["smiles", "drug"], {"smiles": ["x", "y", "z"], "drug": MANY}) == "drug"
    assert find_smiles(["kind", "drug"], {"kind": ["CI", "CN", "CI"], "drug": MANY}) == "drug"
    assert find_smiles(["canonical_smiles", "smiles"], {"canonical_smiles": MANY, "smiles": MANY}) == "smiles"


def test_several_columns_of_smiles_are_ambiguous() -> None:
    sample = {"solvent_smiles": ["O", "CO", "O"], "solute_smiles": MANY, "smiles_note": ["x", "y", "z"]}
    with pytest.raises(ValueError, match="got solvent_smiles, solute_smiles; choose one with --smiles"):
        find_smiles(list(sample), sample)
    assert find_smiles(["solute_smiles", "smiles_note"], sample) == "solute_smiles"


def test_a_table_without_smiles_or_header_is_refused() -> None:
    with pytest.raises(ValueError, match="expected a column of SMILES, got columns a, b"):
        find_smiles(["a", "b"], {"a": ["1", "2"], "b": ["x", "y"]})
    with pytest.raises(ValueError, match="put a line such as smiles,y above it"):
        find_smiles(["CCCO"], {"CCCO": MANY})
    with pytest.raises(ValueError, match="put a line such as smiles,y above it"):
        find_smiles(["CO", "1.5"], {"CO": MANY, "1.5": ["1", "2", "3"]})
    assert find_smiles(["CO", "y"], {"CO": MANY, "y": ["1", "2", "3"]}) == "CO"


def test_targets_are_detected() -> None:
    sample = {"smiles": MANY, "mol_id": ["1", "2", "3"], "logP": ["1.5", "2", "3"], "SA": ["1.2", "2", "4"]}
    with pytest.raises(ValueError, match="got logP, SA; choose it with --target"):
        find_targets(list(sample), sample, "smiles")
    assert find_targets(["smiles", "mol_id", "logP"], sample, "smiles") == ["logP"]
    assert find_targets(["smiles", "logP", "y"], {**sample, "y": ["1", "2", "3"]}, "smiles") == ["y"]
    labels = {"smiles": MANY, "a": ["0", "1", ""], "b": ["1", "", "0"], "text": ["u", "v", "w"]}
    assert find_targets(list(labels), labels, "smiles") == ["a", "b"]
    assert find_targets(["smiles", "kind"], {"smiles": MANY, "kind": ["yes", "no", "no"]}, "smiles") == ["kind"]


def test_a_target_with_decimal_commas_is_detected_to_be_refused_later() -> None:
    sample = {"smiles": MANY, "Name": ["a", "b", "c"], "logP": ["1,5", "2,5", "3"]}
    assert find_targets(list(sample), sample, "smiles") == ["logP"]


def test_tasks_are_inferred() -> None:
    assert read_targets({"y": ["1", "2", "", "2.5"]}) == ("regression", [Target("y")])
    assert read_targets({"y": ["1", "0", "1.0"]}) == ("binary", [Target("y", ("0", "1"))])
    assert read_targets({"y": ["active", "inactive"]})[1] == [Target("y", ("inactive", "active"))]
    assert read_targets({"a": ["1", "0"], "b": ["", "1", "0"]})[0] == "multi-label"
    assert read_targets({"y": ["1", "0"]}, "regression") == ("regression", [Target("y")])


@pytest.mark.parametrize(
    ("values", "task", "classes"),
    [
        (["0", "1", "#N/A"], None, ("0", "1")),
        (["0", "1", "1.0", "inconclusive"], None, ("0", "1")),
        (["0", "1", "1.0", "inconclusive"], "binary", ("0", "1")),
        ([*["active", "inactive"] * 10, "inconclusive"], None, ("inactive", "active")),
        (["neg", "pos", "n.d.", "ND"], None, ("neg", "pos")),
        (["active", "Inactive", "ACTIVE", "inactive"], None, ("Inactive", "active")),
        ([*["0", "1"] * 10, "2"], "binary", ("0", "1")),
        (["1.5", "2.5", *["3.5"] * 20, "4,5"], None, None),
        ([*["0", "1"] * 10, "2"], None, None),  # numbers, which happen to be small
    ],
)
def test_few_values_of_neither_class(values: list[str], task: str | None, classes: tuple[str, str] | None) -> None:
    assert read_targets({"y": values}, task) == ("binary" if classes else "regression", [Target("y", classes)])
    assert find_targets(["smiles", "y"], {"smiles": MANY, "y": values}, "smiles") == ["y"]
    labels = {"smiles": MANY, "a": values, "b": values}
    if classes and task is None:
        assert find_targets(list(labels), labels, "smiles") == ["a", "b"]


@pytest.mark.parametrize(
    ("values", "task", "message"),
    [
        ({"y": ["1", "1.0", ""]}, None, "target 'y': expected at least two distinct values, got 1"),
        ({"y": ["", "NA"]}, None, "got none"),
        ({"y": ["a", "b", "c"]}, None, "expected numbers or classes of 5 rows or more, got 3 distinct"),
        ({"y": ["1,5", "2,25", "-3"]}, None, "target 'y': expected numbers such as 1234.5, got '1,5'"),
        (
            {"y": ["1", "2", "3", "1,5"]},
            None,
            "write them with a decimal point",
        ),  # else it would be fitted to the integers only
        ({"y": ["1,234", "12,345,678.9", "3"]}, "regression", "and without commas"),
        (
            {"y": ["no", "yes"]},
            "regression",
            "'y': expected numbers, got 2 distinct texts such as 'no'; choose another",
        ),
        ({"y": ["1", "2", "3"]}, "binary", "expected two classes, got 3"),
        ({"y": ["no"] * 90 + ["yes"] * 9 + ["unclear"]}, "binary", "expected two classes, got 3"),
        ({"a": ["1", "0", "1"], "b": ["1", "2", "3"]}, None, "all numbers or all classes"),
        ({"y": ["no"] * 90 + ["yes"] * 9 + ["unclear"]}, None, "classes of 5 rows or more, got 3 distinct texts"),
        ({"y": ["0.5", "1", "2"]}, "multiclass", "expected text or integers as classes, got '0.5'"),
        ({"y": ["no", "yes"]}, "multiclass", "expected 3 to 50 classes, got 2; use --task binary"),
        ({"y": [str(n) for n in range(51)]}, "multiclass", "got 51; use --task regression"),
        ({"a": ["x", "y", "z"] * 5, "b": ["x", "y"] * 5}, None, "expected one column of several classes, got a, b"),
        ({"y": ["1", "0"]}, "regresion", "did you mean 'regression'"),
    ],
)
def test_targets_that_cannot_be_learned_are_refused(
    values: dict[str, list[str]], task: str | None, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        read_targets(values, task)


def test_texts_are_several_classes_and_integers_only_by_request() -> None:
    texts = ["Low", "high", "medium", "low", ""] * 5
    assert read_targets({"y": texts}) == ("multiclass", [Target("y", ("Low", "high", "medium"))])
    assert read_value("LOW", ("Low", "high", "medium")) == 0
    assert find_targets(["smiles", "y"], {"smiles": MANY, "y": texts}, "smiles") == ["y"]
    numbers = {"smiles": MANY, "y": texts, "logP": ["1", "2.5"]}
    assert find_targets(list(numbers), numbers, "smiles") == ["logP"]
    integers = ["10", "2", "1", "2.0"] * 5
    assert read_targets({"y": integers}) == ("regression", [Target("y")])
    assert read_targets({"y": integers}, "multiclass") == ("multiclass", [Target("y", ("1", "2", "10"))])


def test_values() -> None:
    assert read_value("1.0", ("0", "1")) == 1
    assert read_value("2", ("0", "1")) is None
    assert read_value("inf", None) is None
    assert read_value("Active", ("inactive", "active")) == 1
    assert math.isnan(read_value(" N/A ", None) or 0)
