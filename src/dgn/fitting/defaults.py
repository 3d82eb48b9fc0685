"""A network and a way to train it, for a table of a given size."""

from dgn.training.experiment import Experiment
from dgn.training.settings import DataSettings, NetworkSettings, TrainingSettings

RINGS, WALK = (3, 4, 5, 6, 7), 16  # sizes of rings and steps of walks that atoms are told of
WIDE = 128  # channels that are read out of larger tables; up to so many the head is one kernel on a GPU


def default_experiment(molecules: int, seeds: tuple[int, ...], dataset: str, epochs: int | None = None) -> Experiment:
    """The experiment for so many training molecules.

    Four layers with complex messages and edge features; mean, max and min beside the derivatives along two directions;
    rings and return probabilities of random walks among the inputs. Small tables, below 2,000 molecules, have about
    87,000 parameters and stop when the validation loss stalls. Larger ones have about 120,000, larger batches and fewer
    epochs, the learning rate falls along a cosine, and an average of the weights counts: on Tox21 the validation loss
    was least after 25 of 40 epochs, average precision at the end. The best epoch by the metric is taken.

    >>> default_experiment(480, (0, 1), "table").network.aggregators
    ('mean', 'max', 'min', 'dx1', 'dx2')
    >>> [default_experiment(molecules, (0, 1), "table").training.schedule for molecules in (480, 6400)]
    ['plateau', 'cosine']
    """
    small, large = molecules < 2_000, molecules >= 10_000
    network = NetworkSettings(
        hidden=48 if molecules >= 200 else 32,
        last=None if small else WIDE,
        layers=4,
        aggregators=("mean", "max", "min", "dx1", "dx2"),
        message="complex",
        edge_dim=8,
        dropout=0.1,
    )
    training = TrainingSettings(
        batch_size=32 if small else 128 if large else 64,
        epochs=epochs or (80 if small else 30 if large else 40),
        learning_rate=2e-3,
        weight_decay=1e-5,
        schedule="plateau" if small else "cosine",
        patience=8,
        warmup=0 if small else 2,
        min_learning_rate=1e-4 if small else 0.0,
        averaging=0.0 if small else 0.999,
        report="best",
        seeds=seeds,
    )
    data = DataSettings(dataset=dataset, random_walk=WALK, rings=RINGS)
    return Experiment(name="table", data=data, network=network, training=training)
