"""Experiments, training, evaluation and inference."""

from dgn.graph.checks import check_extra

check_extra("dgn.training", "train")
