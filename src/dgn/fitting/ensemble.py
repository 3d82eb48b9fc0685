"""Several networks on the same molecules: trained side by side, asked together."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from dgn.data.benchmarks import ATOMS, BONDS, Benchmark
from dgn.data.directions import add_directions
from dgn.data.packed import PackedGraphs
from dgn.data.store import Store
from dgn.fitting.columns import Task
from dgn.nn import DGN
from dgn.training.build import Inputs, build_for_inputs
from dgn.training.checkpoint import load_checkpoint
from dgn.training.evaluate import predict
from dgn.training.experiment import Experiment
from dgn.training.loop import train
from dgn.training.run import EpochReport, RunResult

BATCH = 128  # molecules that are asked about at once
Weights = Mapping[str, Tensor]


class Trained(NamedTuple):
    """The weights of each member, the mean log degree they were scaled by, and how their training went."""

    weights: list[dict[str, Tensor]]
    delta: float
    results: list[RunResult]


class Ensemble:
    """Networks of one shape.

    Laws: what it says of a molecule depends neither on the molecules beside it nor on their order, up to rounding.
    """

    def __init__(
        self, experiment: Experiment, delta: float, targets: int, weights: Sequence[Weights], device: torch.device | str
    ) -> None:
        self.experiment, self.device = experiment, torch.device(device)
        inputs = Inputs(ATOMS, BONDS, targets)
        self.networks = [build_for_inputs(experiment.network, inputs, delta) for _ in weights]
        for network, values in zip(self.networks, weights, strict=True):
            _load(network, values)
            network.to(self.device).eval()

    @torch.no_grad()
    def __call__(self, graphs: PackedGraphs) -> Tensor:
        """What each member says of each molecule: [M, G, T] on the CPU."""
        settings = self.experiment.network
        if "field" not in graphs.edges and self.experiment.num_directions:
            graphs = add_directions(graphs, self.experiment.num_directions, self.experiment.data.normalization)
        potential = settings.positional or settings.readout == "directional"
        names = {"nodes": ["x", *(["potential"] if potential else [])], "edges": ["edge_attr", "field"]}
        names["edges"] = [name for name in names["edges"] if name in graphs.edges]
        store = Store(graphs, names, self.device)
        store.weights = self.networks[0].plan.compute_weights(store.edges.pop("field", None), store.graph)
        found = [self._ask(store, part) for part in torch.split(torch.arange(len(graphs)), BATCH) if len(part)]
        last = self.networks[0].head[-1]
        empty = torch.zeros(len(self.networks), 0, int(last.out_features))  # type: ignore[arg-type]
        return torch.cat([empty, *found], dim=1)

    def _ask(self, store: Store, numbers: Tensor) -> Tensor:
        batches = store.gather(numbers[None], store.needs(numbers[None]))
        batch = batches.read(batches.words[0])
        return torch.stack([predict(network, batch)[: len(numbers)] for network in self.networks]).float().cpu()


def train_ensemble(
    experiment: Experiment,
    benchmark: Benchmark,
    folder: Path,
    device: str = "auto",
    on_epoch: Callable[[EpochReport], None] | None = None,
    on_resume: Callable[[str], None] | None = None,
) -> Trained:
    """Train one member for each seed of the experiment; those that are finished in the folder are read."""
    seeds = experiment.training.seeds
    results = train(experiment, benchmark, seeds, folder, device, on_epoch, on_resume=on_resume)
    loaded = [load_checkpoint(folder / f"seed-{seed}" / "model.safetensors") for seed in seeds]
    return Trained([tensors for tensors, _ in loaded], float(loaded[0][1]["delta"]), results)


def make_benchmark(graphs: PackedGraphs, values: Tensor, part: Tensor, task: Task) -> Benchmark:
    """Training molecules (part 0) and validation molecules (part 1) as the training loop takes them.

    ``values`` [R, T] are what the networks are to say: numbers near 0, or 0 and 1; NaN where unknown.
    The loop wants a test part too: the validation molecules stand there again, for what is held out stays held out.
    """
    training, validation = ((part == number).nonzero()[:, 0] for number in (0, 1))
    chosen = torch.cat([training, validation, validation])
    sizes = torch.tensor([len(training), len(validation), len(validation)])
    split = torch.arange(3, dtype=torch.uint8).repeat_interleave(sizes)
    shown = graphs.select(chosen).with_values(graphs={"y": values[chosen].float(), "split": split})
    objective, metric = ("regression", "mae") if task == "regression" else ("multi-label", "roc-auc")
    return Benchmark("table", shown, objective, metric, values.size(1), ATOMS, BONDS)


def _load(network: DGN, weights: Weights) -> None:
    try:
        network.load_state_dict(dict(weights))
    except RuntimeError as problem:
        raise ValueError(f"weights: expected those of the network in model.json, got others; {problem}") from problem
