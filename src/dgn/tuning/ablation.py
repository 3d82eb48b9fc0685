"""Ablations: an experiment without one of its components, at the same number of parameters.

An experiment without directions gets some instead, so that their effect is measured for every network.
"""

from collections.abc import Iterator
from dataclasses import MISSING, fields, replace
from itertools import count, product
from typing import Any

from dgn.aggregation import make_plan
from dgn.aggregation.names import ISOTROPIC
from dgn.training.build import inputs_for
from dgn.training.config import AugmentationSettings
from dgn.training.config_parser import key_of
from dgn.training.experiment import Experiment
from dgn.tuning.width import fit_width, size, widened

EDGE_ROOM = 5  # edge channels by which an ablation may differ


def ablations(experiment: Experiment) -> dict[str, Experiment]:
    """Ablations by name: the experiment without each of its components, or with directions if it has none.

    Directional aggregators are replaced by isotropic ones, of which there are six; without directional ones, the last
    aggregator is replaced by a derivative. Wider layers compensate for lost parameters. A few edge channels more or
    less make up the difference that is smaller than one channel of all layers.

    >>> from dgn.training.experiment import load_experiment
    >>> variants = ablations(load_experiment("zinc/plus"))
    >>> list(variants)
    ['no-directions', 'no-ema', 'no-ffn', 'no-structure']
    >>> variants["no-directions"].network.aggregators
    ('sum', 'mean', 'max', 'min')
    """
    network, training = experiment.network, experiment.training
    variants = {
        "no-directions": without_directions(experiment),
        "with-directions": with_directions(experiment),
        "no-ema": replace(experiment, training=replace(training, ema_decay=0.0)),
        "no-ffn": replace(experiment, network=replace(network, ffn_expansion=0, ffn_dropout=None)),
        "no-ensemble": replace(experiment, network=replace(network, ensemble_size=1)),
        "no-augmentation": replace(experiment, augmentation=AugmentationSettings()),
        "no-structure": without_structure(experiment),
    }
    return {
        name: replace(_match_size(variant, size(experiment)), name=f"{experiment.name}-ablation/{name}")
        for name, variant in variants.items()
        if variant != experiment
    }


def without_structure(experiment: Experiment) -> Experiment:
    """The experiment without structural encodings, and without edge features where edges have no others."""
    data = replace(experiment.data, rwse_steps=0, ring_sizes=())
    loses_edges = data != experiment.data and inputs_for(data).edges is None
    network = replace(experiment.network, edge_dim=None) if loses_edges else experiment.network
    return replace(experiment, data=data, network=network)


def without_directions(experiment: Experiment) -> Experiment:
    """The experiment with isotropic aggregators instead of directional ones, as far as there are any, and no field.

    Its teachers are the seeds of the run without directions.
    """
    network, inputs = experiment.network, experiment.augmentation
    isotropic = [name for name in network.aggregators if not make_plan([name]).num_directions]
    others = [name for name in ISOTROPIC if name not in isotropic]
    replaced = [name if name in isotropic else others.pop(0) if others else None for name in network.aggregators]
    names = tuple(name for name in replaced if name is not None)
    teachers = experiment.training.distill_from
    distill_from = None if teachers is None else f"{teachers}-ablation/no-directions"
    return replace(
        experiment,
        data=replace(experiment.data, directions=None),
        network=replace(network, aggregators=names, num_eigenvector_features=0),
        training=replace(experiment.training, distill_from=distill_from),
        augmentation=AugmentationSettings(mirror=inputs.mirror, cutout=inputs.cutout, input_noise=inputs.input_noise),
    )


def with_directions(experiment: Experiment) -> Experiment:
    """An experiment without directions gets a derivative as its last aggregator; others are unchanged."""
    network = experiment.network
    if network.num_directions:
        return experiment
    return replace(experiment, network=replace(network, aggregators=(*network.aggregators[:-1], "dx1")))


def _match_size(experiment: Experiment, parameters: int) -> Experiment:
    """The experiment with the widths closest to a number of parameters; ties go to the smallest change of edges.

    Either towers become wider or their number grows: one channel more is a large step for narrow towers.
    """
    if size(experiment) == parameters:
        return experiment
    hidden, edge_dim = fit_width(experiment, parameters).network.hidden, experiment.network.edge_dim
    changes = [0] if edge_dim is None else sorted(range(-min(EDGE_ROOM, edge_dim - 1), EDGE_ROOM + 1), key=abs)
    widths = [widened(experiment, hidden + more) for more in (0, experiment.network.towers)]
    candidates = [
        replace(wide, network=replace(wide.network, edge_dim=None if edge_dim is None else edge_dim + change))
        for change, wide in product(changes, [*widths, *_more_towers(experiment, parameters)])
    ]
    return min(candidates, key=lambda candidate: abs(size(candidate) - parameters))


def _more_towers(experiment: Experiment, parameters: int) -> Iterator[Experiment]:
    """The experiment with growing numbers of towers of the same width, until it has too many parameters."""
    network = experiment.network
    if network.towers == 1 or network.last is not None:
        return
    for towers in count(network.towers + 1):
        hidden = towers * (network.hidden // network.towers)
        yield (more := replace(experiment, network=replace(network, hidden=hidden, towers=towers)))
        if size(more) > parameters:
            return


def to_short_yaml(experiment: Experiment, note: str) -> str:
    """The YAML text of an experiment: a comment, and the settings that differ from the defaults."""
    lines = [f"# {note}"]
    for section in ("data", "network", "training", "augmentation"):
        changed = list(_changed_lines(getattr(experiment, section)))
        lines += [f"{section}:", *changed] if changed else []
    return "\n".join(lines) + "\n"


def _changed_lines(settings: Any) -> Iterator[str]:
    for field in fields(settings):
        value = getattr(settings, field.name)
        if field.default is MISSING or value != field.default:
            yield f"  {key_of(field)}: {_text(value)}"


def _text(value: Any) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(_text, value))}]"
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    return str(value)
