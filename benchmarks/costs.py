"""What one long call costs: seconds, CPU seconds of all threads, memory; in a process of its own where that matters."""

import time
from collections.abc import Callable
from multiprocessing import TimeoutError as TooLong
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

LIMIT = 900  # seconds that a call apart may take


class Cost(NamedTuple):
    seconds: float
    processor: float  # seconds of all threads together
    megabytes: float  # peak beyond what was there before
    result: Any


def measured(function: Callable[[], Any]) -> Cost:
    """Call a function and look what it took (Linux)."""
    before = _memory("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # forgets the peak so far
    start, processor = time.perf_counter(), time.process_time()
    result = function()
    return Cost(time.perf_counter() - start, time.process_time() - processor, _memory("VmHWM") - before, result)


def _memory(field: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(float(line.split()[1]) / 1024 for line in lines if line.startswith(field))


def apart(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call in a process of its own, whose memory is only what it needs; None if it takes too long."""
    with get_context("spawn").Pool(1) as pool:
        try:
            return pool.apply_async(function, arguments).get(LIMIT)
        except TooLong:
            return None
