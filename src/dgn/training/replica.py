"""A replica: the network of one seed in training, with its optimizer, schedule and random numbers."""

import hashlib
from collections.abc import Iterator
from contextlib import nullcontext
from importlib.util import find_spec
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor, nn

from dgn.data.benchmark import CENSORING
from dgn.data.loader.device_dataset import DeviceDataset
from dgn.data.loader.static_batch import BatchShape, StaticBatches
from dgn.kernels.numba.threads import single_threaded_torch
from dgn.nn import DGN, Ensemble
from dgn.nn.dropout import draw_from
from dgn.nn.fused.wgrad_stream import use_wgrad_stream, wait_for
from dgn.nn.norm import exact_statistics
from dgn.nn.settings import NetworkSettings
from dgn.training.augment import augment, is_active
from dgn.training.cuda_graphs import EpochBuffer, GraphedStep
from dgn.training.evaluate import Split, predict, training_target
from dgn.training.experiment import Experiment
from dgn.training.finetune import set_training
from dgn.training.objectives import Objective, censored_target
from dgn.training.optim import entry_gradient, is_entrywise, make_adam
from dgn.training.schedule import Schedule
from dgn.training.state import State

if TYPE_CHECKING:
    from lightning.fabric import Fabric  # takes seconds to load, and inference does without

LARGEST_CHUNK = 1 << 30  # bytes of batches that are gathered at once
TINY = 1e-12  # in place of a denominator of 0: a batch without labels


class PackedBatchModule(nn.Module):
    """A network that reads its batch from one row of a buffer, a tensor that any wrapper passes on unchanged."""

    def __init__(self, network: DGN | Ensemble) -> None:
        super().__init__()
        self.network = network
        self.batches: StaticBatches | None = None

    def forward(self, row: Tensor) -> Tensor:
        assert self.batches is not None
        return predict(self.network, self.batches.read(row))


class EpochPlan(NamedTuple):
    """The random choices of an epoch: its batches of graphs ``batches`` [S, B], and the augmented ``dataset``.

    ``prefilled``: the batches are in the epoch buffer already.
    """

    epoch: int
    batches: Tensor
    dataset: DeviceDataset
    prefilled: bool


