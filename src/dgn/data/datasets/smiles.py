"""Molecules from SMILES with OGB's features. Needs RDKit, the extra ``molecules``."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from dgn.data.datasets.descriptors import describe, parse_descriptors
from dgn.data.datasets.pairs import join_smiles, pack_pairs, split_smiles
from dgn.data.packed import PackedGraphs
from dgn.data.precompute.progress import progress_bar
from dgn.graph.checks import check_option, check_package

CHIRALITIES = ("CHI_UNSPECIFIED", "CHI_TETRAHEDRAL_CW", "CHI_TETRAHEDRAL_CCW", "CHI_OTHER")
HYBRIDIZATIONS = ("SP", "SP2", "SP3", "SP3D", "SP3D2", "other")
BOND_TYPES = ("SINGLE", "DOUBLE", "TRIPLE", "AROMATIC", "other")
STEREO = ("STEREONONE", "STEREOZ", "STEREOE", "STEREOCIS", "STEREOTRANS", "STEREOANY")
OGB, CENTRES = "ogb 1", "ogb, centres R and S, canonical order 2"  # featurizations: a model refuses others
PAIRS = f"{CENTRES}, pairs 1"  # of molecules, as one graph
AND = "; "  # between a featurization, the descriptors that networks read, and those that they do not
BESIDE = "descriptors"  # name of the latter among the values of graphs
CHIRALITY, CIP = 1, {"R": 1, "S": 2}  # column of the atom features, and its values; any other centre is 3
WIDTH = 9  # atom features
IMPOSSIBLE = "dgn_impossible"  # property of a molecule whose valences RDKit rejects: the reason
LIMITS = {"degree": 10, "hydrogens": 8, "radicals": 4, "charge": 5}  # larger values share one category


class Molecule(NamedTuple):
    """Atoms and bonds; each bond is two edges, i -> j then j -> i.

    Shapes:
        ``x`` [N, 9] and ``edge_attr`` [E, 3] uint8, ``edge_index`` [2, E] int64.
    """

    x: Tensor
    edge_index: Tensor
    edge_attr: Tensor


def read_smiles(smiles: str) -> Molecule:
    """A molecule with OGB's nine atom features and three bond features, as category indices.

    Atoms: element, chirality, number of neighbours (hydrogens included), charge, hydrogens, radical electrons,
    hybridization, aromatic, in a ring. Bonds: type, stereo, conjugated. Values without a category take the last one.
    A molecule whose valences RDKit rejects is read without that check, as OGB's older RDKit did.

    >>> molecule = read_smiles("C=O")
    >>> molecule.x.tolist(), molecule.edge_attr.tolist()
    ([[5, 0, 3, 5, 2, 0, 1, 0, 0], [7, 0, 1, 5, 0, 0, 1, 0, 0]], [[1, 0, 0], [1, 0, 0]])
    """
    packed = pack_parsed([parse_smiles(smiles)])
    return Molecule(packed.nodes["x"], packed.edge_index, packed.edges["edge_attr"])


def pack_smiles(smiles: Iterable[str], progress: bool = False, featurization: str = OGB) -> PackedGraphs:
    """Packed graphs of molecules with ``nodes["x"]`` and ``edges["edge_attr"]``; ``featurization`` as below.

    With ``PAIRS``, each text is that of two molecules (:func:`dgn.data.datasets.pairs.join_smiles`).

    >>> pack_smiles(["C=O", "O"])
    PackedGraphs(graphs=2, nodes=3, edges=2; nodes=[x], edges=[edge_attr])
    """
    base, *descriptors = featurization.split(AND)
    if base == PAIRS:
        single = AND.join([CENTRES, *descriptors])
        pairs = [check_pair(split_smiles(text)) for text in smiles]
        first, second = (pack_smiles((pair[index] for pair in pairs), progress, single) for index in range(2))
        return pack_pairs(first, second)
    strings = list(smiles)
    with progress_bar("reading SMILES", len(strings), "molecules", progress) as advance:
        return pack_parsed(_parse_all(strings, featurization, advance), featurization)


def pack_parsed(molecules: Iterable[Any], featurization: str = OGB) -> PackedGraphs:
    """Packed graphs of RDKit molecules, as :func:`parse_smiles` returns them; an iterator is consumed one by one.

    With the featurization ``CENTRES``, stereo centres are R and S. OGB's chirality tags, clockwise or not, depend on
    the order of neighbours in the SMILES, so that another SMILES of the molecule would give another prediction; for the
    same reason molecules are first brought into a canonical order (:func:`standardize`). Descriptors beside it
    (:func:`with_descriptors`) are ``graphs["graph_attr"]``, those that networks do not read ``graphs["descriptors"]``.

    >>> pack_parsed([parse_smiles("C=O")])
    PackedGraphs(graphs=1, nodes=2, edges=2; nodes=[x], edges=[edge_attr])
    """
    base, descriptors, beside = (*featurization.split(AND), "", "")[:3]
    check_option("featurization", base, (OGB, CENTRES))
    names = {"graph_attr": parse_descriptors(descriptors), BESIDE: parse_descriptors(beside)}
    molecules = list(molecules) if any(names.values()) else molecules
    atoms, bonds = bytearray(), bytearray()
    pairs: list[int] = []
    node_count, edge_count = [0], [0]
    for molecule in molecules:
        # By index: RDKit's iterators take twice the time.
        for atom in map(molecule.GetAtomWithIdx, range(molecule.GetNumAtoms())):
            atoms += _atom_features(
                atom.GetAtomicNum(), atom.GetChiralTag(), atom.GetTotalDegree(), atom.GetFormalCharge(),
                atom.GetTotalNumHs(), atom.GetNumRadicalElectrons(), atom.GetHybridization(), atom.GetIsAromatic(),
                atom.IsInRing(),
            )  # fmt: skip
            if base == CENTRES and atoms[CHIRALITY - WIDTH]:
                atoms[CHIRALITY - WIDTH] = CIP.get(atom.GetProp("_CIPCode") if atom.HasProp("_CIPCode") else "", 3)
        for bond in map(molecule.GetBondWithIdx, range(molecule.GetNumBonds())):
            i, j = bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()
            pairs += (i, j, j, i)
            bonds += _bond_features(bond.GetBondType(), bond.GetStereo(), bond.GetIsConjugated())
        node_count.append(molecule.GetNumAtoms())
        edge_count.append(2 * molecule.GetNumBonds())
    return PackedGraphs(
        torch.tensor(node_count).cumsum(0),
        torch.tensor(edge_count).cumsum(0),
        torch.from_numpy(np.array(pairs, dtype=np.int64).reshape(-1, 2).T.copy()),
        nodes={"x": torch.from_numpy(np.array(atoms, dtype=np.uint8).reshape(-1, WIDTH))},
        edges={"edge_attr": torch.from_numpy(np.array(bonds, dtype=np.uint8).reshape(-1, 3))},
        graphs=_describe(molecules, names),
    )


def check_pair(smiles: list[str]) -> list[str]:
    """Two SMILES; others are refused."""
    if len(smiles) != 2:
        raise ValueError(
            f"smiles: expected those of two molecules, such as CCO>O, got {join_smiles(smiles)!r}; add one"
        )
    return smiles


def _describe(molecules: Iterable[Any], names: Mapping[str, Sequence[str]]) -> dict[str, Tensor]:
    """Descriptors by the value of graphs that they are part of; each is computed once."""
    distinct = dict.fromkeys(name for of_value in names.values() for name in of_value)
    columns = {name: torch.from_numpy(describe(molecules, (name,))) for name in distinct}
    return {value: torch.cat([columns[name] for name in each], dim=1) for value, each in names.items() if each}


def with_descriptors(featurization: str, descriptors: str, beside: str = "") -> str:
    """The featurization with descriptors of whole molecules (:func:`dgn.data.datasets.descriptors.describe`).

    Networks read ``descriptors``, but not those ``beside``.

    >>> pack_smiles(["CCO"], featurization=with_descriptors(OGB, "morgan", "morgan"))
    PackedGraphs(graphs=1, nodes=3, edges=4; nodes=[x], edges=[edge_attr], graphs=[graph_attr, descriptors])
    """
    parts = [featurization, "+".join(parse_descriptors(descriptors)), "+".join(parse_descriptors(beside))]
    return AND.join(parts[: 3 if beside else 2 if descriptors else 1])


def _parse_all(smiles: list[str], featurization: str, advance: Callable[[int], None]) -> Iterator[Any]:
    for text in smiles:
        molecule = parse_smiles(text)
        yield molecule if featurization.startswith(OGB) else standardize(molecule)
        advance(1)


def standardize(molecule: Any) -> Any:
    """The molecule with its atoms in canonical order, without isotopes, atom map numbers and explicit hydrogens.

    Laws: all SMILES of a molecule give the same molecule, and so do its isotopologues.

    >>> molecules = [standardize(parse_smiles(smiles)) for smiles in ("[2H]OC", "CO", "O[13CH3]")]
    >>> [[atom.GetSymbol() for atom in molecule.GetAtoms()] for molecule in molecules]
    [['C', 'O'], ['C', 'O'], ['C', 'O']]
    """
    return parse_smiles(standard_smiles(molecule))


def standard_smiles(molecule: Any) -> str:
    """Canonical SMILES without isotopes and atom map numbers, of which :func:`standardize` takes the order of atoms."""
    from rdkit import Chem

    copy = Chem.Mol(molecule)
    for atom in copy.GetAtoms():
        atom.SetIsotope(0)
        atom.SetAtomMapNum(0)
    text = str(Chem.MolToSmiles(copy))
    read = parse_smiles(text)
    # Reading removes hydrogens that had an isotope, and stereo centres that they made: the order may change.
    has_changed = read.GetNumAtoms() < copy.GetNumAtoms() or "@" in text
    return str(Chem.MolToSmiles(read)) if has_changed else text


def parse_smiles(smiles: str) -> Any:
    """The RDKit molecule of a SMILES string; an invalid one raises a ValueError with the reason.

    Impossible valences are read, as OGB's older RDKit did, and named in the property ``IMPOSSIBLE``.

    >>> parse_smiles("CF(F)F").GetProp(IMPOSSIBLE)
    'impossible valence of fluorine (atom 2 has 3 bonds)'
    """
    check_package("SMILES", "rdkit")
    from rdkit import Chem, rdBase

    # RDKit ignores other letters at either end: acetic acid with a Cyrillic O would become acetaldehyde.
    if not "".join(smiles.split()[:1]).isascii():
        raise ValueError(f"smiles: expected ASCII characters, got {smiles!r}; type it again")
    with rdBase.BlockLogs():
        parsed = Chem.MolFromSmiles(smiles)
        if parsed is not None:
            return parsed
        parsed = Chem.MolFromSmiles(smiles, sanitize=False)
        if parsed is None:
            raise ValueError(f"smiles: expected a molecule that RDKit can read, got {smiles!r}; check its spelling")
        parsed.UpdatePropertyCache(strict=False)
        reason = _impossible_valence(parsed)
        try:
            Chem.SanitizeMol(parsed, Chem.SANITIZE_ALL ^ Chem.SANITIZE_PROPERTIES)
        except ValueError as error:
            raise ValueError(f"smiles: expected a valid molecule, got {smiles!r}: {error}; correct it") from error
    parsed.SetProp(IMPOSSIBLE, reason)
    return parsed


def _impossible_valence(molecule: Any) -> str:
    """The first atom whose valence RDKit rejects, as text."""
    from rdkit import Chem

    for problem in Chem.DetectChemistryProblems(molecule):
        if problem.GetType() == "AtomValenceException":
            atom: Any = molecule.GetAtomWithIdx(problem.GetAtomIdx())
            name = Chem.GetPeriodicTable().GetElementName(atom.GetAtomicNum()).lower()
            bonds = atom.GetValence(Chem.ValenceType.EXPLICIT)
            return f"impossible valence of {name} (atom {atom.GetIdx() + 1} has {bonds} bonds)"
    return "impossible valence"


@cache  # there are few distinct atoms and bonds, and RDKit is slow to format the name of a category
def _atom_features(
    atomic_number: int,
    chirality: Any,
    degree: int,
    charge: int,
    hydrogens: int,
    radicals: int,
    hybrid: Any,
    *flags: bool,
) -> bytes:
    limit = LIMITS["charge"]
    features = (
        atomic_number - 1 if 1 <= atomic_number <= 118 else 118,
        _category(chirality, CHIRALITIES),
        min(degree, LIMITS["degree"] + 1),
        charge + limit if abs(charge) <= limit else 2 * limit + 1,
        min(hydrogens, LIMITS["hydrogens"] + 1),
        min(radicals, LIMITS["radicals"] + 1),
        _category(hybrid, HYBRIDIZATIONS),
        *flags,
    )
    return bytes(features)


@cache
def _bond_features(bond_type: Any, stereo: Any, conjugated: bool) -> bytes:
    """The features of both directed edges of a bond."""
    return bytes((_category(bond_type, BOND_TYPES), _category(stereo, STEREO), conjugated)) * 2


def _category(value: Any, names: tuple[str, ...]) -> int:
    name = str(value)
    return names.index(name) if name in names else len(names) - 1
