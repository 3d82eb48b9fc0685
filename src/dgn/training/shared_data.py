"""What all seeds of an experiment share: graphs on the device, splits, the objective."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from dgn.aggregation import ScalerKey, degree_scalers
from dgn.aggregation.scalers import mean_log_degree
from dgn.data.benchmark import CENSORING, SAMPLE_WEIGHT, Benchmark, graphs_in_split, with_fraction
from dgn.data.datasets.paths import cache_root
from dgn.data.loader.device_dataset import DeviceDataset
from dgn.data.loader.eigenspaces import find_eigenspaces
from dgn.data.loader.static_batch import StaticBatches
from dgn.data.packed import PackedGraphs
from dgn.graph.checks import check_directions
from dgn.training.augment import changes_field, mirrors_alone
from dgn.training.config import NetworkSettings
from dgn.training.devices import dataset_device
from dgn.training.evaluate import Split, required_inputs
from dgn.training.experiment import Experiment
from dgn.training.finetune import check_inputs, read_initial
from dgn.training.model_io import StoredModel
from dgn.training.objectives import Objective, make_objective
from dgn.training.preprocessing import preprocess
from dgn.training.replica import cut
from dgn.training.signature import Signature
from dgn.training.tta import reflect_weights, tta_mirror

SPLITS = ("train", "val", "test")


class SharedData(NamedTuple):
    """What all seeds share: graphs on the device, the splits, the objective that they are trained for.

    ``sizes`` are the numbers of what is ``counted`` in the splits, graphs or nodes; ``note`` describes graphs that are
    not official; ``initial`` is the model whose weights are the first ones (``training.from``).
    """

    store: DeviceDataset
    training: Tensor
    splits: dict[str, Split]
    objective: Objective
    signature: Signature
    counted: str
    sizes: dict[str, int]
    note: str = ""
    initial: StoredModel | None = None

    @property
    def delta(self) -> float:
        """The mean of log(degree + 1) over the training nodes."""
        return self.signature.delta

    def fork(self) -> dict[str, Split]:
        return {name: split.fork() for name, split in self.splits.items()}


def prepare(experiment: Experiment, benchmark: Benchmark, device: torch.device) -> SharedData:
    """Bring the graphs of an experiment to the device, with the weights of their field."""
    data, network = experiment.data, experiment.network
    check_structure(experiment, benchmark)
    _check_readout(network.readout, benchmark)
    _check_field(network, benchmark)
    _check_augmentation(experiment)
    objective = make_objective(benchmark.objective, experiment.training.metric or benchmark.metric)
    trained_for = objective.smoothed(experiment.training.label_smoothing)
    benchmark = with_fraction(benchmark, data.train_fraction)
    signature, initial = Signature.of(experiment, benchmark), read_initial(experiment)
    if initial is not None:
        check_inputs(signature, initial)
    graphs = preprocess(benchmark.graphs, signature, cache_root() / "directions")
    numbers = [graphs_in_split(graphs, split) for split in range(3)]
    for name, chosen in zip(SPLITS, numbers, strict=True):
        if not len(chosen):
            raise ValueError(
                f"split: expected graphs for train, val and test, got none for {name}; see graphs['split']"
            )
    names, plan = _names(experiment, benchmark, graphs), network.plan
    store = DeviceDataset(graphs, names, dataset_device(graphs, device))
    store.weights = plan.compute_weights(store.edges.get("edge_field"), store.graph, store.nodes.get("gap"))
    assert store.graph.batch is not None
    shown = torch.isin(store.graph.batch, numbers[0].to(store.device))
    delta = mean_log_degree(store.graph.in_degree[shown]) if initial is None else initial.signature.delta
    if experiment.augmentation.input_noise:
        store.deviation = store.nodes["x"][shown].float().std(dim=0, unbiased=False)
    if network.scalers != ("identity",):
        key = ScalerKey(network.scalers, delta, torch.float32)
        store.scalers = key, degree_scalers(store.graph.in_degree, *key)
    if network.tta_mirror or mirrors_alone(experiment.augmentation):
        store.mirrored = reflect_weights(plan, store)
    if mirrors_alone(experiment.augmentation) or not changes_field(experiment.augmentation):
        store.edges.pop("edge_field", None)  # all weights are known: nobody reads it again
        store.nodes.pop("gap", None)
    elif "edge_field" not in store.edges:
        raise ValueError(
            f"augmentation: expected a network that reads a field, got aggregators {', '.join(network.aggregators)}; "
            "leave it out, or set data.directions"
        )
    if experiment.augmentation.resample:
        store.eigenspaces = find_eigenspaces(graphs, store.graph, data.normalization)
    splits = _make_splits(experiment, store, numbers, objective, benchmark.num_targets, device)
    counted = "nodes" if "split" in graphs.nodes else "graphs"
    sizes = {name: int((getattr(graphs, counted)["split"] == split).sum()) for split, name in enumerate(SPLITS)}
    signature = signature.with_delta(delta)
    return SharedData(store, numbers[0], splits, trained_for, signature, counted, sizes, benchmark.note, initial)


def _make_splits(
    experiment: Experiment,
    store: DeviceDataset,
    numbers: Sequence[Tensor],
    objective: Objective,
    targets: int,
    device: torch.device,
) -> dict[str, Split]:
    """The batches of each split, whose graphs are ``numbers``; with test-time augmentation, of both images."""
    sides = tta_mirror(store) if experiment.network.tta_mirror else (store,)
    splits: dict[str, Split] = {}
    gathered: tuple[Tensor, list[StaticBatches]] | None = None
    for name, chosen in zip(SPLITS, numbers, strict=True):
        # Training graphs that did not fit the device fit it no better as batches.
        place = store.device if name == "train" else device
        if gathered is None or not torch.equal(gathered[0], chosen):  # splits of the nodes of one graph share it
            cuts = cut(chosen, experiment.training.batch_size)
            shape = store.smallest_shape(cuts)._replace(padded=True)
            gathered = chosen, [side.gather(cuts, shape) for side in sides]
        batches = [batch.to(place) for batch in gathered[1]]
        splits[name] = Split(batches, objective, targets, device, SPLITS.index(name))
        _check_targets(splits[name], name)
    return splits


def _names(experiment: Experiment, benchmark: Benchmark, graphs: PackedGraphs) -> dict[str, list[str]]:
    """The values that training reads: those of the network, of augmentation, and the targets."""
    augmentation = experiment.augmentation
    distorts_potential = augmentation.distortion > 0 and augmentation.distortion_of == "potential"
    reads_potential = experiment.network.reads_potential or distorts_potential
    wanted = {
        "node_potential": _needs_coordinates(experiment, benchmark) or reads_potential,
        "component": augmentation.reflection,
        "y": True,
        "split": True,
    }
    if wanted["node_potential"] and "node_potential" not in graphs.nodes:
        raise ValueError(
            "potential: expected values of nodes for network.num_eigenvector_features, the directional readout, "
            "network.tta_mirror, augmentation.mirror, cutout or distortion_of: potential, got graphs with a field "
            "alone; give them a potential too, as AddCoordinates does"
        )
    names = required_inputs(experiment.network, graphs)
    more = [name for name, is_read in wanted.items() if is_read and name in graphs.nodes]
    nodes = list(dict.fromkeys([*names["nodes"], *more]))
    targets = [name for name in ("y", SAMPLE_WEIGHT, CENSORING) if name in graphs.graphs and "y" in graphs.graphs]
    return {**names, "nodes": nodes, "graphs": [*names["graphs"], *targets]}


def check_structure(experiment: Experiment, benchmark: Benchmark) -> None:
    """Require the structural encodings of the experiment, and no others."""
    data, structure = experiment.data, benchmark.structure
    steps, rings = (0, ()) if structure is None else (structure.random_walk, structure.rings)
    if (steps, rings) != (data.rwse_steps, data.ring_sizes):
        raise ValueError(
            f"data: expected graphs with random_walk {data.rwse_steps} and rings {list(data.ring_sizes)}, got {steps} "
            f"and {list(rings)}; add them with dgn.data.precompute.encodings.with_encodings, or load with load_graphs"
        )


def _needs_coordinates(experiment: Experiment, benchmark: Benchmark) -> bool:
    """Whether something reads coordinates, which the graphs then have."""
    augmentation = experiment.augmentation
    reads = {
        "augmentation.mirror": augmentation.mirror,
        "augmentation.cutout": augmentation.cutout > 0,
        "network.tta_mirror": experiment.network.tta_mirror,
    }
    for name, is_read in reads.items():
        if is_read and not benchmark.coordinates:
            remedy = ", or set augmentation.reflection" if name == "augmentation.mirror" else ""
            raise ValueError(
                f"{name}: expected graphs with coordinates, got directions from eigenvectors; leave it out{remedy}"
            )
    return any(reads.values())


def _check_augmentation(experiment: Experiment) -> None:
    """Refuse changes of the field that no potential follows, where the network reads potentials too."""
    network, augmentation = experiment.network, experiment.augmentation
    reader = "network.num_eigenvector_features" if network.num_eigenvector_features else "network.readout: directional"
    if not network.num_eigenvector_features and network.readout != "directional":
        return
    if augmentation.rotation:
        raise ValueError(
            f"augmentation.rotation: expected a network that reads the field alone, got {reader}; a field rotated node "
            "by node is no gradient, so that potentials cannot follow: leave out one of the two"
        )
    if augmentation.distortion and augmentation.distortion_of == "field":
        raise ValueError(
            f"augmentation.distortion: expected noise on the potential for {reader}, got noise on the field, which "
            "potentials cannot follow; set augmentation.distortion_of: potential"
        )


def _check_readout(readout: str, benchmark: Benchmark) -> None:
    """A network answers for what the targets belong to, nodes or graphs."""
    of_nodes = benchmark.objective.startswith("node")
    if of_nodes != (readout == "nodes"):
        expected = "nodes" if of_nodes else "mean, sum or another that gives one row for each graph"
        raise ValueError(
            f"network.readout: expected {expected} for {benchmark.objective}, got {readout}; set network.readout"
        )


def _check_field(network: NetworkSettings, benchmark: Benchmark) -> None:
    """Refuse a field of a user's graphs that does not fit their potential, as ``DGN`` does."""
    graphs = benchmark.graphs
    field, potential = graphs.edges.get("edge_field"), graphs.nodes.get("node_potential")
    own = network.reads_potential or not network.plan.num_directions
    if benchmark.name == "own" and field is not None and potential is not None and not own:
        check_directions(field, potential, graphs.graph.edge_index)


def _check_targets(split: Split, name: str) -> None:
    """Require targets that can be scored in every split, before hours of training rather than after them."""
    if not split.objective.is_scored(split.target):
        expected = "a task with a positive and a negative one" if split.objective.name == "multi-label" else "some"
        raise ValueError(
            f"labels of {name}: expected {expected}, got none, so that {split.objective.metric_name} is not defined; "
            "put more graphs into this part"
        )
