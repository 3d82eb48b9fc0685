"""Descriptors and fingerprints of molecules: features of whole graphs, computed by RDKit."""

from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dgn.graph.checks import check_option

DESCRIPTORS = ("rdkit", "morgan")
RADIUS, BITS = 2, 1024  # of the Morgan fingerprint
# Slow on large molecules (Ipc, BCUT2D), or made of the others (qed, SPS).
LEFT_OUT = ("Ipc", "AvgIpc", "BCUT2D", "qed", "SPS")


def parse_descriptors(text: str) -> tuple[str, ...]:
    """The names in ``text``, joined by plus signs; an unknown one is refused.

    >>> parse_descriptors("rdkit+morgan"), parse_descriptors("")
    (('rdkit', 'morgan'), ())
    """
    names = tuple(text.split("+")) if text else ()
    for name in names:
        check_option("descriptors", name, DESCRIPTORS)
    return tuple(dict.fromkeys(names))


def describe(molecules: Iterable[Any], names: Sequence[str]) -> NDArray[np.float32]:
    r"""Descriptors of RDKit molecules, of each name side by side: [G, F], NaN where RDKit has none.

    ``"rdkit"``: about 200 physico-chemical descriptors (weight, logP, polar surface, counts of groups, partial charges,
    topological indices) as :math:`\mathrm{arsinh}\, v`, which is :math:`v` near 0 and logarithmic far from it.
    ``"morgan"``: how often each atom neighbourhood of up to two bonds occurs, folded to 1024 columns, as
    :math:`\log(1 + n)`.

    >>> from dgn.data.datasets.smiles import parse_smiles
    >>> counts = np.expm1(describe([parse_smiles("CCO"), parse_smiles("[Na+]")], ("morgan",)))
    >>> counts.sum(axis=1).round().tolist()
    [6.0, 1.0]
    """
    functions = [_FUNCTIONS[name] for name in names]
    rows = [np.concatenate([function(molecule) for function in functions]) for molecule in molecules]
    return np.array(rows, dtype=np.float32).reshape(len(rows), sum(descriptor_widths(names)))


def descriptor_widths(names: Sequence[str]) -> tuple[int, ...]:
    """The number of descriptors of each name."""
    return tuple(len(rdkit_descriptors()) if name == "rdkit" else BITS for name in names)


@cache
def rdkit_descriptors() -> tuple[tuple[str, Callable[[Any], float]], ...]:
    """Names and functions of the descriptors called ``"rdkit"``, in RDKit's order."""
    from rdkit.Chem import Descriptors

    # Four descriptors are extremes of one slow vector, which RDKit computes for each of them unless told not to.
    return tuple(
        (name, partial(function, force=False) if name.endswith("EStateIndex") else function)
        for name, function in Descriptors.descList
        if not name.startswith(LEFT_OUT)
    )


def _rdkit(molecule: Any) -> NDArray[np.float64]:
    values = np.array([_evaluate(function, molecule) for _, function in rdkit_descriptors()])
    values[~np.isfinite(values)] = np.nan
    squashed: NDArray[np.float64] = np.arcsinh(values)
    return squashed


def _evaluate(function: Callable[[Any], float], molecule: Any) -> float:
    """A descriptor; NaN where RDKit cannot compute it, as for elements without parameters or impossible valences."""
    try:
        return float(function(molecule))
    except (ValueError, RuntimeError, ZeroDivisionError):
        return float("nan")


def _morgan(molecule: Any) -> NDArray[np.float64]:
    counts: NDArray[np.float64] = np.log1p(_morgan_generator().GetCountFingerprintAsNumPy(molecule))
    return counts


@cache
def _morgan_generator() -> Any:
    from rdkit.Chem import rdFingerprintGenerator

    return rdFingerprintGenerator.GetMorganGenerator(radius=RADIUS, fpSize=BITS, includeChirality=True)


_FUNCTIONS: dict[str, Callable[[Any], NDArray[np.float64]]] = {"rdkit": _rdkit, "morgan": _morgan}
