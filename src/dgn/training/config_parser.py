"""Conversion between plain data and frozen dataclasses; types are checked, unknown keys refused."""

import sys
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from types import UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from dgn.graph.checks import check_option

T = TypeVar("T")
FLOAT = sys.float_info.max
WORDS = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}


def read(kind: type[T], data: object, where: str) -> T:
    """A dataclass built from a mapping; ``where`` is the dotted name of the mapping, empty at the top.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Point:
    ...     x: float
    ...     name: str | None = None
    >>> read(Point, {"x": 1}, "point")
    Point(x=1.0, name=None)
    >>> read(Point, {"x": 1, "nam": "a"}, "point")
    Traceback (most recent call last):
    ValueError: key of point: expected one of 'x', 'name', got 'nam'; did you mean 'name'?
    """
    subject = where or "experiment"
    if not isinstance(data, Mapping):
        raise ValueError(f"{subject}: expected keys with values, got {data!r}; write 'key: value' lines below it")
    assert is_dataclass(kind)
    declared, hints = {key_of(field): field for field in fields(kind)}, get_type_hints(kind)
    for key in data:
        check_option(f"key of {subject}", key, tuple(declared))
    missing = [name for name, field in declared.items() if name not in data and _is_required(field)]
    if missing:
        raise ValueError(f"{subject}: expected a value for {', '.join(missing)}, got none; add it")
    dotted = f"{where}." if where else ""
    names = {key: declared[key].name for key in data}
    return kind(**{names[key]: convert(hints[names[key]], value, f"{dotted}{key}") for key, value in data.items()})


def key_of(field: "Field[Any]") -> str:
    """The key of a field: its name, without the underscore that keeps it apart from a keyword, as in ``from_``."""
    return field.name.rstrip("_")


def _is_required(field: "Field[Any]") -> bool:
    return field.default is MISSING and field.default_factory is MISSING


def convert(hint: Any, value: object, where: str) -> Any:
    """A value of plain data, converted to the type of ``hint``."""
    kind, inner = get_origin(hint), get_args(hint)
    if kind in (Union, UnionType):
        (other,) = (option for option in inner if option is not type(None))
        return None if value is None else convert(other, value, where)
    if kind is Literal:
        check_option(where, value, inner)
        return value
    if kind is tuple:
        if not isinstance(value, list | tuple):
            raise ValueError(f"{where}: expected a list, got {value!r}; write [{value}]")
        return tuple(convert(inner[0], item, f"{where}[{index}]") for index, item in enumerate(value))
    if isinstance(hint, type) and is_dataclass(hint):
        return read(hint, value, where)
    return _plain(hint, value, where)


def _plain(hint: type, value: object, where: str) -> Any:
    # true is an int in Python, and 1 is a float in a configuration
    fits = isinstance(value, hint) and (hint is bool or not isinstance(value, bool))
    is_int = hint is float and isinstance(value, int) and not isinstance(value, bool)
    if not fits and not is_int:
        raise ValueError(f"{where}: expected {WORDS[hint]}, got {value!r}; write one")
    if hint is float and not -FLOAT <= value <= FLOAT:  # type: ignore[operator]
        raise ValueError(f"{where}: expected a finite number, got {value}; leave the setting out for its default")
    return float(value) if is_int else value  # type: ignore[arg-type]


def plain(settings: Any) -> Any:
    """Plain data (dicts, lists, numbers, text, None) of a dataclass; the inverse of :func:`read`."""
    if is_dataclass(settings):
        return {key_of(field): plain(getattr(settings, field.name)) for field in fields(settings)}
    return [plain(item) for item in settings] if isinstance(settings, tuple) else settings
