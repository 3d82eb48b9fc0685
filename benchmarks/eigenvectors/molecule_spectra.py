"""Check and time ``dgn.directions`` on every molecule of packed data sets, against ``numpy.linalg.eigh``.

    python -m benchmarks.eigenvectors.molecule_spectra zinc12k.npz molhiv.npz

A packed file holds the arrays ``node_ptr [G + 1]``, ``edge_ptr [G + 1]`` and ``edge_index [2, E]``: molecule g owns the
nodes ``node_ptr[g]:node_ptr[g + 1]`` and the edges ``edge_ptr[g]:edge_ptr[g + 1]``, whose node indices are local.
"""

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

import dgn
from dgn.spectral.degeneracy import REPEATED

NUM_DIRECTIONS = 4
ARRAYS = ("node_ptr", "edge_ptr", "edge_index")
SAME_SPACE = 1e-6  # projector error below which direction 1 counts as phi_1


@dataclass(frozen=True)
class Molecules:
    """All molecules of a file side by side: ``edges`` [2, E] with global indices, ``owner`` [N] the molecule."""

    name: str
    edges: NDArray[np.int64]
    owner: NDArray[np.int64]
    count: int


@dataclass(frozen=True)
class Errors:
    """Worst differences from the reference, and the number of components whose direction 1 is not phi_1."""

    eigenvalue: float
    projector: float
    wrong_first: int


def load(path: Path) -> Molecules:
    """Read a packed file; the error names missing arrays."""
    if not path.is_file():
        raise SystemExit(f"{path}: expected a packed .npz file, got none; check the path")
    with np.load(path) as packed:
        missing = [name for name in ARRAYS if name not in packed]
        if missing:
            raise SystemExit(
                f"{path}: expected the arrays {', '.join(ARRAYS)}, got {', '.join(packed.files) or 'none'} "
                f"without {', '.join(missing)}; pack the molecules as described at the top of {Path(__file__).name}"
            )
        node_ptr, edge_ptr, local = (packed[name].astype(np.int64) for name in ARRAYS)
    edges = local + np.repeat(node_ptr[:-1], np.diff(edge_ptr))
    owner = np.repeat(np.arange(len(node_ptr) - 1), np.diff(node_ptr))
    return Molecules(path.stem, edges, owner, len(node_ptr) - 1)


def reference_components(molecules: Molecules) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float64]]]:
    """The nodes of each component and its dense Laplacian, made without dgn."""
    n = len(molecules.owner)
    source, target = molecules.edges
    adjacency = coo_array((np.ones(len(source)), (target, source)), shape=(n, n)).tocsr()
    label = connected_components(adjacency, directed=False)[1]
    order = label.argsort(kind="stable")
    for nodes in np.split(order, np.bincount(label).cumsum()[:-1]):
        block = adjacency[nodes, :][:, nodes].toarray()
        yield nodes, np.diag(block.sum(axis=1)) - block


def projector_errors(
    values: NDArray[np.float64], vectors: NDArray[np.float64], ours: NDArray[np.float64]
) -> Iterator[float]:
    """The sine of the largest angle between our vectors and the eigenspace they belong to, space by space.

    ``values`` [n - 1] ascend and belong to ``vectors`` [n, n - 1]; ``ours`` [n, k] are the first k of the same.
    """
    new = np.diff(values) > REPEATED * values[1:]
    for columns in np.split(np.arange(len(values)), np.flatnonzero(new) + 1):
        if columns[0] >= ours.shape[1]:
            return
        space, basis = vectors[:, columns], ours[:, columns[columns < ours.shape[1]]]
        off_length = np.abs(basis.T @ basis - np.eye(basis.shape[1])).max()
        yield max(float(np.linalg.norm(basis - space @ (space.T @ basis), 2)), float(off_length))


