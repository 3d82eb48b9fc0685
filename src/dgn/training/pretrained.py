"""Pretrained networks: those that come with the package, by name."""

from difflib import get_close_matches
from importlib.resources import files
from pathlib import Path

CONFIGURATION = "model.json"


def pretrained_names() -> list[str]:
    """Names of the networks that come with the package.

    >>> "digits/dx-signed" in pretrained_names()
    True
    """
    root = pretrained_root()
    return sorted(path.parent.relative_to(root).as_posix() for path in root.rglob(CONFIGURATION))


def find_pretrained(name: str) -> Path:
    """The folder of a network that comes with the package."""
    names = pretrained_names()
    if name not in names:
        near = get_close_matches(name.lower(), names, n=1)
        remedy = f"did you mean {near[0]!r}?" if near else f"choose one of {', '.join(names)}"
        raise ValueError(f"pretrained: expected a network that comes with dgn, got {name!r}; {remedy}")
    return pretrained_root() / name


def find_network(name_or_folder: str | Path) -> Path:
    """The folder of a pretrained network by its name, or else that folder itself.

    >>> find_network("digits/dx-signed") == find_pretrained("digits/dx-signed"), find_network("mine").name
    (True, 'mine')
    """
    is_name = str(name_or_folder) in pretrained_names()
    return find_pretrained(str(name_or_folder)) if is_name else Path(name_or_folder)


def pretrained_root() -> Path:
    """The folder of all of them."""
    return Path(str(files("dgn"))) / "pretrained"
