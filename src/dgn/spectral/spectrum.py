"""The lowest eigenpairs of all components of a graph."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Spectrum(NamedTuple):
    """Eigenvalues and vectors, NaN and 0 where there are none, before their canonical sign is applied.

    ``component`` [N], ``sizes`` [C], ``values`` [C, m] ascending, ``vectors`` [N, m], ``sign`` and ``sign_decided``
    [C, m].
    """

    component: NDArray[np.int64]
    sizes: NDArray[np.int64]
    values: NDArray[np.float64]
    vectors: NDArray[np.float64]
    sign: NDArray[np.float64]
    sign_decided: NDArray[np.bool_]


def scale_by_degree(
    vectors: NDArray[np.float64],
    degree: NDArray[np.float64],
    component: NDArray[np.int64],
    sizes: NDArray[np.int64],
) -> None:
    r"""Turn eigenvectors of the symmetric Laplacian into those of :math:`D^{-1} L`, in place.

    :math:`v \mapsto D^{-1/2} v`, times the root of the mean degree of the component; a node without edges keeps its 0.
    """
    mean_degree = np.bincount(component, weights=degree) / np.maximum(sizes, 1)
    connected = degree > 0
    vectors[connected] *= np.sqrt(mean_degree[component] / np.where(connected, degree, 1))[connected, None]
