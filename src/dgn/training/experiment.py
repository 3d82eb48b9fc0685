"""Experiments: settings of data, network, training and augmentation, and published results, from YAML files."""

import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from difflib import get_close_matches
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml

from dgn.data.benchmark import TASKS
from dgn.training.config import AugmentationSettings, DataSettings, NetworkSettings, Published, TrainingSettings
from dgn.training.config_parser import key_of, plain, read
from dgn.training.pretrained import pretrained_names

__all__ = ["Experiment", "experiment_names", "load_experiment", "read_experiment"]

SUFFIXES = (".yaml", ".yml")
IRRELEVANT = ("name", "published", "training.seeds")  # to the result of a seed
COORDINATES = 2  # directions of graphs with coordinates instead of eigenvectors
MAX_SHOWN = 3  # settings that a message names where experiments differ
SECTIONS = {
    "data": DataSettings,
    "network": NetworkSettings,
    "training": TrainingSettings,
    "augmentation": AugmentationSettings,
    "published": Published,
}


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """Everything that decides a run, except the seed.

    >>> experiment = load_experiment("zinc/complex-e/mean-dx1", ["training.epochs=5"])
    >>> experiment.network.hidden, experiment.training.epochs, experiment.published.score
    (52, 5, 0.191)
    >>> read_experiment(experiment.to_dict()) == experiment
    True
    """

    name: str
    data: DataSettings
    network: NetworkSettings
    training: TrainingSettings = field(default_factory=TrainingSettings)
    augmentation: AugmentationSettings = field(default_factory=AugmentationSettings)
    published: Published | None = None

    def __post_init__(self) -> None:
        directions, needed = self.data.directions, self.network.num_directions
        if directions is not None and directions < needed:
            raise ValueError(
                f"data.directions: expected at least the {needed} that the network reads, got {directions}; raise it "
                "or leave it out"
            )
        task = TASKS.get(self.data.dataset)
        if self.data.arcsine and (self.augmentation.resample or (task is not None and task.coordinates)):
            came = "augmentation.resample" if self.augmentation.resample else f"the coordinates of {self.data.dataset}"
            raise ValueError(
                f"data.arcsine: expected eigenvectors in their own basis, got {came}; leave out one of the two"
            )
        if task is not None and task.coordinates and needed > COORDINATES:
            raise ValueError(
                f"network: expected at most {COORDINATES} directions, the coordinates of {self.data.dataset}, got one "
                f"that reads {needed}; leave out what names direction {needed}"
            )

    @property
    def num_directions(self) -> int:
        """The number of eigenvectors that are computed for the graphs."""
        return self.network.num_directions if self.data.directions is None else self.data.directions

    def to_dict(self) -> dict[str, Any]:
        """Plain data with all settings, defaults included."""
        data: dict[str, Any] = plain(self)
        return data

    def differences(self, other: "Experiment") -> list[str]:
        """Names of the settings whose difference changes the training.

        Names, published results and the list of seeds do not: the result of a seed does not depend on the others.

        >>> one, two = (load_experiment("digits/mean", [f"training.epochs={n}", f"name=n{n}"]) for n in (1, 2))
        >>> one.differences(two)
        ['training.epochs']
        """
        here, there = (_flatten(experiment.to_dict()) for experiment in (self, other))
        return [key for key in dict.fromkeys([*here, *there]) if here.get(key) != there.get(key)]

    def format_diff(self, other: "Experiment") -> str:
        """The first settings of :meth:`differences` with both values, as text; empty without any.

        >>> one, two = (load_experiment("digits/mean", [f"training.epochs={n}"]) for n in (1, 2))
        >>> one.format_diff(two)
        'training.epochs (2 there, 1 requested)'
        """
        changed, here, there = self.differences(other), _flatten(self.to_dict()), _flatten(other.to_dict())
        shown = [f"{key} ({there.get(key)} there, {here.get(key)} requested)" for key in changed[:MAX_SHOWN]]
        return ", ".join(shown) + (f" and {len(changed) - MAX_SHOWN} more" if len(changed) > MAX_SHOWN else "")

    def extend(self, before: "Experiment") -> "Experiment":
        """``before`` with the epochs of this experiment, if a run of it may be trained for longer.

        That is so with a plateau schedule, whose learning rates do not depend on the number of epochs.
        """
        grows = self.training.schedule == "plateau" and self.training.epochs > before.training.epochs
        return replace(before, training=replace(before.training, epochs=self.training.epochs)) if grows else before

    def absolute(self) -> "Experiment":
        """The experiment with absolute paths of its data and of the folder that it starts from."""
        data, start = self.data.path, self.training.from_
        changed = self
        if data is not None:
            changed = replace(changed, data=replace(self.data, path=str(Path(data).expanduser().resolve())))
        if start is not None and start not in pretrained_names():
            folder = str(Path(start).expanduser().resolve())
            changed = replace(changed, training=replace(self.training, from_=folder))
        return changed

    def to_yaml(self) -> str:
        return str(yaml.safe_dump(self.to_dict(), sort_keys=False, default_flow_style=None, width=100))


def experiment_names() -> list[str]:
    """Names of the experiments that come with the package.

    >>> "zinc/tuned" in experiment_names()
    True
    """
    folder = _shipped()
    return sorted(path.relative_to(folder).with_suffix("").as_posix() for path in folder.rglob("*.yaml"))


