"""Experiments, objectives, and the loop that trains them."""
