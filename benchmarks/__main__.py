"""The tables of docs/kernels.md, docs/eigenvectors.md and docs/scaling.md: ``python -m benchmarks [NAME ...]``.

Prints the machine, the date and the commit, then what each script prints. Without names all of them run; ``--list``
shows them. A script that fails does not stop the others, and one that needs what is not here is left out: a package, a
GPU, or ``--data``, a folder with the benchmarks of docs/data.md.
"""

import argparse
import os
import platform
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import torch

import dgn

FOLDER = Path(__file__).parent
DATA = "{data}"  # stands for the folder of benchmarks in options
GPU = "a GPU"


class Table(NamedTuple):
    """The page that holds a table, the module that prints it with its options, and a package or the GPU it needs."""

    page: str
    module: str
    options: tuple[str, ...] = ()
    needs: str | None = None

    def lacks(self, data: str | None) -> str:
        """What is missing to make the table here, as the remedy."""
        if self.needs == GPU:
            return "" if torch.cuda.is_available() else "run it on a machine with a GPU"
        if self.needs is not None and find_spec(self.needs) is None:
            return f"pip install {self.needs}"
        return "name the folder of benchmarks with --data" if data is None and DATA in "".join(self.options) else ""


TABLES = {
    "aggregation": Table("kernels.md", "layers.aggregation"),
    "routes": Table("kernels.md", "training.routes", ("--data", DATA, "--epochs", "2")),
    "host-time": Table("kernels.md", "layers.host_time", ("--data", f"{DATA}/zinc12k")),
    "molpcba": Table("kernels.md", "training.molpcba", ("--profile", "45"), GPU),
    "directions": Table("eigenvectors.md", "eigenvectors.directions", (), "networkx"),
    "large-graphs": Table("eigenvectors.md", "eigenvectors.large_graphs", ("--growth",), "pyamg"),
    "datasets": Table(
        "eigenvectors.md", "eigenvectors.datasets", (f"{DATA}/zinc12k/zinc12k.npz", f"{DATA}/molhiv/molhiv.npz")
    ),
    "scaling": Table("scaling.md", "eigenvectors.scaling", ("--nodes", "1000", "10000", "100000", "1000000")),
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
    parser.add_argument("--data", help="folder of benchmarks, for the tables that read them")
    parser.add_argument("--list", action="store_true", help="show the tables and stop")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.names if name not in TABLES]
    if unknown:
        parser.error(f"names: expected some of {', '.join(TABLES)}, got {', '.join(unknown)}")
    print(header(), flush=True)
    failed = []
    for name in arguments.names or TABLES:
        table = TABLES[name]
        options = [option.replace(DATA, arguments.data or "DATA") for option in table.options]
        print(
            f"\n## {name} (docs/{table.page}): python -m benchmarks.{' '.join([table.module, *options])}\n", flush=True
        )
        if arguments.list:
            continue
        if table.lacks(arguments.data):
            print(f"left out: {table.lacks(arguments.data)}", flush=True)
        elif subprocess.run([sys.executable, "-m", f"benchmarks.{table.module}", *options]).returncode:
            failed.append(name)
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
