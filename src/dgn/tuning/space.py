"""Search spaces: the candidate values of settings, from a YAML file.

.. code-block:: yaml

    parameters: 100000                                       # optional budget, which decides the width
    settings:
      training.weight_decay: [1e-5, 3e-7]                    # one of these values
      network.aggregators: [[mean, dx1], [mean, max, av1]]
      network.dropout: {low: 0.0, high: 0.5}                 # a range; also log: true and step: 0.1
      network.scalers: {subset: [identity, amplification]}   # a list of some of these
      architecture:                                          # a name without a dot: several settings at once
        simple: {network.message: simple}
        towers: {network.message: complex, network.towers: 5}
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

import yaml

from dgn.graph.checks import check_option
from dgn.training.experiment import SUFFIXES, UniqueKeys, load_yaml

Value = str | int | float
YES, NO = "yes", "no"
SECTIONS = ("parameters", "settings")
RANGE = ("low", "high", "log", "step")


@dataclass(frozen=True)
class Range:
    """Numbers from ``low`` to ``high``, both included; integers if ``integer``."""

    low: float
    high: float
    log: bool = False
    step: float | None = None
    integer: bool = False


Domain = tuple[str, ...] | Range


@dataclass(frozen=True)
class Space:
    """A search space: ``domains`` by name, and the settings that their values change.

    Values are text, as after ``--set KEY=``, except in a range.

    >>> space = read_space({"settings": {"network.dropout": ["0", "0.1"], "kind": {"wide": {"network.hidden": "90"}}}})
    >>> space.domains
    {'network.dropout': ('0', '0.1'), 'kind': ('wide',)}
    >>> space.changes({"network.dropout": "0.1", "kind": "wide"})
    ['network.dropout=0.1', 'network.hidden=90']
    """

    domains: Mapping[str, Domain]
    groups: Mapping[str, Mapping[str, tuple[str, ...]]]
    subsets: Mapping[str, tuple[str, ...]]
    parameters: int | None = None

    def changes(self, values: Mapping[str, Value]) -> list[str]:
        """Overrides of settings for the values of a trial."""
        single = [
            change
            for name, value in values.items()
            if ":" not in name
            for change in (self.groups[name][str(value)] if name in self.groups else (f"{name}={value}",))
        ]
        chosen = {
            name: [member for member in members if values[f"{name}:{member}"] == YES]
            for name, members in self.subsets.items()
        }
        return single + [f"{name}=[{', '.join(members)}]" for name, members in chosen.items()]

    @property
    def size(self) -> int | None:
        """The number of combinations; ``None`` with a range."""
        sizes = [None if isinstance(domain, Range) else len(domain) for domain in self.domains.values()]
        return None if None in sizes else prod(size for size in sizes if size is not None)

    def combinations(self) -> list[dict[str, Value]]:
        """All combinations, the last name varying fastest; only for a finite space."""
        domains = [domain for domain in self.domains.values() if not isinstance(domain, Range)]
        assert len(domains) == len(self.domains)
        return [dict(zip(self.domains, values, strict=True)) for values in product(*domains)]


def space_names() -> list[str]:
    """Names of the spaces that come with the package: the paper's by dataset, ours by experiment.

    >>> [name for name in space_names() if "zinc" in name]
    ['zinc', 'zinc/plus', 'zinc/plus-500k']
    """
    folder = _shipped()
    return sorted(path.relative_to(folder).with_suffix("").as_posix() for path in folder.rglob("*.yaml"))


def load_space(name_or_path: str | Path) -> Space:
    """A space by its name or from a YAML file."""
    path = Path(name_or_path)
    if path.suffix not in SUFFIXES:
        check_option("space", str(name_or_path), tuple(space_names()))
        path = _shipped() / f"{name_or_path}.yaml"
    if not path.is_file():
        raise FileNotFoundError(f"{path}: expected a YAML file with a space, got none; check the path")
    try:
        return read_space(load_yaml(path.read_text(encoding="utf-8"), _Loader))
    except ValueError as problem:
        raise ValueError(f"{name_or_path}: {problem}") from problem


def read_space(data: Any) -> Space:
    """A space from mappings and lists of text."""
    settings = data.get("settings") if isinstance(data, dict) else None
    if not isinstance(settings, dict) or not settings:
        raise ValueError("space: expected a section 'settings' with names and values, got none; see docs/training.md")
    for key in data:
        check_option("key of the space", key, SECTIONS)
    domains: dict[str, Domain] = {}
    groups: dict[str, dict[str, tuple[str, ...]]] = {}
    subsets: dict[str, tuple[str, ...]] = {}
    for name, values in settings.items():
        if isinstance(values, list) and values:
            domains[name] = tuple(_text(value) for value in values)
        elif "." not in name and isinstance(values, dict) and all(isinstance(group, dict) for group in values.values()):
            groups[name] = {key: tuple(f"{k}={_text(v)}" for k, v in group.items()) for key, group in values.items()}
            domains[name] = tuple(groups[name])
        elif isinstance(values, dict) and set(values) == {"subset"} and isinstance(values["subset"], list):
            subsets[name] = tuple(_text(member) for member in values["subset"])
            domains |= {f"{name}:{member}": (YES, NO) for member in subsets[name]}
        else:
            domains[name] = _range(name, values)
    return Space(domains, groups, subsets, _parameters(data.get("parameters")))


def _range(name: str, values: Any) -> Range:
    if not isinstance(values, dict) or not {"low", "high"} <= set(values) <= set(RANGE):
        raise ValueError(
            f"{name}: expected a list of values, {{low: ..., high: ...}} with log or step, or {{subset: [...]}}, got "
            f"{values!r}; write one of them"
        )
    integer = all(str(values.get(key, "1")).lstrip("-").isdecimal() for key in ("low", "high", "step"))
    try:
        low, high = float(values["low"]), float(values["high"])
        step = float(values["step"]) if "step" in values else None
    except ValueError as problem:
        raise ValueError(f"{name}: expected numbers, got {values!r}; write {{low: 1, high: 9}}") from problem
    if low > high:
        raise ValueError(f"{name}: expected low at most high, got {low:g} and {high:g}; exchange them")
    log = str(values.get("log", "false")).lower()
    check_option(f"log of {name}", log, ("true", "false"))
    return Range(low, high, log == "true", step, integer)


def _parameters(text: str | None) -> int | None:
    if text is None:
        return None
    if not text.replace("_", "").isdecimal():
        raise ValueError(f"parameters: expected a whole number, got {text!r}; for example 100000")
    return int(text)


def _text(value: Any) -> str:
    return (
        f"[{', '.join(map(_text, value))}]"
        if isinstance(value, Sequence) and not isinstance(value, str)
        else str(value)
    )


class _Loader(UniqueKeys, yaml.BaseLoader):
    """YAML that keeps all values as text, to be parsed like overrides of settings."""


def _shipped() -> Path:
    return Path(str(files("dgn"))) / "tuning" / "spaces"
