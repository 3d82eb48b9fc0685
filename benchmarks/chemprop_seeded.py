"""chemprop's command with a seed, gone on with where it stopped: ``python benchmarks/chemprop_seeded.py 0 train ...``.

Its own option for a seed asks for deterministic kernels too, which by default it does not use and which are slower on a
GPU; so PyTorch is made to draw the seed that it is told. A training whose output folder has a last checkpoint goes on
from there; the checkpoint knows its place, so the folder must lie where it was.
"""

import sys
from pathlib import Path
from typing import Any

import torch
from chemprop.cli.main import main
from chemprop.conf import LIGHTNING_26_COMPAT_ARGS
from lightning.pytorch import Trainer


def seed_with(seed: int) -> None:
    """Without the option chemprop lets PyTorch draw a seed, once for each network: it becomes this one."""

    def draw() -> int:
        torch.manual_seed(seed)
        return seed

    torch.seed = draw


def go_on() -> None:
    """Let trainings begin at their last checkpoint."""
    begin = Trainer.fit

    def fit(trainer: Trainer, *given: Any) -> None:
        last = Path(trainer.checkpoint_callback.dirpath) / "last.ckpt"
        begin(trainer, *given, ckpt_path=last if last.exists() else None, **LIGHTNING_26_COMPAT_ARGS)

    Trainer.fit = fit


if __name__ == "__main__":
    seed_with(int(sys.argv.pop(1)))
    go_on()
    main()
