"""Training against a straightforward PyG implementation: the same model, the same batches, the same losses.

    python benchmarks/training.py --data FOLDER [--device cuda|cpu] [--only zinc] [--quick] [--to-score] [--out FOLDER]

Ours is what ``dgn train`` runs: whole epochs after a warm-up epoch. PyG is ``pyg_baseline.py``: a DataLoader, a scatter
per aggregator, run eagerly and through ``torch.compile(dynamic=True)``, also on batches that lie on the device already,
where the loader costs nothing. Losses are compared without dropout, whose random numbers differ.
"""

import argparse
import json
import shutil
import signal
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from pyg_baseline import as_data, call, loss_of, make_baseline
from torch import Tensor, nn
from torch_geometric.loader import DataLoader

from dgn.data.benchmarks import Benchmark, load_benchmark, with_directions
from dgn.training.build import build_network
from dgn.training.devices import make_fabric
from dgn.training.experiment import Experiment, load_experiment
from dgn.training.load import load_graphs
from dgn.training.loop import side_by_side as train_side_by_side
from dgn.training.loop import train
from dgn.training.material import Material, prepare
from dgn.training.member import Member, cut

RUNS = {
    "zinc": ("zinc/complex-e/mean-dx1", ["network.aggregators=[mean,dx1,max,min]", "network.hidden=45"]),
    "pattern": ("pattern/complex/mean-dx1-av1", []),
    "cifar10": ("cifar10/tuned", []),
    "molhiv": ("molhiv/simple/mean-dx1", []),
}
TO_SCORE = {"zinc": "zinc/complex-e/mean-dx1", "molhiv": "molhiv/simple/mean-dx1"}
SEED, SEEDS = 41, (41, 95, 12, 35)
WARM = 10  # steps before the clock of PyG starts
COMPARED = 100  # losses
QUICK = {"zinc": 10_000, "pattern": 1_280, "cifar10": 5_120, "molhiv": 10_240}  # training graphs
SHARED_MEMORY = 2 << 30  # what worker processes need to hand over batches


def main() -> None:
    arguments = read_arguments()
    device = torch.device(arguments.device)
    where = torch.cuda.get_device_name() if device.type == "cuda" else f"CPU, {torch.get_num_threads()} threads"
    print(f"{where}, torch {torch.__version__}, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC\n", flush=True)
    about = {"device": where, "torch": torch.__version__, "date": f"{datetime.now(UTC):%Y-%m-%d}"}
    rows: list[dict[str, Any]] = []
    for name in arguments.only or (["zinc"] if device.type == "cpu" else RUNS):
        found = score_time(name, arguments) if arguments.to_score else speed(name, arguments, device)
        rows += found
        if arguments.out:
            arguments.out.mkdir(parents=True, exist_ok=True)
            with (arguments.out / "training.jsonl").open("a") as file:
                file.writelines(json.dumps({**about, **row}) + "\n" for row in found)
    for kind in dict.fromkeys(tuple(row) for row in rows):
        print("\n" + table([row for row in rows if tuple(row) == kind]), flush=True)


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu", choices=("cuda", "cpu"))
    parser.add_argument("--data", type=Path, help="folder with zinc12k.npz, cifar10_sp.npz, molhiv.npz, or their own")
    parser.add_argument("--only", nargs="+", choices=tuple(RUNS), help="these benchmarks (on a CPU: zinc)")
    parser.add_argument("--steps", type=int, default=50, help="steps of PyG to time")
    parser.add_argument("--compare", type=int, default=COMPARED, help="first losses to compare")
    parser.add_argument("--epochs", type=int, default=3, help="epochs of ours to time; the median counts")
    parser.add_argument("--workers", type=int, help="processes of PyG's loader; default: 4 with a GPU, 0 without")
    parser.add_argument(
        "--compile-limit",
        type=float,
        default=60,
        help="seconds for compiled steps, compilation included; 0: leave them out",
    )
    parser.add_argument("--quick", action="store_true", help="fewer graphs, 20 steps, no torch.compile")
    parser.add_argument(
        "--to-score", action="store_true", help="train to the end, and time the published score instead"
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS, help="of --to-score")
    parser.add_argument("--set", nargs="+", default=[], help="settings for --to-score, as training.epochs=5")
    parser.add_argument("--out", type=Path, help="append the numbers to training.jsonl in this folder")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.steps, arguments.compile_limit = min(arguments.steps, 20), 0
    return arguments


