"""Conversion of the estimators' inputs: SMILES, labels and parameters."""

import operator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dgn.data.datasets.pairs import join_smiles

Array = NDArray[Any]


def parse_classes(names: tuple[str, ...]) -> Array:
    """The class names as bool, int or float, if they remain distinct.

    >>> [parse_classes(names).dtype.kind for names in (("0", "1"), ("False", "True"), ("no", "yes"))]
    ['i', 'b', 'U']
    >>> parse_classes(("01", "1")).tolist()
    ['01', '1']
    """
    if names == ("False", "True"):
        return np.array([False, True])
    for dtype in (int, float):
        try:
            labels = np.array([dtype(name) for name in names])
        except ValueError:
            continue
        if len(set(labels.tolist())) == len(names):
            return labels
    return np.array(names)


def known_labels(y: Any) -> tuple[Array, Array]:
    """The labels that are neither NaN, None nor pandas' NA, and their mask.

    >>> known_labels(["no", float("nan"), "yes"])
    (array(['no', 'yes'], dtype='<U3'), array([ True, False,  True]))
    """
    labels = np.asarray(y, dtype=object)  # in an array of text, NaN would be a label
    mask = np.array([_is_known(label) for label in labels.flat], dtype=bool).reshape(labels.shape)
    return (np.asarray(y) if mask.all() else np.array(labels[mask].tolist())), mask


def _is_known(label: Any) -> bool:
    equal = label == label  # False for NaN; NA for pandas' NA, which has no bool
    return label is not None and isinstance(equal, bool | np.bool_) and bool(equal)


def as_int(name: str, value: Any) -> int:
    """An integer parameter, from Python's or NumPy's integers.

    >>> as_int("epochs", np.int64(3))
    3
    """
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{name}: expected an integer, got {value!r}; round it") from None


def to_json_value(value: Any) -> Any:
    """A parameter or label as a JSON value; a random state becomes None.

    >>> to_json_value(np.float32(0.5)), to_json_value("no"), to_json_value(np.random.RandomState(0))
    (0.5, 'no', None)
    """
    if isinstance(value, np.random.RandomState):
        return None
    plain = value.item() if isinstance(value, np.generic) else value
    return plain if plain is None or isinstance(plain, bool | int | float | str) else str(plain)


def as_smiles_list(smiles: Any) -> list[str]:
    """The SMILES of a list, an array or a pandas series; missing ones are empty.

    An array may have one column, or two of pairs, each of which becomes one text.

    >>> as_smiles_list([["CCO", "O"], ["CN", None]])
    ['CCO>O', 'CN>']
    """
    if isinstance(smiles, str):
        raise TypeError("X: expected a list of SMILES, got one string; put it into a list")
    array = np.asarray(smiles, dtype=object)
    if array.ndim == 2 and array.shape[1] == 2:
        return [join_smiles(pair) for pair in zip(*map(as_smiles_list, array.T), strict=True)]
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise TypeError(
            f"X: expected a list of SMILES, or of pairs, got an array of shape {list(array.shape)}; pass one column"
        )
    values = [value if _is_known(value) else "" for value in array]
    for index, value in enumerate(values):
        if not isinstance(value, str):
            raise TypeError(f"X: expected SMILES, got {value!r} at index {index}; pass strings only")
    return [str(value) for value in values]


def as_float_array(y: Any) -> NDArray[np.float64]:
    """Targets as float64, NaN where missing."""
    try:
        return np.asarray(y, dtype=np.float64)
    except (TypeError, ValueError) as problem:
        raise ValueError(f"y: expected numbers, got others: {problem}; for classes use dgn.DGNClassifier") from problem


def as_weights(sample_weight: Any, rows: int) -> NDArray[np.float64] | None:
    """Weights of the molecules [R] as float64, None without; negative, infinite and missing ones are refused.

    >>> as_weights([1, 0.5], 2)
    array([1. , 0.5])
    """
    if sample_weight is None:
        return None
    weights = np.asarray(sample_weight, dtype=np.float64)
    if weights.shape != (rows,):
        raise ValueError(
            f"sample_weight: expected {rows} numbers, one for each SMILES, got shape {list(weights.shape)}; check both"
        )
    if not (np.isfinite(weights) & (weights >= 0)).all():
        raise ValueError("sample_weight: expected numbers of 0 or more, got others; correct them, or leave them out")
    return weights


def as_censoring(censoring: Any, shape: tuple[int, ...]) -> Tensor:
    """Signs 1, -1 and 0 of targets [R, T], of which the last dimension may be left out where it is 1.

    >>> as_censoring([1, 0], (2, 1)).tolist()
    [[1], [0]]
    """
    signs = np.asarray(censoring)
    if signs.size != np.prod(shape) or len(signs) != shape[0] or not np.isin(signs, (-1, 0, 1)).all():
        raise ValueError(
            f"censoring: expected 1, -1 or 0 for each y, got values {np.unique(signs)[:5].tolist()} of shape "
            f"{list(signs.shape)}; 1 means that the truth is above y"
        )
    return torch.from_numpy(signs.astype(np.int8).reshape(shape))


def check_rows(smiles: int, values: int) -> None:
    """Refuse lists of different lengths."""
    if smiles != values:
        raise ValueError(f"y: expected {smiles} values, one for each SMILES, got {values}; check both lists")
