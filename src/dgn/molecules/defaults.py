"""Default settings of network and training, by task and size of the table."""

from torch import Tensor

from dgn.molecules.columns import Task
from dgn.training.config import DataSettings, NetworkSettings, TrainingSettings
from dgn.training.experiment import Experiment

RINGS, WALK = (3, 4, 5, 6, 7), 16  # ring sizes and random-walk steps of the structural encodings
RARE = 0.01  # fraction of all labels up to which the smaller class is rare
LARGE = 10_000  # molecules
WIDE = 128  # readout channels for larger tables; up to this width the head is one GPU kernel


def default_experiment(
    molecules: int, seeds: tuple[int, ...], dataset: str, task: Task, epochs: int | None = None, rare: bool = False
) -> Experiment:
    """The default experiment for this number of training molecules.

    Four layers with complex messages and edge features; inputs include ring and random-walk encodings. Classification
    aggregates mean, max, min and the derivatives along two directions, with a mean readout. Regression targets are
    often extensive: it aggregates sum, mean, max and one derivative, with a sum-mean readout.

    Below 2,000 molecules, networks have about 90,000 parameters and training stops when the validation loss stalls.
    Larger tables take larger batches, fewer epochs, a cosine schedule and an EMA of the weights. For classification
    networks have about 120,000 parameters: on Tox21 the validation loss was lowest after 25 of 40 epochs, average
    precision highest at the end. For regression they have about 310,000 and train longer: the error of such networks
    was lower by 4 % on a development split of Lipophilicity, and by a tenth on one of QM7, than that of networks of
    120,000 parameters and 80 epochs, at about the same time. The checkpoint is the best epoch by the metric.

    For a ``rare`` class in a large table, it is :func:`rare_experiment`.

    >>> [default_experiment(480, (0,), "table", task).network.aggregators for task in ("regression", "multi-label")]
    [('sum', 'mean', 'max', 'dx1'), ('mean', 'max', 'min', 'dx1', 'dx2')]
    >>> [default_experiment(molecules, (0,), "table", "regression").training.schedule for molecules in (480, 6400)]
    ['plateau', 'cosine']
    """
    small, large, regression = molecules < 2_000, molecules >= LARGE, task == "regression"
    if rare and large:
        return rare_experiment(seeds, dataset, epochs)
    network = NetworkSettings(
        hidden=32 if molecules < 200 else 48 if not regression else 52 if small else 96,
        last=None if small else WIDE,
        num_layers=4,
        aggregators=("sum", "mean", "max", "dx1") if regression else ("mean", "max", "min", "dx1", "dx2"),
        message="complex",
        edge_dim=8,
        readout="sum-mean" if regression else "mean",
        dropout=0.1,
    )
    training = TrainingSettings(
        batch_size=32 if small else 128 if large else 64,
        epochs=epochs or (80 if small else 60 if regression else 30 if large else 40),
        learning_rate=2e-3,
        weight_decay=1e-5,
        schedule="plateau" if small else "cosine",
        patience=8,
        warmup=0 if small else 2,
        min_learning_rate=1e-4 if small else 0.0,
        ema_decay=0.0 if small else 0.99 if regression else 0.999,
        checkpoint="best",
        seeds=seeds,
    )
    data = DataSettings(dataset=dataset, rwse_steps=WALK, ring_sizes=RINGS)
    return Experiment(name="table", data=data, network=network, training=training)


def rare_experiment(seeds: tuple[int, ...], dataset: str, epochs: int | None = None) -> Experiment:
    """The default experiment for a large table with a rare class.

    A few active molecules among tens of thousands are soon memorized: the network is the paper's simplest, mean and one
    derivative of simple messages, without structural encodings. There is no weight decay, which would outweigh the
    gradient of so few molecules; batches are large, so that most contain an active molecule. Chosen on MUV, by
    validation on three other splits of its training and validation molecules.
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
    """Whether at most a fraction ``RARE`` of the training labels [R, T] (NaN: missing) belongs to one of the classes.

    >>> import torch
    >>> values = torch.zeros(1_000, 1, dtype=torch.float64)
    >>> values[:10] = 1
    >>> is_rare(values, "binary"), is_rare(1 - values, "binary"), is_rare(values[:500], "binary")
    (True, True, False)
    """
    labels = values[~values.isnan()]
    positive = int((labels == 1).sum())
    return task in ("binary", "multi-label") and min(positive, len(labels) - positive) <= RARE * len(labels)
