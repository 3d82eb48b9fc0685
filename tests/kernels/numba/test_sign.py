"""The compiled sign rule agrees with NumPy's."""

import numpy as np
import pytest

pytest.importorskip("numba", reason="Numba is not installed")

from dgn.graph.components import members
from dgn.kernels.numba.sign import signs
from dgn.spectral.sign import NEARLY, UNDECIDED, canonical_sign


def test_compiled_signs_equal_those_of_numpy() -> None:
    random = np.random.default_rng(0)
    component = np.sort(random.integers(0, 90, 1000))
    component = np.unique(component, return_inverse=True)[1]
    vectors = random.standard_normal((1000, 6))
    vectors[:, 3] = np.where(np.arange(1000) % 2, 0.5, -0.5)  # moments that vanish on components of even size
    vectors[:, 4] = 0.0
    vectors[:, 5] = np.round(vectors[:, 5])
    degree = random.integers(1, 4, 1000).astype(float)
    error = random.choice([0.0, 1e-3, 1.0], (component[-1] + 1, 6))
    expected = canonical_sign(vectors, degree, component, component[-1] + 1, error)
    result = np.empty_like(expected[0]), np.empty_like(expected[1])
    group = members(component)
    signs(0, len(group.size), *group[:3], vectors, degree, error, UNDECIDED, NEARLY, *result)
    assert np.array_equal(result[0], expected[0])
    assert np.array_equal(result[1], expected[1])
    assert 0.3 < expected[1].mean() < 0.9
