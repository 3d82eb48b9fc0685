"""A network and a way to train it, for a table of a given size."""

from torch import Tensor

from dgn.molecules.columns import Task
from dgn.training.config import DataSettings, NetworkSettings, TrainingSettings
from dgn.training.experiment import Experiment

RINGS, WALK = (3, 4, 5, 6, 7), 16  # sizes of rings and steps of walks that atoms are told of
RARE = 0.01  # share of all labels up to which the smaller class is rare
LARGE = 10_000  # molecules
WIDE = 128  # channels that are read out of larger tables; up to so many the head is one kernel on a GPU


def default_experiment(
    molecules: int, seeds: tuple[int, ...], dataset: str, task: Task, epochs: int | None = None, rare: bool = False
) -> Experiment:
    """The experiment for so many training molecules.

    Four layers with complex messages and edge features; rings and return probabilities of random walks are inputs. For
    classes, mean, max and min stand beside the derivatives along two directions, and means are read out. Numbers often
    grow with the molecule: there it is sum, mean and max beside one direction, sums are read out beside means, and
    larger tables take twice as many epochs, since their error goes on falling when that of classes has stopped to.

    Small tables, below 2,000 molecules, have about 90,000 parameters and stop when the validation loss stalls. Larger
    ones have about 120,000, larger batches and fewer epochs, the learning rate falls along a cosine, and an average of
    the weights counts: on Tox21 the validation loss was least after 25 of 40 epochs, average precision at the end. The
    best epoch by the metric is taken.

    Where classes are ``rare`` and molecules many, it is :func:`rare_experiment`.

    >>> [default_experiment(480, (0,), "table", task).network.aggregators for task in ("regression", "multi-label")]
    [('sum', 'mean', 'max', 'dx1'), ('mean', 'max', 'min', 'dx1', 'dx2')]
    >>> [default_experiment(molecules, (0,), "table", "regression").training.schedule for molecules in (480, 6400)]
    ['plateau', 'cosine']
    """
    small, large, numbers = molecules < 2_000, molecules >= LARGE, task == "regression"
    if rare and large:
        return rare_experiment(seeds, dataset, epochs)
    network = NetworkSettings(
        hidden=32 if molecules < 200 else 52 if numbers else 48,
        last=None if small else WIDE,
        num_layers=4,
        aggregators=("sum", "mean", "max", "dx1") if numbers else ("mean", "max", "min", "dx1", "dx2"),
        message="complex",
        edge_dim=8,
        readout="sum-mean" if numbers else "mean",
        dropout=0.1,
    )
    training = TrainingSettings(
        batch_size=32 if small else 128 if large else 64,
        epochs=epochs or (80 if small else (1 + numbers) * (30 if large else 40)),
        learning_rate=2e-3,
        weight_decay=1e-5,
        schedule="plateau" if small else "cosine",
        patience=8,
        warmup=0 if small else 2,
        min_learning_rate=1e-4 if small else 0.0,
        ema_decay=0.0 if small else 0.99 if numbers else 0.999,
        checkpoint="best",
        seeds=seeds,
    )
    data = DataSettings(dataset=dataset, rwse_steps=WALK, ring_sizes=RINGS)
    return Experiment(name="table", data=data, network=network, training=training)


def rare_experiment(seeds: tuple[int, ...], dataset: str, epochs: int | None = None) -> Experiment:
    """The experiment for a large table in which one of two classes is rare.

    A few active molecules among tens of thousands are soon learned by heart: the network is the paper's plainest, mean
    and one derivative of the neighbours themselves, without structural numbers. Weights do not decay, for what so few
    molecules ask of them is less than even a small decay takes away; steps are of many molecules, so that most see an
    active one. Chosen on MUV, by validation on three other splits of its training and validation molecules.
    """
    network = NetworkSettings(hidden=96, num_layers=4, aggregators=("mean", "dx1"), dropout=0.15, size_norm=False)
    training = TrainingSettings(
        batch_size=512,
        epochs=epochs or 50,
        learning_rate=1e-2,
        schedule="cosine",
        warmup=2,
        min_learning_rate=0.0,
        ema_decay=0.99,
        checkpoint="best",
        seeds=seeds,
    )
    return Experiment(name="table", data=DataSettings(dataset=dataset), network=network, training=training)


def is_rare(values: Tensor, task: Task) -> bool:
    """Whether at most ``RARE`` of the training values [R, T], NaN where missing, are of one of the two classes.

    >>> import torch
    >>> values = torch.zeros(1_000, 1, dtype=torch.float64)
    >>> values[:10] = 1
    >>> is_rare(values, "binary"), is_rare(1 - values, "binary"), is_rare(values[:500], "binary")
    (True, True, False)
    """
    known = values[~values.isnan()]
    ones = int((known == 1).sum())
    return task != "regression" and min(ones, len(known) - ones) <= RARE * len(known)
