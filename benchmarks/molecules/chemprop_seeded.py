"""chemprop's command with a seed, resumed where it stopped: ``python chemprop_seeded.py 0 train ...``.

Its own option for a seed also selects deterministic kernels, which it does not use by default and which are slower on a
GPU; so ``torch.seed`` returns the given seed. A run whose output folder has a last checkpoint resumes from it; the
checkpoint holds its path, so the folder must not be moved.
"""

import sys
from pathlib import Path
from typing import Any

import torch
from chemprop.cli.main import main
from chemprop.conf import LIGHTNING_26_COMPAT_ARGS
from lightning.pytorch import Trainer


def seed_with(seed: int) -> None:
    """Without the option chemprop calls ``torch.seed``, once for each network: return this seed."""

    def draw() -> int:
        torch.manual_seed(seed)
        return seed

    torch.seed = draw


def resume() -> None:
    """Resume runs from their last checkpoint."""
    original = Trainer.fit

    def fit(trainer: Trainer, *arguments: Any) -> None:
        last = Path(trainer.checkpoint_callback.dirpath) / "last.ckpt"
        original(trainer, *arguments, ckpt_path=last if last.exists() else None, **LIGHTNING_26_COMPAT_ARGS)

    Trainer.fit = fit


if __name__ == "__main__":
    seed_with(int(sys.argv.pop(1)))
    resume()
    main()
