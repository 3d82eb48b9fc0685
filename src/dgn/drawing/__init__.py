"""Pictures: a graph with its directions and operators, a page to explore them, and what mattered for a prediction."""
