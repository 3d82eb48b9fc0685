"""What the estimators are given, SMILES, labels and parameters, as plain values."""

import operator
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def labels_of(names: tuple[str, str]) -> Array:
    """Labels of a table as Python would have them, if they still differ.

    >>> labels_of(("0", "1")).dtype.kind, labels_of(("False", "True")).dtype.kind, labels_of(("no", "yes")).dtype.kind
    ('i', 'b', 'U')
    >>> labels_of(("01", "1")).tolist()
    ['01', '1']
    """
    if names == ("False", "True"):
        return np.array([False, True])
    for kind in (int, float):
        try:
            found = np.array([kind(name) for name in names])
        except ValueError:
            continue
        if found[0] != found[1]:
            return found
    return np.array(names)


def known_labels(given: Any) -> tuple[Array, Array]:
    """The labels that are neither NaN, None nor pandas' NA, and where they are.

    >>> known_labels(["no", float("nan"), "yes"])
    (array(['no', 'yes'], dtype='<U3'), array([ True, False,  True]))
    """
    every = np.asarray(given, dtype=object)  # as text, NaN would be a label like others
    known = np.array([_known(one) for one in every.flat], dtype=bool).reshape(every.shape)
    return (np.asarray(given) if known.all() else np.array(every[known].tolist())), known


def _known(label: Any) -> bool:
    same = label == label  # NaN is not, and pandas' NA answers NA, of which there is no bool
    return label is not None and isinstance(same, bool | np.bool_) and bool(same)


def whole(name: str, value: Any) -> int:
    """A parameter that counts, from Python's or NumPy's whole numbers.

    >>> whole("epochs", np.int64(3))
    3
    """
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{name}: expected a whole number, got {value!r}; round it") from None


def written(value: Any) -> Any:
    """A parameter or label as JSON has it; a state of random numbers is not kept.

    >>> written(np.float32(0.5)), written("no"), written(np.random.RandomState(0))
    (0.5, 'no', None)
    """
    if isinstance(value, np.random.RandomState):
        return None
    plain = value.item() if isinstance(value, np.generic) else value
    return plain if plain is None or isinstance(plain, bool | int | float | str) else str(plain)


def texts(smiles: Any) -> list[str]:
    """SMILES as a list: of a list, an array (also with one column) or a pandas series; missing ones are empty."""
    if isinstance(smiles, str):
        raise TypeError("X: expected a list of SMILES, got one text; put it into a list")
    found = np.asarray(smiles, dtype=object)
    if found.ndim == 2 and found.shape[1] == 1:
        found = found[:, 0]
    if found.ndim != 1:
        raise TypeError(f"X: expected a list of SMILES, got an array of shape {list(found.shape)}; give text alone")
    given = [one if _known(one) else "" for one in found]
    for number, one in enumerate(given):
        if not isinstance(one, str):
            raise TypeError(f"X: expected SMILES, got {one!r} at place {number}; give text alone")
    return [str(one) for one in given]


def numbers(y: Any) -> NDArray[np.float64]:
    """Targets as numbers, NaN where there is none."""
    try:
        return np.asarray(y, dtype=np.float64)
    except (TypeError, ValueError) as problem:
        raise ValueError(f"y: expected numbers, got others: {problem}; for classes use dgn.DGNClassifier") from problem


def check_rows(smiles: int, values: int) -> None:
    """Refuse lists of different lengths."""
    if smiles != values:
        raise ValueError(f"y: expected {smiles} values, one for each SMILES, got {values}; check both lists")
