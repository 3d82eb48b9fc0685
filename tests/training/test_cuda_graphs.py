"""What a capture needs around it; captured steps themselves are in test_member.py."""

import gc
from typing import Any

import pytest
import torch

from dgn.training.cuda_graphs import GraphedStep, without_collection
from tests.training.test_replica import needs_cuda


def test_no_garbage_is_collected_meanwhile():
    with without_collection():
        assert not gc.isenabled()
    assert gc.isenabled()


def test_collection_goes_on_after_a_failure_and_stays_off_where_it_was():
    with pytest.raises(ValueError, match="spoilt"), without_collection():
        raise ValueError("spoilt")
    assert gc.isenabled()
    gc.disable()
    try:
        with without_collection():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


@pytest.mark.gpu
@needs_cuda
def test_no_garbage_is_collected_in_a_capture():
    words, found, seen = torch.arange(4.0, device="cuda")[:, None], torch.zeros(1, device="cuda"), []

    def step(row: torch.Tensor, _: torch.Tensor) -> None:
        kept = [[] for _ in range(1000)]  # more new objects than a collection waits for
        found.add_(row * bool(kept))

    def notice(phase: str, _: Any) -> None:
        seen.append((phase, torch.cuda.is_current_stream_capturing()))

    before = gc.get_threshold()
    gc.set_threshold(10)
    gc.callbacks.append(notice)
    try:
        with torch.cuda.stream(torch.cuda.Stream()):
            replay = GraphedStep(step, words, capture=True)
            found.zero_()
            for _ in replay.steps(4):
                pass
            torch.cuda.current_stream().synchronize()
    finally:
        gc.callbacks.remove(notice)
        gc.set_threshold(*before)
    assert found.item() == 6.0
    assert ("start", False) in seen  # when it was warmed up
    assert ("start", True) not in seen
