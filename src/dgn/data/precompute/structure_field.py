"""Structural numbers as potentials: fields that point into rings, or to where walks return."""

from dataclasses import replace

from dgn.data.benchmark import Benchmark, FieldSource
from dgn.fields import gradient
from dgn.graph.checks import check_option

FIELDS: tuple[FieldSource, ...] = ("eigenvectors", "rings", "random_walk")
SPECTRAL = ("component", "repeated", "gap")  # values that belong to eigenvectors


def with_structure_field(benchmark: Benchmark, field: FieldSource, k: int) -> Benchmark:
    """The benchmark with the gradients of ``k`` structural numbers as its field; it must have these numbers.

    ``"rings"``: direction k leads to nodes in more rings of the k-th size; with sizes [6, 5], dx1 is the derivative
    along rings of 6 and dx2 along rings of 5. ``"random_walk"``: direction k leads to nodes whose walk is more likely
    to be back after 2 k steps; odd ones are 0 wherever there is no odd cycle near.

    Laws: unlike an eigenvector, such a potential has no arbitrary sign and no arbitrary basis, so that signed
    derivatives mean something; where all neighbours have the number of the node itself there is no field.

    >>> from dgn.data.benchmark import load_benchmark
    >>> from dgn.data.precompute.encodings import with_structure
    >>> digits = with_structure(load_benchmark("digits"), random_walk=4)
    >>> with_structure_field(digits, "random_walk", k=2).graphs.edges["field"].shape
    torch.Size([402528, 2])
    """
    check_option("field", field, FIELDS)
    if field == "eigenvectors":
        return benchmark
    found, graphs = benchmark.structure, benchmark.graphs
    given = 0 if found is None else len(found.rings) if field == "rings" else found.random_walk // 2
    if found is None or k > given:
        remedy = f"set data.rings to {k} sizes" if field == "rings" else f"set data.random_walk={2 * k}"
        raise ValueError(f"field: expected {k} directions from {field}, got numbers for {given}; {remedy} or more")
    first, step = (found.random_walk, 1) if field == "rings" else (1, 2)
    potential = graphs.nodes["structure"][:, first : first + k * step : step]
    nodes = {name: value for name, value in graphs.nodes.items() if name not in SPECTRAL}
    added = replace(graphs, nodes=nodes).with_values(
        nodes={"potential": potential}, edges={"field": gradient(potential, graphs.graph)}
    )
    return replace(benchmark, graphs=added, field=field)
