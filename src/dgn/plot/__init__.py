"""Plots: a graph with its directions and operators, an interactive page, and attributions of a prediction."""

from dgn.graph.checks import check_extra

check_extra("dgn.plot", "train")
