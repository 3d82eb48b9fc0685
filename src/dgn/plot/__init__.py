"""Pictures: a graph with its directions and operators, a page to explore them, and what mattered for a prediction."""

from dgn.graph.checks import check_extra

check_extra("dgn.plot", "train")
