"""The cost of one long call: seconds, CPU seconds of all threads, memory; optionally in a separate process."""

import time
from collections.abc import Callable
from multiprocessing import TimeoutError as TooLong
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

LIMIT = 900  # seconds that a call in a separate process may take


class Cost(NamedTuple):
    seconds: float
    processor: float  # seconds of all threads together
    megabytes: float  # peak beyond the memory in use before
    result: Any


def measured(function: Callable[[], Any]) -> Cost:
    """The cost of calling a function (Linux)."""
    before = _memory("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # resets the peak
    start, processor = time.perf_counter(), time.process_time()
    result = function()
    return Cost(time.perf_counter() - start, time.process_time() - processor, _memory("VmHWM") - before, result)


def _memory(field: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(float(line.split()[1]) / 1024 for line in lines if line.startswith(field))


def apart(function: Callable[..., Any], *arguments: Any) -> Any:
    """The result of a call in a separate process, whose memory is only its own; None if it takes too long."""
    with get_context("spawn").Pool(1) as pool:
        try:
            return pool.apply_async(function, arguments).get(LIMIT)
        except TooLong:
            return None
