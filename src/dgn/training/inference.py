"""Networks that were trained, read again from their run folders and asked about the graphs of a part."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from dgn.data.benchmark import Benchmark, with_fraction
from dgn.data.datasets.from_graphs import as_2d_features
from dgn.data.packed import PackedGraphs
from dgn.data.precompute.directions import add_directions
from dgn.data.precompute.encodings import add_encodings
from dgn.graph.checks import check_option
from dgn.graph.columns import as_columns
from dgn.nn import DGN, Ensemble
from dgn.training.build import build_network
from dgn.training.checkpoint import MODEL, load_checkpoint
from dgn.training.devices import choose_device, matrix_precision
from dgn.training.ensemble_inference import ask
from dgn.training.experiment import Experiment, read_experiment
from dgn.training.load import load_graphs
from dgn.training.shared_data import SPLITS, check_structure, first_directions
from dgn.training.tta import last_coordinate

OF_GRAPHS = {"structure", "edge_encoder"}  # with buffers that training graphs decide: scales, kinds of edges


class TrainedModel(NamedTuple):
    """A network as it was scored, in evaluation mode, its experiment, its graphs, and its scores of every part."""

    experiment: Experiment
    network: DGN | Ensemble
    benchmark: Benchmark
    metrics: dict[str, dict[str, float]]


class Predicted(NamedTuple):
    """What a network says, and what is so: a row for each graph of a part, or for each of its nodes.

    Shapes:
        ``said`` [R, T]; ``truth`` [R, T], or [R] where it is the number of one of T classes.
    """

    said: Tensor
    truth: Tensor


def load_trained(folder: str | Path, data: Benchmark | str | Path | None = None) -> TrainedModel:
    """The network of one seed, from a folder such as ``runs/zinc/plus/seed-1``.

    Its encoders depend on the graphs that it was trained with. They are loaded from where they were then; ``data``
    is another place, or the graphs themselves. Reading a network runs no code from its file.
    """
    path = Path(folder) / MODEL
    if not path.is_file():
        raise FileNotFoundError(
            f"{folder}: expected the folder of a finished seed, such as runs/zinc/plus/seed-1, got none with {MODEL}; "
            "name another, or finish the training"
        )
    weights, about = load_checkpoint(path)
    experiment = read_experiment(about["experiment"])
    if isinstance(data, str | Path):
        experiment = replace(experiment, data=replace(experiment.data, path=str(data)))
    elif not isinstance(data, Benchmark | None):
        raise TypeError(
            f"data: expected a path, or a Benchmark such as dgn.data.benchmark_from_graphs gives, got "
            f"{type(data).__name__}; leave it out to load the graphs from where they were"
        )
    benchmark = data if isinstance(data, Benchmark) else load_graphs(experiment)
    benchmark = with_fraction(benchmark, experiment.data.train_fraction)
    check_structure(experiment, benchmark)
    network = build_network(experiment.network, benchmark, about["delta"])
    changed = [
        name
        for name, value in network.named_buffers()
        if OF_GRAPHS.intersection(name.split(".")) and name in weights and not _same(value, weights[name])
    ]
    problem = f"their {changed[0]} differs" if changed else ""
    try:
        network.load_state_dict(weights)
    except RuntimeError as told:
        problem = str(told)
    if problem:
        raise ValueError(
            f"{path}: expected the graphs of {experiment.data.dataset} that it was trained with, got others, "
            f"{problem}; name the place of the right ones"
        )
    return TrainedModel(experiment, network.eval(), benchmark, about["metrics"])


def predict_split(trained: TrainedModel, part: str, device: str = "auto") -> Predicted:
    """What a network says of the graphs of ``part``: train, val or test, in the order of the dataset.

    Law: scores of it are those of the run, up to rounding.
    """
    check_option("part", part, SPLITS)
    graphs, objective = trained.benchmark.graphs, trained.benchmark.objective
    chosen = graphs.select((graphs.graphs["split"] == SPLITS.index(part)).nonzero()[:, 0])
    said, truth = predict_graphs(trained, chosen, device), (chosen.nodes if "y" in chosen.nodes else chosen.graphs)["y"]
    return Predicted(said, truth.flatten() if objective.endswith("classification") else truth.view_as(said))


def predict_graphs(trained: TrainedModel, graphs: PackedGraphs | Iterable[Any], device: str = "auto") -> Tensor:
    """What a network says of other graphs, packed or PyG's ``Data``, a row for each graph or node: [R, T].

    They have features as the graphs have that it was trained with, and a field where those came with one; eigenvectors,
    structural numbers are added.
    """
    packed = graphs if isinstance(graphs, PackedGraphs) else PackedGraphs.from_data(graphs)
    if not len(packed):
        return torch.zeros(0, trained.benchmark.num_targets)
    chosen, settings = choose_device(device), trained.experiment.network
    trained.network.to(chosen)
    packed = complete(trained, packed)
    _check_features(trained, packed)
    with matrix_precision(trained.experiment.training.precision):
        return ask([trained.network], settings, trained.benchmark.num_targets, packed, chosen, _coordinates(trained))[0]


def complete(trained: TrainedModel, graphs: PackedGraphs) -> PackedGraphs:
    """Graphs with all values that a network reads, added as in training where they are missing."""
    known, data, wanted = trained.benchmark, trained.experiment.data, trained.experiment.num_directions
    graphs = as_2d_features(graphs)
    if known.structure is not None and "structure" not in graphs.nodes:
        graphs = add_encodings(graphs, known.structure)
    given = graphs.edges["field"].size(1) if "field" in graphs.edges else 0
    if given >= wanted:
        return graphs if given == wanted or known.coordinates else first_directions(graphs, wanted)
    if known.coordinates:
        raise ValueError(
            f"field: expected {wanted} directions of each edge, as {known.name} has, got {given}; add them with "
            "dgn.transforms.AddCoordinates, or as they were made for training"
        )
    return add_directions(graphs, wanted, data.normalization)


def _coordinates(trained: TrainedModel) -> Tensor | None:
    """The inputs that are mirrored: decided by all graphs, for in a few an input may be a coordinate by chance."""
    if not trained.experiment.network.tta_mirror:
        return None
    nodes = trained.benchmark.graphs.nodes
    return last_coordinate(as_columns(nodes["x"]), nodes["potential"])


def _check_features(trained: TrainedModel, graphs: PackedGraphs) -> None:
    """Nodes, and edges where they are read, have as many columns as in training, of categories or of numbers."""
    known, network = trained.benchmark, trained.experiment.network
    edges = [("edge_attr", graphs.edges, known.graphs.edges)] if network.edge_dim else []
    for name, here, there in (("x", graphs.nodes, known.graphs.nodes), *edges):
        wanted, given = _describe(there[name]), _describe(here[name]) if name in here else "nothing"
        if given != wanted:
            raise ValueError(f"{name}: expected {wanted}, as {known.name} has, got {given}; give features as there")
    if network.reads_potential and "potential" not in graphs.nodes:
        raise ValueError(
            f"potential: expected numbers of nodes, as {known.name} has, got none; add them as they were "
            "made for training, as dgn.transforms.AddCoordinates does"
        )


def _describe(values: Tensor) -> str:
    kind = "numbers" if values.is_floating_point() else "categories"
    return f"{kind} in {as_columns(values).size(1)} columns"


def _same(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and torch.allclose(one, other)
