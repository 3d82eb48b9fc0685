"""Measurement: medians of alternating calls, peak memory, captured steps, copy bandwidth."""

import statistics
import time
from collections.abc import Callable, Sequence

import torch


def measure(functions: Sequence[Callable[[], object]], device: str, repeats: int = 9) -> list[float]:
    """Median milliseconds of each function, in alternating calls, so that noise affects all alike."""
    for function in functions:
        for _ in range(3):
            function()
    times: list[list[float]] = [[] for _ in functions]
    for _ in range(repeats):
        for function, samples in zip(functions, times, strict=True):
            samples.append(_on_gpu(function) if device == "cuda" else _on_cpu(function))
    return [statistics.median(samples) for samples in times]


def _on_gpu(function: Callable[[], object], calls: int = 10) -> float:
    """Milliseconds of a call, averaged over several in a row, so that launches overlap with work."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(calls):
        function()
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end) / calls


def _on_cpu(function: Callable[[], object]) -> float:
    start = time.perf_counter()
    function()
    return 1e3 * (time.perf_counter() - start)


def peak_memory(function: Callable[[], object], device: str) -> float:
    """Peak MiB that a call allocates; 0 on the CPU, where it is not measured."""
    if device != "cuda":
        return 0.0
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    function()
    torch.cuda.synchronize()
    return (torch.cuda.max_memory_allocated() - before) / 2**20


def share(memory: list[float]) -> float:
    """Our memory relative to the other's, NaN where it is not measured."""
    return memory[0] / memory[1] if memory[1] else float("nan")


def captured(step: Callable[[], None]) -> Callable[[], None]:
    """The replay of a step as a CUDA graph, as in a training loop with static shapes."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def bandwidth(device: str) -> float:
    """Bytes per second of a large copy, read and write counted."""
    source = torch.randn(2**28 if device == "cuda" else 2**25, device=device)
    target = torch.empty_like(source)
    return 2 * source.nbytes / (measure([lambda: target.copy_(source)], device)[0] / 1e3)