def speed(name: str, arguments: argparse.Namespace, device: torch.device) -> list[dict[str, Any]]:
    """Milliseconds of ours and of PyG for one benchmark, and how far the losses are apart."""
    began = time.perf_counter()
    note(name, "load")
    experiment = load_experiment(*RUNS[name])
    benchmark = load_benchmark(name, arguments.data)
    benchmark = fewer(benchmark, QUICK[name] if arguments.quick else len(benchmark.graphs))
    benchmark = with_directions(benchmark, experiment.num_directions)  # PyG reads them too
    note(name, "prepare", began)
    material = prepare(experiment, benchmark, device)
    note(name, "ours", began)
    with stream(device):
        steps, ours = time_epochs([member(SEED, experiment, benchmark, material, device)], material, arguments.epochs)
    note(name, "losses", began)
    rows = [{"data": name, "losses": arguments.compare, **losses(experiment, benchmark, material, device, arguments)}]
    note(name, "PyG", began)
    times = {"data": name, "graphs": len(material.training), "batch": experiment.training.batch_size, "steps": steps,
             "ours ms/step": ours / steps, "ours s/epoch": ours / 1e3}  # fmt: skip
    rows.append(times | time_pyg(experiment, benchmark, material, device, arguments, ours / steps, steps))
    note(name, "done", began)
    if name == "zinc":
        rows.append(side_by_side(experiment, benchmark, material, device, arguments.epochs))
        note(name, "seeds done", began)
    return rows


def fewer(benchmark: Benchmark, training: int) -> Benchmark:
    """The first training graphs, and a few of the other splits."""
    split = benchmark.graphs.graphs["split"]
    parts = [(split == number).nonzero()[:, 0][: training if number == 0 else 1_000] for number in range(3)]
    return replace(benchmark, graphs=benchmark.graphs.select(torch.cat(parts)))


def member(seed: int, experiment: Experiment, benchmark: Benchmark, material: Material, device: torch.device) -> Member:
    """A network in training as the loop makes it."""
    torch.manual_seed(seed)
    network = build_network(experiment.network, benchmark, material.delta)
    return Member(seed, network, experiment, material.objective, material.store, make_fabric(device.type))


