"""The command ``dgn directions`` on files of packed graphs: first run, then from its cache.

    python benchmarks/datasets.py FILE.npz ... [--repeats 3] [-k 2] [--yaml results/eigenvectors.yaml]

Each run is a process of its own. "command" is its whole time, with starting Python and PyTorch, reading and writing;
"directions" is what the command reports, with loading Numba's kernels in the first run; "processor" is the processor
time of the whole process, which other work on the machine does not change. Minima over the repeats.
"""

import argparse
import re
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

DATASETS = {"zinc12k": "zinc"}  # files that are called otherwise


def run(source: Path, out: Path, cache: Path, workers: int, k: int) -> tuple[float, float, float]:
    """Seconds of the command, of the directions alone, and of the processor."""
    words = ["directions", source, "-o", out, "--cache", cache, "--workers", workers, "-k", k, "-q"]
    command = [sys.executable, "-c", "from dgn.cli import main; main()", *map(str, words)]
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    seconds = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    found = re.search(r"seconds\s*│\s*([\d.]+)", told)
    assert found is not None
    processor = after.ru_utime + after.ru_stime - used.ru_utime - used.ru_stime
    return seconds, float(found[1]), processor


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("-k", type=int, default=2, help="eigenvectors of each graph")
    parser.add_argument("--yaml", type=Path, help="file for the processor seconds of the first run, by dataset")
    asked = parser.parse_args()
    print("file                 run     command  directions  processor")
    first: dict[str, float] = {}
    for source in asked.files:
        times: dict[str, list[tuple[float, float, float]]] = {"first": [], "cached": []}
        for _ in range(asked.repeats):
            with tempfile.TemporaryDirectory() as folder:
                for kind in times:
                    place = Path(folder)
                    times[kind].append(run(source, place / "out.safetensors", place / "cache", asked.workers, asked.k))
        for kind, each in times.items():
            best = [min(column) for column in zip(*each, strict=True)]
            print(f"{source.name:<20} {kind:<7} {best[0]:6.2f} s {best[1]:9.2f} s {best[2]:8.2f} s")
            first.setdefault(DATASETS.get(source.stem, source.stem), best[2])
    if asked.yaml is not None:
        about = (
            f"# benchmarks/datasets.py -k {asked.k}, {time.strftime('%Y-%m-%d')}: processor seconds of the first run"
        )
        lines = [about, *(f"{name}: {seconds:.2f}" for name, seconds in first.items())]
        asked.yaml.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