class Replica:
    """A network in training, alone or next to other replicas on the same device.

    All randomness of an epoch (the order of graphs, dropout, augmentation) is a function of the seed and the epoch. A
    resumed run therefore draws what an uninterrupted one draws, and replicas are independent. On one CUDA device steps
    are captured and only queued: nothing synchronizes until scores are read.
    """

    def __init__(
        self,
        seed: int,
        network: DGN | Ensemble,
        experiment: Experiment,
        objective: Objective,
        dataset: DeviceDataset,
        fabric: "Fabric",
    ) -> None:
        self.seed, self.network, self.objective, self.dataset, self.fabric = seed, network, objective, dataset, fabric
        self.settings, self.augmentation = experiment.training, experiment.augmentation
        self.ensemble_size = experiment.network.ensemble_size
        self.device = fabric.device
        on_gpu = self.device.type == "cuda"
        self.captures = on_gpu and fabric.world_size == 1
        self.wgrad_stream = torch.cuda.Stream(self.device) if self.captures else None  # type: ignore[no-untyped-call]
        self.one_thread = self.device.type == "cpu" and find_spec("numba") is not None and _is_plain(experiment.network)
        network.to(self.device)
        trained = [parameter for parameter in network.parameters() if parameter.requires_grad]
        rate, decay = self.settings.learning_rate, self.settings.weight_decay
        self.adam = make_adam(trained, rate, decay, self.device)
        self.module = PackedBatchModule(network)
        self.model, self.optimizer = fabric.setup(self.module, self.adam)
        self.state = State(network, self.adam, self.settings.ema_decay)
        self.generator = torch.Generator(self.device)
        draw_from(network, self.generator)
        self.terms = torch.zeros(2, device=self.device)
        self.schedule = Schedule.start(self.settings)
        self.next_plan: EpochPlan | None = None
        self.shape: BatchShape | None = None
        self.graphed_step: GraphedStep | None = None
        self.epoch_buffer: EpochBuffer | None = None
        self.evaluations: dict[int, GraphedStep] = {}

    def train_epoch(self, index: Tensor) -> Iterator[None]:
        """Train once on the graphs ``index`` [G], a step at a time."""
        epoch = self.schedule.epoch
        plan = self.next_plan
        if plan is None or plan.epoch != epoch:
            plan = self._plan_epoch(index, epoch)
        group = self.optimizer.param_groups[0]
        rate = self.schedule.rate
        group["lr"] = group["lr"].fill_(rate) if isinstance(group["lr"], Tensor) else rate
        self.generator.manual_seed(_seed(self.seed, epoch, "dropout", self.fabric.global_rank))
        self.terms.zero_()
        set_training(self.network, self.settings.freeze)
        if self.epoch_buffer is not None and self.graphed_step is not None:
            yield from self._captured_steps(plan)
            self.next_plan = self._plan_epoch(index, epoch + 1)  # the device is still busy with what was queued
            return
        for batch_index in torch.split(plan.batches, 1):
            batches = plan.dataset.gather(batch_index, self.dataset.smallest_shape(batch_index)).to(self.device)
            self.module.batches = batches
            self._step(batches.buffer[0])
            yield

    def _captured_steps(self, plan: EpochPlan) -> Iterator[None]:
        """The steps of an epoch, in chunks of as many batches as the epoch buffer holds."""
        assert self.epoch_buffer is not None
        assert self.graphed_step is not None
        chunks = torch.split(plan.batches, len(self.epoch_buffer.buffer))
        filled = self.epoch_buffer.fill_chunks(chunks, plan.dataset, plan.prefilled)
        for chunk, _ in zip(chunks, filled, strict=True):
            yield from self.graphed_step.steps(len(chunk))

    def _plan_epoch(self, index: Tensor, epoch: int) -> EpochPlan:
        """The order and the augmentation of an epoch; batches that fit the epoch buffer are gathered at once."""
        batches = self._batches(index, epoch)
        dataset = self._augmented(epoch)
        if not self.captures:
            return EpochPlan(epoch, batches, dataset, False)
        self._capture_step(index, batches)
        assert self.epoch_buffer is not None
        fits = self.dataset.device == self.device and len(batches) <= len(self.epoch_buffer.buffer)
        if fits:
            self.epoch_buffer.fill(batches, dataset)
        return EpochPlan(epoch, batches, dataset, fits)

    def _batches(self, index: Tensor, epoch: int) -> Tensor:
        """The share of this process in the batches of an epoch, in random order: [S, B]."""
        order = torch.randperm(len(index), generator=torch.Generator().manual_seed(_seed(self.seed, epoch, "order")))
        batches = cut(index[order], self.settings.batch_size)
        return batches[:, self.fabric.global_rank :: self.fabric.world_size]

    def update_statistics(self, index: Tensor) -> None:
        """Recompute the statistics of batch norms on batches of the graphs ``index`` [G] (``training.precise_bn``).

        Running statistics are those of weights that training has left behind: where these move fast, a network that
        fits its training batches fails on all others. Statistics of the present weights, averaged ones if these are
        scored, are taken as at inference: without dropout and augmentation. Weights frozen with theirs keep them.
        """
        if not self.settings.precise_bn or self.settings.freeze:
            return
        batches = self._batches(index, self.schedule.epoch)[: self.settings.precise_bn]
        self.network.eval()
        with torch.no_grad(), self.state.averaged(), exact_statistics(self.network):
            for batch_index in torch.split(batches, 1):
                self.module.batches = self.dataset.gather(batch_index, self.dataset.smallest_shape(batch_index))
                self.module.batches = self.module.batches.to(self.device)
                self.module(self.module.batches.buffer[0])

    def evaluate(self, split: Split) -> None:
        """Queue predictions on a split; :meth:`Split.scores` then waits for them."""
        self.network.eval()
        split.terms.zero_()
        evaluation = self.evaluations.get(id(split))
        if evaluation is None:
            buffer = split.batches.buffer
            capture = self.captures and buffer.device == self.device
            evaluation = GraphedStep(
                lambda row, counter: split.step(self.network, row, counter), buffer, capture=capture
            )
            split.terms.zero_()
            self.evaluations[id(split)] = evaluation
        with self.state.averaged():
            for _ in evaluation.steps(len(split.batches)):
                pass

    def train_loss(self) -> float:
        """The training loss of the epoch over all processes; synchronizes with the device."""
        terms = self._all_reduce(self.terms)
        assert terms is not None
        numerator, denominator = terms.tolist()
        return numerator / denominator if denominator else 0.0

    def _step(self, row: Tensor, counter: Tensor | None = None) -> None:  # noqa: ARG002, captured steps have one
        with single_threaded_torch() if self.one_thread else nullcontext():
            self._take_step(row)

    def _take_step(self, row: Tensor) -> None:
        assert self.module.batches is not None
        self.optimizer.zero_grad(set_to_none=True)
        if self.wgrad_stream is not None:  # a capture can only join a stream that it forked, and not every layer forks
            self.wgrad_stream.wait_stream(torch.cuda.current_stream(self.device))
        with nullcontext() if self.wgrad_stream is None else use_wgrad_stream(self.wgrad_stream):
            prediction = self.model(row)
        batch = self.module.batches.read(row)
        target, real = (self._repeat_for_ensemble(values) for values in training_target(batch))
        if CENSORING in batch.graphs:
            target = censored_target(target, prediction, self._repeat_for_ensemble(batch.graphs[CENSORING]))
        self._backward_pass(prediction, target, real)
        if self.wgrad_stream is not None:
            wait_for(self.wgrad_stream)
        self.optimizer.step()
        if self.state.ema is not None:
            self.state.ema.step()

    def _repeat_for_ensemble(self, values: Tensor) -> Tensor:
        """Targets or masks, repeated for each ensemble member."""
        return values if self.ensemble_size == 1 else values.repeat(self.ensemble_size, *[1] * (values.dim() - 1))

    def _backward_pass(self, prediction: Tensor, target: Tensor, real: Tensor) -> None:
        """Compute the gradients of the loss, and add its numerator and denominator to ``terms``."""
        if self.captures and real.dim() == 1 and is_entrywise(self.objective.name, prediction):
            gradient = entry_gradient(self.objective.name, prediction, target, real, self.terms, TINY)
            self.fabric.backward(prediction, gradient)
            return
        statistics = self.objective.statistics(prediction.detach(), target, real)
        numerator, denominator = self.objective.loss(prediction, target, real, self._all_reduce(statistics))
        total = self._all_reduce(denominator)
        assert total is not None
        loss = numerator / total.clamp(min=TINY)
        # Gradients are averaged over processes: the factor turns their mean into a sum.
        self.fabric.backward(loss if self.fabric.world_size == 1 else loss * self.fabric.world_size)
        self.terms += torch.stack([numerator.detach(), denominator.detach()])

    def _all_reduce(self, value: Tensor | None) -> Tensor | None:
        if value is None or self.fabric.world_size == 1:
            return value
        summed = value.clone()  # the argument stays that of this process
        torch.distributed.all_reduce(summed)
        return summed

    def _augmented(self, epoch: int) -> DeviceDataset:
        """The augmented dataset of an epoch."""
        if not is_active(self.augmentation):
            return self.dataset
        generator = torch.Generator(self.dataset.device)
        generator.manual_seed(_seed(self.seed, epoch, "augmentation"))
        return augment(self.network.plan, self.dataset, self.augmentation, generator)

    def _capture_step(self, index: Tensor, batches: Tensor) -> None:
        """Capture the step for one batch shape, again if an epoch has a larger batch."""
        need, old = (
            self.dataset.smallest_shape(batches),
            self.shape or self.dataset.typical_shape(batches.size(1), index),
        )
        shape = BatchShape(batches.size(1), max(need.nodes, old.nodes), max(need.edges, old.edges))
        if shape == self.shape:
            return
        self.shape, self.graphed_step, self.epoch_buffer = shape, None, None
        example = self.dataset.gather(batches[:1], shape)
        rows = max(1, min(len(batches), LARGEST_CHUNK // example.buffer.nbytes))
        self.epoch_buffer = EpochBuffer(self.dataset, shape, example, rows, self.device)
        self.module.batches = example
        before, terms = self.state.tensors(), self.terms.clone()  # of an epoch whose loss was not read yet
        set_training(self.network, self.settings.freeze)
        self.graphed_step = GraphedStep(self._step, self.epoch_buffer.buffer, [self.generator], capture=True)
        self.state.load(before)
        self.terms.copy_(terms)


def cut(index: Tensor, batch_size: int) -> Tensor:
    """Batches of graphs: [G] -> [S, B], the last one padded with -1.

    >>> cut(torch.arange(3), 2).tolist()
    [[0, 1], [2, -1]]
    """
    missing = -len(index) % batch_size
    return torch.nn.functional.pad(index, (0, missing), value=-1).view(-1, batch_size)


def _is_plain(settings: NetworkSettings) -> bool:
    """Whether Numba's kernels do most of a step on the CPU, and PyTorch's operations are too small for several threads.

    On two cores a step of ZINC then takes two thirds of the time (18 November 2026).
    """
    blocks = settings.virtual_node or settings.ffn_expansion
    return settings.message == "complex" and settings.towers == 1 and settings.batch_norm and not blocks


def _seed(seed: int, epoch: int, use: str, rank: int = 0) -> int:
    """The generator seed of an epoch for one use."""
    digest = hashlib.blake2b(f"{seed} {epoch} {use} {rank}".encode(), digest_size=8)
    return int.from_bytes(digest.digest()) >> 1  # generators take 63 bits
