"""The applicability domain: what training did not have, the nearest molecule, and wider intervals far from it."""

import random
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from rdkit import Chem

from dgn.data.datasets.smiles import pack_parsed
from dgn.molecules import domain
from dgn.molecules.conformal import half_width
from dgn.molecules.domain import Domain, environments
from dgn.molecules.featurize import featurize
from dgn.molecules.fit import Fitted
from dgn.molecules.model_io import load_model

TRAINING = [f"{'C' * n}{end}" for n in range(1, 16) for end in ("O", "N", "c1ccccc1", "")]


@pytest.fixture(scope="module")
def chains() -> Domain:
    return Domain.of(featurize(TRAINING).graphs, TRAINING)


def test_training_molecules_are_their_own_nearest(chains: Domain) -> None:
    comparison = chains.compare(featurize(TRAINING).graphs)
    assert comparison.nearest == TRAINING
    assert comparison.similarity.tolist() == [1.0] * len(TRAINING)
    assert set(comparison.outside) == {""}


@pytest.mark.parametrize(
    ("smiles", "outside"),
    [
        ("CCCCO", ""),
        ("C[Si](C)(C)C", "element Si; neighbourhoods of 5 of 5 atoms"),
        ("CC[NH3+]", "charge +1; neighbourhoods of 2 of 3 atoms"),
        ("C" * 50, "50 atoms (training 1 to 21)"),
        ("C=C", "neighbourhoods of 2 of 2 atoms"),
    ],
)
def test_what_training_did_not_have_is_named(chains: Domain, smiles: str, outside: str) -> None:
    comparison = chains.compare(featurize([smiles]).graphs)
    assert comparison.outside == [outside]
    assert (float(comparison.novelty[0]) > 0.3) == bool(outside)


def test_the_nearest_molecule_counts_neighbourhoods(chains: Domain) -> None:
    """Without counts, a chain of any length equals that of fifteen carbons."""
    comparison = chains.compare(featurize(["C" * 50, "C" * 17 + "O"]).graphs)
    assert comparison.nearest == ["C" * 15, "C" * 15 + "O"]
    assert float(comparison.similarity[0]) < 0.4 < float(comparison.similarity[1])


def test_neighbourhoods_follow_the_atoms_and_not_their_order() -> None:
    molecule = Chem.MolFromSmiles("CC(=O)Nc1ccc(O)cc1[N+](=O)[O-]")
    order = list(range(molecule.GetNumAtoms()))
    random.Random(1).shuffle(order)
    one, other = (environments(pack_parsed([each])) for each in (molecule, Chem.RenumberAtoms(molecule, order)))
    for before, after in zip(one, other, strict=True):
        assert torch.equal(before[order], after)
    assert [len(hashes.unique()) for hashes in one] == [9, 13, 14]


def test_large_tables_store_a_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(domain, "MOST", 10)
    sample = Domain.of(featurize(TRAINING).graphs, TRAINING)
    assert len(sample.pointer) == 11
    comparison = sample.compare(featurize(TRAINING).graphs)
    assert set(comparison.nearest) <= set(TRAINING)
    assert set(comparison.outside) == {""}  # neighbourhoods are those of all


def test_intervals_grow_with_the_distance_from_training(fitted: tuple[Fitted, Path]) -> None:
    model = fitted[0].model
    near, far = model.predict(["CCO", "C" * 50]).difficulty[:, 0].tolist()
    assert far > 1.5 * near
    smiles = ["CCCc1ccccc1", "CCC[Si](C)(C)Br"]
    without, with_domain = (
        half_width(one.scores, 0.5, one.predict(smiles).difficulty)[:, 0]
        for one in (replace(model, domain=None), model)
    )
    growth = (with_domain / without).tolist()
    assert growth[0] < 1.5 < growth[1]


def test_the_domain_is_stored_with_the_model(fitted: tuple[Fitted, Path]) -> None:
    stored, made = load_model(fitted[1], "cpu").domain, fitted[0].model.domain
    assert stored is not None
    assert made is not None
    for name, value in made.tensors().items():
        assert torch.equal(stored.tensors()[name], value)
