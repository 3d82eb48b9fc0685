"""Migrate result files of earlier versions of dgn to the present settings.

    python -m reproduce.migrate results

``RENAMED`` maps old keys to present ones. ``REMOVED`` lists removed options with the value that left them unused. A
file that used a removed option is refused, and nothing is written: dgn can no longer build its network. All other
bytes stay as they are.

Reads ``seed-N.json`` in ``results/`` and ``seed-N/result.json`` in run folders.
"""

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dgn.cli.display import echo, make_console
from dgn.training.run_folder import CHECKSUM, seal, write_text

RENAMED: Mapping[str, Mapping[str, str]] = {  # section: {old key: present key}
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
VALUES: Mapping[str, Mapping[object, object]] = {  # present key: {old value: present value}
    "dx_reference": {"authors": "node", "paper": "message"},
}
EXPERIMENTS: Mapping[str, str] = {  # substrings of experiment names, old: present
    "plus-taught": "plus-distilled", "no-averaging": "no-ema", "no-feed-forward": "no-ffn",
    "no-branches": "no-ensemble", "mean-dx1-paper-derivative": "mean-dx1-message-reference",
}  # fmt: skip
REMOVED: Mapping[str, Mapping[str, object]] = {  # section: {key: value that left it unused}
    "data": {"cliques": [], "edge_walk": 0, "field": "eigenvectors"},
    "network": {"gate": False, "edge_updates": False, "learned_directions": 0, "drop_path": 0.0, "norm": "after"},
    "augmentation": {"drop": 0.0},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="folder with result files, at any depth")
    changed = migrate_folder(parser.parse_args().folder)
    echo(make_console(), f"{len(changed)} result files changed")


def migrate_folder(folder: Path) -> list[Path]:
    """The files of a folder that changed; all are migrated, or none if one is refused."""
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
    """The text of a result file with present settings; ``name`` is the file name, for errors.

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
    migrated = result | {"experiment": experiment}
    return seal(migrated) if CHECKSUM in result else json.dumps(migrated, indent=1) + "\n"


def _section(section: str, settings: Any, name: str) -> Any:
    """A section with present keys in the same order, without removed ones."""
    if isinstance(settings, str):  # the experiment name
        return rename_experiment(settings)
    if not isinstance(settings, dict):  # null: no published score
        return settings
    removed, renamed = REMOVED.get(section, {}), RENAMED.get(section, {})
    for key, unused in removed.items():
        if settings.get(key, unused) != unused:
            raise ValueError(
                f"{name}: expected {section}.{key} to be {json.dumps(unused)}, got {json.dumps(settings[key])}; "
                "this option was removed, so delete the file, or use the version of dgn that wrote it"
            )
    present = {renamed.get(key, key): value for key, value in settings.items() if key not in removed}
    return {key: _value(key, value) for key, value in present.items()}


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
    for old, present in EXPERIMENTS.items():
        name = name.replace(old, present)
    return name


if __name__ == "__main__":
    main()
