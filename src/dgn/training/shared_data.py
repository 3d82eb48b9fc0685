"""What all seeds of an experiment share: graphs on the device, splits, the objective."""

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from dgn.aggregation import degree_scalers
from dgn.aggregation.scalers import mean_log_degree
from dgn.data.benchmark import Benchmark, with_directions, with_fraction
from dgn.data.loader.device_dataset import DeviceDataset
from dgn.data.packed import PackedGraphs
from dgn.nn.conv_parts import ScalerKey
from dgn.training.augment import changes_field, mirrors_alone
from dgn.training.devices import dataset_device
from dgn.training.evaluate import Split, required_inputs
from dgn.training.experiment import Experiment
from dgn.training.objectives import Objective, make_objective
from dgn.training.replica import cut
from dgn.training.tta import reflect_weights, tta_mirror

SPLITS = ("train", "val", "test")
OF_DIRECTIONS = ("potential", "repeated", "gap", "field")  # values with a column for each


class SharedData(NamedTuple):
    """What all seeds share: graphs on the device, the splits, the objective that they are trained for."""

    store: DeviceDataset
    training: Tensor
    splits: dict[str, Split]
    objective: Objective
    delta: float

    def fork(self) -> dict[str, Split]:
        return {name: split.fork() for name, split in self.splits.items()}


def prepare(experiment: Experiment, benchmark: Benchmark, device: torch.device) -> SharedData:
    """Bring the graphs of an experiment to the device, with the weights of their field."""
    data, network = experiment.data, experiment.network
    check_structure(experiment, benchmark)
    _check_readout(network.readout, benchmark)
    objective = make_objective(benchmark.objective, experiment.training.metric or benchmark.metric)
    trained_for = objective.smoothed(experiment.training.label_smoothing)
    graphs = _with_field(experiment, with_fraction(benchmark, data.train_fraction))
    split = graphs.graphs["split"]
    numbers = [(split == number).nonzero()[:, 0] for number in range(3)]
    for name, chosen in zip(SPLITS, numbers, strict=True):
        if not len(chosen):
            raise ValueError(
                f"split: expected graphs for train, val and test, got none for {name}; see graphs['split']"
            )
    names, plan = _names(experiment, benchmark, graphs), network.plan
    store = DeviceDataset(graphs, names, dataset_device(graphs, device))
    store.weights = plan.compute_weights(store.edges.get("field"), store.graph, store.nodes.get("gap"))
    shown = (split == 0).to(store.device)[store.graph.batch]
    delta = mean_log_degree(store.graph.in_degree[shown])
    if experiment.augmentation.input_noise:
        store.deviation = store.nodes["x"][shown].float().std(dim=0, unbiased=False)
    if network.scalers != ("identity",):
        key = ScalerKey(network.scalers, delta, torch.float32)
        store.scalers = key, degree_scalers(store.graph.in_degree, *key)
    if network.tta_mirror or mirrors_alone(experiment.augmentation):
        store.mirrored = reflect_weights(plan, store)
    if mirrors_alone(experiment.augmentation) or not changes_field(experiment.augmentation):
        store.edges.pop("field", None)  # all weights are known: nobody reads it again
        store.nodes.pop("gap", None)
    elif "field" not in store.edges:
        raise ValueError(
            f"augmentation: expected a network that reads a field, got aggregators {', '.join(network.aggregators)}; "
            "leave it out, or set data.directions"
        )
    sides = tta_mirror(store) if network.tta_mirror else (store,)
    splits = {}
    for name, chosen in zip(SPLITS, numbers, strict=True):
        cuts = cut(chosen, experiment.training.batch_size)
        shape = store.smallest_shape(cuts)._replace(padded=True)
        # Training graphs that did not fit the device fit it no better as batches.
        place = store.device if name == "train" else device
        batches = [side.gather(cuts, shape).to(place) for side in sides]
        splits[name] = Split(batches, objective, benchmark.num_targets, device)
        _check_targets(splits[name], name)
    return SharedData(store, numbers[0], splits, trained_for, delta)


def _names(experiment: Experiment, benchmark: Benchmark, graphs: PackedGraphs) -> dict[str, list[str]]:
    """The values that training reads: those of the network, of augmentation, and the targets."""
    resample = experiment.augmentation.resample
    wanted = {
        "potential": _needs_coordinates(experiment, benchmark) or experiment.network.reads_potential,
        "gap": resample,
        "component": resample,
        "y": True,
    }
    if wanted["potential"] and "potential" not in graphs.nodes:
        raise ValueError(
            "potential: expected values of nodes for network.num_eigenvector_features, the directional readout, "
            "network.tta_mirror, augmentation.mirror or cutout, got graphs with a field alone; give them a potential "
            "too, as AddCoordinates does"
        )
    names = required_inputs(experiment.network, graphs)
    more = [name for name, is_read in wanted.items() if is_read and name in graphs.nodes]
    nodes = list(dict.fromkeys([*names["nodes"], *more]))
    return {**names, "nodes": nodes, "graphs": [name for name in ("y",) if name in graphs.graphs]}


def check_structure(experiment: Experiment, benchmark: Benchmark) -> None:
    """Require the structural encodings of the experiment, and no others."""
    data, found = experiment.data, benchmark.structure
    given, rings = (0, ()) if found is None else (found.random_walk, found.rings)
    if (given, rings) != (data.rwse_steps, data.ring_sizes):
        raise ValueError(
            f"data: expected graphs with random_walk {data.rwse_steps} and rings {list(data.ring_sizes)}, got {given} "
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


def _check_readout(readout: str, benchmark: Benchmark) -> None:
    """A network answers for what the targets belong to, nodes or graphs."""
    of_nodes = benchmark.objective.startswith("node")
    if of_nodes != (readout == "nodes"):
        expected = "nodes" if of_nodes else "mean, sum or another that gives one row for each graph"
        raise ValueError(
            f"network.readout: expected {expected} for {benchmark.objective}, got {readout}; set network.readout"
        )


def _check_targets(split: Split, name: str) -> None:
    """Require targets that can be scored in every split, before hours of training rather than after them."""
    if not split.objective.is_scored(split.target):
        expected = "a task with a positive and a negative one" if split.objective.name == "multi-label" else "some"
        raise ValueError(
            f"labels of {name}: expected {expected}, got none, so that {split.objective.metric_name} is not defined; "
            "put more graphs into this part"
        )


def _with_field(experiment: Experiment, benchmark: Benchmark) -> PackedGraphs:
    """The graphs with as many directions as the experiment asks for; computed once, then read from the cache.

    No more than these: augmentation draws for each direction, and a result must not depend on other experiments.
    """
    graphs, wanted = benchmark.graphs, experiment.num_directions
    if benchmark.coordinates:
        return graphs
    given = graphs.edges["field"].size(1) if "field" in graphs.edges else 0
    if given < wanted:
        graphs = with_directions(benchmark, wanted, experiment.data.normalization).graphs
    return graphs if given <= wanted else first_directions(graphs, wanted)


def first_directions(graphs: PackedGraphs, count: int) -> PackedGraphs:
    """The graphs with so many directions of those that they have; with none, without a field."""

    def first(values: Mapping[str, Tensor]) -> dict[str, Tensor]:
        few = {name: values[name][:, :count].contiguous() for name in OF_DIRECTIONS if name in values and count}
        return {name: value for name, value in values.items() if name not in OF_DIRECTIONS} | few

    return replace(graphs, nodes=first(graphs.nodes), edges=first(graphs.edges))
