"""One network in training: its weights, its optimizer, its schedule and its own random numbers."""

import hashlib
from collections.abc import Iterator
from typing import NamedTuple

import torch
from lightning.fabric import Fabric
from torch import Tensor, nn

from dgn.data.loader.device_dataset import DeviceDataset
from dgn.data.loader.static_batch import BatchShape, StaticBatches
from dgn.nn import DGN, Ensemble
from dgn.nn.dropout import draw_from
from dgn.nn.fused.wgrad_stream import use_wgrad_stream
from dgn.training.augment import augment, is_active
from dgn.training.cuda_graphs import GraphedStep
from dgn.training.epoch_buffer import EpochBuffer
from dgn.training.evaluate import Split, predict, training_target
from dgn.training.experiment import Experiment
from dgn.training.objectives import Objective
from dgn.training.optim import FlatAdam, entry_gradient, is_entrywise, make_adam
from dgn.training.schedule import Schedule
from dgn.training.state import State

LARGEST_CHUNK = 1 << 30  # bytes of batches that are gathered at once
TINY = 1e-12  # in place of a denominator of 0: a batch without labels


class PackedBatchModule(nn.Module):
    """A network that reads its batch from a row of words: one tensor, which any wrapper passes on as it is."""

    def __init__(self, network: DGN | Ensemble) -> None:
        super().__init__()
        self.network = network
        self.batches: StaticBatches | None = None

    def forward(self, row: Tensor) -> Tensor:
        assert self.batches is not None
        return predict(self.network, self.batches.read(row))


class EpochPlan(NamedTuple):
    """What is random in an epoch: its batches of graphs [S, B], and the graphs as the epoch sees them.

    ``fed`` says that the batches lie where the step reads them already.
    """

    epoch: int
    mine: Tensor
    store: DeviceDataset
    fed: bool


