"""Faults on purpose: kills, damaged files, full disks, two processes in one folder, and random calls.

``python -m benchmarks.reliability.faults --kills 20 --flips 300 --calls 20000`` prints the table of
docs/reliability.md: what was done, how often, and what came of it. It ends with exit code 1 if anything was lost, if
other content was accepted, or if an exception was not one of the documented ones. Commands run in forked processes,
which start at once.
"""

import argparse
import gzip
import hashlib
import json
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import torch
from torch_geometric.data import Data

import dgn.data.precompute.chunks as chunks
import dgn.training.trainer as trainer
from benchmarks.reliability.random_calls import REFUSED, calls
from dgn.cli import main as dgn_main
from dgn.data import PackedGraphs, benchmark_from_graphs
from dgn.data.io.atomic import SCRATCH, remove_leftovers
from dgn.data.io.files import digest
from dgn.data.io.sources import directions_of_file, load_graphs
from dgn.molecules.table import open_table
from dgn.training.checkpoint import load_checkpoint
from dgn.training.model_io import read_model
from dgn.training.run_folder import read_run

LIBRARIES = (
    "lightning.fabric", "matplotlib.backends.backend_agg", "optuna", "pyarrow.parquet", "rdkit.Chem", "torchmetrics",
    "dgn.molecules.fit", "dgn.molecules.folder", "dgn.plot.curves", "dgn.tuning.study",
)  # fmt: skip
SIGNALS = (signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
EXPERIMENT = """
data: {dataset: own, path: graphs.safetensors}
network: {hidden: 8, num_layers: 2, aggregators: [mean, dx1]}
training: {epochs: 10, batch_size: 16, seeds: [41], metric: mae}
"""
SPACE = "settings:\n  network.hidden: [4, 6]\n  training.batch_size: [8, 16]\n"
Outcome = Callable[[Path], str]


class Command(NamedTuple):
    """Arguments of ``dgn``, run in a folder, and a digest of what it leaves there."""

    arguments: Sequence[str]
    outcome: Outcome


def write_inputs(folder: Path) -> None:
    """Graphs, an experiment, a space and tables of molecules."""
    generator = torch.Generator().manual_seed(0)
    graphs = []
    for _ in range(400):
        nodes = int(torch.randint(4, 20, (), generator=generator))
        edges = (torch.rand(nodes, nodes, generator=generator).tril(-1) > 0.7).nonzero().T
        x, y = torch.rand(nodes, 3, generator=generator), torch.rand(1, generator=generator)
        graphs.append(Data(x=x, edge_index=torch.cat([edges, edges.flip(0)], dim=1), y=y))
    benchmark_from_graphs(graphs, "regression").graphs.save(folder / "graphs.safetensors")
    (folder / "mine.yaml").write_text(EXPERIMENT)
    (folder / "space.yaml").write_text(SPACE)
    molecules = [f"{'C' * (n % 9 + 1)}{'N' * (n // 9 % 3)}{'O' * (n % 2)},{n % 13 / 3}" for n in range(60)]
    (folder / "table.csv").write_text("\n".join(["smiles,y", *molecules]) + "\n")
    (folder / "many.csv").write_text("\n".join(["smiles,y", *(molecules * 40)]) + "\n")


def of_bytes(name: str) -> Outcome:
    return lambda folder: hashlib.sha256((folder / name).read_bytes()).hexdigest()


def of_seeds(folder: Path) -> str:
    """Metrics and weights of all finished seeds, without times."""
    records = []
    for path in sorted(folder.glob("out/**/result.json")):
        run = read_run(path)
        records.append((str(path.relative_to(folder)), run.epochs, repr(run.metrics)))
        records.append((run.seed, of_model(path.parent / "model")))
    assert records, folder
    return hashlib.sha256(repr(records).encode()).hexdigest()


def of_model(folder: Path) -> str:
    """Weights, calibration and signature of a model, without metadata."""
    model = read_model(folder)
    tensors = {f"{member}.{name}": value for member, state in enumerate(model.weights) for name, value in state.items()}
    return digest(
        {**tensors, **model.tensors}, {"signature": repr(model.signature.to_dict()), "table": repr(model.table)}
    )


DIRECTIONS = "directions graphs.safetensors -o out.parquet -q"
TRAIN = "train mine.yaml --out out --device cpu"
SEARCH = "search mine.yaml --space space.yaml --trials 2 --set training.epochs=3 --out out --device cpu"
FIT = "fit table.csv --out out --ensemble-size 2 --epochs 8 --device cpu"
PREDICT = "predict model many.csv -o out.csv --workers 0 --quiet"
COMMANDS = {
    "directions": Command(DIRECTIONS.split(), of_bytes("out.parquet")),
    "train": Command(TRAIN.split(), of_seeds),
    "search": Command(SEARCH.split(), of_seeds),
    "fit": Command(FIT.split(), lambda folder: of_model(folder / "out")),
    "predict": Command(PREDICT.split(), of_bytes("out.csv")),
}


def fork() -> int:
    """``os.fork``, with a child that a signal ends silently until ``dgn`` starts."""
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    process = os.fork()
    if not process:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    return process


def start(arguments: Sequence[str], folder: Path, prepare: Callable[[], object] = lambda: None) -> int:
    """Run ``dgn`` in a forked process; returns its id. What it prints is appended to ``log``."""
    process = fork()
    if process:
        return process
    code = 130  # whatever leaves `run_dgn` is a signal that came as dgn ended
    try:
        code = run_dgn(arguments, folder, prepare)
    finally:
        # Nothing but this call: Python raises a signal after calls, and a child that left this function by an
        # exception would be a second copy of the program that forked it, a test runner for example.
        os._exit(code)


def run_dgn(arguments: Sequence[str], folder: Path, prepare: Callable[[], object]) -> int:
    """The exit code of ``dgn`` in this process, as a new process would have it."""
    try:
        os.chdir(folder)
        log = os.open("log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(log, 1), os.dup2(log, 2)
        os.environ["DGN_CACHE"], sys.argv = str(folder / "cache"), ["dgn", *arguments]
        remove_leftovers.cache_clear()  # as in a new process
        prepare()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        dgn_main()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 1
    except KeyboardInterrupt as stop:
        if stop.__traceback__ is None or stop.__traceback__.tb_next is None:  # in this frame: before or after dgn
            return 130
        traceback.print_exc()
        return 70
    except BaseException:
        traceback.print_exc()
        return 70
    finally:
        sys.stdout.flush(), sys.stderr.flush()
    return 0


def finish(process: int) -> int:
    """The exit code of a process, negative for a signal."""
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def new_folder(root: Path, inputs: Path) -> Path:
    folder = Path(tempfile.mkdtemp(dir=root))
    shutil.copytree(inputs, folder, dirs_exist_ok=True)
    return folder


def kill_and_resume(name: str, kills: int, root: Path, inputs: Path, seed: int = 0) -> Counter[str]:
    """Stop a command at random moments, resume it until it ends, and compare with a run that was not stopped."""
    command, chance, counts = COMMANDS[name], random.Random(seed), Counter[str]()
    whole = new_folder(root, inputs)
    begin = time.monotonic()
    assert finish(start(command.arguments, whole)) == 0, (whole / "log").read_text()
    seconds, expected = time.monotonic() - begin, command.outcome(whole)
    while counts["stopped"] < kills:
        folder = new_folder(root, inputs)
        for _ in range(chance.randint(1, 3)):
            process = start(command.arguments, folder)
            time.sleep(chance.random() * seconds)
            number = chance.choice(SIGNALS)
            os.kill(process, number)
            code = finish(process)
            if code == 0:
                break  # it had ended
            counts["stopped"] += 1
            counts["exit code of another kind"] += code not in (-number, 130)
        resumed = code == 0 or finish(start(command.arguments, folder)) == 0
        counts["lost"] += not resumed or command.outcome(folder) != expected
        counts["left behind"] += len(list(folder.rglob(f"{SCRATCH}*")))
        counts["uncaught"] += (folder / "log").read_text().count("Traceback (most recent call last)")
        shutil.rmtree(folder)
    return counts


def two_at_once(name: str, root: Path, inputs: Path) -> Counter[str]:
    """Run a command twice at the same time in one folder."""
    command, folder, whole = COMMANDS[name], new_folder(root, inputs), new_folder(root, inputs)
    assert finish(start(command.arguments, whole)) == 0
    codes = [finish(process) for process in [start(command.arguments, folder) for _ in range(2)]]
    lost = codes != [0, 0] or command.outcome(folder) != command.outcome(whole)
    traces = (folder / "log").read_text().count("Traceback (most recent call last)")
    return Counter(
        {"pairs": 1, "lost": int(lost), "left behind": len(list(folder.rglob(f"{SCRATCH}*"))), "uncaught": traces}
    )


def full_disk(name: str, count: int, root: Path, inputs: Path, seed: int = 0) -> Counter[str]:
    """Let every write beyond a random size fail, then run the command again with room."""
    command, chance, counts = COMMANDS[name], random.Random(seed), Counter[str]()
    whole = new_folder(root, inputs)
    assert finish(start(command.arguments, whole)) == 0
    written = [path for path in whole.glob("out*/**/*") if path.is_file()] or [*whole.glob("out.*")]
    largest = max(path.stat().st_size for path in written)
    for _ in range(count):
        folder, size = new_folder(root, inputs), int(largest ** chance.random())
        counts["full disks"] += 1
        counts["ended with an error"] += finish(start(command.arguments, folder, partial(limit_files, size))) != 0
        counts["left behind"] += len(list(folder.rglob(f"{SCRATCH}*")))
        resumed = (folder / "out").exists() and name == "fit" and (folder / "out" / "model.json").exists()
        resumed = resumed or finish(start(command.arguments, folder)) == 0
        counts["lost"] += not resumed or command.outcome(folder) != command.outcome(whole)
        counts["uncaught"] += (folder / "log").read_text(errors="replace").count("Traceback (most recent call last)")
        shutil.rmtree(folder)
    return counts


def limit_files(size: int) -> None:
    """Let every write of this process beyond ``size`` bytes of a file fail, in any library."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


def readers(folder: Path) -> dict[str, tuple[Path, Callable[[Path], str]]]:
    """A file of each format, and a digest of what is read from it."""
    packed = PackedGraphs.load(folder / "graphs.safetensors").select(torch.arange(12))
    packed.save(folder / "few.safetensors")
    packed.save(folder / "few.npz")
    directions_of_file(folder / "few.safetensors", folder / "few.parquet", k=2)
    torch.save([packed[index] for index in range(len(packed))], folder / "few.pt")
    (folder / "table.csv.gz").write_bytes(gzip.compress((folder / "table.csv").read_bytes()))
    seed = next(folder.glob("run/seed-*"))

    def graphs(path: Path) -> str:
        return load_graphs(path).checksum()

    def rows(path: Path) -> str:
        return hashlib.sha256(repr([row.values for row in open_table(path).rows()]).encode()).hexdigest()

    def checkpoint(path: Path) -> str:
        tensors, state = load_checkpoint(path)
        return digest(tensors, {"state": json.dumps(state)})

    return {
        "packed graphs, .safetensors": (folder / "few.safetensors", graphs),
        "packed graphs, .npz": (folder / "few.npz", graphs),
        "table of graphs, .parquet": (folder / "few.parquet", graphs),
        "list of PyG Data, .pt": (folder / "few.pt", graphs),
        "table of molecules, .csv.gz": (folder / "table.csv.gz", rows),
        "checkpoint": (seed / "checkpoint.safetensors", checkpoint),
        "result.json": (seed / "result.json", lambda path: repr(read_run(path))),
        "model folder, model.json": (folder / "model" / "model.json", lambda path: of_model(path.parent)),
        "model folder, weights": (folder / "model" / "weights.safetensors", lambda path: of_model(path.parent)),
    }  # fmt: skip


def damage(content: bytes, chance: random.Random) -> bytes:
    """The content with a flipped bit, another byte, a run of zeros, or a missing end."""
    place, kind = chance.randrange(len(content)), chance.randrange(4)
    if kind == 0:
        return content[:place]
    if kind == 1:
        return content[:place] + bytes(min(16, len(content) - place)) + content[place + 16 :]
    other = content[place] ^ (1 << chance.randrange(8) if kind == 2 else chance.randrange(1, 256))
    return content[:place] + bytes([other]) + content[place + 1 :]


def flips(path: Path, read: Callable[[Path], str], count: int, seed: int = 0) -> Counter[str]:
    """Read damaged copies of a file: each is refused, has the same content, or is counted as other."""
    content, chance, counts = path.read_bytes(), random.Random(seed), Counter[str]()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = read(path)
        try:
            for _ in range(count):
                damaged = damage(content, chance)
                path.write_bytes(damaged)
                counts["damaged"] += damaged != content
                try:
                    counts["same" if read(path) == expected else "other"] += damaged != content
                except REFUSED:
                    counts["refused"] += 1
                except Exception as problem:
                    counts["uncaught"] += 1
                    print(f"{path.name}: {problem!r}", file=sys.stderr)
        finally:
            path.write_bytes(content)
    return counts


def in_child(work: Callable[[], Counter[str]]) -> Counter[str]:
    """The counts of work in a forked process, so that a crash is counted."""
    receive, send = os.pipe()
    process = os.fork()
    if not process:
        code = 1
        try:
            code = int(os.write(send, json.dumps(work()).encode()) == 0)
        finally:
            os._exit(code)
    os.close(send)
    with os.fdopen(receive, "rb") as pipe:
        text = pipe.read()
    return Counter(json.loads(text)) if finish(process) == 0 else Counter({"crashed": 1})


def report(title: str, counts: Counter[str]) -> int:
    """Print a row; returns the number of faults in it."""
    print(f"| {title} | {', '.join(f'{value} {name}' for name, value in counts.items())} |", flush=True)
    bad = ("lost", "left behind", "other", "uncaught", "crashed", "exit code of another kind")
    return sum(counts[name] for name in bad)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, count in (("kills", 20), ("flips", 300), ("disks", 5), ("calls", 20_000), ("seed", 0)):
        parser.add_argument(f"--{name}", type=int, default=count)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="dgn-faults-") as name:
        raise SystemExit(1 if run(Path(name), options) else 0)


def prepare(root: Path) -> Path:
    """Inputs of all commands, with a trained model and run; small chunks and a checkpoint after every epoch."""
    torch.set_num_threads(1)  # a forked process has none of the threads that its parent started
    for module in LIBRARIES:  # once, instead of in every process
        import_module(module)
    chunks.GRAPHS, chunks.NODES = 20, 0
    trainer.train.__defaults__ = (*(trainer.train.__defaults__ or ())[:-1], 0.0)
    inputs = root / "inputs"
    inputs.mkdir()
    write_inputs(inputs)
    for name, place in (("fit", "model"), ("train", "run")):
        folder = new_folder(root, inputs)
        assert finish(start(COMMANDS[name].arguments, folder)) == 0, (folder / "log").read_text()
        shutil.copytree(folder / "out", inputs / place)
    return inputs


def run(root: Path, options: argparse.Namespace) -> int:
    """Print all rows; returns the number of faults."""
    inputs, faults = prepare(root), 0
    print("| attack | outcome |\n|---|---|")
    for name in COMMANDS if options.kills else ():
        faults += report(f"kills of `dgn {name}`", kill_and_resume(name, options.kills, root, inputs, options.seed))
    for name in COMMANDS if options.disks else ():
        faults += report(f"full disk in `dgn {name}`", full_disk(name, options.disks, root, inputs, options.seed))
    for name in ("directions", "train", "predict") if options.disks else ():
        faults += report(f"two `dgn {name}` in one folder", two_at_once(name, root, inputs))
    for title, (path, read) in readers(inputs).items() if options.flips else ():
        faults += report(title, in_child(lambda path=path, read=read: flips(path, read, options.flips, options.seed)))
    if options.calls:
        faults += report("random calls", in_child(lambda: calls(options.calls, options.seed)))
    return faults


if __name__ == "__main__":
    main()
