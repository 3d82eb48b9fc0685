"""Checkpoints: round trip, atomic writes, and refusal of damaged files."""

import json
import pickle
import resource
import signal

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from dgn.training.checkpoint import load_checkpoint, save_checkpoint

TENSORS = {
    "model.weight": torch.arange(6.0).view(2, 3).T,
    "model.steps": torch.tensor(3),
    "half": torch.ones(2, dtype=torch.bfloat16),
}
STATE = {"epoch": 3, "best": float("inf"), "history": [{"loss": 0.1}], "name": "μ"}


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "some" / "folder" / "checkpoint.safetensors"
    save_checkpoint(file, TENSORS, STATE)
    return file


def test_saving_and_loading_round_trip(path):
    tensors, state = load_checkpoint(path)
    torch.testing.assert_close(tensors, TENSORS, rtol=0, atol=0)
    assert state == STATE
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_safetensors_alone_reads_a_checkpoint(path):
    with safe_open(path, framework="np") as file:
        assert file.get_tensor("model.weight").tolist() == TENSORS["model.weight"].tolist()
        assert json.loads(file.metadata()["state"]) == STATE


def test_an_interrupted_write_keeps_the_older_checkpoint(path, monkeypatch):
    def fail(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("dgn.data.io.files.save_file", fail)
    with pytest.raises(KeyboardInterrupt):
        save_checkpoint(path, {"model.weight": torch.zeros(1)}, {})
    assert load_checkpoint(path)[1] == STATE
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_a_full_disk_is_an_os_error_and_keeps_the_older_checkpoint(path):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        with pytest.raises(OSError, match=r"checkpoint.safetensors: expected room to write it, got"):
            save_checkpoint(path, {"model.weight": torch.zeros(1000)}, {})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert load_checkpoint(path)[1] == STATE
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_a_checkpoint_has_the_permissions_of_any_file(path):
    (path.parent / "plain").touch()
    assert path.stat().st_mode == (path.parent / "plain").stat().st_mode


@pytest.mark.parametrize("keep", [0, 4, 40, -1])
def test_a_truncated_file_is_refused(path, keep):
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(ValueError, match=r"checkpoint.safetensors: expected .*; remove it to start again"):
        load_checkpoint(path)


def test_one_flipped_bit_is_refused(path):
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(content)
    with pytest.raises(ValueError, match="expected the checksum that it was written with"):
        load_checkpoint(path)


class Trap:
    """Its pickle runs code when it is loaded."""

    def __reduce__(self):
        return pytest.fail, ("code of a checkpoint was run",)


@pytest.mark.parametrize("write", [lambda p: p.write_bytes(pickle.dumps(Trap())), lambda p: torch.save(Trap(), p)])
def test_pickles_are_refused_without_loading(path, write):
    write(path)
    with pytest.raises(ValueError, match="expected a checkpoint"):
        load_checkpoint(path)


def test_other_safetensors_files_are_refused(path):
    save_file({"weight": torch.zeros(1)}, path, {"format": "pt"})
    with pytest.raises(ValueError, match="expected format 'dgn checkpoint 2', got 'pt'"):
        load_checkpoint(path)
