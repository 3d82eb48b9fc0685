"""Hyperparameter search: spaces in YAML, trials that are ordinary runs, selection by validation alone."""

from dgn.graph.checks import check_extra

check_extra("dgn.tuning", "train")
