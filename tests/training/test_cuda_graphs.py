"""The epoch buffer holds the gathered batches; a capture pauses garbage collection. See also test_replica.py."""

import gc
from typing import Any

import pytest
import torch

from dgn.aggregation import Weights
from dgn.data.loader.device_dataset import DeviceDataset
from dgn.training.cuda_graphs import EpochBuffer, GraphedStep, pause_gc
from dgn.training.replica import cut
from tests.training.small import molecules
from tests.training.test_replica import needs_cuda

INDEX = cut(torch.randperm(40, generator=torch.Generator().manual_seed(0)), 6)


class OtherDevice:
    """A dataset that claims to be on another device and counts its calls."""

    device = torch.device("meta")

    def __init__(self, dataset):
        self.gather, self.calls = self.count, 0
        self.dataset = dataset

    def count(self, *args):
        self.calls += 1
        return self.dataset.gather(*args)


@pytest.fixture
def dataset():
    dataset = DeviceDataset(molecules(), {"nodes": ["x"], "edges": ["edge_attr", "edge_field"]}, "cpu")
    draw = torch.Generator().manual_seed(1)
    dataset.weights = Weights(
        torch.randn(dataset.graph.num_edges, 2, generator=draw), torch.randn(dataset.graph.num_nodes, 2, generator=draw)
    )
    return dataset


def fill(epoch_buffer, rows, dataset, prefilled=False):
    """All rows that a step would read, chunk by chunk."""
    chunks = torch.split(INDEX, rows)
    filled = epoch_buffer.fill_chunks(chunks, dataset, prefilled)
    return torch.cat([epoch_buffer.buffer[: len(chunk)].clone() for chunk, _ in zip(chunks, filled, strict=True)])


@pytest.mark.parametrize("rows", [1, 2, 3, 7])
@pytest.mark.parametrize("other_device", [False, True])
@pytest.mark.parametrize("augmented", [False, True], ids=["weights of the dataset", "weights of the epoch"])
def test_chunks_hold_the_batches_of_the_epoch(dataset, rows, other_device, augmented):
    shape = dataset.smallest_shape(INDEX)
    view = dataset.replaced(Weights(dataset.weights.edge * 2, dataset.weights.self)) if augmented else dataset
    expected = view.gather(INDEX, shape)
    source = OtherDevice(view) if other_device else dataset
    epoch_buffer = EpochBuffer(source, shape, dataset.gather(INDEX[:1], shape), rows, torch.device("cpu"))
    assert epoch_buffer.buffer.shape == (rows, expected.buffer.size(1))
    # Without CUDA only a replaced dataset can be gathered on the same device; the dataset itself is captured.
    gathered = source if other_device else view.replaced(view.weights)
    assert torch.equal(fill(epoch_buffer, rows, gathered), expected.buffer)
    if other_device:
        assert source.calls == -(-len(INDEX) // rows)


def test_a_prefilled_first_chunk_is_not_gathered_again(dataset):
    shape = dataset.smallest_shape(INDEX)
    epoch_buffer = EpochBuffer(dataset, shape, dataset.gather(INDEX[:1], shape), 3, torch.device("cpu"))
    epoch_buffer.buffer.fill_(-7)
    rows = fill(epoch_buffer, 3, dataset.replaced(dataset.weights), prefilled=True)
    assert (rows[:3] == -7).all()
    assert torch.equal(rows[3:], dataset.gather(INDEX, shape).buffer[3:])


def test_an_error_in_the_gathering_thread_is_raised(dataset):
    def fail(*_):
        raise MemoryError("too large")

    source = OtherDevice(dataset)
    source.gather = fail
    epoch_buffer = EpochBuffer(
        source,
        dataset.smallest_shape(INDEX),
        dataset.gather(INDEX[:1], dataset.smallest_shape(INDEX)),
        2,
        torch.device("cpu"),
    )
    with pytest.raises(MemoryError, match="too large"):
        fill(epoch_buffer, 2, source)


@pytest.mark.gpu
@needs_cuda
@pytest.mark.parametrize("rows", [2, 3, 7])
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_chunks_on_a_gpu(dataset, rows, device):
    names = {"nodes": ["x"], "edges": ["edge_attr", "edge_field"]}
    source = DeviceDataset(molecules(), names, device)
    source.weights = Weights(*(weight.to(device) for weight in dataset.weights))
    shape = dataset.smallest_shape(INDEX)
    expected = source.gather(INDEX, shape).buffer.cpu()  # roots differ in the last bit between devices
    epoch_buffer = EpochBuffer(source, shape, source.gather(INDEX[:1], shape), rows, torch.device("cuda"))
    torch.cuda.synchronize()
    with torch.cuda.stream(torch.cuda.Stream()):
        for view in (source, source.replaced(source.weights), source):
            assert torch.equal(fill(epoch_buffer, rows, view).cpu(), expected)


def test_the_garbage_collector_is_paused():
    with pause_gc():
        assert not gc.isenabled()
    assert gc.isenabled()


def test_the_garbage_collector_is_restored_after_an_error_and_stays_off_if_it_was():
    with pytest.raises(ValueError, match="failed"), pause_gc():
        raise ValueError("failed")
    assert gc.isenabled()
    gc.disable()
    try:
        with pause_gc():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


@pytest.mark.gpu
@needs_cuda
def test_no_garbage_is_collected_in_a_capture():
    buffer, total, phases = torch.arange(4.0, device="cuda")[:, None], torch.zeros(1, device="cuda"), []

    def step(row: torch.Tensor, _: torch.Tensor) -> None:
        garbage = [[] for _ in range(1000)]  # more new objects than a collection waits for
        total.add_(row * bool(garbage))

    def record(phase: str, _: Any) -> None:
        phases.append((phase, torch.cuda.is_current_stream_capturing()))

    threshold = gc.get_threshold()
    gc.set_threshold(10)
    gc.callbacks.append(record)
    try:
        with torch.cuda.stream(torch.cuda.Stream()):
            graphed = GraphedStep(step, buffer, capture=True)
            total.zero_()
            for _ in graphed.steps(4):
                pass
            torch.cuda.current_stream().synchronize()
    finally:
        gc.callbacks.remove(record)
        gc.set_threshold(*threshold)
    assert total.item() == 6.0
    assert ("start", False) in phases  # in the warm-up
    assert ("start", True) not in phases
