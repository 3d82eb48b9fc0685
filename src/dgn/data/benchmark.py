"""The benchmarks of directional graph networks, by name."""

from dataclasses import dataclass, replace
from pathlib import Path

import torch

from dgn.data.datasets.coordinates import add_coordinates
from dgn.data.datasets.moleculenet import NOTE as MOLECULENET
from dgn.data.datasets.moleculenet import load_moleculenet
from dgn.data.datasets.molpcba import LABELS, SMILES, load_molpcba
from dgn.data.datasets.molpcba import NOTE as MOLPCBA
from dgn.data.datasets.paths import cache_root, cached_graphs, describe_files, find_source, read_source
from dgn.data.packed import PackedGraphs
from dgn.data.precompute.directions import add_directions
from dgn.encodings import Structure
from dgn.graph.checks import check_option
from dgn.spectral.laplacians import Normalization

ATOMS, BONDS = (119, 4, 12, 12, 10, 6, 6, 2, 2), (5, 6, 2)


@dataclass(frozen=True)
class Benchmark:
    """Graphs with targets and a split, and what a network must know of them.

    ``graphs`` hold ``nodes["x"]``, perhaps ``edges["edge_attr"]``, the targets ``graphs["y"]`` (``nodes["y"]`` for
    tasks on nodes) and ``graphs["split"]`` (0 training, 1 validation, 2 test). ``node_sizes`` and ``edge_sizes`` are
    the numbers of categories per column, or None where the values are numbers or absent. With ``coordinates`` the
    field is given, by coordinates or otherwise, and no eigenvectors are needed. ``note`` says what was read, where it
    is not the official data. ``fraction`` is the part of the training graphs that is here; ``structure`` tells of the
    structural numbers that nodes and edges have (:func:`dgn.data.precompute.encodings.with_encodings`).
    """

    name: str
    graphs: PackedGraphs
    objective: str
    metric: str
    num_targets: int
    node_categories: tuple[int, ...] | None
    edge_categories: tuple[int, ...] | None
    coordinates: bool = False
    note: str = ""
    fraction: float = 1.0
    structure: Structure | None = None


@dataclass(frozen=True)
class Task:
    """What a benchmark asks for, and the files and folders it can be read from."""

    objective: str
    metric: str
    num_targets: int
    node_categories: tuple[int, ...] | None
    edge_categories: tuple[int, ...] | None
    coordinates: bool
    files: tuple[str, ...]


def _tables(name: str) -> tuple[str, ...]:
    return (f"{name}.safetensors", f"{name}.npz", f"{name}.csv.gz", f"{name}.csv")


TASKS = {
    "zinc": Task("regression", "mae", 1, (28,), (4,), False, ("zinc.safetensors", "zinc12k.npz")),
    "pattern": Task("node-classification", "balanced-accuracy", 2, (3,), None, False, ("pattern.safetensors",)),
    "cifar10": Task("classification", "accuracy", 10, None, None, True, ("cifar10.safetensors", "cifar10_sp.npz")),
    "molhiv": Task(
        "multi-label", "roc-auc", 1, ATOMS, BONDS, False, ("molhiv.safetensors", "molhiv.npz", "ogbg_molhiv", "hiv")
    ),
    "molpcba": Task(
        "multi-label",
        "average-precision",
        128,
        ATOMS,
        BONDS,
        False,
        ("molpcba.safetensors", "molpcba.npz", SMILES, "ogbg_molpcba", "pcba"),
    ),
    "muv": Task("multi-label", "average-precision", 17, ATOMS, BONDS, False, _tables("muv")),
    "tox21": Task("multi-label", "roc-auc", 12, ATOMS, BONDS, False, _tables("tox21")),
    "digits": Task("classification", "accuracy", 10, None, None, True, ()),
}
MADE_HERE = ("pattern", "digits")  # need no file
NOTES = {
    "zinc12k.npz": "official validation and test molecules and labels, resampled training molecules",
    "cifar10_sp.npz": "superpixels recomputed from the images",
    "molhiv.npz": "molecules rebuilt by OGB's rules, official split",
    "molpcba.npz": MOLPCBA,
    "muv.npz": MOLECULENET,
    "tox21.npz": MOLECULENET,
}