class Replica:
    """A network that trains, alone or beside others on the same device.

    All that is random in an epoch (the order of graphs, dropout, augmentation) is a function of the seed and the
    number of the epoch: a run taken up again draws what it would have drawn, and members do not disturb each other.
    On one CUDA device steps are captured and only queued: nothing waits until scores are asked for.
    """

    def __init__(
        self,
        seed: int,
        network: DGN | Ensemble,
        experiment: Experiment,
        objective: Objective,
        store: DeviceDataset,
        fabric: Fabric,
    ) -> None:
        self.seed, self.network, self.objective, self.store, self.fabric = seed, network, objective, store, fabric
        self.settings, self.augmentation = experiment.training, experiment.augmentation
        self.ensemble_size = experiment.network.ensemble_size
        self.device = fabric.device
        on_gpu = self.device.type == "cuda"
        self.captures = on_gpu and fabric.world_size == 1
        self.side = torch.cuda.Stream(self.device) if self.captures else None  # type: ignore[no-untyped-call]
        network.to(self.device)
        given = network.parameters(), self.settings.learning_rate, self.settings.weight_decay
        adam = make_adam(*given, self.device, flat=self.captures)
        self.words = PackedBatchModule(network)
        self.model, self.optimizer = fabric.setup(self.words, adam)
        self.adam = adam
        self.state = State(network, adam, self.settings.ema_decay)
        self.generator = torch.Generator(self.device)
        draw_from(network, self.generator)
        self.terms = torch.zeros(2, device=self.device)
        self.schedule = Schedule.start(self.settings)
        self.ahead: EpochPlan | None = None
        self.room: BatchShape | None = None
        self.replay: GraphedStep | None = None
        self.feed: EpochBuffer | None = None
        self.evaluations: dict[int, GraphedStep] = {}

    def train_epoch(self, numbers: Tensor) -> Iterator[None]:
        """Train once on the graphs ``numbers`` [G], a step at a time."""
        epoch = self.schedule.epoch
        draw = self.ahead if self.ahead is not None and self.ahead.epoch == epoch else self._draw(numbers, epoch)
        rate = self.optimizer.param_groups[0]
        rate["lr"] = rate["lr"].fill_(self.schedule.rate) if isinstance(rate["lr"], Tensor) else self.schedule.rate
        self.generator.manual_seed(_seed(self.seed, epoch, "dropout", self.fabric.global_rank))
        self.terms.zero_()
        self.network.train()
        if self.feed is not None and self.replay is not None:
            yield from self._captured_steps(draw)
            self.ahead = self._draw(numbers, epoch + 1)  # the device is still busy with what was queued
            return
        for part in torch.split(draw.mine, 1):
            batches = draw.store.gather(part, self.store.needs(part)).to(self.device)
            self.words.batches = batches
            yield from GraphedStep(self._step, batches.words).steps(1)

    def _captured_steps(self, draw: "EpochPlan") -> Iterator[None]:
        """The steps of an epoch, fed with as many batches at once as there is room for."""
        assert self.feed is not None
        assert self.replay is not None
        parts = torch.split(draw.mine, len(self.feed.words))
        feed = self.feed.fill_parts(parts, draw.store, draw.fed)
        for part, _ in zip(parts, feed, strict=True):
            yield from self.replay.steps(len(part))

    def _draw(self, numbers: Tensor, epoch: int) -> "EpochPlan":
        """The order and the field of an epoch; with room for all of it, its batches are gathered right away."""
        order = torch.randperm(len(numbers), generator=torch.Generator().manual_seed(_seed(self.seed, epoch, "order")))
        mine = cut(numbers[order], self.settings.batch_size)[:, self.fabric.global_rank :: self.fabric.world_size]
        store = self._augmented(epoch)
        if not self.captures:
            return EpochPlan(epoch, mine, store, False)
        self._find_room(numbers, mine)
        assert self.feed is not None
        fits = self.store.device == self.device and len(mine) <= len(self.feed.words)
        if fits:
            self.feed.fill(mine, store)
        return EpochPlan(epoch, mine, store, fits)

    def evaluate(self, split: Split) -> None:
        """Predict for a split, queued behind what came before; :meth:`Split.scores` then waits for it."""
        self.network.eval()
        split.terms.zero_()
        known = self.evaluations.get(id(split))
        if known is None:
            words = split.batches.words
            capture = self.captures and words.device == self.device
            known = GraphedStep(lambda row, counter: split.step(self.network, row, counter), words, capture=capture)
            split.terms.zero_()
            self.evaluations[id(split)] = known
        with self.state.averaged():
            for _ in known.steps(len(split.batches)):
                pass

    def train_loss(self) -> float:
        """The loss of the epoch, over the graphs of all processes; waits for it."""
        terms = self._everywhere(self.terms)
        assert terms is not None
        numerator, denominator = terms.tolist()
        return numerator / denominator if denominator else 0.0

    def _step(self, row: Tensor, counter: Tensor) -> None:  # noqa: ARG002, every step has a counter
        assert self.words.batches is not None
        self.optimizer.zero_grad(set_to_none=True)
        if self.side is not None:  # a capture can only wait for a branch that it knows, and not every layer begins one
            self.side.wait_stream(torch.cuda.current_stream(self.device))
        with use_wgrad_stream(self.side):
            prediction = self.model(row)
        target, real = (self._for_branches(each) for each in training_target(self.words.batches.read(row)))
        self._backward_pass(prediction, target, real)
        if self.side is not None:
            torch.cuda.current_stream(self.device).wait_stream(self.side)
        self.optimizer.step()
        if self.state.averaging is not None:
            self.state.averaging.step()

    def _for_branches(self, values: Tensor) -> Tensor:
        """Targets, or whether they are real, once for each branch that answers."""
        return values if self.ensemble_size == 1 else values.repeat(self.ensemble_size, *[1] * (values.dim() - 1))

    def _backward_pass(self, prediction: Tensor, target: Tensor, real: Tensor) -> None:
        """Gradients of the loss, whose terms are added up."""
        if self.captures and is_entrywise(self.objective.name, prediction):
            gradient = entry_gradient(self.objective.name, prediction, target, real, self.terms, TINY)
            self.fabric.backward(prediction, gradient)
            return
        statistics = self.objective.statistics(prediction.detach(), target, real)
        numerator, denominator = self.objective.loss(prediction, target, real, self._everywhere(statistics))
        whole = self._everywhere(denominator)
        assert whole is not None
        loss = numerator / whole.clamp(min=TINY)
        # Gradients are averaged over processes: their number turns the mean of parts into the whole.
        self.fabric.backward(loss if self.fabric.world_size == 1 else loss * self.fabric.world_size)
        self.terms += torch.stack([numerator.detach(), denominator.detach()])

    def _everywhere(self, value: Tensor | None) -> Tensor | None:
        if value is None or self.fabric.world_size == 1:
            return value
        summed = value.clone()  # what is given stays that of this process
        torch.distributed.all_reduce(summed)
        return summed

    def _augmented(self, epoch: int) -> DeviceDataset:
        """The graphs as an epoch sees them."""
        if not is_active(self.augmentation):
            return self.store
        generator = torch.Generator(self.store.device)
        generator.manual_seed(_seed(self.seed, epoch, "augmentation"))
        return augment(self.network.plan, self.store, self.augmentation, generator)

    def _find_room(self, numbers: Tensor, mine: Tensor) -> None:
        """Capture the step for batches of one size, again if an epoch has a larger one."""
        need, old = self.store.needs(mine), self.room or self.store.room(mine.size(1), numbers)
        room = BatchShape(mine.size(1), max(need.nodes, old.nodes), max(need.edges, old.edges))
        if room == self.room:
            return
        self.room, self.replay, self.feed = room, None, None
        one = self.store.gather(mine[:1], room)
        rows = max(1, min(len(mine), LARGEST_CHUNK // one.words.nbytes))
        self.feed = EpochBuffer(self.store, room, one, rows, self.device)
        self.words.batches = one
        before, terms = self.state.tensors(), self.terms.clone()  # of an epoch whose loss nobody has read yet
        self.network.train()
        self.replay = GraphedStep(self._step, self.feed.words, [self.generator], capture=True)
        if isinstance(self.adam, FlatAdam):
            self.adam.settle()
        self.state.load(before)
        self.terms.copy_(terms)


def cut(numbers: Tensor, batch_size: int) -> Tensor:
    """Graphs in batches: [G] -> [S, B], the last one filled up with -1.

    >>> cut(torch.arange(3), 2).tolist()
    [[0, 1], [2, -1]]
    """
    missing = -len(numbers) % batch_size
    return torch.nn.functional.pad(numbers, (0, missing), value=-1).view(-1, batch_size)


def _seed(seed: int, epoch: int, use: str, rank: int = 0) -> int:
    """Where the random numbers of an epoch start, for one use."""
    digest = hashlib.blake2b(f"{seed} {epoch} {use} {rank}".encode(), digest_size=8)
    return int.from_bytes(digest.digest()) >> 1  # generators take 63 bits