def time_epochs(members: Sequence[Member], material: Material, epochs: int) -> tuple[int, float]:
    """Steps of an epoch, and median milliseconds until all members are through it, after one to warm up."""
    streams = [stream(one.device) for one in members]
    times, steps = [], -(-len(material.training) // members[0].settings.batch_size)
    for _ in range(1 + epochs):
        wait(members[0].device)
        start = time.perf_counter()
        train_side_by_side(members, streams, material.training)
        wait(members[0].device)
        times.append(1e3 * (time.perf_counter() - start))
    return steps, statistics.median(times[1:])


def side_by_side(
    experiment: Experiment, benchmark: Benchmark, material: Material, device: torch.device, epochs: int
) -> dict[str, Any]:
    """Four seeds together against one alone."""
    one, four = (
        time_epochs([member(seed, experiment, benchmark, material, device) for seed in seeds], material, epochs)[1]
        for seeds in (SEEDS[:1], SEEDS)
    )
    return {"data": "zinc", "seeds": len(SEEDS), "one s/epoch": one / 1e3, "four s/epoch": four / 1e3,
            "four / one": four / one}  # fmt: skip


def order(material: Material, experiment: Experiment, steps: int) -> Tensor:
    """The graphs of the first steps of shuffled epochs, full batches only: [steps, B]."""
    draw, batch_size, found = torch.Generator().manual_seed(SEED), experiment.training.batch_size, []
    while sum(map(len, found)) < steps:
        mixed = material.training[torch.randperm(len(material.training), generator=draw)]
        rows = cut(mixed, batch_size)
        found.append(rows[: max(1, len(mixed) // batch_size)])
    return torch.cat(found)[:steps]


class PyG:
    """The baseline in training: it starts from the parameters of one of our networks."""

    def __init__(self, network: nn.Module, experiment: Experiment, benchmark: Benchmark, device: torch.device) -> None:
        self.network, self.device, self.objective = network.to(device).train(), device, benchmark.objective
        training = experiment.training
        self.adam = torch.optim.Adam(network.parameters(), training.learning_rate, weight_decay=training.weight_decay)

    def loss(self, batch: Any) -> Tensor:
        batch = batch.to(self.device, non_blocking=True)
        return loss_of(self.objective, call(self.network, batch), batch.y)

    def step(self, batch: Any) -> Tensor:
        self.adam.zero_grad()
        loss = self.loss(batch)
        loss.backward()
        self.adam.step()
        return loss.detach()

    def time(self, batches: Iterable[Any]) -> float:
        """Mean milliseconds of a step behind the first ones."""
        count, start = 0, 0.0
        for number, batch in enumerate(batches):
            if number == WARM:
                wait(self.device)
                start = time.perf_counter()
            self.step(batch)
            count = number + 1 - WARM
        wait(self.device)
        return 1e3 * (time.perf_counter() - start) / count


def loader(experiment: Experiment, benchmark: Benchmark, numbers: Tensor, workers: int, device: torch.device) -> Any:
    """PyG's DataLoader of the given batches."""
    chosen, place = numbers[numbers >= 0].unique(), numbers
    place = torch.where(numbers >= 0, torch.searchsorted(chosen, numbers.clamp(min=0)), -1)
    data = as_data(benchmark.graphs.select(chosen), with_edges=experiment.network.edge_dim is not None)
    rows = [[number for number in row if number >= 0] for row in place.tolist()]
    return DataLoader(data, batch_sampler=rows, num_workers=workers, pin_memory=device.type == "cuda")


def losses(
    experiment: Experiment,
    benchmark: Benchmark,
    material: Material,
    device: torch.device,
    arguments: argparse.Namespace,
) -> dict[str, Any]:
    """Largest relative differences of the first losses, without dropout.

    Rounding grows from step to step until two runs are strangers. So beside the losses of both, each on its own way,
    stand those of PyG at our weights before every step, and those of PyG in float32 against itself in float64.
    """
    plain = replace(experiment, network=replace(experiment.network, dropout=0.0))
    numbers = order(material, plain, arguments.compare)
    ours = member(SEED, plain, benchmark, material, device)
    ways = [make_baseline(plain, benchmark, material.delta) for _ in range(3)]
    for network in ways:
        network.load_dgn(ours.network)
    alone, exact, led = (PyG(network, plain, benchmark, device) for network in (ways[0], ways[1].double(), ways[2]))
    found: list[list[Tensor]] = [[], [], [], []]
    queue = stream(device)
    for row, batch in zip(numbers, loader(plain, benchmark, numbers, 0, device), strict=True):
        ways[2].load_dgn(ours.network)
        wide = batch.clone().apply(lambda value: value.double() if value.is_floating_point() else value)
        with torch.no_grad():
            found[0].append(led.loss(batch))
        found[1].append(alone.step(batch))
        found[2].append(exact.step(wide))
        wait(device)
        with queue:
            for _ in ours.train_epoch(row[row >= 0]):
                pass
            found[3].append(ours.terms[0] / ours.terms[1])
        wait(device)
    led_by_us, free, true, mine = (torch.stack(each).double().cpu() for each in found)
    return {"apart at our weights": apart(mine, led_by_us), "apart, first 10": apart(mine[:10], free[:10]),
            "apart": apart(mine, free), "PyG from its float64": apart(free, true)}  # fmt: skip


def apart(one: Tensor, other: Tensor) -> float:
    return float(((one - other).abs() / other.abs()).max())


def time_pyg(
    experiment: Experiment,
    benchmark: Benchmark,
    material: Material,
    device: torch.device,
    arguments: argparse.Namespace,
    ours: float,
    steps: int,
) -> dict[str, Any]:
    """Milliseconds of a step of PyG, eager and compiled, with its loader and without, and how many of ours they are."""
    numbers = order(material, experiment, WARM + arguments.steps)
    batches = loader(experiment, benchmark, numbers, count_workers(arguments.workers, device), device)
    ready = [batch.to(device) for batch in loader(experiment, benchmark, numbers, 0, device)]

    def fresh() -> PyG:
        return PyG(make_baseline(experiment, benchmark, material.delta), experiment, benchmark, device)

    eager = fresh()
    times = {"PyG": eager.time(batches), "PyG ready": eager.time(ready)}
    if arguments.compile_limit:
        times |= compiled(fresh(), batches, ready, arguments.compile_limit)
    found: dict[str, Any] = {"PyG s/epoch": times["PyG"] * steps / 1e3, "workers": batches.num_workers}
    for name, value in times.items():
        known = isinstance(value, float)
        found |= {f"{name} ms/step": value, f"{name} / ours": value / ours if known else ""}
    return found


def compiled(theirs: PyG, batches: Any, ready: list[Any], limit: float) -> dict[str, Any]:
    """The same through torch.compile; what went wrong where it fails or takes too long."""
    torch._dynamo.reset()
    theirs.network = torch.compile(theirs.network, dynamic=True)
    try:
        with time_limit(limit):
            return {"compiled": theirs.time(batches), "compiled ready": theirs.time(ready)}
    except Exception as problem:  # any failure of a compiler is a result here
        said = f"{type(problem).__name__}: {problem}".splitlines()[0][:60]
        return {"compiled": said, "compiled ready": ""}


def score_time(name: str, arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Seconds of training until the validation score passes the published test score, and to the end, per seed."""
    if name not in TO_SCORE:
        return []
    path = [] if arguments.data is None else [f"data.path={arguments.data}"]
    experiment = load_experiment(TO_SCORE[name], [*path, *arguments.set])
    benchmark = load_graphs(experiment)
    lower, metric = benchmark.metric == "mae", benchmark.metric
    assert experiment.published is not None
    goal = experiment.published.score * (1 if lower else 0.01)
    passed: dict[int, float] = {}

    def watch(report: Any) -> None:
        value = report.metrics[metric]
        if (value <= goal) if lower else (value >= goal):
            passed.setdefault(report.seed, report.seconds)

    start = time.perf_counter()
    results = train(experiment, benchmark, arguments.seeds, device=arguments.device, on_epoch=watch)
    whole = time.perf_counter() - start
    return [
        {"data": name, "seed": result.seed, "published": goal, "seconds to it": passed.get(result.seed, ""),
         "seconds": result.seconds, "epochs": result.epochs, "validation": result.metrics["val"][metric],
         "test": result.metrics["test"][metric], "all seeds, s": whole}
        for result in results
    ]  # fmt: skip


def count_workers(asked: int | None, device: torch.device) -> int:
    """Processes for PyG's loader, none where they could not hand over their batches."""
    if asked is not None:
        return asked
    room = shutil.disk_usage("/dev/shm").free if Path("/dev/shm").exists() else 0
    return 4 if device.type == "cuda" and room > SHARED_MEMORY else 0


def stream(device: torch.device) -> Any:
    """A queue beside the default one, where steps can be captured."""
    return torch.cuda.stream(torch.cuda.Stream(device)) if device.type == "cuda" else nullcontext()


def wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    def stop(*_: Any) -> None:
        raise TimeoutError(f"more than {seconds:.0f} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def note(name: str, what: str, began: float | None = None) -> None:
    print(f"{name}: {what}" + ("" if began is None else f" ({time.perf_counter() - began:.0f} s)"), flush=True)


def table(rows: list[dict[str, Any]]) -> str:
    show: Callable[[Any], str] = lambda value: f"{value:.4g}" if isinstance(value, float) else str(value)  # noqa: E731
    header = "| " + " | ".join(rows[0]) + " |\n|" + "---|" * len(rows[0])
    return "\n".join([header, *("| " + " | ".join(map(show, row.values())) + " |" for row in rows)])


if __name__ == "__main__":
    main()
