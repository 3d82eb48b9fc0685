"""The signature of a network: what it reads of graphs and predicts, all that its training graphs decided."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from dgn.data.benchmark import Benchmark
from dgn.encodings import EdgeTypes, Standardization, Structure
from dgn.graph.columns import as_columns
from dgn.spectral.laplacians import Normalization
from dgn.training.build import Columns, Inputs
from dgn.training.experiment import Experiment
from dgn.training.tta import last_coordinate

SCALE, OFFSET, EDGE_TYPES = "structure.scale", "structure.offset", "structure.edge_types"  # tensors of a signature
GRAPH_SCALE, GRAPH_OFFSET = "features.scale", "features.offset"  # and those of features of graphs, if it has any


@dataclass(frozen=True, eq=False)
class Signature:
    """Everything beside settings and weights that a network needs in order to predict.

    ``dataset`` names its graphs in messages. ``inputs`` are the categories or widths of features, the number of outputs
    and the structural encodings with their scale and edge types, and the scale of features of graphs.
    ``num_directions`` eigenvectors of the Laplacian of ``normalization`` are computed, or their ``arcsine``, unless
    graphs come with a field (``has_field``). ``delta`` is the mean of log(degree + 1) over the training nodes.
    ``featurization`` names the features of molecules, where a SMILES string gives them. ``reflected`` tells which node
    features a mirror image reflects (``network.tta_mirror``).
    """

    dataset: str
    objective: str
    metric: str
    inputs: Inputs
    num_directions: int
    normalization: Normalization = None
    arcsine: bool = False
    has_field: bool = False
    delta: float = 1.0
    featurization: str = ""
    reflected: tuple[bool, ...] | None = None

    @classmethod
    def of(cls, experiment: Experiment, benchmark: Benchmark) -> "Signature":
        """The signature of a network for its training graphs, without their ``delta``."""
        nodes, reflected = benchmark.graphs.nodes, None
        if experiment.network.tta_mirror and "node_potential" in nodes:
            # Decided by all training graphs: in a few, a feature may equal the coordinate by chance.
            reflected = tuple(last_coordinate(as_columns(nodes["x"]), nodes["node_potential"]).tolist())
        return cls(
            benchmark.name,
            benchmark.objective,
            experiment.training.metric or benchmark.metric,
            Inputs.of(benchmark),
            experiment.num_directions,
            experiment.data.normalization,
            experiment.data.arcsine,
            benchmark.coordinates,
            featurization=benchmark.featurization,
            reflected=reflected,
        )

    @property
    def structure(self) -> Structure | None:
        """The structural encodings of the graphs."""
        return self.inputs.structure

    @property
    def of_nodes(self) -> bool:
        """Whether nodes are predicted, not graphs."""
        return self.objective.startswith("node")

    def to_dict(self) -> dict[str, Any]:
        """Plain data; the tensors of the structure are those of :meth:`tensors`."""
        inputs, structure = self.inputs, self.structure
        values = {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "inputs"}
        values |= {"nodes": inputs.nodes, "edges": inputs.edges, "targets": inputs.targets, "structure": None}
        if structure is not None:
            sizes = None if structure.edge_types is None else list(structure.edge_types.sizes)
            values["structure"] = {
                "rwse_steps": structure.random_walk, "ring_sizes": list(structure.rings), "edge_categories": sizes,
            }  # fmt: skip
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}

    def tensors(self) -> dict[str, Tensor]:
        """The scale, offset and edge types of structural encodings; scale and offset of features of graphs."""
        structure, features = self.structure, self.inputs.features
        tensors: dict[str, Tensor] = {}
        if structure is not None:
            tensors |= {SCALE: structure.scale, OFFSET: structure.offset}
            tensors |= {} if structure.edge_types is None else {EDGE_TYPES: structure.edge_types.attributes}
        if features is not None:
            tensors |= {GRAPH_SCALE: features.scale, GRAPH_OFFSET: features.offset}
        return tensors

    @classmethod
    def read(cls, values: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> "Signature":
        """The signature of :meth:`to_dict` and :meth:`tensors`."""
        values = dict(values)
        nodes, edges, targets = _columns(values.pop("nodes")), values.pop("edges"), int(values.pop("targets"))
        structure, features = _read_structure(values.pop("structure"), tensors), None
        if GRAPH_SCALE in tensors:
            features = Standardization(tensors[GRAPH_SCALE], tensors[GRAPH_OFFSET])
        if values["reflected"] is not None:
            values["reflected"] = tuple(values["reflected"])
        edges = None if edges is None else _columns(edges)
        return cls(inputs=Inputs(nodes, edges, targets, structure, features), **values)

    def with_delta(self, delta: float) -> "Signature":
        return replace(self, delta=delta)

    def reflected_mask(self) -> Tensor | None:
        """``reflected`` as a mask [C]."""
        return None if self.reflected is None else torch.tensor(self.reflected)


def _columns(value: list[int] | int) -> Columns:
    return value if isinstance(value, int) else tuple(value)


def _read_structure(values: Mapping[str, Any] | None, tensors: Mapping[str, Tensor]) -> Structure | None:
    if values is None:
        return None
    sizes, types = values["edge_categories"], None
    if sizes is not None:
        types = EdgeTypes(tensors[EDGE_TYPES], tuple(sizes))
    return Structure(values["rwse_steps"], tuple(values["ring_sizes"]), tensors[SCALE], tensors[OFFSET], types)
