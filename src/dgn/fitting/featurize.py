"""SMILES to graphs, here or in other processes; what cannot be read is said, never raised."""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import ExitStack
from multiprocessing import get_context
from typing import Any, NamedTuple

import torch

from dgn.data.molecules import pack_parsed, parse_smiles
from dgn.data.packed import PackedGraphs

VERSION = "ogb 1"  # of the features: a model reads no others
CHUNK = 2048  # molecules that travel together


class Featurized(NamedTuple):
    """Graphs of the molecules that could be read, and for every SMILES what is wrong with it ("": nothing)."""

    graphs: PackedGraphs
    problems: list[str]


def featurize(smiles: Sequence[str]) -> Featurized:
    """Graphs with the features of OGB.

    >>> found = featurize(["CO", "C(", ""])
    >>> len(found.graphs), found.problems
    (1, ['', 'RDKit cannot read it', 'no SMILES'])
    """
    problems: list[str] = []
    return Featurized(pack_parsed(_readable(smiles, problems)), problems)


def parse(smiles: str) -> Any:
    """RDKit's molecule, or a text that says why there is none."""
    if not smiles.strip():
        return "no SMILES"
    try:
        molecule = parse_smiles(smiles.strip())
    except ValueError:  # also text that is no UTF-8
        return "RDKit cannot read it"
    return molecule if molecule.GetNumAtoms() else "no atoms"


def _readable(smiles: Sequence[str], problems: list[str]) -> Iterator[Any]:
    for one in smiles:
        molecule = parse(one)
        problems.append(molecule if isinstance(molecule, str) else "")
        if not isinstance(molecule, str):
            yield molecule


def featurize_chunks(chunks: Iterable[Sequence[str]], workers: int = 0) -> Iterator[Featurized]:
    """Featurize chunk by chunk, in order; with ``workers`` in so many processes, a few chunks ahead.

    Processes are started afresh: a script that asks for them must protect its main part by ``__name__``.
    """
    if workers < 1:
        yield from map(featurize, chunks)
        return
    with ExitStack() as stack:
        pool = stack.enter_context(ProcessPoolExecutor(workers, get_context("spawn"), _one_thread))
        stack.callback(pool.shutdown, cancel_futures=True)
        running: deque[Future[dict[str, Any]]] = deque()
        for chunk in chunks:
            running.append(pool.submit(_for_travel, list(chunk)))
            if len(running) > workers + 1:
                yield _arrived(running.popleft().result())
        while running:
            yield _arrived(running.popleft().result())


def _one_thread() -> None:
    torch.set_num_threads(1)


def _for_travel(smiles: list[str]) -> dict[str, Any]:
    """Arrays instead of tensors, which would travel through shared memory and open files."""
    graphs, problems = featurize(smiles)
    arrays = {
        "node_pointer": graphs.node_pointer,
        "edge_pointer": graphs.edge_pointer,
        "edge_index": graphs.edge_index.to(torch.int32),
        "x": graphs.nodes["x"],
        "edge_attr": graphs.edges["edge_attr"],
    }
    return {"problems": problems, **{name: tensor.numpy() for name, tensor in arrays.items()}}


def _arrived(found: dict[str, Any]) -> Featurized:
    arrays = {name: torch.from_numpy(array) for name, array in found.items() if name != "problems"}
    graphs = PackedGraphs(
        arrays["node_pointer"],
        arrays["edge_pointer"],
        arrays["edge_index"],
        nodes={"x": arrays["x"]},
        edges={"edge_attr": arrays["edge_attr"]},
    )
    return Featurized(graphs, found["problems"])
