"""Experiments, objectives, and the loop that trains them."""

from dgn.graph.checks import check_extra

check_extra("dgn.training", "train")
