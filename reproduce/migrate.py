"""Bring result files of earlier versions of dgn to the present settings.

    python -m reproduce.migrate results

``RENAMED`` says what keys are called now, and ``REMOVED`` which options are gone, with the value that stood for not
using them. A file in which a removed option was used is refused by name: its numbers belong to a network that dgn does
not have any more. Nothing is written then. Besides these keys nothing changes: numbers stay as they are.

Both ``seed-N.json`` in ``results/`` and ``seed-N/result.json`` of run folders are read.
"""

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dgn.cli.display import make_console, say
from dgn.training.run_folder import write_text

RENAMED: Mapping[str, Mapping[str, str]] = {  # section: {key then: key now}
    "data": {"random_walk": "rwse_steps", "rings": "ring_sizes"},
    "network": {
        "layers": "num_layers", "feed_forward": "ffn_expansion", "inner_dropout": "ffn_dropout",
        "positional": "num_eigenvector_features", "branches": "ensemble_size", "both_sides": "tta_mirror",
        "derivative": "dx_reference",
    },
    "training": {
        "averaging": "ema_decay", "teachers": "distill_from", "teaching": "distill_weight",
        "factor": "lr_decay_factor", "report": "checkpoint",
    },
    "augmentation": {"hide": "cutout", "shift": "input_noise"},
}  # fmt: skip
VALUES: Mapping[str, Mapping[object, object]] = {  # key now: {value then: value now}
    "dx_reference": {"authors": "node", "paper": "message"},
}
EXPERIMENTS: Mapping[str, str] = {  # parts of the names of experiments
    "plus-taught": "plus-distilled", "no-averaging": "no-ema", "no-feed-forward": "no-ffn",
    "no-branches": "no-ensemble", "mean-dx1-paper-derivative": "mean-dx1-message-reference",
}  # fmt: skip
REMOVED: Mapping[str, Mapping[str, object]] = {  # section: {key: the value of those who did not use it}
    "data": {"cliques": [], "edge_walk": 0, "field": "eigenvectors"},
    "network": {"gate": False, "edge_updates": False, "learned_directions": 0, "drop_path": 0.0, "norm": "after"},
    "augmentation": {"drop": 0.0},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="folder with result files, at any depth")
    changed = migrate_folder(parser.parse_args().folder)
    say(make_console(), f"{len(changed)} result files changed")


def migrate_folder(folder: Path) -> list[Path]:
    """Migrate all result files of a folder, or none if one is refused; returns those that changed."""
    texts = {path: path.read_text(encoding="utf-8") for path in result_files(folder)}
    if not texts:
        raise FileNotFoundError(f"{folder}: expected result files, seed-N.json, found none; check the path")
    migrated = {path: migrate_text(text, str(path)) for path, text in texts.items()}
    changed = [path for path, text in migrated.items() if text != texts[path]]
    for path in changed:
        write_text(path, migrated[path])
    return changed


def result_files(folder: Path) -> list[Path]:
    return sorted([*folder.rglob("seed-*.json"), *folder.rglob("seed-*/result.json")])


def migrate_text(text: str, name: str) -> str:
    """The text of a result file with the present settings; ``name`` is that of the file, for errors.

    >>> print(migrate_text('{"experiment": {"network": {"gate": false, "hidden": 8}}, "seed": 1}', "seed-1.json"))
    {
     "experiment": {
      "network": {
       "hidden": 8
      }
     },
     "seed": 1
    }
    <BLANKLINE>
    """
    result = json.loads(text)
    experiment = {key: _section(key, value, name) for key, value in result["experiment"].items()}
    return json.dumps(result | {"experiment": experiment}, indent=1) + "\n"  # as dgn.training.run_folder.to_json


def _section(section: str, settings: Any, name: str) -> Any:
    """A section with its keys as they are called now, in the same order, and without those that are gone."""
    if isinstance(settings, str):  # the name of the experiment
        return rename_experiment(settings)
    if not isinstance(settings, dict):  # what nobody published
        return settings
    removed, renamed = REMOVED.get(section, {}), RENAMED.get(section, {})
    for key, unused in removed.items():
        if settings.get(key, unused) != unused:
            raise ValueError(
                f"{name}: expected {section}.{key} to be {json.dumps(unused)}, got {json.dumps(settings[key])}; dgn "
                "does not have this option any more, so remove the file, or use the version that it was made with"
            )
    kept = {renamed.get(key, key): value for key, value in settings.items() if key not in removed}
    return {key: _value(key, value) for key, value in kept.items()}


def _value(key: str, value: Any) -> Any:
    if key in VALUES:
        return VALUES[key].get(value, value)
    if key == "distill_from" and value is not None:
        return rename_experiment(value)
    if key in ("assumed", "changed"):  # names of settings
        return [_setting(name) for name in value]
    return value


def _setting(name: str) -> str:
    section, _, key = name.partition(".")
    return f"{section}.{RENAMED.get(section, {}).get(key, key)}"


def rename_experiment(name: str) -> str:
    """The present name of an experiment.

    >>> rename_experiment("zinc/plus-ablation/no-averaging")
    'zinc/plus-ablation/no-ema'
    """
    for before, now in EXPERIMENTS.items():
        name = name.replace(before, now)
    return name


if __name__ == "__main__":
    main()
