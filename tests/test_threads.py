"""Threads for compiled kernels."""

import pytest
import torch

from dgn import threads


def test_kernels_keep_their_threads_where_pytorch_has_one():
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        seen = []
        with threads.kernels_alone():
            assert torch.get_num_threads() == 1
            threads.for_chunks(lambda begin, end: seen.append((begin, end)), 60, 1)
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)
    assert len(seen) == 3 * threads.PIECES
    assert sorted(seen)[0][0] == 0
    assert sum(end - begin for begin, end in seen) == 60


def test_an_error_in_any_piece_is_raised():
    def fail(begin, end):
        if begin <= 59 < end:
            raise ZeroDivisionError("the last piece")

    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with pytest.raises(ZeroDivisionError, match="the last piece"):
            threads.for_chunks(fail, 60, 1)
    finally:
        torch.set_num_threads(before)
