"""From a table of molecules to a model, and from a model to predictions. Needs RDKit, the extra ``molecules``."""

from dgn.graph.checks import check_extra

check_extra("dgn.molecules", "train")
