"""Running times next to the paper's: training from committed results, eigenvectors from a benchmark."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml

from dgn.training.run_folder import FinishedRun
from dgn.training.tables import Table
from reproduce.cells import DATASETS
from reproduce.results import Results, wall_seconds

#: Seconds per epoch and per run on a Tesla T4, from the paper's appendix, in the order of these rows.
ROWS = ("mean", "mean-dx1", "mean-dx1-dx2", "mean-av1", "mean-av1-av2", "mean-dx1-av1")
PAPER: dict[str, tuple[tuple[float, float] | None, ...]] = {
    "zinc/simple": ((3.29, 1505), (3.86, 1122), (4.23, 1360), (3.68, 1297), (3.95, 1432), (3.89, 1079)),
    "zinc/complex": ((3.58, 1584), (3.77, 1278), (4.55, 1560), (3.84, 1398), (4.03, 1596), (4.09, 1242)),
    "zinc/complex-e": ((3.56, 1654), (4.22, 1371), (4.63, 1680), (3.92, 1272), (4.07, 1721), (4.58, 1510)),
    "pattern/simple": ((153.1, 10154), (144.9, 8109), (153.3, 8057), (128.0, 8680), (134.2, 8115), (118.6, 6221)),
    "pattern/complex": ((117.8, 9031), (127.2, 8417), (167.9, 9326), (88.1, 7456), (170.4, 11114), (144.2, 9112)),
    "cifar10/simple": ((83.6, 10526), None, (98.4, 8405), None, (117.1, 12834), None),
    "cifar10/complex": ((78.7, 10900), None, (100.9, 5191), None, (89.5, 14481), None),
    "molhiv/simple": ((11.4, 2189), (12.6, 2348), (14.1, 2345), (12.2, 2177), (13.9, 2150), (14.0, 2070)),
    "molpcba/complex": ((279, 30128), (304, 34129), (314, 36581), (297, 30316), (315, 42297), (326, 37523)),
    "molpcba/complex-e": ((356, 38126), (461, 43419), (334, 38363), (436, 54545), (333, 36641), (461, 59109)),
}
EIGENVECTORS = {"zinc": 38, "pattern": 96, "molhiv": 120}  # seconds for the first four on a CPU, from the paper
EXPLANATION = """The paper trained on a Tesla T4, one run at a time; we train on the device named above, all seeds in
parallel. **Per epoch**: total time divided by the epochs of all seeds. **Total**: time for all seeds, with their
number. **Speed-up**: the paper's time for as many seeds divided by ours; it is due to the device as well as to the
code. Cells without results are left out."""


def times_section(results: Results, eigenvectors: Mapping[str, float]) -> list[str]:
    """The Markdown blocks of running times, ours next to the paper's.

    ``eigenvectors`` are CPU seconds by dataset for the first four eigenvectors of all graphs
    (:func:`read_eigenvectors`).
    """
    cells = [(f"{layer}/{row}", times) for layer, line in PAPER.items() for row, times in zip(ROWS, line, strict=True)]
    rows = [_row(name, times, results[name]) for name, times in cells if times is not None and name in results]
    header = ("experiment", "paper, per epoch", "ours, per epoch", "paper, total", "ours, total", "speed-up")
    parts = ["No results yet."]
    if rows:
        parts = [" ".join(EXPLANATION.split()), Table("", header, tuple(rows)).to_markdown()]
    if eigenvectors:
        parts += [
            "The first four eigenvectors of all graphs, computed once. Ours is the CPU time of `dgn directions`, "
            "including Python start-up, reading and writing (`benchmarks/eigenvectors/datasets.py`, a shared machine "
            "of two cores, date in `results/eigenvectors.yaml`). The paper reports neither its CPU nor the number of "
            "cores. See [eigenvectors.md](eigenvectors.md) for large graphs.",
            _eigenvectors(eigenvectors).to_markdown(),
        ]
    return parts


def read_eigenvectors(path: Path) -> dict[str, float]:
    """Seconds by dataset, as written by ``benchmarks/eigenvectors/datasets.py``; empty without a file."""
    if not path.exists():
        return {}
    times = yaml.safe_load(path.read_text(encoding="utf-8"))
    if not isinstance(times, dict) or not all(isinstance(value, float | int) for value in times.values()):
        raise ValueError(
            f"{path}: expected lines 'dataset: seconds', got something else; write it again with "
            "benchmarks/eigenvectors/datasets.py"
        )
    return {str(name): float(seconds) for name, seconds in times.items()}


def _row(name: str, paper: tuple[float, float], runs: Sequence[FinishedRun]) -> tuple[str, ...]:
    paper_epoch, paper_run = paper
    seconds = wall_seconds(runs)
    epoch = seconds / sum(run.epochs for run in runs)
    return (
        f"`{name}`", f"{paper_epoch:g} s", f"{epoch:.3f} s" if epoch < 0.1 else f"{epoch:.2f} s", f"{paper_run:,.0f} s",
        f"{seconds:.0f} s for {len(runs)}", f"{paper_run * len(runs) / seconds:.0f}",
    )  # fmt: skip


def _eigenvectors(seconds: Mapping[str, float]) -> Table:
    rows = tuple(
        (DATASETS[name], f"{paper} s", f"{seconds[name]:.1f} s")
        for name, paper in EIGENVECTORS.items()
        if name in seconds
    )
    return Table("", ("dataset", "paper", "ours"), rows)