def load_experiment(name_or_path: str | Path, overrides: Sequence[str] = ()) -> Experiment:
    """An experiment by its name or from a YAML file, with ``overrides`` such as ``"training.epochs=5"``.

    ``data.path`` and ``training.from`` in a file are relative to the folder of the file, in an override to the working
    directory.
    """
    name, path = _find(str(name_or_path))
    try:
        data = _mapping(load_yaml(path.read_text(encoding="utf-8"), _Loader))
        data = _with_path(_with_path(data, "data", "path", path.parent), "training", "from", path.parent)
        return read_experiment({"name": name, **data}, overrides).absolute()
    except ValueError as problem:
        raise ValueError(f"{name_or_path}: {problem}") from problem


def load_yaml(text: str, loader: type[Any] = yaml.SafeLoader) -> Any:
    """The data of a YAML text; malformed text is refused in one line."""
    try:
        return yaml.load(text, loader)
    except RecursionError as problem:
        raise ValueError("expected YAML of a few levels, got one nested too deeply; remove brackets") from problem
    except yaml.YAMLError as problem:
        raise ValueError(f"expected YAML, got {' '.join(str(problem).split())}; correct it") from problem


def read_experiment(data: dict[str, Any], overrides: Sequence[str] = ()) -> Experiment:
    """An experiment from plain data."""
    for override in overrides:
        _check_key(override.partition("=")[0].strip())
        data = _override(data, override)
    return read(Experiment, data, "")


def _flatten(data: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """All settings that decide a run, by their dotted names."""
    settings: dict[str, Any] = {}
    for key, value in data.items():
        settings |= _flatten(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return {key: value for key, value in settings.items() if not key.startswith(IRRELEVANT)}


def _shipped() -> Path:
    return Path(str(files("dgn"))) / "experiments"


def _find(name: str) -> tuple[str, Path]:
    path = Path(name)
    if path.suffix in SUFFIXES:
        if not path.is_file():
            raise FileNotFoundError(f"{name}: expected a YAML file with an experiment, got none; check the path")
        return path.stem, path
    names = experiment_names()
    if name in names:
        return name, _shipped() / f"{name}.yaml"
    inside = sorted(
        (other for other in names if other.startswith(f"{name.lower()}/")), key=lambda other: "tuned" not in other
    )
    near = inside or get_close_matches(name.lower(), names, n=1)
    remedy = f"did you mean {near[0]!r}?" if near else "'dgn info' lists them"
    if path.name.lower().endswith((".csv", ".csv.gz", ".tsv", ".parquet")):
        remedy = "'dgn fit' takes tables of molecules"
    raise ValueError(f"experiment: expected a name that comes with dgn or a .yaml file, got {name!r}; {remedy}")


def _mapping(data: object) -> dict[str, Any]:
    if not isinstance(data, dict):
        raise ValueError(
            f"experiment: expected sections data, network and training, got {data!r}; see docs/training.md"
        )
    return data


def _with_path(data: dict[str, Any], section: str, key: str, folder: Path) -> dict[str, Any]:
    """The settings with a path from the working directory, not from the folder of their file."""
    settings = data.get(section)
    path = settings.get(key) if isinstance(settings, dict) else None
    if not isinstance(path, str) or path in pretrained_names():
        return data
    return {**data, section: {**data[section], key: str(folder / Path(path).expanduser())}}


def _check_key(key: str) -> None:
    """Refuse the name of a setting without its section, or with a wrong one, and suggest the full name."""
    settings = [f"{section}.{key_of(setting)}" for section, kind in SECTIONS.items() for setting in fields(kind)]
    matches = [name for name in settings if name.endswith(f".{key.rpartition('.')[2]}")]
    if matches and key not in settings:
        raise ValueError(f"--set: expected a section and a setting, got {key!r}; did you mean {' or '.join(matches)}?")


def _override(data: dict[str, Any], override: str) -> dict[str, Any]:
    """A copy of nested data with one value replaced; missing sections are created."""
    key, equals, text = override.partition("=")
    first, _, rest = key.strip().partition(".")
    if not equals or not first:
        raise ValueError(f"--set: expected key=value, got {override!r}; for example training.epochs=5")
    if not rest:
        return {**data, first: load_yaml(text, _Loader)}
    inner = data.get(first)
    if inner is not None and not isinstance(inner, dict):
        raise ValueError(f"--set: expected a section before the dot of {key!r}, got the value {inner!r}; name another")
    return {**data, first: _override(inner or {}, f"{rest}={text}")}


class UniqueKeys(yaml.constructor.BaseConstructor):
    """A mixin of YAML loaders that refuses duplicate keys."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        duplicates = sorted({str(key) for key in keys if keys.count(key) > 1})
        if duplicates:
            line = node.start_mark.line + 1
            raise ValueError(
                f"key {duplicates[0]!r}: expected once in the section of line {line}, got it twice; remove one"
            )
        return super().construct_mapping(node, deep)


class _Loader(UniqueKeys, yaml.SafeLoader):
    """YAML with numbers such as 1e-3 and without duplicate keys."""


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+$"), list("-+0123456789")
)
