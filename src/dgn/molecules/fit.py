"""Fitting a model to molecules: standardization, training, calibration, scores."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from dgn.data.benchmark import CENSORING, GRAPH_ATTR, SAMPLE_WEIGHT, Benchmark
from dgn.data.datasets.descriptors import describe, parse_descriptors
from dgn.data.datasets.pairs import split_smiles
from dgn.data.datasets.smiles import CENTRES, PAIRS, standardize, with_descriptors
from dgn.data.packed import PackedGraphs
from dgn.data.precompute.directions import add_directions
from dgn.data.precompute.encodings import with_encodings
from dgn.data.precompute.local import torch_threads
from dgn.graph.checks import check_option
from dgn.molecules.calibration import Fold, calibrate, make_folds
from dgn.molecules.columns import Target, Task, output_names
from dgn.molecules.conformal import half_width
from dgn.molecules.defaults import default_experiment, is_rare
from dgn.molecules.descriptor_models import DESCRIPTORS, embed, fit_descriptor_models
from dgn.molecules.domain import Domain
from dgn.molecules.ensemble_training import TrainedEnsemble, is_paired, make_benchmark, train_ensemble
from dgn.molecules.featurize import parse
from dgn.molecules.forest import one_hot
from dgn.molecules.logarithm import to_log
from dgn.molecules.model_io import Model, Prediction
from dgn.molecules.rows import Molecules, TableData, censoring_of, take, with_features
from dgn.molecules.scores import mean_scores, score_classification, score_multiclass, score_regression
from dgn.molecules.split import SPLITS, Split, check_learnable
from dgn.molecules.tune import choose_settings
from dgn.molecules.weights import weigh, weight_notes
from dgn.training.config import DataSettings
from dgn.training.devices import choose_device
from dgn.training.experiment import Experiment
from dgn.training.finetune import encode_as, start_from
from dgn.training.model import join
from dgn.training.model_io import StoredModel, find_model, read_model
from dgn.training.objectives import censored_target
from dgn.training.pretrained import find_network
from dgn.training.run import EpochReport
from dgn.training.versions import collect_versions

LEVEL = 0.9  # of the intervals in the model card


@dataclass(frozen=True)
class FitOptions:
    """Options of a fit. ``epochs`` is a maximum (None: by size of the table), ``seed`` that of the first member.

    ``search`` is the number of trials of a hyperparameter search on the validation split; 0: default settings.
    ``start`` is the name of a pretrained network, or the folder of a model, whose weights except the head are the first
    ones; with ``freeze``, the head alone is trained. ``descriptors`` of whole molecules that the head reads too are
    "rdkit", "morgan", or both joined by a plus sign (:func:`dgn.data.datasets.descriptors.describe`).
    ``class_weights`` "balanced" gives all classes of a target the same total weight in the training loss. With
    ``descriptor_models`` a random forest and a kernel ridge regression on descriptors are members too
    (:mod:`dgn.molecules.descriptor_models`).
    """

    ensemble_size: int = 5
    epochs: int | None = None
    seed: int = 0
    device: str = "auto"
    search: int = 0
    start: str | None = None
    freeze: bool = False
    descriptors: str = ""
    class_weights: str | None = None
    descriptor_models: bool = True

    @property
    def seeds(self) -> tuple[int, ...]:
        """One for each network."""
        return tuple(range(self.seed, self.seed + self.ensemble_size))

    def __post_init__(self) -> None:
        parse_descriptors(self.descriptors)
        if self.class_weights is not None:
            check_option("class_weights", self.class_weights, ("balanced",))
        if self.search and self.start is not None:
            raise ValueError("search: expected 0 with --from, whose network is given, got more; leave one of them out")
        if self.freeze and self.start is None:
            raise ValueError("freeze: expected a network to start from, got none; name it with --from")
        for name, least in (("ensemble_size", 1), ("epochs", 1), ("seed", 0), ("search", 0)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise ValueError(f"{name}: expected {least} or more, got {value}; raise it")


class Fitted(NamedTuple):
    """A model, the molecules of the test split and their predictions (``None`` if the split is empty).

    ``molecules`` are all of them, ``split`` [R] their split.
    """

    model: Model
    held_out: Molecules | None
    prediction: Prediction | None
    molecules: Molecules
    split: Tensor


def fit_table(
    data: TableData,
    split: Split,
    options: FitOptions,
    folder: Path,
    on_epoch: Callable[[EpochReport], None] | None = None,
    on_resume: Callable[[str], None] | None = None,
) -> Fitted:
    """Fit a model to a table.

    ``folder`` holds the checkpoints to resume from. They are kept until
    :func:`dgn.molecules.folder.write_folder` has written the model and removes them.
    """
    about = {
        "rows": data.rows,
        "split": split.method,
        "notes": [*data.notes, *split.notes, *weight_notes(data.weights, options.class_weights)],
        "problems": [{"what": each.what, "done": each.action, "lines": list(each.lines)} for each in data.problems],
    }
    fitted = fit_molecules(
        data.molecules,
        split.assignment,
        data.task,
        data.targets,
        data.smiles,
        options,
        folder,
        about,
        on_epoch,
        on_resume,
    )
    return fitted._replace(model=replace(fitted.model, features=data.features, partner=data.partner))


def fit_molecules(
    molecules: Molecules,
    split: Tensor,
    task: Task,
    targets: tuple[Target, ...],
    smiles: str,
    options: FitOptions,
    folder: Path,
    about: dict[str, Any] | None = None,
    on_epoch: Callable[[EpochReport], None] | None = None,
    on_resume: Callable[[str], None] | None = None,
) -> Fitted:
    """Train on split 0, stop early and calibrate on split 1, score on split 2 (which may be empty)."""
    columns = molecules.graphs.graphs.get(GRAPH_ATTR)  # of --features
    molecules = replace(molecules, graphs=_with_descriptors(molecules, options.descriptors))
    learned = to_log(targets, molecules.values)
    train_values = learned[split == 0]
    check_learnable(train_values, task, targets)
    molecules = replace(molecules, graphs=weigh(molecules.graphs, learned, split, task, options.class_weights))
    width = len(output_names(task, targets))
    center, scale = _center_and_scale(train_values, task, width)
    standardized = learned if task == "multiclass" else (learned - center) / scale
    is_calibrated = task == "regression"  # probabilities are not: all molecules choose
    folds = (
        make_folds(molecules.keys, split, options.seeds, bool(options.search))
        if is_calibrated
        else [Fold(options.seeds, split == 1)]
    )
    trained, graphs = _train(molecules, standardized, split, folds, task, width, options, folder, on_epoch, on_resume)
    molecules = replace(molecules, graphs=graphs)
    subsets = [take(molecules, (split == index).nonzero()[:, 0]) for index in range(3)]
    model = Model(
        task=task,
        targets=targets,
        smiles=smiles,
        ensemble=trained.model,
        center=center,
        scale=scale,
        scores=torch.zeros(0, width, dtype=torch.float64),
        floor=torch.zeros_like(center),
        domain=Domain.of(subsets[0].graphs, subsets[0].keys, options.seed),
    )
    outputs = unseen = trained.model.outputs(graphs)
    if options.descriptor_models:
        model, outputs, unseen = _add_descriptor_models(
            model, outputs, molecules, columns, standardized, split, options.seed
        )
    if is_calibrated:
        model = calibrate(model, outputs, unseen, molecules, split, folds)
    predictions = [_predict(model, outputs, split, subsets, index) for index in (1, 2)]
    facts = {**(about or {}), **_facts(model, subsets, predictions, trained)}
    held_out, prediction = (subsets[2], predictions[1]) if len(subsets[2].smiles) else (None, None)
    return Fitted(replace(model, facts=facts), held_out, prediction, molecules, split)


def _featurization(paired: bool, options: FitOptions) -> str:
    """The name of the features of molecules, with the descriptors that networks read and those of other members."""
    beside = DESCRIPTORS if options.descriptor_models else ""
    return with_descriptors(PAIRS if paired else CENTRES, options.descriptors, beside)


def _predict(model: Model, outputs: Tensor, split: Tensor, subsets: Sequence[Molecules], index: int) -> Prediction:
    """Predictions for a split from the outputs for all molecules, [M, R, T]."""
    return model.combine(outputs[:, split == index], model.compare(subsets[index].graphs))


def _describe(molecules: Molecules, descriptors: str) -> Tensor:
    """Descriptors of the molecules, as :func:`dgn.molecules.featurize.featurize` gives them: [R, F].

    Those of both molecules of a pair are side by side.
    """
    names, columns = parse_descriptors(descriptors), zip(*map(split_smiles, molecules.smiles), strict=True)
    parts = [describe((standardize(parse(smiles)) for smiles in column), names) for column in columns]
    return torch.cat([torch.from_numpy(part) for part in parts], dim=1)


def _with_descriptors(molecules: Molecules, descriptors: str) -> PackedGraphs:
    """The graphs with descriptors of their molecules."""
    graphs = molecules.graphs
    if not descriptors:
        return graphs
    values = _describe(molecules, descriptors)
    without = replace(graphs, graphs={name: value for name, value in graphs.graphs.items() if name != GRAPH_ATTR})
    return with_features(without.with_values(graphs={GRAPH_ATTR: values}), graphs.graphs.get(GRAPH_ATTR))


def _name(molecules: Molecules, values: Tensor, split: Tensor) -> str:
    """The dataset by its checksum: a checkpoint of other molecules, or one that others chose, is not resumed."""
    return f"table {molecules.graphs.with_values(graphs={'y': values, 'split': split}).checksum()[:16]}"


def _train(
    molecules: Molecules,
    values: Tensor,
    split: Tensor,
    folds: Sequence[Fold],
    task: Task,
    width: int,
    options: FitOptions,
    folder: Path,
    on_epoch: Callable[[EpochReport], None] | None,
    on_resume: Callable[[str], None] | None,
) -> tuple[TrainedEnsemble, PackedGraphs]:
    """The networks of all folds, and the graphs with what they read of them; a search uses those of the first fold."""
    paired = is_paired(molecules.graphs)
    names = [_name(molecules, values, fold.assign(split)) for fold in folds]
    initial = None if options.start is None else read_model(find_model(find_network(options.start)))
    experiment = _experiment(values[split == 0], task, names[0], paired, options, initial)
    data, featurization = experiment.data, _featurization(paired, options)
    graphs = add_directions(molecules.graphs, experiment.num_directions, data.normalization, arcsine=data.arcsine)
    benchmarks = [
        _encode(make_benchmark(graphs, values, fold.assign(split), task, featurization, width), data, initial)
        for fold in folds
    ]
    device, trials = choose_device(options.device), []
    # Batches of molecules are too small for several threads.
    with torch_threads(1 if device.type == "cpu" else torch.get_num_threads()):
        if options.search:
            search = choose_settings(
                experiment, benchmarks[0], options.search, folder / "search", options.device, on_epoch, on_resume
            )
            experiment, folder, trials = search.experiment, search.folder, search.trials
        trained = []
        for fold, benchmark, name in zip(folds, benchmarks, names, strict=True):
            settings = replace(
                experiment,
                data=replace(experiment.data, dataset=name),
                training=replace(experiment.training, seeds=fold.seeds),
            )
            trained.append(train_ensemble(settings, benchmark, folder, options.device, on_epoch, on_resume))
    results = [result for ensemble in trained for result in ensemble.results]
    seconds = sum(ensemble.seconds for ensemble in trained)
    return TrainedEnsemble(join([ensemble.model for ensemble in trained]), results, seconds, trials), graphs


def _experiment(
    train_values: Tensor,
    task: Task,
    name: str,
    paired: bool,
    options: FitOptions,
    initial: StoredModel | None,
) -> Experiment:
    """The settings of the networks: those of the model that the fit starts from, if there is one."""
    rare = is_rare(train_values, task)
    experiment = default_experiment(len(train_values), options.seeds, name, task, options.epochs, rare)
    if paired:  # in a mean, a small partner of a large molecule would count little
        experiment = replace(experiment, network=replace(experiment.network, readout="sum-mean"))
    if initial is not None:
        experiment = start_from(experiment, initial, str(options.start), options.freeze)
    return experiment


def _add_descriptor_models(
    model: Model,
    outputs: Tensor,
    molecules: Molecules,
    columns: Tensor | None,
    values: Tensor,
    split: Tensor,
    seed: int,
) -> tuple[Model, Tensor, Tensor]:
    """The model with members on descriptors, of all molecules that are not held out for the test.

    Behind the ``outputs`` [M, R, T] of the networks are theirs without what they learned from a molecule, and in a
    second tensor those of members that, like the networks, learned from the training split alone (regression only).
    Where a value is a bound, they learn the prediction of the networks that satisfies it, else the bound.
    """
    networks = outputs.double().mean(dim=0)
    if model.task == "multiclass":
        values = one_hot(values, networks.size(1))
    else:
        values = censored_target(values, networks, censoring_of(molecules))
    values = values.masked_fill((split == 2)[:, None], torch.nan)
    columns = torch.zeros(len(values), 0) if columns is None else columns
    embedding = embed(molecules.graphs, model.ensemble.device.type)
    blocks = [_describe(molecules, DESCRIPTORS), embedding, columns]
    weights = molecules.graphs.graphs.get(SAMPLE_WEIGHT)
    fitted = fit_descriptor_models(blocks, values, molecules.keys, weights, model.task, seed)
    unseen = fitted
    if model.task == "regression":
        of_train = values.masked_fill((split == 1)[:, None], torch.nan)
        unseen = fit_descriptor_models(blocks, of_train, molecules.keys, weights, model.task, seed)
    model = replace(model, descriptor_models=fitted.models)
    return model, torch.cat([outputs, fitted.held_out]), torch.cat([outputs, unseen.held_out])


def _encode(benchmark: Benchmark, data: DataSettings, initial: StoredModel | None) -> Benchmark:
    """The benchmark with structural encodings: those of the model that a fit starts from, else its own."""
    if initial is not None:
        return encode_as(benchmark, initial)
    return with_encodings(benchmark, data.rwse_steps, data.ring_sizes)


def _center_and_scale(values: Tensor, task: Task, outputs: int) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of the training values of each target; 0 and 1 for the outputs of classes."""
    if task != "regression":
        return torch.zeros(outputs, dtype=torch.float64), torch.ones(outputs, dtype=torch.float64)
    center = values.nanmean(dim=0).nan_to_num()
    scale = (values - center).square().nanmean(dim=0).nan_to_num().sqrt()
    return center, torch.where(scale > 0, scale, 1.0)


