"""The lowest eigenvectors of one graph by SLEPc over MPI, for graphs beyond the memory of one machine.

    python -m benchmarks.eigenvectors.slepc export --nodes 100000 --out graph.petsc  # needs dgn: L, and its eigenvalues
    mpiexec -n 2 python3 -m benchmarks.eigenvectors.slepc solve graph.petsc -k 6     # needs slepc4py: rows by rank

The Laplacian is written in PETSc's binary format, which every rank reads its rows of. The solver is LOBPCG with the
diagonal as preconditioner, the constant vector deflated. Rank 0 prints the time, the eigenvalues, the residuals and,
where ``export`` left them, the difference from dgn's eigenvalues, and writes the vectors next to the input.
"""

import argparse
import json
import resource
import time
from pathlib import Path
from typing import Any

import numpy as np

K = 6
MATRIX = 1211216  # PETSc's class id of a matrix in a file


def export(nodes: int, sides: list[int] | None, out: Path) -> None:
    """Write the Laplacian of a grid, or of the core of a collaboration graph, and dgn's eigenvalues."""
    import torch

    import dgn
    from benchmarks.costs import measured
    from benchmarks.eigenvectors.large_graphs import largest_component
    from dgn.spectral.laplacians import normalized
    from dgn.testing import collaboration, grid

    adjacency = largest_component(*(grid(*sides) if sides else collaboration(nodes, 5 * nodes)))
    laplacian = normalized(adjacency, None).tocsr()
    rows, entries = laplacian.shape[0], laplacian.nnz
    with out.open("wb") as file:  # big-endian, as PETSc reads it
        np.array([MATRIX, rows, rows, entries], ">i4").tofile(file)
        for values, kind in ((np.diff(laplacian.indptr), ">i4"), (laplacian.indices, ">i4"), (laplacian.data, ">f8")):
            values.astype(kind).tofile(file)
    edges = torch.from_numpy(np.stack(adjacency.nonzero()).astype(np.int64))
    dgn.directions(*collaboration(6000, 30000), k=K)  # loads compiled kernels
    cost = measured(lambda: dgn.directions(edges, rows, k=K))
    out.with_suffix(".json").write_text(json.dumps(cost.result.eigenvalues[0].tolist()))
    print(
        f"{rows:,} nodes, {(entries - rows) // 2:,} edges; dgn.directions: {cost.seconds:.1f} s, "
        f"{cost.processor:.1f} CPU s, {cost.megabytes:.0f} MB"
    )


def solve(path: Path, k: int) -> None:
    """Solve with all ranks, and compare."""
    from petsc4py import PETSc
    from slepc4py import SLEPc

    start, processor = time.perf_counter(), time.process_time()
    laplacian = PETSc.Mat().load(PETSc.Viewer().createBinary(str(path), "r"))
    laplacian.setOption(PETSc.Mat.Option.SYMMETRIC, True)
    constant = laplacian.createVecRight()
    constant.set(1.0)
    constant.normalize()
    solver = SLEPc.EPS().create()
    solver.setOperators(laplacian)
    solver.setProblemType(SLEPc.EPS.ProblemType.HEP)
    solver.setType(SLEPc.EPS.Type.LOBPCG)
    solver.setWhichEigenpairs(SLEPc.EPS.Which.SMALLEST_REAL)
    solver.setDimensions(k)
    solver.setTolerances(1e-8, 5000)
    solver.setDeflationSpace([constant])
    transform = solver.getST()
    transform.setType(SLEPc.ST.Type.PRECOND)
    preconditioner = transform.getKSP().getPC()
    preconditioner.setType(PETSc.PC.Type.JACOBI)
    solver.setFromOptions()
    solver.solve()
    seconds = time.perf_counter() - start
    report(solver, path, k, seconds, time.process_time() - processor)


def report(solver: Any, path: Path, k: int, seconds: float, processor: float) -> None:
    from petsc4py import PETSc

    values = [solver.getEigenvalue(i).real for i in range(min(k, solver.getConverged()))]
    errors = [solver.computeError(i) for i in range(len(values))]
    vector = solver.getOperators()[0].createVecRight()
    viewer = PETSc.Viewer().createBinary(f"{path}.vectors", "w")
    for i in range(len(values)):
        solver.getEigenvector(i, vector)
        vector.view(viewer)
    nodes, ranks = solver.getOperators()[0].getSize()[0], PETSc.COMM_WORLD.getSize()
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    PETSc.Sys.Print(
        f"{nodes:,} nodes, {ranks} ranks: {seconds:.1f} s; rank 0: {processor:.1f} CPU s, {megabytes:.0f} MB"
    )
    PETSc.Sys.Print(f"{len(values)} of {k} converged after {solver.getIterationNumber()} iterations")
    PETSc.Sys.Print(f"eigenvalues {values}, relative residuals {errors}")
    reference = path.with_suffix(".json")
    if reference.exists() and values:
        expected = np.array(json.loads(reference.read_text())[: len(values)])
        PETSc.Sys.Print(f"largest relative difference from dgn: {np.abs(np.array(values) / expected - 1).max():.1e}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    writing, solving = commands.add_parser("export"), commands.add_parser("solve")
    writing.add_argument("--nodes", type=int, default=100_000)
    writing.add_argument("--grid", type=int, nargs=2, metavar=("ROWS", "COLUMNS"), help="a grid instead")
    writing.add_argument("--out", type=Path, default=Path("graph.petsc"))
    solving.add_argument("path", type=Path)
    solving.add_argument("-k", type=int, default=K)
    arguments = parser.parse_args()
    if arguments.command == "export":
        export(arguments.nodes, arguments.grid, arguments.out)
    else:
        solve(arguments.path, arguments.k)


if __name__ == "__main__":
    main()
