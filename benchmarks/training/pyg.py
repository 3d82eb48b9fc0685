"""PyG's side of `against_pyg.py`: its loader, the baseline in training, and the time of its steps."""

import argparse
import shutil
import signal
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.loader import DataLoader

from benchmarks.training.ours import SEEDS, wait
from benchmarks.training.pyg_baseline import as_data, call, loss_of, make_baseline
from dgn.data.benchmark import Benchmark
from dgn.training.experiment import Experiment
from dgn.training.replica import cut
from dgn.training.shared_data import SharedData

WARM = 10  # steps before the clock of PyG starts
SHARED_MEMORY = 2 << 30  # bytes that worker processes need to pass on batches


def order(shared: SharedData, experiment: Experiment, steps: int) -> Tensor:
    """The graphs of the first steps of shuffled epochs, full batches only: [steps, B]."""
    generator, batch_size, epochs = torch.Generator().manual_seed(SEEDS[0]), experiment.training.batch_size, []
    while sum(map(len, epochs)) < steps:
        shuffled = shared.training[torch.randperm(len(shared.training), generator=generator)]
        batches = cut(shuffled, batch_size)
        epochs.append(batches[: max(1, len(shuffled) // batch_size)])
    return torch.cat(epochs)[:steps]


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
        """Mean milliseconds of a step, after warm-up."""
        count, start = 0, 0.0
        for index, batch in enumerate(batches):
            if index == WARM:
                wait(self.device)
                start = time.perf_counter()
            self.step(batch)
            count = index + 1 - WARM
        wait(self.device)
        return 1e3 * (time.perf_counter() - start) / count


def loader(experiment: Experiment, benchmark: Benchmark, indices: Tensor, workers: int, device: torch.device) -> Any:
    """PyG's DataLoader of batches of graphs: ``indices`` [steps, B], padded with -1."""
    chosen = indices[indices >= 0].unique()
    position = torch.where(indices >= 0, torch.searchsorted(chosen, indices.clamp(min=0)), -1)
    data = as_data(benchmark.graphs.select(chosen), with_edges=experiment.network.edge_dim is not None)
    batches = [[index for index in batch if index >= 0] for batch in position.tolist()]
    return DataLoader(data, batch_sampler=batches, num_workers=workers, pin_memory=device.type == "cuda")


def time_pyg(
    experiment: Experiment,
    benchmark: Benchmark,
    shared: SharedData,
    device: torch.device,
    arguments: argparse.Namespace,
    ours: float,
    steps: int,
) -> dict[str, Any]:
    """Milliseconds per step of PyG, eager and compiled, with and without its loader, and their ratios to ours."""
    indices = order(shared, experiment, WARM + arguments.steps)
    batches = loader(experiment, benchmark, indices, count_workers(arguments.workers, device), device)
    ready = [batch.to(device) for batch in loader(experiment, benchmark, indices, 0, device)]

    def fresh() -> PyG:
        return PyG(make_baseline(experiment, benchmark, shared.delta), experiment, benchmark, device)

    eager = fresh()
    times = {"PyG": eager.time(batches), "PyG ready": eager.time(ready)}
    if arguments.compile_limit:
        times |= compiled(fresh(), batches, ready, arguments.compile_limit)
    row: dict[str, Any] = {"PyG s/epoch": times["PyG"] * steps / 1e3, "workers": batches.num_workers}
    for name, value in times.items():
        measured = isinstance(value, float)
        row |= {f"{name} ms/step": value, f"{name} / ours": value / ours if measured else ""}
    return row


def compiled(theirs: PyG, batches: Any, ready: list[Any], limit: float) -> dict[str, Any]:
    """The same through torch.compile; the error where it fails or takes too long."""
    torch._dynamo.reset()
    theirs.network = torch.compile(theirs.network, dynamic=True)
    try:
        with time_limit(limit):
            return {"compiled": theirs.time(batches), "compiled ready": theirs.time(ready)}
    except Exception as error:  # any failure of a compiler is a result here
        message = f"{type(error).__name__}: {error}".splitlines()[0][:60]
        return {"compiled": message, "compiled ready": ""}


def count_workers(requested: int | None, device: torch.device) -> int:
    """Processes for PyG's loader, none without enough shared memory."""
    if requested is not None:
        return requested
    free = shutil.disk_usage("/dev/shm").free if Path("/dev/shm").exists() else 0
    return 4 if device.type == "cuda" and free > SHARED_MEMORY else 0


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
