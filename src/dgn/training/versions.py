"""Versions of the software, the machine, and the commit of the code behind a result."""

import platform
import subprocess
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

import dgn

PACKAGES = ("torch-geometric", "numpy", "scipy", "lightning", "torchmetrics", "numba", "triton")


@cache  # constant within a process, and git takes as long as many training steps
def collect_versions() -> dict[str, str]:
    """Versions by name; packages that are not installed are left out.

    >>> sorted({"dgn", "python", "torch", "machine"} - set(collect_versions()))
    []
    """
    versions = {"dgn": dgn.__version__, "python": platform.python_version(), "torch": str(torch.__version__)}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    versions["machine"] = f"{platform.system()} {platform.machine()}"
    if torch.cuda.is_available():
        versions["gpu"] = torch.cuda.get_device_name()
        versions["cuda"] = str(torch.version.cuda)
    commit = find_commit(Path(dgn.__file__).parent)
    return versions | ({"commit": commit} if commit else {})


def find_commit(folder: Path) -> str | None:
    """The commit of a checkout, with ``+`` if files differ from it; ``None`` for an installed package."""
    if not any((parent / ".git").exists() for parent in folder.parents):
        return None
    try:
        commit = _git(folder, "rev-parse", "--short=12", "HEAD")
        return commit + ("+" if _git(folder, "status", "--porcelain", "--", ".") else "")
    except (OSError, subprocess.CalledProcessError):  # no git, or a checkout that it refuses to read
        return None


def _git(folder: Path, *arguments: str) -> str:
    process = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=True)
    return process.stdout.strip()
