"""A network and a way to train it, for a table of a given size."""

from dgn.training.experiment import Experiment
from dgn.training.settings import DataSettings, NetworkSettings, TrainingSettings


def default_experiment(molecules: int, seeds: tuple[int, ...], dataset: str, epochs: int | None = None) -> Experiment:
    """The experiment for so many training molecules.

    About 86,000 parameters: four layers with complex messages and edge features; mean, max and min beside the
    derivatives along two directions. Larger tables get larger batches and fewer epochs.

    >>> default_experiment(480, (0, 1), "table").network.aggregators
    ('mean', 'max', 'min', 'dx1', 'dx2')
    """
    small, large = molecules < 2_000, molecules >= 10_000
    network = NetworkSettings(
        hidden=48 if molecules >= 200 else 32,
        layers=4,
        aggregators=("mean", "max", "min", "dx1", "dx2"),
        message="complex",
        edge_dim=8,
        dropout=0.1,
    )
    training = TrainingSettings(
        batch_size=32 if small else 128 if large else 64,
        epochs=epochs or (80 if small else 30 if large else 50),
        learning_rate=2e-3,
        weight_decay=1e-5,
        patience=8 if small else 3,
        min_learning_rate=1e-4,
        report="best",
        seeds=seeds,
    )
    return Experiment(name="table", data=DataSettings(dataset=dataset), network=network, training=training)
