"""Files are replaced whole, keep their mode, and leave nothing behind."""

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from dgn.data.io import atomic
from dgn.data.io.atomic import SCRATCH, atomic_file, remove_leftovers

WRITER = """
import sys, time
from pathlib import Path
from dgn.data.io.atomic import atomic_file
with atomic_file(Path(sys.argv[1])) as file:
    file.write_text("half")
    print("writing", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def writer(tmp_path: Path) -> "subprocess.Popen[str]":
    """A process that has written half of ``out``."""
    command = [sys.executable, "-c", WRITER, str(tmp_path / "out")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "writing\n"
    return process


def test_an_error_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    file = tmp_path / "out"
    file.write_text("old")

    def fail() -> None:
        with atomic_file(file) as unfinished:
            unfinished.write_text("new")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert file.read_text() == "old"
    assert list(tmp_path.iterdir()) == [file]


def test_what_a_killed_process_left_is_removed_by_the_next(writer: "subprocess.Popen[str]", tmp_path: Path) -> None:
    writer.kill()
    writer.communicate()
    assert any(tmp_path.glob(f"{SCRATCH}*"))
    remove_leftovers.cache_clear()  # as in a new process
    with atomic_file(tmp_path / "other") as file:
        file.write_text("whole")
    assert list(tmp_path.iterdir()) == [tmp_path / "other"]


def test_what_a_living_process_writes_is_left_alone(writer: "subprocess.Popen[str]", tmp_path: Path) -> None:
    remove_leftovers.cache_clear()
    with atomic_file(tmp_path / "other") as file:
        file.write_text("whole")
    (scratch,) = tmp_path.glob(f"{SCRATCH}*")
    assert (scratch / "partial").read_text() == "half"
    writer.send_signal(signal.SIGINT)
    writer.communicate()
    assert list(tmp_path.iterdir()) == [tmp_path / "other"]  # Ctrl-C removes it at once


def test_the_mode_of_a_replaced_file_is_kept(tmp_path: Path) -> None:
    new, old = tmp_path / "new", tmp_path / "old"
    old.touch()
    old.chmod(0o640)
    for path in (new, old):
        with atomic_file(path) as file:
            file.touch(0o600)  # as safetensors makes them
    umask = os.umask(0)
    os.umask(umask)
    assert [stat.S_IMODE(path.stat().st_mode) for path in (new, old)] == [0o666 & ~umask, 0o640]


def test_a_symbolic_link_is_written_through(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    target, link = tmp_path / "folder" / "target", tmp_path / "link"
    for content in ("first", "second"):  # dangling, then not
        link.unlink(missing_ok=True)
        link.symlink_to("folder/target")
        with atomic_file(link) as file:
            file.write_text(content)
        assert (target.read_text(), link.is_symlink()) == (content, True)


def test_folders_and_pipes_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for name, message in (("pipe", "got a device or a pipe"), ("folder", "got a folder; name a file in it")):
        with (
            pytest.raises(ValueError, match=rf"{name}: expected a file to write, {message}"),
            atomic_file(tmp_path / name),
        ):
            pass


def test_contents_reach_the_disk_before_the_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda _: order.append("written" if file.exists() else "flushed"))
    file = tmp_path / "out"
    with atomic_file(file) as unfinished:
        unfinished.write_text("whole")
    assert order == ["flushed", "written"]  # the file, then its folder
    with atomic_file(tmp_path / "cache", durable=False) as unfinished:
        unfinished.write_text("may be lost")
    assert len(order) == 2


def test_a_full_disk_names_the_file(tmp_path: Path) -> None:
    def fill() -> None:
        with atomic_file(tmp_path / "out") as unfinished:
            raise OSError(28, "No space left on device", str(unfinished))

    with pytest.raises(OSError, match="No space left on device") as caught:
        fill()
    assert caught.value.filename == str(tmp_path / "out")
    assert not list(tmp_path.iterdir())


def test_without_locks_nothing_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(atomic, "fcntl", None)
    (tmp_path / f"{SCRATCH}0").mkdir()
    with atomic_file(tmp_path / "out") as unfinished:
        unfinished.touch()
    assert len(list(tmp_path.iterdir())) == 2
