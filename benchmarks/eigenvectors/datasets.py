"""Time of ``dgn directions`` on files of packed graphs: first run, then with its cache.

    python -m benchmarks.eigenvectors.datasets FILE.npz ... [--repeats 3] [-k 2] [--yaml results/eigenvectors.yaml]

Each run is a separate process. "command" is its total time, including start-up of Python and PyTorch, reading and
writing; "directions" is the time that the command reports, including loading of Numba's kernels in the first run;
"processor" is the processor time of the process, which other load does not change. Minima over the repeats.
"""

import argparse
import re
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

DATASETS = {"zinc12k": "zinc"}  # files with other names


def run(source: Path, out: Path, cache: Path, workers: int, k: int) -> tuple[float, float, float]:
    """Seconds of the command, of the directions alone, and of the processor."""
    options = ["directions", source, "-o", out, "--cache", cache, "--workers", workers, "-k", k, "-q"]
    command = [sys.executable, "-c", "from dgn.cli import main; main()", *map(str, options)]
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    seconds = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    reported = re.search(r"seconds\s*│\s*([\d.]+)", output)
    assert reported is not None
    processor = after.ru_utime + after.ru_stime - used.ru_utime - used.ru_stime
    return seconds, float(reported[1]), processor


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("-k", type=int, default=2, help="eigenvectors of each graph")
    parser.add_argument("--yaml", type=Path, help="file for the processor seconds of the first run, by dataset")
    arguments = parser.parse_args()
    print("file                 run     command  directions  processor")
    first: dict[str, float] = {}
    for source in arguments.files:
        times: dict[str, list[tuple[float, float, float]]] = {"first": [], "cached": []}
        for _ in range(arguments.repeats):
            with tempfile.TemporaryDirectory() as folder:
                for run_name in times:
                    root = Path(folder)
                    times[run_name].append(
                        run(source, root / "out.safetensors", root / "cache", arguments.workers, arguments.k)
                    )
        for run_name, runs in times.items():
            best = [min(column) for column in zip(*runs, strict=True)]
            print(f"{source.name:<20} {run_name:<7} {best[0]:6.2f} s {best[1]:9.2f} s {best[2]:8.2f} s")
            first.setdefault(DATASETS.get(source.stem, source.stem), best[2])
    if arguments.yaml is not None:
        date = time.strftime("%Y-%m-%d")
        header = f"# benchmarks/eigenvectors/datasets.py -k {arguments.k}, {date}: processor seconds of the first run"
        lines = [header, *(f"{name}: {seconds:.2f}" for name, seconds in first.items())]
        arguments.yaml.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
