"""Ship what a search found, with its ablations: ``python benchmarks/ablations.py best.yaml zinc/plus NOTE``.

Writes the file of the experiment and one for each part that it can do without, at as many parameters, and prints sizes.
NOTE becomes the comment at the top. Ablations of parts that the experiment no longer has are removed.
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
    found = load_experiment(source)
    base = replace(found, name=name, published=None, data=replace(found.data, path=None))
    texts = {base: note}
    texts |= {
        each: f"{name}: {missing.replace('-', ' ')}, at as many parameters."
        for missing, each in ablations(base).items()
    }
    shutil.rmtree(EXPERIMENTS / f"{name}-ablation", ignore_errors=True)
    for experiment, comment in texts.items():
        write_text(EXPERIMENTS / f"{experiment.name}.yaml", to_short_yaml(experiment, comment))
        print(f"{size(experiment):9,d} {experiment.name}")


if __name__ == "__main__":
    main(*sys.argv[1:])
