"""Predictions of trained networks, loaded from run folders, on a split or on new graphs."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from dgn.data.benchmark import Benchmark, with_fraction
from dgn.data.datasets.from_graphs import as_2d_features
from dgn.data.loader.device_dataset import DeviceDataset
from dgn.data.packed import PackedGraphs
from dgn.data.precompute.directions import add_directions
from dgn.data.precompute.encodings import add_encodings
from dgn.graph.checks import check_option
from dgn.graph.columns import as_columns
from dgn.nn import DGN, Ensemble
from dgn.training.build import build_network
from dgn.training.checkpoint import MODEL, load_checkpoint
from dgn.training.config import NetworkSettings
from dgn.training.devices import choose_device, dataset_device, matrix_precision
from dgn.training.evaluate import predict_mean, required_inputs
from dgn.training.experiment import Experiment, read_experiment
from dgn.training.load import load_graphs
from dgn.training.shared_data import SPLITS, check_structure, first_directions
from dgn.training.tta import last_coordinate, reflect_weights, tta_mirror

BATCH_SIZE = 128  # graphs in a batch of inference
DATA_DEPENDENT = {"structure", "edge_encoder"}  # modules whose buffers the training graphs decide


class TrainedModel(NamedTuple):
    """A network in evaluation mode as it was scored, its experiment, its graphs, and its scores by split."""

    experiment: Experiment
    network: DGN | Ensemble
    benchmark: Benchmark
    metrics: dict[str, dict[str, float]]


class SplitPrediction(NamedTuple):
    """Predictions and targets of a split, one row for each graph or node.

    Shapes:
        ``prediction`` [R, T]; ``target`` [R, T], or [R] where it is the index of one of T classes.
    """

    prediction: Tensor
    target: Tensor


def load_trained(folder: str | Path, data: Benchmark | str | Path | None = None) -> TrainedModel:
    """The trained network of one seed, from a folder such as ``runs/zinc/plus/seed-1``.

    Its encoders depend on its training graphs. These are loaded from where they were at training; ``data`` is another
    path, or the graphs themselves. Loading a network runs no code from its file.
    """
    path = Path(folder) / MODEL
    if not path.is_file():
        raise FileNotFoundError(
            f"{folder}: expected the folder of a finished seed, such as runs/zinc/plus/seed-1, got none with {MODEL}; "
            "name another, or finish the training"
        )
    weights, metadata = load_checkpoint(path)
    experiment = read_experiment(metadata["experiment"])
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
    network = build_network(experiment.network, benchmark, metadata["delta"])
    changed = [
        name
        for name, value in network.named_buffers()
        if DATA_DEPENDENT.intersection(name.split(".")) and name in weights and not _equal(value, weights[name])
    ]
    problem = f"their {changed[0]} differs" if changed else ""
    try:
        network.load_state_dict(weights)
    except RuntimeError as error:
        problem = str(error)
    if problem:
        raise ValueError(
            f"{path}: expected the graphs of {experiment.data.dataset} that it was trained with, got others, "
            f"{problem}; pass the path of the right ones"
        )
    return TrainedModel(experiment, network.eval(), benchmark, metadata["metrics"])


def predict_split(trained: TrainedModel, split: str, device: str = "auto") -> SplitPrediction:
    """Predictions and targets of a ``split``, train, val or test, in the order of the dataset.

    Law: their scores are those of the run, up to rounding.
    """
    check_option("split", split, SPLITS)
    graphs, objective = trained.benchmark.graphs, trained.benchmark.objective
    selected = graphs.select((graphs.graphs["split"] == SPLITS.index(split)).nonzero()[:, 0])
    prediction = predict_graphs(trained, selected, device)
    target = (selected.nodes if "y" in selected.nodes else selected.graphs)["y"]
    has_classes = objective.endswith("classification")
    return SplitPrediction(prediction, target.flatten() if has_classes else target.view_as(prediction))


def predict_graphs(trained: TrainedModel, graphs: PackedGraphs | Iterable[Any], device: str = "auto") -> Tensor:
    """Predictions on new graphs, packed or PyG's ``Data``, one row for each graph or node: [R, T].

    New graphs need the features of the training graphs, and a field where those came with one. Eigenvectors and
    structural encodings are added.
    """
    packed = graphs if isinstance(graphs, PackedGraphs) else PackedGraphs.from_data(graphs)
    if not len(packed):
        return torch.zeros(0, trained.benchmark.num_targets)
    chosen, settings = choose_device(device), trained.experiment.network
    trained.network.to(chosen)
    packed = add_required_inputs(trained, packed)
    _check_features(trained, packed)
    with matrix_precision(trained.experiment.training.precision):
        targets, coordinates = trained.benchmark.num_targets, _coordinates(trained)
        return predict_ensemble([trained.network], settings, targets, packed, chosen, coordinates)[0]


@torch.no_grad()
def predict_ensemble(
    networks: Sequence[DGN | Ensemble],
    settings: NetworkSettings,
    targets: int,
    graphs: PackedGraphs,
    device: torch.device,
    coordinates: Tensor | None = None,
) -> Tensor:
    """Predictions of M networks with the same settings, one row for each graph or node: [M, R, T] on the CPU.

    ``graphs`` have all inputs that the networks read. The networks are on ``device``, in evaluation mode. With
    ``tta_mirror``, ``coordinates`` [C] masks the features that are reflected (without: those that equal the last
    coordinate in these graphs).
    Laws: a prediction depends neither on the other graphs nor on their order, up to rounding.
    """
    plan, of_nodes = settings.plan, settings.readout == "nodes"
    dataset = DeviceDataset(graphs, required_inputs(settings, graphs), dataset_device(graphs, device))
    dataset.weights = plan.compute_weights(dataset.edges.get("field"), dataset.graph, dataset.nodes.get("gap"))
    if settings.tta_mirror:
        dataset.mirrored = reflect_weights(plan, dataset)
    dataset.edges.pop("field", None)
    dataset.nodes.pop("gap", None)
    views = tta_mirror(dataset, coordinates) if settings.tta_mirror else (dataset,)
    predictions = [torch.zeros(len(networks), 0, targets)]
    for index in torch.split(torch.arange(len(graphs)), BATCH_SIZE):
        if not len(index):
            continue
        shape = dataset.smallest_shape(index[None])
        batches = [next(iter(view.gather(index[None], shape).to(device))) for view in views]
        rows = int(dataset.node_count[index].sum()) if of_nodes else len(index)  # padding comes after them
        members = [predict_mean(network, batches)[:rows] for network in networks]
        predictions.append(torch.stack(members).float().cpu())
    return torch.cat(predictions, dim=1)


def add_required_inputs(trained: TrainedModel, graphs: PackedGraphs) -> PackedGraphs:
    """Graphs with all inputs that a network reads; missing directions and encodings are computed as in training."""
    benchmark, data, expected = trained.benchmark, trained.experiment.data, trained.experiment.num_directions
    graphs = as_2d_features(graphs)
    if benchmark.structure is not None and "structure" not in graphs.nodes:
        graphs = add_encodings(graphs, benchmark.structure)
    directions = graphs.edges["field"].size(1) if "field" in graphs.edges else 0
    if directions >= expected:
        return graphs if directions == expected or benchmark.coordinates else first_directions(graphs, expected)
    if benchmark.coordinates:
        raise ValueError(
            f"field: expected {expected} directions of each edge, as in {benchmark.name}, got {directions}; add them "
            "with dgn.transforms.AddCoordinates, or as they were made for training"
        )
    return add_directions(graphs, expected, data.normalization)


def _coordinates(trained: TrainedModel) -> Tensor | None:
    """Mask of the features to reflect, decided by all training graphs: in a few, a feature may match by chance."""
    if not trained.experiment.network.tta_mirror:
        return None
    nodes = trained.benchmark.graphs.nodes
    return last_coordinate(as_columns(nodes["x"]), nodes["potential"])


def _check_features(trained: TrainedModel, graphs: PackedGraphs) -> None:
    """Refuse node features, and edge features that are read, of another type or width than in training."""
    benchmark, network = trained.benchmark, trained.experiment.network
    edges = [("edge_attr", graphs.edges, benchmark.graphs.edges)] if network.edge_dim else []
    for name, new, training in (("x", graphs.nodes, benchmark.graphs.nodes), *edges):
        expected, got = _describe(training[name]), _describe(new[name]) if name in new else "nothing"
        if got != expected:
            raise ValueError(f"{name}: expected {expected}, as in {benchmark.name}, got {got}; pass the same features")
    if network.reads_potential and "potential" not in graphs.nodes:
        raise ValueError(
            f"potential: expected values of nodes, as in {benchmark.name}, got none; add them as they were made for "
            "training, as dgn.transforms.AddCoordinates does"
        )


def _describe(values: Tensor) -> str:
    name = "numbers" if values.is_floating_point() else "categories"
    return f"{name} in {as_columns(values).size(1)} columns"


def _equal(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and torch.allclose(one, other)
