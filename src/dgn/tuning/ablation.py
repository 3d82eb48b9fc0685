"""Ablations: an experiment without one of its parts, at as many parameters, so that only the part is missing.

One that has no directions gets some instead: whether they help is asked of every network.
"""

from collections.abc import Iterator
from dataclasses import MISSING, fields, replace
from itertools import count, product
from typing import Any

from dgn.aggregation import make_plan
from dgn.aggregation.names import ISOTROPIC
from dgn.training.build import inputs_for
from dgn.training.config import AugmentationSettings
from dgn.training.experiment import Experiment
from dgn.tuning.width import fit_width, size, widened

EDGE_ROOM = 5  # channels of edges by which an ablation may differ


def ablations(experiment: Experiment) -> dict[str, Experiment]:
    """An experiment without each of the parts that it has, or with directions if it has none, by names.

    Directional aggregators make room for as many isotropic ones, of which there are six; where there are none, the last
    aggregator makes room for a derivative. Where parameters went with a part, wider layers take its place; features of
    edges, a few channels more or less, even out what a whole channel of all layers is too much.

    >>> from dgn.training.experiment import load_experiment
    >>> found = ablations(load_experiment("zinc/plus"))
    >>> list(found)
    ['no-directions', 'no-ema', 'no-ffn', 'no-structure']
    >>> found["no-directions"].network.aggregators
    ('sum', 'mean', 'max', 'min')
    """
    network, training = experiment.network, experiment.training
    changed = {
        "no-directions": without_directions(experiment),
        "with-directions": with_directions(experiment),
        "no-ema": replace(experiment, training=replace(training, ema_decay=0.0)),
        "no-ffn": replace(experiment, network=replace(network, ffn_expansion=0, ffn_dropout=None)),
        "no-ensemble": replace(experiment, network=replace(network, ensemble_size=1)),
        "no-augmentation": replace(experiment, augmentation=AugmentationSettings()),
        "no-structure": without_structure(experiment),
    }
    return {
        name: replace(_as_large(each, size(experiment)), name=f"{experiment.name}-ablation/{name}")
        for name, each in changed.items()
        if each != experiment
    }


def without_structure(experiment: Experiment) -> Experiment:
    """The experiment without structural numbers; edges that have no other features have none."""
    data = replace(experiment.data, rwse_steps=0, ring_sizes=())
    bare = data != experiment.data and inputs_for(data).edges is None
    network = replace(experiment.network, edge_dim=None) if bare else experiment.network
    return replace(experiment, data=data, network=network)


def without_directions(experiment: Experiment) -> Experiment:
    """The experiment with isotropic aggregators in the place of directional ones, as far as there are, and no field.

    Its teachers, too, are those of the run that has no directions.
    """
    network, inputs = experiment.network, experiment.augmentation
    kept = [name for name in network.aggregators if not make_plan([name]).num_directions]
    others = [name for name in ISOTROPIC if name not in kept]
    asked = [name if name in kept else others.pop(0) if others else None for name in network.aggregators]
    names = tuple(name for name in asked if name is not None)
    teachers = experiment.training.distill_from
    blind = None if teachers is None else f"{teachers}-ablation/no-directions"
    return replace(
        experiment,
        data=replace(experiment.data, directions=None),
        network=replace(network, aggregators=names, num_eigenvector_features=0),
        training=replace(experiment.training, distill_from=blind),
        augmentation=AugmentationSettings(mirror=inputs.mirror, cutout=inputs.cutout, input_noise=inputs.input_noise),
    )


def with_directions(experiment: Experiment) -> Experiment:
    """An experiment without directions with a derivative in the place of its last aggregator; others as they are."""
    network = experiment.network
    if network.num_directions:
        return experiment
    return replace(experiment, network=replace(network, aggregators=(*network.aggregators[:-1], "dx1")))


def _as_large(experiment: Experiment, parameters: int) -> Experiment:
    """The widths that come closest to so many parameters; of equally close ones the least changed edges.

    Towers become wider, or there are more of them: narrow ones would grow by much at once.
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
    return min(candidates, key=lambda each: abs(size(each) - parameters))


def _more_towers(experiment: Experiment, parameters: int) -> Iterator[Experiment]:
    """The experiment with more and more towers of the same width, until there are too many parameters."""
    network = experiment.network
    if network.towers == 1 or network.last is not None:
        return
    for towers in count(network.towers + 1):
        hidden = towers * (network.hidden // network.towers)
        yield (more := replace(experiment, network=replace(network, hidden=hidden, towers=towers)))
        if size(more) > parameters:
            return


def to_short_yaml(experiment: Experiment, note: str) -> str:
    """The file of an experiment that comes with the package: a comment, and what differs from the defaults."""
    lines = [f"# {note}"]
    for section in ("data", "network", "training", "augmentation"):
        stated = list(_stated(getattr(experiment, section)))
        lines += [f"{section}:", *stated] if stated else []
    return "\n".join(lines) + "\n"


def _stated(settings: Any) -> Iterator[str]:
    for each in fields(settings):
        value = getattr(settings, each.name)
        if each.default is MISSING or value != each.default:
            yield f"  {each.name}: {_text(value)}"


def _text(value: Any) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(_text, value))}]"
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    return str(value)
