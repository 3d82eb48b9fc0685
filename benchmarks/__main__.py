"""The tables of docs/kernels.md, docs/eigenvectors.md and docs/scaling.md: ``python -m benchmarks [NAME ...]``.

Prints the machine, the date and the commit, then what each script prints. Without names all of them run, which takes
about half an hour on two idle cores; ``--list`` shows them. A script that fails does not stop the others.
"""

import argparse
import os
import platform
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import torch

import dgn

FOLDER = Path(__file__).parent
#: Tables by name: the page that holds them, the script, its arguments, and the package it needs beside dgn's own.
TABLES = {
    "aggregation": ("kernels.md", "aggregation.py", [], None),
    "routes": ("kernels.md", "routes.py", ["--epochs", "2"], None),
    "directions": ("eigenvectors.md", "directions.py", [], "networkx"),
    "large-graphs": ("eigenvectors.md", "large_graphs.py", ["--growth"], "pyamg"),
    "scaling": ("scaling.md", "scaling.py", [], None),
}


def header() -> str:
    """Machine, date and commit."""
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=FOLDER, capture_output=True, text=True)
    dirty = subprocess.run(["git", "status", "--porcelain"], cwd=FOLDER, capture_output=True, text=True).stdout.strip()
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU"
    machine = f"{processor()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, {gpu}"
    versions = f"Python {platform.python_version()}, torch {torch.__version__}, dgn {dgn.__version__}"
    changed = ", with changes" if dirty else ""
    return f"{machine}\n{versions}, {time.strftime('%d %B %Y')}, commit {commit.stdout.strip() or 'unknown'}{changed}"


def processor() -> str:
    """The name of the processor (Linux)."""
    information = Path("/proc/cpuinfo")
    lines = information.read_text().splitlines() if information.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(TABLES))
    parser.add_argument("--list", action="store_true", help="show the tables and stop")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.names if name not in TABLES]
    if unknown:
        parser.error(f"names: expected some of {', '.join(TABLES)}, got {', '.join(unknown)}")
    print(header(), flush=True)
    failed = []
    for name in arguments.names or TABLES:
        page, script, options, package = TABLES[name]
        print(f"\n## {name} (docs/{page}): python benchmarks/{' '.join([script, *options])}\n", flush=True)
        if arguments.list:
            continue
        if package is not None and find_spec(package) is None:
            print(f"left out: pip install {package}", flush=True)
            continue
        if subprocess.run([sys.executable, str(FOLDER / script), *options]).returncode:
            failed.append(name)
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
