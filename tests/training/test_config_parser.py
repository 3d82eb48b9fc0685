"""Dataclasses from plain data: types, ranges and unknown keys are checked."""

from dataclasses import dataclass
from typing import Literal

import pytest

from dgn.nn.settings import check_ranges, setting
from dgn.training.config_parser import plain, read


@dataclass(frozen=True)
class Inner:
    rate: float = setting("a rate", 0.5, above=0, most=1)
    count: int = setting("a count", 3, least=1, below=10)

    def __post_init__(self) -> None:
        check_ranges(self, "inner")


@dataclass(frozen=True)
class Outer:
    kind: Literal["a", "b"]
    names: tuple[str, ...] = ()
    flag: bool = False
    size: int | None = None
    inner: Inner | None = None


def test_reading_and_writing_are_inverse() -> None:
    outer = Outer("b", ("x", "y"), True, 4, Inner(1.0, 2))
    data = plain(outer)
    assert data == {"kind": "b", "names": ["x", "y"], "flag": True, "size": 4, "inner": {"rate": 1.0, "count": 2}}
    assert read(Outer, data, "") == outer


def test_missing_keys_have_their_defaults_and_null_is_none() -> None:
    assert read(Outer, {"kind": "a", "size": None}, "") == Outer("a")


def test_integers_are_converted_to_floats() -> None:
    rate = read(Inner, {"rate": 1}, "inner").rate
    assert rate == 1.0
    assert isinstance(rate, float)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({}, "experiment: expected a value for kind, got none"),
        ({"kind": "c"}, "kind: expected one of 'a', 'b', got 'c'"),
        ({"kind": "a", "flags": True}, "key of experiment: .* did you mean 'flag'"),
        ({"kind": "a", "flag": 1}, "flag: expected true or false, got 1"),
        ({"kind": "a", "size": True}, "size: expected a whole number, got True"),
        ({"kind": "a", "size": 1.5}, "size: expected a whole number, got 1.5"),
        ({"kind": "a", "names": "x"}, r"names: expected a list, got 'x'; write \[x\]"),
        ({"kind": "a", "names": [1]}, r"names\[0\]: expected text, got 1"),
        ({"kind": "a", "inner": 3}, "inner: expected keys with values, got 3"),
        ({"kind": "a", "inner": {"counts": 3}}, "key of inner: .* did you mean 'count'"),
        ({"kind": "a", "inner": {"rate": "fast"}}, "inner.rate: expected a number, got 'fast'"),
        ({"kind": "a", "inner": {"rate": float("nan")}}, "inner.rate: expected a finite number"),
        ({"kind": "a", "inner": {"rate": 0}}, "inner.rate: expected a number above 0 and at most 1, got 0"),
        ({"kind": "a", "inner": {"rate": 1.1}}, "inner.rate: expected a number above 0 and at most 1"),
        ({"kind": "a", "inner": {"count": 0}}, "inner.count: expected a number at least 1 and below 10, got 0"),
        ({"kind": "a", "inner": {"count": 10}}, "inner.count: expected a number at least 1 and below 10"),
    ],
)
def test_invalid_values_are_refused_by_name(data: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read(Outer, data, "")
