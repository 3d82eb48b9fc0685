"""The settings reference in the documentation lists each setting with its default and its meaning."""

from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

from dgn.training.config_parser import key_of
from dgn.training.experiment import SECTIONS, Experiment

PAGE = Path(__file__).parents[2] / "docs" / "training.md"


def row(section: type, key: str) -> str:
    field = {field.name: field for field in fields(section)}[key]
    default = "required" if field.default is MISSING else f"`{as_yaml(field.default)}`"
    options = choices(get_type_hints(section)[key])
    words = f": {', '.join(f'`{option}`' for option in options)}" if options else ""
    return f"| `{key_of(field)}` | {default} | {field.metadata['meaning']}{words} |"


def choices(hint: Any) -> list[str]:
    """The options of a setting."""
    nested = [option for inner in get_args(hint) for option in choices(inner)]
    return list(get_args(hint)) if get_origin(hint) is Literal else nested


def as_yaml(value: Any) -> str:
    """A value as YAML writes it."""
    if isinstance(value, tuple):
        return f"[{', '.join(map(as_yaml, value))}]"
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def test_the_sections_are_those_of_an_experiment() -> None:
    assert [field.name for field in fields(Experiment)] == ["name", *SECTIONS]


def test_every_setting_is_in_the_reference() -> None:
    text = PAGE.read_text()
    rows = [row(section, field.name) for section in SECTIONS.values() for field in fields(section)]
    missing = [line for line in rows if line not in text]
    assert not missing, "docs/training.md: expected these rows:\n" + "\n".join(missing)
