"""Batches in parts: the same as all at once, from the device itself or from elsewhere."""

import pytest
import torch

from dgn.aggregation import Weights
from dgn.data.loader.device_dataset import DeviceDataset
from dgn.training.epoch_buffer import EpochBuffer
from dgn.training.replica import cut
from tests.training.small import molecules

NUMBERS = cut(torch.randperm(40, generator=torch.Generator().manual_seed(0)), 6)


class Elsewhere:
    """A store that says it is on another device."""

    device = torch.device("meta")

    def __init__(self, store):
        self.gather, self.asked = self.count, 0
        self.store = store

    def count(self, *given):
        self.asked += 1
        return self.store.gather(*given)


@pytest.fixture
def store():
    store = DeviceDataset(molecules(), {"nodes": ["x"], "edges": ["edge_attr", "field"]}, "cpu")
    draw = torch.Generator().manual_seed(1)
    store.weights = Weights(
        torch.randn(store.graph.num_edges, 2, generator=draw), torch.randn(store.graph.num_nodes, 2, generator=draw)
    )
    return store


def fed(feed, rows, store, first=False):
    """All rows that a step would read, part by part."""
    parts = torch.split(NUMBERS, rows)
    filled = feed.fill_parts(parts, store, first)
    return torch.cat([feed.words[: len(part)].clone() for part, _ in zip(parts, filled, strict=True)])


@pytest.mark.parametrize("rows", [1, 2, 3, 7])
@pytest.mark.parametrize("elsewhere", [False, True])
@pytest.mark.parametrize("own", [False, True], ids=["weights of the store", "weights of the epoch"])
def test_parts_hold_what_the_whole_holds(store, rows, elsewhere, own):
    room = store.needs(NUMBERS)
    seen = store.replaced(Weights(store.weights.edge * 2, store.weights.self)) if own else store
    whole = seen.gather(NUMBERS, room)
    source = Elsewhere(seen) if elsewhere else store
    feed = EpochBuffer(source, room, store.gather(NUMBERS[:1], room), rows, torch.device("cpu"))
    assert feed.words.shape == (rows, whole.words.size(1))
    # On the device itself only the store of an epoch is gathered from one by one; the rest is captured, on a GPU.
    given = source if elsewhere else seen.replaced(seen.weights)
    assert torch.equal(fed(feed, rows, given), whole.words)
    if elsewhere:
        assert source.asked == -(-len(NUMBERS) // rows)


def test_a_first_part_that_is_there_is_left_alone(store):
    room = store.needs(NUMBERS)
    feed = EpochBuffer(store, room, store.gather(NUMBERS[:1], room), 3, torch.device("cpu"))
    feed.words.fill_(-7)
    found = fed(feed, 3, store.replaced(store.weights), first=True)
    assert (found[:3] == -7).all()
    assert torch.equal(found[3:], store.gather(NUMBERS, room).words[3:])


def test_what_fails_elsewhere_is_raised_here(store):
    def fail(*_):
        raise MemoryError("too large")

    source = Elsewhere(store)
    source.gather = fail
    feed = EpochBuffer(
        source, store.needs(NUMBERS), store.gather(NUMBERS[:1], store.needs(NUMBERS)), 2, torch.device("cpu")
    )
    with pytest.raises(MemoryError, match="too large"):
        fed(feed, 2, source)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
@pytest.mark.parametrize("rows", [2, 3, 7])
@pytest.mark.parametrize("place", ["cpu", "cuda"])
def test_parts_on_a_gpu(store, rows, place):
    names = {"nodes": ["x"], "edges": ["edge_attr", "field"]}
    source = DeviceDataset(molecules(), names, place)
    source.weights = Weights(*(weight.to(place) for weight in store.weights))
    room = store.needs(NUMBERS)
    whole = source.gather(NUMBERS, room).words.cpu()  # roots differ in the last bit between devices
    feed = EpochBuffer(source, room, source.gather(NUMBERS[:1], room), rows, torch.device("cuda"))
    torch.cuda.synchronize()
    with torch.cuda.stream(torch.cuda.Stream()):
        for seen in (source, source.replaced(source.weights), source):
            assert torch.equal(fed(feed, rows, seen).cpu(), whole)
