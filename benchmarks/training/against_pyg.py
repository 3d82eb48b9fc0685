"""Training speed compared with a straightforward PyG implementation of the same model on the same batches.

    python -m benchmarks.training.against_pyg --data FOLDER [--device cuda|cpu] [--only zinc] [--quick] [--to-score] \
        [--out FOLDER]

Ours is what ``dgn train`` runs: whole epochs after a warm-up epoch. PyG is ``pyg_baseline.py``: a DataLoader, a scatter
per aggregator, run eagerly and through ``torch.compile(dynamic=True)``, also on batches that are on the device already,
without the loader. On a CPU both also alternate, a few steps each, because such machines are shared. Losses are
compared without dropout, whose random numbers differ.
"""

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from benchmarks.training.losses import compare_losses
from benchmarks.training.ours import SEEDS, make_replica, stream, time_epochs, time_seeds
from benchmarks.training.pyg import time_pyg
from benchmarks.training.time_to_score import score_time
from benchmarks.training.turns import in_turns
from dgn.data.benchmark import Benchmark, load_benchmark, with_directions
from dgn.training.experiment import load_experiment
from dgn.training.shared_data import prepare

RUNS = {
    "zinc": ("zinc/complex-e/mean-dx1", ["network.aggregators=[mean,dx1,max,min]", "network.hidden=45"]),
    "pattern": ("pattern/complex/mean-dx1-av1", []),
    "cifar10": ("cifar10/tuned", []),
    "molhiv": ("molhiv/simple/mean-dx1", []),
}
COMPARED = 100  # losses
QUICK = {"zinc": 10_000, "pattern": 1_280, "cifar10": 5_120, "molhiv": 10_240}  # training graphs


def main() -> None:
    arguments = read_arguments()
    device = torch.device(arguments.device)
    where = torch.cuda.get_device_name() if device.type == "cuda" else f"CPU, {torch.get_num_threads()} threads"
    print(f"{where}, torch {torch.__version__}, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC\n", flush=True)
    metadata = {"device": where, "torch": torch.__version__, "date": f"{datetime.now(UTC):%Y-%m-%d}"}
    rows: list[dict[str, Any]] = []
    for name in arguments.only or (["zinc"] if device.type == "cpu" else RUNS):
        measured = score_time(name, arguments) if arguments.to_score else speed(name, arguments, device)
        rows += measured
        if arguments.out:
            arguments.out.mkdir(parents=True, exist_ok=True)
            with (arguments.out / "training.jsonl").open("a") as file:
                file.writelines(json.dumps({**metadata, **row}) + "\n" for row in measured)
    for columns in dict.fromkeys(tuple(row) for row in rows):
        print("\n" + table([row for row in rows if tuple(row) == columns]), flush=True)


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu", choices=("cuda", "cpu"))
    parser.add_argument("--data", type=Path, help="folder with zinc12k.npz, cifar10_sp.npz, molhiv.npz, or their own")
    parser.add_argument("--only", nargs="+", choices=tuple(RUNS), help="these benchmarks (on a CPU: zinc)")
    parser.add_argument("--steps", type=int, default=50, help="steps of PyG to time")
    parser.add_argument("--compare", type=int, default=COMPARED, help="first losses to compare")
    parser.add_argument("--epochs", type=int, default=3, help="epochs of ours to time; the median is reported")
    parser.add_argument("--turns", type=int, default=15, help="on a CPU: turns of 8 steps of ours and of PyG")
    parser.add_argument("--workers", type=int, help="processes of PyG's loader; default: 4 with a GPU, 0 without")
    parser.add_argument(
        "--compile-limit",
        type=float,
        default=60,
        help="seconds for compiled steps, compilation included; 0: leave them out",
    )
    parser.add_argument("--quick", action="store_true", help="fewer graphs, 20 steps, no torch.compile")
    parser.add_argument(
        "--to-score", action="store_true", help="train to the end, and report the time to the published score instead"
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS, help="of --to-score")
    parser.add_argument("--set", nargs="+", default=[], help="settings for --to-score, as training.epochs=5")
    parser.add_argument("--out", type=Path, help="append the numbers to training.jsonl in this folder")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.steps, arguments.compile_limit = min(arguments.steps, 20), 0
    return arguments


def speed(name: str, arguments: argparse.Namespace, device: torch.device) -> list[dict[str, Any]]:
    """Milliseconds per step of ours and of PyG for one benchmark, and the differences of their losses."""
    start = time.perf_counter()
    note(name, "load")
    experiment = load_experiment(*RUNS[name])
    benchmark = load_benchmark(name, arguments.data)
    benchmark = fewer(benchmark, QUICK[name] if arguments.quick else len(benchmark.graphs))
    benchmark = with_directions(benchmark, experiment.num_directions)  # PyG reads them too
    note(name, "prepare", start)
    shared = prepare(experiment, benchmark, device)
    note(name, "ours", start)
    with stream(device):
        steps, ours = time_epochs(
            [make_replica(SEEDS[0], experiment, benchmark, shared, device)], shared, arguments.epochs
        )
    note(name, "losses", start)
    rows = [
        {"data": name, "losses": arguments.compare, **compare_losses(experiment, benchmark, shared, device, arguments)}
    ]
    note(name, "PyG", start)
    times = {"data": name, "graphs": len(shared.training), "batch": experiment.training.batch_size, "steps": steps,
             "ours ms/step": ours / steps, "ours s/epoch": ours / 1e3}  # fmt: skip
    rows.append(times | time_pyg(experiment, benchmark, shared, device, arguments, ours / steps, steps))
    note(name, "done", start)
    if device.type == "cpu":
        rows.append({"data": name, **in_turns(experiment, benchmark, shared, device, arguments.turns)})
        note(name, "turns done", start)
    if name == "zinc":
        rows.append(time_seeds(experiment, benchmark, shared, device, arguments.epochs))
        note(name, "seeds done", start)
    return rows


def fewer(benchmark: Benchmark, training: int) -> Benchmark:
    """The benchmark with the first training graphs and a few of the other splits."""
    split = benchmark.graphs.graphs["split"]
    chosen = [(split == code).nonzero()[:, 0][: training if code == 0 else 1_000] for code in range(3)]
    return replace(benchmark, graphs=benchmark.graphs.select(torch.cat(chosen)))


def note(name: str, what: str, start: float | None = None) -> None:
    print(f"{name}: {what}" + ("" if start is None else f" ({time.perf_counter() - start:.0f} s)"), flush=True)


def table(rows: list[dict[str, Any]]) -> str:
    show: Callable[[Any], str] = lambda value: f"{value:.4g}" if isinstance(value, float) else str(value)  # noqa: E731
    header = "| " + " | ".join(rows[0]) + " |\n|" + "---|" * len(rows[0])
    return "\n".join([header, *("| " + " | ".join(map(show, row.values())) + " |" for row in rows)])


if __name__ == "__main__":
    main()
