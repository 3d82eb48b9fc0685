"""Devices: their choice, missing ones, matrix precision, and the device of a dataset."""

import pytest
import torch

from dgn.training.devices import dataset_device, make_fabric, matrix_precision
from dgn.training.errors import NoDeviceError, TrainingError
from tests.training.small import molecules


def test_the_cpu_is_one_process():
    fabric = make_fabric("cpu")
    assert (fabric.device, fabric.world_size) == (torch.device("cpu"), 1)


def test_automatic_takes_a_gpu_if_there_is_one():
    assert make_fabric().device.type == ("cuda" if torch.cuda.is_available() else "cpu")


@pytest.mark.parametrize("device", ["cuda", "cuda:0"])
def test_a_missing_gpu_is_refused(device, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(NoDeviceError, match=f"expected a CUDA device for '{device}', got 0 of them.*--device cpu"):
        make_fabric(device)
    assert issubclass(NoDeviceError, TrainingError)


def test_a_gpu_index_out_of_range_is_refused(monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    with pytest.raises(NoDeviceError, match="'cuda:7', got 2 of them"):
        make_fabric("cuda:7")


@pytest.mark.parametrize("device", ["cuda:x", "cpu:1", "auto:0"])
def test_only_cuda_has_an_index(device):
    with pytest.raises(ValueError, match=f"device: expected auto, cpu, cuda or cuda:0, got '{device}'"):
        make_fabric(device)


def test_unknown_devices_are_refused():
    with pytest.raises(ValueError, match="got 'cudo'; cuda is the GPU, and auto takes it"):
        make_fabric("cudo")


@pytest.mark.parametrize(("precision", "inside"), [("tf32-true", "at high'"), ("32-true", "at highest'")])
def test_the_matrix_precision_is_restored_after_an_error(precision, inside):
    before = torch.get_float32_matmul_precision()
    with pytest.raises(KeyError, match=inside), matrix_precision(precision):
        raise KeyError(f"at {torch.get_float32_matmul_precision()}")
    assert torch.get_float32_matmul_precision() == before


@pytest.mark.parametrize(("free", "expected"), [(1 << 30, "cuda:0"), (1 << 10, "cpu")])
def test_a_dataset_is_on_the_device_if_it_fits(free, expected, monkeypatch):
    monkeypatch.setattr("torch.cuda.mem_get_info", lambda _: (free, 1 << 34))
    assert dataset_device(molecules(), torch.device("cuda:0")) == torch.device(expected)
    assert dataset_device(molecules(), torch.device("cpu")) == torch.device("cpu")