def compare(molecules: Molecules, directions: dgn.Directions) -> Errors:
    """Compare every component with ``numpy.linalg.eigh``."""
    potential, eigenvalues = directions.potential.numpy(), directions.eigenvalues.numpy()
    label = directions.component.numpy()
    worst_value = worst_space = 0.0
    wrong = 0
    for nodes, laplacian in reference_components(molecules):
        if len(nodes) == 1:
            continue
        values, vectors = np.linalg.eigh(laplacian)
        k = min(NUM_DIRECTIONS, len(nodes) - 1)
        value_error = np.abs(values[1 : k + 1] - eigenvalues[label[nodes[0]], :k])
        space_errors = list(projector_errors(values[1:], vectors[:, 1:], potential[nodes, :k]))
        worst_value = max(worst_value, float(value_error.max()))
        worst_space = max(worst_space, *space_errors)
        wrong += not (value_error[0] < SAME_SPACE and space_errors[0] < SAME_SPACE)
    return Errors(worst_value, worst_space, wrong)


def summary(molecules: Molecules, directions: dgn.Directions, seconds: float, errors: Errors) -> dict[str, str]:
    """The rows of the table for one file."""
    first_node = np.unique(directions.component.numpy(), return_index=True)[1]
    owner = molecules.owner[first_node]  # of each component
    count_molecules = _counter(owner, molecules.count)
    repeated, gap = directions.repeated(), directions.gap
    bonded = ~torch.isnan(directions.eigenvalues[:, 0])
    undecided = count_molecules(bonded & ~directions.sign_is_canonical[:, 0])
    return {
        "molecules": f"{molecules.count:,}",
        "components": f"{len(owner):,}",
        "disconnected molecules": f"{int((np.bincount(owner, minlength=molecules.count) > 1).sum()):,}",
        "repeated lambda_1": f"{count_molecules(repeated[:, 0]):,}",
        "components with a repeated lambda_1": f"{int(repeated[:, 0].sum()):,}",
        f"any repeat among the first {NUM_DIRECTIONS}": f"{count_molecules(repeated.any(dim=1)):,}",
        "undecided sign of phi_1": f"{100 * undecided / max(molecules.count, 1):.1f} %",
        "largest gap counted as repeated": _extreme(gap[gap <= REPEATED], torch.max),
        "smallest gap not counted as repeated": _extreme(gap[gap > REPEATED], torch.min),
        "worst eigenvalue error": f"{errors.eigenvalue:.1e}",
        "worst eigenspace error": f"{errors.projector:.1e}",
        "direction 1 is phi_1": f"no, {errors.wrong_first:,} wrong" if errors.wrong_first else "in all",
        "seconds": f"{seconds:.1f}",
    }


def table(columns: list[tuple[str, dict[str, str]]]) -> str:
    """A markdown table: one row per quantity, one column per file."""
    lines = [["quantity", *(name for name, _ in columns)], ["---"] + ["---:"] * len(columns)]
    lines += [[quantity, *(rows[quantity] for _, rows in columns)] for quantity in columns[0][1]]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def measure(path: Path) -> tuple[str, dict[str, str]]:
    """Solve one file at once, then check it."""
    molecules = load(path)
    edge_index = torch.from_numpy(molecules.edges)
    start = time.perf_counter()
    directions = dgn.directions(edge_index, len(molecules.owner), k=NUM_DIRECTIONS)
    seconds = time.perf_counter() - start
    return molecules.name, summary(molecules, directions, seconds, compare(molecules, directions))


def _counter(owner: NDArray[np.int64], count: int) -> Callable[[torch.Tensor], int]:
    """A function that counts the molecules with at least one component for which a flag is set."""
    return lambda flag: int((np.bincount(owner[flag.numpy()], minlength=count) > 0).sum())


def _extreme(values: torch.Tensor, reduce: Callable[[torch.Tensor], torch.Tensor]) -> str:
    return f"{float(reduce(values)):.1e}" if values.numel() else "none"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("paths", metavar="PATH", nargs="+", type=Path, help="a packed .npz file")
    arguments = parser.parse_args()
    print(table([measure(path) for path in arguments.paths]))


if __name__ == "__main__":
    main()
