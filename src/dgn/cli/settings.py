"""Options of a command from a YAML file, and back to one that repeats it."""

from pathlib import Path
from typing import Any

import typer

PATHS = ("splits", "from")  # options that may name files: those of a settings file are relative to its folder
OMITTED = ("config", "out", "logs", "device")  # options that do not change a fit


def read_settings(context: typer.Context, path: Path | None) -> Path | None:
    """Take the options of a settings file as defaults, so that those on the command line win.

    Keys are the names of options; a list is an option that may be repeated. An unknown key is refused, with the nearest
    one.
    """
    if path is None:
        return None
    from dgn.graph.checks import check_option

    options = _options(context)
    defaults: dict[str, Any] = {}
    for key, value in _load(path).items():
        name = str(key).replace("_", "-")
        check_option(f"{path}: option", name, tuple(name for name in options if name != "config"))
        if isinstance(value, dict) or (isinstance(value, list) and not options[name].multiple):
            raise ValueError(f"{path}: expected one value for {name}, got {value}; write {name}: VALUE")
        if value:
            texts = value if isinstance(value, list) else [_resolve(name, value, path)]
            defaults[options[name].name] = texts if options[name].multiple else texts[0]
    context.default_map = defaults
    return path


def write_settings(context: typer.Context, table: Path) -> str:
    """The options of a command as YAML, defaults included: with the same table, they repeat it."""
    import yaml

    from dgn import __version__

    settings = {}
    for name, option in _options(context).items():
        value = context.params[option.name]
        if name not in OMITTED and value not in (None, [], ""):
            texts = [str(each) for each in value] if isinstance(value, list) else value
            settings[name] = _absolute(texts) if name in PATHS else texts
    text = yaml.safe_dump(settings, sort_keys=False, default_flow_style=None, width=100, allow_unicode=True)
    return f"# dgn {__version__}: dgn {context.info_name} {table.name} --config settings.yaml\n{text}"


def _options(context: typer.Context) -> dict[str, Any]:
    """The options of a command by their long names."""
    parameters: list[Any] = [each for each in context.command.params if each.param_type_name == "option"]
    names = {option.opts[-1].removeprefix("--"): option for option in parameters}
    return {name: option for name, option in names.items() if name != "help"}


def _load(path: Path) -> dict[str, Any]:
    """The content of a settings file; all values are text, as on the command line."""
    import yaml

    from dgn.training.experiment import UniqueKeys, load_yaml

    class Texts(UniqueKeys, yaml.BaseLoader):
        """YAML in which all values are text."""

    if not path.is_file():
        raise FileNotFoundError(f"{path}: expected a YAML file of options, found none; check the path")
    try:
        settings = load_yaml(path.read_text(encoding="utf-8"), Texts)
    except ValueError as problem:
        raise ValueError(f"{path}: {problem}") from problem
    if not isinstance(settings, dict):
        raise ValueError(f"{path}: expected options such as 'epochs: 20', got {settings!r}; write one in each line")
    return settings


def _resolve(name: str, value: str, settings: Path) -> str:
    """A path relative to the folder of the settings file, if there is such a file or folder."""
    path = settings.parent / Path(value).expanduser()
    return str(path) if name in PATHS and path.exists() else value


def _absolute(value: Any) -> str:
    """The absolute path of a file or folder; the name of a pretrained network as it is."""
    return str(Path(value).resolve()) if Path(value).exists() else str(value)
