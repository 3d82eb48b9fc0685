"""Many graphs in flat arrays."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from dgn.data.io.files import digest, read_numpy, read_tensors, write_numpy, write_tensors
from dgn.data.io.pyg import tables
from dgn.graph import Graph, as_graph

if TYPE_CHECKING:
    from torch_geometric.data import Data

FORMAT = "dgn graphs 1"
STRUCTURE = ("node_pointer", "edge_pointer", "edge_index")


@dataclass(frozen=True, eq=False, repr=False)
class PackedGraphs:
    """A collection of graphs, one behind the other.

    Graph g owns the nodes ``node_pointer[g]`` to ``node_pointer[g + 1]`` and likewise its edges; ``edge_index`` counts
    nodes from the first of their own graph. Values of nodes, edges and graphs have a name each.

    Shapes:
        ``node_pointer`` and ``edge_pointer`` [G + 1] int64, ``edge_index`` [2, E] of any integers; ``nodes``,
        ``edges`` and ``graphs`` hold tensors of N, E and G rows.

    >>> path = PackedGraphs.pack([(torch.tensor([[0, 1], [1, 0]]), 2), (torch.tensor([[0], [1]]), 3)])
    >>> path, len(path), path.graph.edge_index.tolist()
    (PackedGraphs(graphs=2, nodes=5, edges=3), 2, [[0, 1, 2], [1, 0, 3]])
    """

    node_pointer: Tensor
    edge_pointer: Tensor
    edge_index: Tensor
    nodes: Mapping[str, Tensor] = field(default_factory=dict)
    edges: Mapping[str, Tensor] = field(default_factory=dict)
    graphs: Mapping[str, Tensor] = field(default_factory=dict)
    info: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, pointer in (("node_pointer", self.node_pointer), ("edge_pointer", self.edge_pointer)):
            if pointer.dim() != 1 or len(pointer) < 1 or int(pointer[0]) != 0 or bool((pointer.diff() < 0).any()):
                raise ValueError(
                    f"{name}: expected [graphs + 1] numbers that start at 0 and never fall, got shape "
                    f"{list(pointer.shape)}; they are the running sums of the graphs' sizes"
                )
        if self.edge_index.shape != (2, self.num_edges) or len(self.node_pointer) != len(self.edge_pointer):
            raise ValueError(
                f"edge_index: expected shape [2, {self.num_edges}] for {len(self.node_pointer) - 1} graphs, got "
                f"{list(self.edge_index.shape)} and {len(self.edge_pointer) - 1} graphs of edges; the file may be cut"
            )
        for kind, values, rows in self._tables():
            for name, value in values.items():
                if len(value) != rows:
                    raise ValueError(
                        f"{kind}[{name!r}]: expected {rows} rows, got {len(value)}; give one per {kind[:-1]}"
                    )

    def _tables(self) -> list[tuple[str, Mapping[str, Tensor], int]]:
        return [
            ("nodes", self.nodes, self.num_nodes),
            ("edges", self.edges, self.num_edges),
            ("graphs", self.graphs, len(self)),
        ]

    def __len__(self) -> int:
        return len(self.node_pointer) - 1

    def __repr__(self) -> str:
        names = [f"{kind}=[{', '.join(values)}]" for kind, values, _ in self._tables() if values]
        counts = [f"graphs={len(self)}", f"nodes={self.num_nodes}", f"edges={self.num_edges}"]
        return f"{type(self).__name__}({', '.join(counts)}{'; ' if names else ''}{', '.join(names)})"

    @property
    def num_nodes(self) -> int:
        return int(self.node_pointer[-1])

    @property
    def num_edges(self) -> int:
        return int(self.edge_pointer[-1])

    @property
    def graph(self) -> Graph:
        """All graphs side by side as one."""
        self._check_ends()
        first = self.node_pointer[:-1].repeat_interleave(self.edge_pointer.diff())
        number = torch.arange(len(self), device=first.device).repeat_interleave(self.node_pointer.diff())
        return as_graph(self.edge_index.long() + first, self.num_nodes, number, len(self))

    def _check_ends(self) -> None:
        """Refuse edges that leave their graph."""
        index, nodes = self.edge_index.long(), self.node_pointer.diff()
        outside = (index < 0) | (index >= nodes.repeat_interleave(self.edge_pointer.diff()))
        if bool(outside.any()):
            bad = int(outside.any(dim=0).nonzero()[0])
            owner = int((self.edge_pointer <= bad).sum()) - 1
            raise ValueError(
                f"edge_index: expected nodes from 0 to below the {int(nodes[owner])} of their own "
                f"graph, got {self.edge_index[:, bad].tolist()} in graph {owner}; count nodes from the first of each "
                "graph, and isolated ones too"
            )

    def __getitem__(self, number: int) -> "Data":
        """One graph as a PyG ``Data``."""
        from torch_geometric.data import Data

        if not -len(self) <= number < len(self):
            raise IndexError(f"graph: expected a number below {len(self)}, got {number}")
        one = self.select(torch.tensor([number % len(self)]))
        data = Data(edge_index=one.edge_index.long(), num_nodes=one.num_nodes)
        for name, value in {**one.nodes, **one.edges, **one.graphs}.items():
            data[name] = value
        return data

    def select(self, numbers: Tensor) -> "PackedGraphs":
        """Some of the graphs, by their numbers from 0, in the order given."""
        if len(numbers) and not 0 <= int(numbers.min()) <= int(numbers.max()) < len(self):
            raise IndexError(
                f"numbers: expected graphs from 0 to below {len(self)}, got {int(numbers.min())} to "
                f"{int(numbers.max())}; count from the first graph"
            )
        node, node_pointer = _rows(self.node_pointer, numbers)
        edge, edge_pointer = _rows(self.edge_pointer, numbers)
        return replace(
            self,
            node_pointer=node_pointer,
            edge_pointer=edge_pointer,
            edge_index=self.edge_index[:, edge],
            nodes={name: value[node] for name, value in self.nodes.items()},
            edges={name: value[edge] for name, value in self.edges.items()},
            graphs={name: value[numbers] for name, value in self.graphs.items()},
        )

    def with_values(
        self,
        nodes: Mapping[str, Tensor] | None = None,
        edges: Mapping[str, Tensor] | None = None,
        graphs: Mapping[str, Tensor] | None = None,
    ) -> "PackedGraphs":
        """The same graphs with more values, or other values of the same name."""
        return replace(
            self,
            nodes={**self.nodes, **(nodes or {})},
            edges={**self.edges, **(edges or {})},
            graphs={**self.graphs, **(graphs or {})},
        )

    def to(self, device: torch.device | str) -> "PackedGraphs":
        moved = {name: tensor.to(device) for name, tensor in self._tensors().items()}
        return _from_tensors(moved, self.info)

    @classmethod
    def pack(cls, graphs: Iterable[tuple[Tensor, int]]) -> "PackedGraphs":
        """Graphs given as pairs of ``edge_index`` and number of nodes."""
        given = list(graphs)
        edges = [torch.empty(2, 0, dtype=torch.long), *(edge_index for edge_index, _ in given)]
        return cls(
            _pointer(torch.tensor([count for _, count in given], dtype=torch.long)),
            _pointer(torch.tensor([edge_index.size(1) for edge_index, _ in given], dtype=torch.long)),
            torch.cat(edges, dim=1),
        )

    @classmethod
    def from_data(cls, dataset: Iterable[Any]) -> "PackedGraphs":
        """A PyG dataset or list of ``Data``: every tensor or number with a row per node, edge or graph is kept.

        What has neither a row per node nor per edge in every graph belongs to the graphs: [T] and [1, T] become
        [G, T], one number becomes [G].
        """
        given = list(dataset)
        for number, data in enumerate(given):
            if getattr(data, "ptr", None) is not None:
                raise ValueError(
                    f"graph {number}: expected one graph, got a Batch of {data.num_graphs}; give the dataset "
                    "instead of its loader, or batch.to_data_list()"
                )
            if getattr(data, "edge_index", None) is None:
                raise ValueError(
                    f"graph {number}: expected a PyG Data with edge_index, got {type(data).__name__} without; give a "
                    "list of Data, those without edges with an edge_index of shape [2, 0]"
                )
        packed = cls.pack([(data.edge_index, data.num_nodes) for data in given])
        packed._check_ends()
        return packed.with_values(**tables(given))

    def _tensors(self) -> dict[str, Tensor]:
        named = {name: getattr(self, name) for name in STRUCTURE}
        return named | {f"{kind}.{name}": value for kind, values, _ in self._tables() for name, value in values.items()}

    def checksum(self) -> str:
        """A digest of everything but ``info``."""
        return digest(self._tensors())

    def save(self, path: str | Path) -> None:
        """Write one file, in full or not at all; one called ``.npz`` is compressed, and does without ``info``."""
        if Path(path).suffix == ".npz":
            write_numpy(Path(path), self._tensors())
            return
        write_tensors(
            Path(path), self._tensors(), {"format": FORMAT, "info": json.dumps(dict(self.info), sort_keys=True)}
        )

    @classmethod
    def load(cls, path: str | Path, check: bool = True) -> "PackedGraphs":
        """Map a file that :meth:`save` wrote into memory; ``check`` compares its checksum first.

        Arrays packed by NumPy are read too: an ``.npz`` with ``node_ptr``, ``edge_ptr`` and a local ``edge_index``
        (:func:`dgn.data.io.files.read_numpy`).
        """
        path = Path(path)
        if not path.exists():
            raise FileNotFoundError(f"{path}: expected a file of packed graphs, found nothing; check the path")
        if path.suffix == ".npz":
            return _from_tensors(read_numpy(path), {})
        tensors, about = read_tensors(path, FORMAT, check)
        return _from_tensors(tensors, json.loads(about["info"]))


def _from_tensors(tensors: Mapping[str, Tensor], info: Mapping[str, str]) -> PackedGraphs:
    values: dict[str, dict[str, Tensor]] = {"nodes": {}, "edges": {}, "graphs": {}}
    for name in sorted(tensors.keys() - STRUCTURE):
        kind, _, own = name.partition(".")
        values[kind][own] = tensors[name]
    node, edge, index = (tensors[name] for name in STRUCTURE)
    return PackedGraphs(node, edge, index, values["nodes"], values["edges"], values["graphs"], info)


def _rows(pointer: Tensor, numbers: Tensor) -> tuple[Tensor, Tensor]:
    """The rows that some of the graphs own, and where those of each begin among them."""
    count = pointer.diff()[numbers]
    moved = _pointer(count)
    shift = (pointer[numbers] - moved[:-1]).repeat_interleave(count)
    return torch.arange(int(moved[-1]), device=pointer.device) + shift, moved


def _pointer(count: Tensor) -> Tensor:
    return torch.nn.functional.pad(count.cumsum(0), (1, 0))
