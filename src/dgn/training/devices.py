"""Devices: their choice, Lightning Fabric, matrix precision, and device memory."""

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch

from dgn.data.packed import PackedGraphs
from dgn.training.errors import NoDeviceError

if TYPE_CHECKING:
    from lightning.fabric import Fabric

SHARE = 0.4  # fraction of the free device memory that a dataset may take
BYTES_PER_EDGE, BYTES_PER_NODE = 100, 200  # of a dataset on the device, sorting and weights included


def choose_device(device: str = "auto") -> torch.device:
    """The device of a name: ``auto`` is the GPU if there is one.

    >>> choose_device("cpu")
    device(type='cpu')
    """
    kind, _, index = device.partition(":")
    if kind not in ("auto", "cpu", "cuda") or (index and not (kind == "cuda" and index.isdecimal())):
        raise ValueError(
            f"device: expected auto, cpu, cuda or cuda:0, got {device!r}; cuda is the GPU, and auto takes it if there "
            "is one"
        )
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if kind == "cuda" and int(index or 0) >= count:
        raise NoDeviceError(
            f"device: expected a CUDA device for {device!r}, got {count} of them on this machine with this PyTorch; "
            "use --device cpu, or install a PyTorch with CUDA"
        )
    on_gpu = kind == "cuda" or (kind == "auto" and count)
    return torch.device("cuda", int(index or 0)) if on_gpu else torch.device("cpu")


def make_fabric(device: str = "auto", precision: str = "32-true") -> "Fabric":
    """Lightning's Fabric for a device, and for all processes that ``torchrun`` started."""
    from lightning.fabric import Fabric  # takes seconds to load, and inference does without

    chosen, number = choose_device(device), device.partition(":")[2]
    processes, local = int(os.environ.get("WORLD_SIZE", "1")), int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    fabric = Fabric(
        accelerator=chosen.type,
        devices=[int(number)] if number else local,
        num_nodes=max(1, processes // local),
        strategy="ddp" if processes > 1 else "auto",
        precision="32-true" if precision == "tf32-true" else precision,  # type: ignore[arg-type]
    )
    fabric.launch()
    return fabric


@contextmanager
def matrix_precision(precision: str) -> Iterator[None]:
    """Allow TF32 matrix products on a GPU inside the ``with`` block if ``precision`` is ``tf32-true``."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if precision == "tf32-true" else "highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def dataset_device(graphs: PackedGraphs, device: torch.device) -> torch.device:
    """The device of the dataset: ``device`` where the graphs fit it, else the CPU."""
    if device.type != "cuda":
        return device
    need = BYTES_PER_EDGE * graphs.num_edges + BYTES_PER_NODE * graphs.num_nodes
    return device if need < SHARE * torch.cuda.mem_get_info(device)[0] else torch.device("cpu")


def free_memory() -> None:
    """Free the device memory of the last run, which captured CUDA graphs hold until they are collected.

    A device that this process cannot use any more, as after an illegal access, raises a RuntimeError.
    """
    gc.collect()
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
