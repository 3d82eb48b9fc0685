"""Threads for compiled kernels."""

from concurrent.futures import ThreadPoolExecutor
from threading import Event, get_ident

import pytest
import torch
from threadpoolctl import threadpool_info

from dgn.kernels.numba import threads


def test_kernels_use_all_threads_while_torch_uses_one():
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        seen = []
        with threads.single_threaded_torch():
            assert torch.get_num_threads() == 1
            threads.for_chunks(lambda begin, end: seen.append((begin, end)), 60, 1)
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)
    assert len(seen) == 3 * threads.CHUNKS
    assert sorted(seen)[0][0] == 0
    assert sum(end - begin for begin, end in seen) == 60


def test_an_error_in_any_chunk_is_raised():
    def fail(begin, end):
        if begin <= 59 < end:
            raise ZeroDivisionError("the last chunk")

    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with pytest.raises(ZeroDivisionError, match="the last chunk"):
            threads.for_chunks(fail, 60, 1)
    finally:
        torch.set_num_threads(before)


def test_nested_chunks_stay_in_their_thread():
    seen, chunks = [], 2 * threads.CHUNKS

    def outer(begin, end):
        thread = get_ident()
        threads.for_chunks(lambda *chunk: seen.append((get_ident() == thread, chunk)), end - begin, 1)

    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        threads.for_chunks(outer, 60, 1)  # with threads of their own, all would wait for each other
        assert seen == [(True, (0, 60 // chunks))] * chunks
        seen.clear()
        threads.for_chunks(lambda *chunk: seen.append(chunk), 60, 1)
        assert len(seen) == chunks  # all threads again
    finally:
        torch.set_num_threads(before)


def blas_threads():
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]


def test_one_blas_thread_while_any_thread_is_inside():
    before, inside, leave = blas_threads(), Event(), Event()

    def stay():
        with threads.one_blas_thread():
            inside.set()
            leave.wait(10)

    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(stay)
        assert inside.wait(10)
        with threads.one_blas_thread():
            assert set(blas_threads()) <= {1}
        assert set(blas_threads()) <= {1}  # the other is still there
        leave.set()
        other.result()
    assert blas_threads() == before
