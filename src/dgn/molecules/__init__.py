"""Models of molecular properties, fitted to tables of SMILES. Needs RDKit, the extra ``molecules``."""

from dgn.graph.checks import check_extra

check_extra("dgn.molecules", "train")
