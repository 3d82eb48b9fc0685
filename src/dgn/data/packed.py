"""A dataset of graphs in flat arrays."""

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
from dgn.graph.checks import check_inferred_nodes

if TYPE_CHECKING:
    from torch_geometric.data import Data

FORMAT = "dgn graphs 1"
STRUCTURE = ("node_pointer", "edge_pointer", "edge_index")


@dataclass(frozen=True, eq=False, repr=False)
class PackedGraphs:
    """Concatenated graphs with named node, edge and graph tensors.

    Graph g has the nodes ``node_pointer[g]`` to ``node_pointer[g + 1]`` (exclusive), and likewise its edges;
    ``edge_index`` is local: nodes are numbered from 0 within each graph.

    Shapes:
        ``node_pointer`` and ``edge_pointer`` [G + 1] int64, ``edge_index`` [2, E] of any integer dtype; ``nodes``,
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
                    f"{name}: expected [graphs + 1] offsets, from 0 and non-decreasing, got shape "
                    f"{list(pointer.shape)}; they are the cumulative sums of the graphs' sizes"
                )
        if self.edge_index.shape != (2, self.num_edges) or len(self.node_pointer) != len(self.edge_pointer):
            raise ValueError(
                f"edge_index: expected shape [2, {self.num_edges}] for {len(self.node_pointer) - 1} graphs, got "
                f"{list(self.edge_index.shape)} and {len(self.edge_pointer) - 1} graphs of edges; the file may be "
                "truncated"
            )
        for level, tensors, rows in self._tables():
            for name, tensor in tensors.items():
                if len(tensor) != rows:
                    raise ValueError(
                        f"{level}[{name!r}]: expected {rows} rows, got {len(tensor)}; give one per {level[:-1]}"
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
        names = [f"{level}=[{', '.join(tensors)}]" for level, tensors, _ in self._tables() if tensors]
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
        """All graphs as one disconnected graph, with its ``batch`` vector."""
        self._check_edge_index()
        first = self.node_pointer[:-1].repeat_interleave(self.edge_pointer.diff())
        batch = torch.arange(len(self), device=first.device).repeat_interleave(self.node_pointer.diff())
        return as_graph(self.edge_index.long() + first, self.num_nodes, batch, len(self))

    def _check_edge_index(self) -> None:
        """Refuse edges to nodes outside their graph."""
        index, nodes = self.edge_index.long(), self.node_pointer.diff()
        outside = (index < 0) | (index >= nodes.repeat_interleave(self.edge_pointer.diff()))
        if bool(outside.any()):
            edge = int(outside.any(dim=0).nonzero()[0])
            graph = int((self.edge_pointer <= edge).sum()) - 1
            raise ValueError(
                f"edge_index: expected nodes below {int(nodes[graph])}, the size of their graph, got "
                f"{self.edge_index[:, edge].tolist()} in graph {graph}; number the nodes of each graph from 0, "
                "isolated nodes included"
            )

    def __getitem__(self, index: int) -> "Data":
        """One graph as a PyG ``Data``."""
        from torch_geometric.data import Data

        if not -len(self) <= index < len(self):
            raise IndexError(f"graph: expected an index below {len(self)}, got {index}")
        single = self.select(torch.tensor([index % len(self)]))
        data = Data(edge_index=single.edge_index.long(), num_nodes=single.num_nodes)
        for name, value in {**single.nodes, **single.edges, **single.graphs}.items():
            data[name] = value
        return data

    def select(self, index: Tensor) -> "PackedGraphs":
        """The graphs at ``index``, in that order; an index may be repeated."""
        if len(index) and not 0 <= int(index.min()) <= int(index.max()) < len(self):
            raise IndexError(
                f"index: expected graphs from 0 to below {len(self)}, got {int(index.min())} to {int(index.max())}; "
                "count from the first graph"
            )
        node, node_pointer = _rows(self.node_pointer, index)
        edge, edge_pointer = _rows(self.edge_pointer, index)
        return replace(
            self,
            node_pointer=node_pointer,
            edge_pointer=edge_pointer,
            edge_index=self.edge_index[:, edge],
            nodes={name: value[node] for name, value in self.nodes.items()},
            edges={name: value[edge] for name, value in self.edges.items()},
            graphs={name: value[index] for name, value in self.graphs.items()},
        )

    def with_values(
        self,
        nodes: Mapping[str, Tensor] | None = None,
        edges: Mapping[str, Tensor] | None = None,
        graphs: Mapping[str, Tensor] | None = None,
    ) -> "PackedGraphs":
        """The same graphs with further tensors; those of the same name are replaced."""
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
        """Packed graphs from pairs of ``edge_index`` and number of nodes."""
        pairs = list(graphs)
        edges = [torch.empty(2, 0, dtype=torch.long), *(edge_index for edge_index, _ in pairs)]
        return cls(
            row_pointer(torch.tensor([num_nodes for _, num_nodes in pairs], dtype=torch.long)),
            row_pointer(torch.tensor([edge_index.size(1) for edge_index, _ in pairs], dtype=torch.long)),
            torch.cat(edges, dim=1),
        )

    @classmethod
    def from_data(cls, dataset: Iterable[Any]) -> "PackedGraphs":
        """Packed graphs from a PyG dataset or list of ``Data``, with all their tensors and numbers.

        An attribute without a row per node or per edge in every graph is a graph-level attribute: [T] and [1, T]
        become [G, T], scalars become [G].
        """
        graphs = list(dataset)
        for index, data in enumerate(graphs):
            if getattr(data, "ptr", None) is not None:
                raise ValueError(
                    f"graph {index}: expected one graph, got a Batch of {data.num_graphs}; give the dataset "
                    "instead of its loader, or batch.to_data_list()"
                )
            if getattr(data, "edge_index", None) is None:
                raise ValueError(
                    f"graph {index}: expected a PyG Data with edge_index, got {type(data).__name__} without; give a "
                    "list of Data, with an edge_index of shape [2, 0] for graphs without edges"
                )
        for data in graphs:  # PyG may have inferred the number of nodes from the highest one
            check_inferred_nodes(data.num_nodes - 1, data.edge_index.size(1))
        packed = cls.pack([(data.edge_index, data.num_nodes) for data in graphs])
        packed._check_edge_index()
        return packed.with_values(**tables(graphs))

    def _tensors(self) -> dict[str, Tensor]:
        structure = {name: getattr(self, name) for name in STRUCTURE}
        return structure | {
            f"{level}.{name}": tensor for level, tensors, _ in self._tables() for name, tensor in tensors.items()
        }

    def checksum(self) -> str:
        """A SHA-256 digest of all tensors, without ``info``."""
        return digest(self._tensors())

    def save(self, path: str | Path) -> None:
        """Write one file atomically, with ``info``; an ``.npz`` is compressed, a ``.parquet`` has a row per graph."""
        if Path(path).suffix == ".npz":
            write_numpy(Path(path), self._tensors(), self.info)
            return
        if Path(path).suffix == ".parquet":
            from dgn.data.io.sources import save_table

            save_table(self, Path(path))
            return
        write_tensors(
            Path(path), self._tensors(), {"format": FORMAT, "info": json.dumps(dict(self.info), sort_keys=True)}
        )

    @classmethod
    def load(cls, path: str | Path, check: bool = True) -> "PackedGraphs":
        """Memory-map a file written by :meth:`save`; ``check`` verifies its checksum first.

        An ``.npz`` with ``node_ptr``, ``edge_ptr`` and a local ``edge_index`` is read too
        (:func:`dgn.data.io.files.read_numpy`).
        """
        path = Path(path)
        if not path.exists():
            raise FileNotFoundError(f"{path}: expected a file of packed graphs, found nothing; check the path")
        if path.suffix == ".npz":
            try:
                return _from_tensors(*read_numpy(path))
            except ValueError as error:
                raise ValueError(str(error) if str(path) in str(error) else f"{path}: {error}") from error
        tensors, metadata = read_tensors(path, FORMAT, check)
        return _from_tensors(tensors, json.loads(metadata["info"]))


def _from_tensors(tensors: Mapping[str, Tensor], info: Mapping[str, str]) -> PackedGraphs:
    tables: dict[str, dict[str, Tensor]] = {"nodes": {}, "edges": {}, "graphs": {}}
    for key in sorted(tensors.keys() - STRUCTURE):
        level, _, name = key.partition(".")
        tables[level][name] = tensors[key]
    node, edge, index = (tensors[name] for name in STRUCTURE)
    return PackedGraphs(node, edge, index, tables["nodes"], tables["edges"], tables["graphs"], info)


def _rows(pointer: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
    """The rows of the graphs at ``index``, and the pointer of the selection."""
    count = pointer.diff()[index]
    selected = row_pointer(count)
    shift = (pointer[index] - selected[:-1]).repeat_interleave(count)
    return torch.arange(int(selected[-1]), device=pointer.device) + shift, selected


def row_pointer(count: Tensor) -> Tensor:
    """The first row of each graph, and the end of the last, from the sizes of the graphs: [G] -> [G + 1]."""
    return torch.nn.functional.pad(count.cumsum(0), (1, 0))
