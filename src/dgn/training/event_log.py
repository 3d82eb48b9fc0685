"""Logs for TensorBoard: the curves of each seed while it is trained. Needs tensorboard, the extra ``logs``."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from dgn.graph.checks import check_package
from dgn.training.run import EpochReport


@contextmanager
def event_log(folder: Path | None) -> Iterator[Callable[[EpochReport], None]]:
    """A function that logs an epoch to ``folder/seed-N``; it does nothing without a folder.

    A seed that resumes, or starts again, replaces what was logged of these epochs and later ones: TensorBoard shows
    every epoch once.
    """
    if folder is None:
        yield lambda _: None
        return
    check_package("logs", "tensorboard")
    from torch.utils.tensorboard import SummaryWriter

    writers: dict[int, Any] = {}
    with ExitStack() as opened:

        def log(report: EpochReport) -> None:
            if report.seed not in writers:
                writer = SummaryWriter(folder / f"seed-{report.seed}", purge_step=report.epoch)
                writers[report.seed] = opened.enter_context(writer)
            for name, value in scalars(report).items():
                writers[report.seed].add_scalar(name, value, report.epoch)
            writers[report.seed].flush()  # an interrupted run keeps its curves

        yield log


def scalars(report: EpochReport) -> dict[str, float]:
    """What is logged of an epoch, by the names that TensorBoard shows.

    >>> scalars(EpochReport(0, 1, 5, 1e-3, 0.5, 0.7, {"mae": 0.6}, 2.0, 100.0))
    {'loss/train': 0.5, 'loss/val': 0.7, 'val/mae': 0.6, 'learning_rate': 0.001}
    """
    metrics = {f"val/{name}": value for name, value in report.metrics.items()}
    losses = {"loss/train": report.train_loss, "loss/val": report.val_loss}
    return {**losses, **metrics, "learning_rate": report.learning_rate}