def load_benchmark(
    name: str,
    path: str | Path | None = None,
    root: str | Path | None = None,
    progress: bool = False,
    device: torch.device | str | None = None,
) -> Benchmark:
    """A benchmark by name: "zinc", "pattern", "cifar10", "molhiv", "molpcba", "muv", "tox21", "digits" or "own".

    ``path`` is a file of packed graphs, or a folder that holds it, or one that holds several benchmarks in folders of
    their own. Without it, what was made before is read from ``root`` (``$DGN_CACHE`` or ``~/.cache/dgn``), "pattern"
    is generated, "digits" come with scikit-learn, "zinc" and "cifar10" are downloaded by PyG, "molhiv" and "molpcba"
    read from OGB's raw files in ``root``, "muv" and "tox21" from MoleculeNet's tables there; "own" has nothing but its
    file (:func:`dgn.data.benchmark_from_graphs`). MolPCBA's SMILES are read by several processes, once: a script that
    asks for them protects its main part by ``__name__``. Superpixels are joined on ``device``, a GPU if there is one;
    all tensors are on the CPU.

    >>> digits = load_benchmark("digits")
    >>> digits.objective, digits.num_targets, digits.graphs.nodes["x"].shape
    ('classification', 10, torch.Size([115008, 1]))
    """
    if name == "own":
        from dgn.data.datasets.from_graphs import load_packed_benchmark

        return load_packed_benchmark(path)
    check_option("benchmark", name, tuple(TASKS))
    task, root = TASKS[name], Path(root) if root is not None else cache_root()
    found = None if path is None else find_source(Path(path), task.files)
    if path is not None and found is None and name not in MADE_HERE:
        raise FileNotFoundError(f"{name}: expected one of {', '.join(task.files)} in {path} or in a folder there")
    graphs = _load(name, found, root, device or ("cuda" if torch.cuda.is_available() else "cpu"), progress)
    if task.coordinates and "field" not in graphs.edges and "x" in graphs.nodes:
        graphs = add_coordinates(graphs, graphs.nodes["x"][:, 3:])
    note = graphs.info.get("note") or (NOTES.get(found.name, "") if found is not None else "")
    benchmark = Benchmark(
        name,
        graphs,
        task.objective,
        task.metric,
        task.num_targets,
        task.node_categories,
        task.edge_categories,
        task.coordinates,
        note,
    )
    _check(benchmark)
    return benchmark


def with_directions(
    benchmark: Benchmark,
    k: int,
    normalization: Normalization = None,
    root: str | Path | None = None,
    progress: bool = False,
) -> Benchmark:
    """The benchmark with ``k`` Laplacian directions, computed on first use and kept in ``root``.

    Graphs with coordinates have their field already and come back as they are.

    >>> digits = load_benchmark("digits")
    >>> with_directions(digits, k=2) is digits
    True
    """
    if benchmark.coordinates:
        return benchmark
    cache = (Path(root) if root is not None else cache_root()) / "directions"
    return replace(benchmark, graphs=add_directions(benchmark.graphs, k, normalization, cache=cache, progress=progress))


def with_fraction(benchmark: Benchmark, fraction: float) -> Benchmark:
    """The benchmark with the first part of its training graphs, and all others.

    >>> digits = load_benchmark("digits")
    >>> len(digits.graphs), len(with_fraction(digits, 0.1).graphs)
    (1797, 666)
    """
    if fraction == benchmark.fraction:
        return benchmark
    if not 0 < fraction < benchmark.fraction:
        raise ValueError(
            f"fraction: expected a part above 0 of the {benchmark.fraction:g} of the training graphs here, got "
            f"{fraction:g}; load {benchmark.name} anew for more"
        )
    split = benchmark.graphs.graphs["split"]
    training = (split == 0).nonzero()[:, 0]
    kept = split != 0
    kept[training[: max(1, round(fraction / benchmark.fraction * len(training)))]] = True
    return replace(benchmark, graphs=benchmark.graphs.select(kept.nonzero()[:, 0]), fraction=fraction)


