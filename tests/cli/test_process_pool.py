"""The pool of workers: one that dies breaks no other and is replaced."""

import os
import signal
import time
from pathlib import Path

import pytest
from rich.console import Console

from dgn.cli.process_pool import workers


@pytest.mark.slow
def test_a_worker_that_dies_or_raises_is_replaced_and_the_others_live(tmp_path: Path) -> None:
    with workers(Console(quiet=True), tmp_path, 2) as pool:

        def both() -> set[int]:  # free workers take turns
            return {pool.submit(os.getpid).result() for _ in range(2)}

        before = both()
        assert len(before - {os.getpid()}) == 2
        dying, living = pool.submit(os._exit, 3), pool.submit(time.sleep, 1)
        with pytest.raises(RuntimeError, match="process: expected a result"):
            dying.result()
        assert living.result() is None
        after = both()
        assert len(after & before) == 1
        with pytest.raises(ZeroDivisionError):
            pool.submit(divmod, 1, 0).result()
        assert len(both() & after) == 1


def test_pending_work_is_cancelled_on_an_error(tmp_path: Path) -> None:
    futures = []

    def end_early() -> None:
        with workers(Console(quiet=True), tmp_path, 1) as pool:
            pool.submit(os.getpid).result()
            futures.extend(pool.submit(time.sleep, 600) for _ in range(2))
            raise ValueError("enough")

    with pytest.raises(ValueError, match="enough"):
        end_early()
    running, pending = futures
    assert pending.cancelled()
    assert running.cancelled() or running.exception() is not None


@pytest.mark.slow
def test_a_worker_that_dies_while_idle_is_replaced(tmp_path: Path) -> None:
    with workers(Console(quiet=True), tmp_path, 1) as pool:
        os.kill(pool.submit(os.getpid).result(), signal.SIGKILL)
        time.sleep(0.5)  # until it is noticed
        assert pool.submit(abs, -3).result() == 3
