"""The reference of settings in the documentation names every one, with its default and its meaning."""

from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest

from dgn.training.experiment import SECTIONS, Experiment

PAGE = Path(__file__).parents[2] / "docs" / "training.md"


def row(section: type, key: str) -> str:
    each = {each.name: each for each in fields(section)}[key]
    default = "required" if each.default is MISSING else f"`{shown(each.default)}`"
    options = choices(get_type_hints(section)[key])
    words = f": {', '.join(f'`{option}`' for option in options)}" if options else ""
    return f"| `{key}` | {default} | {each.metadata['meaning']}{words} |"


def choices(hint: Any) -> list[str]:
    """The words a setting may be."""
    found = [option for part in get_args(hint) for option in choices(part)]
    return list(get_args(hint)) if get_origin(hint) is Literal else found


def shown(value: Any) -> str:
    """A value as YAML writes it."""
    if isinstance(value, tuple):
        return f"[{', '.join(map(shown, value))}]"
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def test_the_sections_are_those_of_an_experiment() -> None:
    assert [each.name for each in fields(Experiment)] == ["name", *SECTIONS]


@pytest.mark.parametrize("section", SECTIONS)
def test_every_setting_is_in_the_reference(section: str) -> None:
    text = PAGE.read_text()
    for each in fields(SECTIONS[section]):
        assert row(SECTIONS[section], each.name) in text