def _facts(
    model: Model, splits: list[Molecules], predictions: list[Prediction], trained: TrainedEnsemble
) -> dict[str, Any]:
    metrics = {}
    for name, molecules, prediction in zip(SPLITS[1:], splits[1:], predictions, strict=True):
        truth = to_log(model.targets, molecules.values)
        if not len(truth):
            continue
        if model.task == "regression":
            mean = to_log(model.targets, prediction.mean)
            half = half_width(model.scores, LEVEL, prediction.difficulty)
            median = to_log(model.targets, splits[0].values).nanmedian(dim=0).values
            censoring = censoring_of(molecules) if any(CENSORING in each.graphs.graphs for each in splits) else None
            scores = score_regression(model.targets, truth, mean, half, median, censoring)
        elif model.task == "multiclass":
            scores = score_multiclass(model.targets[0], truth[:, 0], prediction.mean, splits[0].values[:, 0])
        else:
            scores = score_classification(model.targets, truth, prediction.mean)
        metrics[name] = {"targets": scores, "mean": mean_scores(scores)}
    return {
        "molecules": {name: len(molecules.smiles) for name, molecules in zip(SPLITS, splits, strict=True)},
        "metrics": metrics,
        "interval": LEVEL,
        "parameters": trained.results[0].parameters,
        "members": [
            {"seed": result.seed, "epochs": result.epochs, "stopped": result.stopped, "device": result.device}
            for result in trained.results
        ],
        **({"search": trained.trials} if trained.trials else {}),
        "seconds": trained.seconds,
        "date": datetime.now(UTC).date().isoformat(),
        "versions": {**collect_versions(), "rdkit": version("rdkit")},
    }
