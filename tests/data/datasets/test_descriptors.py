"""Descriptors of molecules: independent of the spelling, and defined for whatever RDKit reads."""

import numpy as np
import pytest

pytest.importorskip("rdkit", reason="descriptors are RDKit's, the extra molecules")

from dgn.data.datasets.descriptors import BITS, describe, parse_descriptors, rdkit_descriptors
from dgn.data.datasets.smiles import CENTRES, OGB, pack_smiles, parse_smiles, standardize, with_descriptors

ODD = ["[Na+].[Cl-]", "[He]", "[H][H]", "CF(F)F", "C[Si](C)(C)C", "[Pt](N)(N)(Cl)Cl", "C" * 300]


@pytest.mark.parametrize("name", ["rdkit", "morgan", "rdkit+morgan"])
def test_all_spellings_have_the_same_descriptors(name: str) -> None:
    spellings = ["C[C@H](N)CCc1ccncc1/C=C/F", "F/C=C/c1cnccc1CC[C@H](C)N", "N[C@H](C)CCc1ccncc1/C=C/F"]
    packed = pack_smiles([*spellings, "[2H]OC", "CO"], featurization=with_descriptors(CENTRES, name))
    first, second, mirrored, heavy, light = packed.graphs["graph_attr"].numpy()
    np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(heavy, light)
    assert (first != mirrored).any() == ("morgan" in name)


def test_descriptors_of_odd_molecules_are_numbers_or_missing() -> None:
    values = describe([standardize(parse_smiles(one)) for one in ODD], ("rdkit",))
    assert values.shape == (len(ODD), len(rdkit_descriptors()))
    assert not np.isinf(values).any()
    assert np.abs(np.nan_to_num(values)).max() < 100
    assert np.isnan(values).mean() < 0.1
    alkane = dict(zip((name for name, _ in rdkit_descriptors()), values[-1], strict=True))
    assert alkane["HeavyAtomCount"] == pytest.approx(np.arcsinh(300))


def test_fingerprints_count() -> None:
    one, two = describe([parse_smiles("CO"), parse_smiles("CO.CO")], ("morgan",))
    assert one.shape == (BITS,)
    np.testing.assert_allclose(np.expm1(two), 2 * np.expm1(one), rtol=1e-5)


def test_names() -> None:
    assert parse_descriptors("morgan+morgan") == ("morgan",)
    assert describe([], ("rdkit", "morgan")).shape == (0, len(rdkit_descriptors()) + BITS)
    with pytest.raises(ValueError, match="descriptors: expected one of 'rdkit', 'morgan', got 'mordred'"):
        with_descriptors(OGB, "rdkit+mordred")
    assert "graph_attr" not in pack_smiles(["C"], featurization=OGB).graphs
