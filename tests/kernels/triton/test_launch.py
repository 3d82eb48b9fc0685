"""Launches past Triton's handling of arguments: the compiled kernel is the one that Triton would take."""

import pytest
import torch

from tests.interpreter import DEVICE, INTERPRETED, check_in_interpreter, somewhere

pytest.importorskip("triton", reason="Triton is not installed")

import triton
import triton.language as tl

from dgn.kernels.triton import launch
from dgn.kernels.triton.launch import Launcher


class Driver:
    """The part of Triton's driver that launches ask."""

    def get_current_device(self):
        return 0

    def get_current_stream(self, device):
        return 100 + device


class Compiled:
    """A compiled kernel that notes how it is launched."""

    function, packed_metadata = "function", "metadata"

    def __init__(self, launches):
        self.launches = launches

    def run(self, *arguments):
        self.launches.append(arguments)


class Kernel:
    """A kernel that notes how often Triton looks for the compiled one."""

    arg_names = ("values", "out", "size", "MODE")

    def __init__(self):
        self.searches, self.launches = 0, []

    def __getitem__(self, grid):
        def search(*_, **__):
            self.searches += 1
            return Compiled(self.launches)

        return search


@pytest.fixture
def kernel(monkeypatch):
    monkeypatch.setattr(launch, "JITFunction", Kernel)
    monkeypatch.setattr(launch, "is_known", lambda: True)
    monkeypatch.setattr(launch.triton.runtime.driver, "_active", Driver())
    return Kernel()


def test_the_second_launch_is_direct(kernel):
    launcher, tensors = Launcher(kernel, MODE="mean", num_warps=1), (torch.zeros(32), torch.zeros(32))
    launcher((3, 2), tensors, 8)
    assert (kernel.searches, kernel.launches) == (1, [])
    launcher((5, 2), tensors, 9)
    addresses = tuple(tensor.data_ptr() for tensor in tensors)
    assert kernel.launches == [(5, 2, 1, 100, "function", "metadata", None, None, None, *addresses, 9, "mean")]


def other_arguments():
    aligned, odd = torch.zeros(32), torch.zeros(33)[1:]
    assert odd.data_ptr() % 16
    return {
        "another type": ((aligned.double(), aligned), 8),
        "an odd address": ((odd, aligned), 8),
        "another odd address": ((aligned, odd), 8),
        "a multiple of 16": ((aligned, aligned), 32),
        "one": ((aligned, aligned), 1),
        "a large number": ((aligned, aligned), 2**31 + 1),
        "a large multiple": ((aligned, aligned), 2**31),
    }


def test_arguments_that_triton_tells_apart_are_searched_for(kernel):
    launcher, cases = Launcher(kernel, MODE="mean"), other_arguments()
    launcher((1, 1), (torch.zeros(32), torch.zeros(32)), 8)
    for tensors, number in cases.values():
        for _ in range(2):
            launcher((1, 1), tensors, number)
    assert kernel.searches == len(kernel.launches) + 1 == len(cases) + 1


def test_other_versions_launch_as_usual(kernel, monkeypatch):
    monkeypatch.setattr(launch, "is_known", lambda: False)
    launcher = Launcher(kernel, MODE="mean")
    for _ in range(3):
        launcher((1, 1), (torch.zeros(32), torch.zeros(32)), 8)
    assert (kernel.searches, kernel.launches) == (3, [])


@triton.jit
def add_number(values, out, size, factor, NUMBER: tl.constexpr, BLOCK: tl.constexpr):  # noqa: N803
    places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(values + places, mask=places < size, other=0)
    tl.store(out + places, value * factor + NUMBER, mask=places < size)


@pytest.mark.gpu
@somewhere
def test_launches_compute_what_they_are_given():
    launcher = Launcher(add_number, NUMBER=3, BLOCK=16)
    for size in (1, 5, 32, 33, 48, 5, 1):
        for values in (torch.arange(size + 1.0), torch.arange(size + 1)):
            for first in (0, 1):  # an odd address
                source = values.to(DEVICE)[first:]
                out = torch.empty_like(source)
                launcher((-(-len(source) // 16), 1), (source, out), len(source), 2)
                assert torch.equal(out, 2 * source + 3)
    assert INTERPRETED or not launcher.short or len(launcher.compiled) > 4


@pytest.mark.slow
def test_launches_in_the_interpreter():
    check_in_interpreter(__file__, "what_they_are_given", 1)