def _load(name: str, found: Path | None, root: Path, device: torch.device | str, progress: bool) -> PackedGraphs:
    kept = root / f"{name}.safetensors"
    if name == "cifar10" and found is not None and found.suffix == ".npz":
        return _load_superpixels(found, root, device, progress)
    if name in ("muv", "tox21") and (found is None or ".csv" in found.suffixes):
        return load_moleculenet(name, found, root, progress)
    if found is not None and found.name in (SMILES, LABELS):
        return load_molpcba(found, root, progress)
    if found is not None and found.is_file():
        return read_source(found)
    if name == "digits":
        from dgn.data.datasets.digits import load_digits

        return load_digits()
    if name == "pattern":
        from dgn.data.datasets.pattern import SOURCE, generate_pattern

        return cached_graphs(kept, SOURCE, lambda: generate_pattern(progress=progress))
    if name in ("molhiv", "molpcba"):
        from dgn.data.datasets.ogb import load_ogb

        return load_ogb(name, found, root)
    from dgn.data.datasets.downloads import SOURCES, download

    return cached_graphs(kept, SOURCES[name], lambda: download(name, root))


def _load_superpixels(file: Path, root: Path, device: torch.device | str, progress: bool) -> PackedGraphs:
    from dgn.data.datasets.cifar10 import load_superpixels

    # Under a name of its own: it must not stand for the official graphs.
    kept, source = root / "cifar10-superpixels.safetensors", f"superpixels 1 of {describe_files([file])}"
    return cached_graphs(kept, source, lambda: read_source(file, lambda path: load_superpixels(path, device, progress)))


def _check(benchmark: Benchmark) -> None:
    """Refuse files without what the task needs."""
    graphs = benchmark.graphs
    targets = graphs.nodes if benchmark.objective.startswith("node") else graphs.graphs
    needed = [("x", graphs.nodes), ("y", targets), ("split", graphs.graphs)]
    needed += [] if benchmark.edge_categories is None else [("edge_attr", graphs.edges)]
    lacking = [name for name, table in needed if name not in table]
    if lacking:
        raise ValueError(f"{benchmark.name}: expected values called {', '.join(lacking)}, got {graphs}; pack them too")
    if benchmark.objective.endswith("classification") and targets["y"].is_floating_point():
        raise ValueError(
            f"{benchmark.name}: expected whole numbers as y, one for each class, got {targets['y'].dtype}; for graphs "
            "of your own see dgn.data.benchmark_from_graphs"
        )
    for name, sizes, table in (
        ("x", benchmark.node_categories, graphs.nodes),
        ("edge_attr", benchmark.edge_categories, graphs.edges),
    ):
        if sizes is None or not len(table[name]):
            continue
        if table[name].is_floating_point():
            raise ValueError(
                f"{benchmark.name}: expected whole numbers as {name}, the categories, got {table[name].dtype}; these "
                "are not the features of this benchmark"
            )
        columns = table[name].reshape(len(table[name]), -1).long()
        least, largest = int(columns.min()), columns.amax(dim=0).tolist()
        fit = len(largest) == len(sizes) and all(value < size for value, size in zip(largest, sizes, strict=True))
        if least < 0 or not fit:
            raise ValueError(
                f"{benchmark.name}: expected {name} in columns of {list(sizes)} categories, got values "
                f"{f'from {least} ' if least < 0 else ''}up to {largest}; these are not the features of this benchmark"
            )
