"""Trained models as users meet them: loaded from any folder or by name, applied to files, exported."""

from dgn.graph.checks import check_extra

check_extra("dgn.models", "train")
