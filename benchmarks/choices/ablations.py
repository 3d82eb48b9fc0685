"""Ship the result of a search with its ablations: ``python -m benchmarks.choices.ablations best.yaml zinc/plus NOTE``.

Writes the experiment and its ablations, at the same number of parameters, and prints their sizes. NOTE becomes the
comment at the top. Ablations of components that the experiment no longer has are removed.
"""

import shutil
import sys
from dataclasses import replace
from pathlib import Path

import dgn
from dgn.training.experiment import load_experiment
from dgn.training.run_folder import write_text
from dgn.tuning.ablation import ablations, to_short_yaml
from dgn.tuning.width import size

EXPERIMENTS = Path(dgn.__file__).parent / "experiments"


def main(source: str, name: str, note: str) -> None:
    best = load_experiment(source)
    base = replace(best, name=name, published=None, data=replace(best.data, path=None))
    texts = {base: note}
    texts |= {
        variant: f"{name}: {missing.replace('-', ' ')}, at as many parameters."
        for missing, variant in ablations(base).items()
    }
    shutil.rmtree(EXPERIMENTS / f"{name}-ablation", ignore_errors=True)
    for experiment, comment in texts.items():
        write_text(EXPERIMENTS / f"{experiment.name}.yaml", to_short_yaml(experiment, comment))
        print(f"{size(experiment):9,d} {experiment.name}")


if __name__ == "__main__":
    main(*sys.argv[1:])
