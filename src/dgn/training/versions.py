"""What a result was made with: versions, machine, and the commit of the code."""

import platform
import subprocess
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

import dgn

PACKAGES = ("torch", "torch-geometric", "numpy", "scipy", "lightning", "torchmetrics", "numba", "triton")


@cache  # the same for every seed of a process, and asking git takes as long as many steps of training
def collect_versions() -> dict[str, str]:
    """Versions by name, as they are when first asked for; what is not installed is left out.

    >>> sorted({"dgn", "python", "torch", "machine"} - set(collect_versions()))
    []
    """
    found = {"dgn": dgn.__version__, "python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    found["machine"] = f"{platform.system()} {platform.machine()}"
    if torch.cuda.is_available():
        found["gpu"] = torch.cuda.get_device_name()
        found["cuda"] = str(torch.version.cuda)
    commit = find_commit(Path(dgn.__file__).parent)
    return found | ({"commit": commit} if commit else {})


def find_commit(folder: Path) -> str | None:
    """The commit of a checkout, with ``+`` where files differ from it; nothing for an installed package."""
    if not any((parent / ".git").exists() for parent in folder.parents):
        return None
    try:
        commit = _git(folder, "rev-parse", "--short=12", "HEAD")
        return commit + ("+" if _git(folder, "status", "--porcelain", "--", ".") else "")
    except (OSError, subprocess.CalledProcessError):  # no git here, or a checkout it does not want to read
        return None


def _git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=True)
    return done.stdout.strip()
