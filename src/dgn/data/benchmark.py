"""The benchmarks of directional graph networks, by name."""

from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from dgn.data.datasets.coordinates import add_coordinates
from dgn.data.datasets.moleculenet import NOTE as MOLECULENET
from dgn.data.datasets.moleculenet import load_moleculenet
from dgn.data.datasets.molpcba import LABELS, SMILES, load_molpcba
from dgn.data.datasets.molpcba import NOTE as MOLPCBA
from dgn.data.datasets.paths import cache_root, cached_graphs, describe_files, find_source
from dgn.data.datasets.peptides import TABLE as PEPTIDES
from dgn.data.datasets.peptides import load_peptides
from dgn.data.datasets.smiles import OGB
from dgn.data.packed import PackedGraphs
from dgn.data.precompute.directions import add_directions
from dgn.encodings import Structure
from dgn.graph.checks import check_option
from dgn.spectral.laplacians import Normalization

GRAPH_ATTR = "graph_attr"  # features of graphs, which the head reads
SAMPLE_WEIGHT = "sample_weight"  # weights of graphs in the training loss
CENSORING = "censoring"  # targets that are bounds
ATOMS, BONDS = (119, 4, 12, 12, 10, 6, 6, 2, 2), (5, 6, 2)


@dataclass(frozen=True)
class Benchmark:
    """Graphs with targets and a split, and the shapes of a network's inputs and outputs.

    ``graphs`` hold ``nodes["x"]``, optionally ``edges["edge_attr"]``, features of whole graphs
    ``graphs["graph_attr"]``, the targets ``graphs["y"]`` (``nodes["y"]`` for node-level tasks) and ``graphs["split"]``
    (0 training, 1 validation, 2 test); ``nodes["split"]`` instead where the nodes of a graph are of several splits,
    with 3 for nodes of none. Optional weights ``graphs["sample_weight"]`` [G], or [G, T] for each target, enter the
    training loss alone; ``graphs["censoring"]`` [G, T] is 1 where a target is a lower bound of the truth, -1 where it
    is an upper bound, else 0. ``node_categories`` and ``edge_categories`` are the numbers of categories per column, or
    None for continuous or absent features. With ``coordinates`` the graphs come with their field, from coordinates or
    otherwise, and no eigenvectors are computed. ``note`` describes the source of data that are not official.
    ``fraction`` is the fraction of the training graphs that is loaded; ``structure`` describes the structural encodings
    of nodes and edges (:func:`dgn.data.precompute.encodings.with_encodings`); ``featurization`` names the features of
    molecules, where SMILES give them.
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
    featurization: str = ""


@dataclass(frozen=True)
class Task:
    """Objective, metric and features of a benchmark, and the files and folders it is read from.

    ``node_features`` and ``edge_features`` are the numbers of continuous features, where there are no categories.
    """

    objective: str
    metric: str
    num_targets: int
    node_categories: tuple[int, ...] | None
    edge_categories: tuple[int, ...] | None
    coordinates: bool
    files: tuple[str, ...]
    node_features: int = 0
    edge_features: int | None = None


def _tables(name: str) -> tuple[str, ...]:
    return (f"{name}.safetensors", f"{name}.npz", f"{name}.csv.gz", f"{name}.csv")


TASKS = {
    "zinc": Task("regression", "mae", 1, (28,), (4,), False, ("zinc.safetensors", "zinc12k.npz")),
    "pattern": Task("node-classification", "balanced-accuracy", 2, (3,), None, False, ("pattern.safetensors",)),
    "cifar10": Task(
        "classification", "accuracy", 10, None, None, True, ("cifar10.safetensors", "cifar10_sp.npz"), 5, 1
    ),
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
    "peptides-func": Task(
        "multi-label",
        "average-precision",
        10,
        ATOMS,
        BONDS,
        False,
        ("peptides-func.safetensors", "peptides-func.npz", PEPTIDES),
    ),
    "muv": Task("multi-label", "average-precision", 17, ATOMS, BONDS, False, _tables("muv")),
    "tox21": Task("multi-label", "roc-auc", 12, ATOMS, BONDS, False, _tables("tox21")),
    "digits": Task("classification", "accuracy", 10, None, None, True, (), 1),
    "transport": Task("node-regression", "mae", 1, None, None, True, ("transport.safetensors",), 4, 3),
}
WITHOUT_FILE = ("pattern", "digits", "transport")  # generated, or part of scikit-learn
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
    """A benchmark by name: one of :data:`TASKS`, or "own".

    ``path`` is a file of packed graphs, the folder that holds it, or a folder with one subfolder per benchmark.
    Without it, the converted file in ``root`` (``$DGN_CACHE`` or ``~/.cache/dgn``) is read if there is one. Otherwise
    "pattern" and "transport" are generated, "digits" come with scikit-learn, "zinc" and "cifar10" are downloaded by
    PyG, "molhiv" and "molpcba" are read from OGB's raw files in ``root``, "peptides-func" from LRGB's, "muv" and
    "tox21" from MoleculeNet's tables. "own" needs a ``path`` (:func:`dgn.data.benchmark_from_graphs`). MolPCBA's
    SMILES are parsed once, by several processes: call this under ``if __name__ == "__main__":``. Edges of superpixels
    are computed on ``device``, by default a GPU if there is one; all tensors are returned on the CPU.

    >>> digits = load_benchmark("digits")
    >>> digits.objective, digits.num_targets, digits.graphs.nodes["x"].shape
    ('classification', 10, torch.Size([115008, 1]))
    """
    if name == "own":
        from dgn.data.datasets.from_graphs import load_packed_benchmark

        return load_packed_benchmark(path)
    check_option("benchmark", name, tuple(TASKS))
    task, root = TASKS[name], Path(root) if root is not None else cache_root()
    source = None if path is None else find_source(Path(path), task.files)
    if path is not None and source is None and name not in WITHOUT_FILE:
        raise FileNotFoundError(f"{name}: expected one of {', '.join(task.files)} in {path} or in a folder there")
    graphs = _load(name, source, root, device or ("cuda" if torch.cuda.is_available() else "cpu"), progress)
    if task.coordinates and "edge_field" not in graphs.edges and "x" in graphs.nodes:
        graphs = add_coordinates(graphs, graphs.nodes["x"][:, 3:])
    note = graphs.info.get("note") or (NOTES.get(source.name, "") if source is not None else "")
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
        featurization=OGB if task.node_categories == ATOMS else "",
    )
    _check(benchmark)
    return benchmark


def with_directions(
    benchmark: Benchmark,
    k: int,
    normalization: Normalization = None,
    root: str | Path | None = None,
    progress: bool = False,
    arcsine: bool = False,
) -> Benchmark:
    """The benchmark with ``k`` Laplacian directions, or their arcsines, computed on first use and cached in ``root``.

    Graphs with coordinates already have a field and are returned unchanged.

    >>> digits = load_benchmark("digits")
    >>> with_directions(digits, k=2) is digits
    True
    """
    if benchmark.coordinates:
        return benchmark
    cache = (Path(root) if root is not None else cache_root()) / "directions"
    graphs = add_directions(benchmark.graphs, k, normalization, cache=cache, progress=progress, arcsine=arcsine)
    return replace(benchmark, graphs=graphs)


def with_fraction(benchmark: Benchmark, fraction: float) -> Benchmark:
    """The benchmark with the first ``fraction`` of its training graphs, and all validation and test graphs.

    >>> digits = load_benchmark("digits")
    >>> len(digits.graphs), len(with_fraction(digits, 0.1).graphs)
    (1797, 666)
    """
    if fraction == benchmark.fraction:
        return benchmark
    if "split" in benchmark.graphs.nodes:
        raise ValueError(
            f"data.train_fraction: expected 1 where nodes have a split of their own, got {fraction:g}; leave nodes out "
            "of train_mask instead"
        )
    if not 0 < fraction < benchmark.fraction:
        raise ValueError(
            f"fraction: expected more than 0 and less than the {benchmark.fraction:g} of the training graphs that is "
            f"loaded, got {fraction:g}; load {benchmark.name} again for more"
        )
    split = benchmark.graphs.graphs["split"]
    training = (split == 0).nonzero()[:, 0]
    mask = split != 0
    mask[training[: max(1, round(fraction / benchmark.fraction * len(training)))]] = True
    return replace(benchmark, graphs=benchmark.graphs.select(mask.nonzero()[:, 0]), fraction=fraction)


def graphs_in_split(graphs: PackedGraphs, split: int) -> Tensor:
    """Indices of the graphs of a split: 0 training, 1 validation, 2 test; or of those with a node in it.

    >>> digits = load_benchmark("digits").graphs
    >>> [len(graphs_in_split(digits, split)) for split in range(3)]
    [1257, 179, 361]
    """
    if "split" not in graphs.nodes:
        return (graphs.graphs["split"] == split).nonzero()[:, 0]
    graph = torch.arange(len(graphs)).repeat_interleave(graphs.node_pointer.diff())
    return torch.bincount(graph[graphs.nodes["split"] == split], minlength=len(graphs)).nonzero()[:, 0]


def _load(name: str, source: Path | None, root: Path, device: torch.device | str, progress: bool) -> PackedGraphs:
    cache = root / f"{name}.safetensors"
    if name == "cifar10" and source is not None and source.suffix == ".npz":
        return _load_superpixels(source, root, device, progress)
    if name in ("muv", "tox21") and (source is None or ".csv" in source.suffixes):
        return load_moleculenet(name, source, root, progress)
    if source is not None and source.name in (SMILES, LABELS):
        return load_molpcba(source, root, progress)
    if name == "peptides-func" and (source is None or source.name == PEPTIDES):
        return load_peptides(source, root, progress)
    if source is not None and source.is_file():
        return PackedGraphs.load(source)
    if name == "digits":
        from dgn.data.datasets.digits import load_digits

        return load_digits()
    if name == "pattern":
        from dgn.data.datasets.pattern import SOURCE, generate_pattern

        return cached_graphs(cache, SOURCE, lambda: generate_pattern(progress=progress))
    if name == "transport":
        from dgn.data.datasets import transport

        return cached_graphs(cache, transport.SOURCE, lambda: transport.generate_transport(progress=progress))
    if name in ("molhiv", "molpcba"):
        from dgn.data.datasets.ogb import load_ogb

        return load_ogb(name, source, root)
    from dgn.data.datasets.downloads import SOURCES, download

    return cached_graphs(cache, SOURCES[name], lambda: download(name, root))


def _load_superpixels(file: Path, root: Path, device: torch.device | str, progress: bool) -> PackedGraphs:
    from dgn.data.datasets.cifar10 import load_superpixels

    # Not cifar10.safetensors, which would be taken for the official graphs.
    cache, source = root / "cifar10-superpixels.safetensors", f"superpixels 1 of {describe_files([file])}"
    return cached_graphs(cache, source, lambda: load_superpixels(file, device, progress))


def _check(benchmark: Benchmark) -> None:
    """Refuse graphs without the features, targets or split that the task needs."""
    graphs = benchmark.graphs
    targets = graphs.nodes if benchmark.objective.startswith("node") else graphs.graphs
    required = [("x", graphs.nodes), ("y", targets), ("split", graphs.graphs)]
    required += [] if benchmark.edge_categories is None else [("edge_attr", graphs.edges)]
    missing = [name for name, table in required if name not in table]
    if missing:
        raise ValueError(f"{benchmark.name}: expected tensors named {', '.join(missing)}, got {graphs}; pack them too")
    if benchmark.objective.endswith("classification") and targets["y"].is_floating_point():
        raise ValueError(
            f"{benchmark.name}: expected integer class labels as y, got {targets['y'].dtype}; for your own graphs see "
            "dgn.data.benchmark_from_graphs"
        )
    for name, categories, table in (
        ("x", benchmark.node_categories, graphs.nodes),
        ("edge_attr", benchmark.edge_categories, graphs.edges),
    ):
        if categories is None or not len(table[name]):
            continue
        if table[name].is_floating_point():
            raise ValueError(
                f"{benchmark.name}: expected integer categories as {name}, got {table[name].dtype}; these are not the "
                "features of this benchmark"
            )
        columns = table[name].reshape(len(table[name]), -1).long()
        smallest, largest = int(columns.min()), columns.amax(dim=0).tolist()
        in_range = len(largest) == len(categories) and all(
            value < count for value, count in zip(largest, categories, strict=True)
        )
        if smallest < 0 or not in_range:
            raise ValueError(
                f"{benchmark.name}: expected {name} in columns of {list(categories)} categories, got values "
                f"{f'from {smallest} ' if smallest < 0 else ''}up to {largest}; these are not its features"
            )
