"""The folder of a model: settings and signature as JSON, weights as tensors, both with checksums. No code is loaded."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from torch import Tensor

from dgn.data.io.files import digest, read_tensors, write_tensors
from dgn.training.experiment import Experiment, read_experiment
from dgn.training.preprocessing import VERSIONS
from dgn.training.pretrained import CONFIGURATION
from dgn.training.run_folder import CHECKSUM, json_checksum, seal, write_text
from dgn.training.signature import Signature

FORMAT = "dgn model 2"
FOLDER, WEIGHTS, CARD = "model", "weights.safetensors", "README.md"
EARLIER = "model.safetensors"  # of a seed before models were folders
PROBLEMS = (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError)


@dataclass(frozen=True, eq=False)
class StoredModel:
    """The contents of a folder: settings, the signature, and the weights of each member.

    ``facts`` are metadata: data, scores, versions. ``table`` describes the columns of a model that was fitted to a
    table, and is empty for others; ``tensors`` are further ones, as those of its calibration.
    """

    experiment: Experiment
    signature: Signature
    weights: Sequence[Mapping[str, Tensor]]
    facts: Mapping[str, Any] = field(default_factory=dict)
    table: Mapping[str, Any] = field(default_factory=dict)
    tensors: Mapping[str, Tensor] = field(default_factory=dict)


def write_model(folder: Path, model: StoredModel, card: str | None = None) -> None:
    """Write the card, the weights, and last the configuration, which marks the folder as complete."""
    tensors = {
        **{f"{member}.{name}": value for member, state in enumerate(model.weights) for name, value in state.items()},
        **model.signature.tensors(),
        **model.tensors,
    }
    tensors = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
    experiment = replace(model.experiment, data=replace(model.experiment.data, path=None))
    text = seal(
        {
            "format": FORMAT,
            "preprocessing": VERSIONS,
            "members": len(model.weights),
            "experiment": experiment.to_dict(),
            "signature": model.signature.to_dict(),
            "table": plain(model.table),
            "facts": plain(model.facts),
            "weights": digest(tensors),
        }
    )  # may fail: before anything is written
    if card is not None:
        write_text(folder / CARD, card)
    write_tensors(folder / WEIGHTS, tensors, {"format": FORMAT})
    write_text(folder / CONFIGURATION, text)


def read_model(folder: Path) -> StoredModel:
    """The validated contents of a folder; anything that was changed since it was written is refused."""
    path = folder / CONFIGURATION
    config = _read_configuration(path)
    tensors, _ = read_tensors(folder / WEIGHTS, FORMAT)
    if digest(tensors) != config["weights"]:
        raise ValueError(
            f"{folder / WEIGHTS}: expected the weights that {CONFIGURATION} was written with, got others; copy the "
            "folder again"
        )
    try:
        experiment, members = read_experiment(config["experiment"]), int(config["members"])
        signature = Signature.read(config["signature"], tensors)
        names = {name.partition(".")[0] for name in tensors}
        # Counted before any network is built: a wrong count would drop some, or build them without end.
        if members < 1 or {name for name in names if name.isdecimal()} != set(map(str, range(members))):
            raise ValueError(f"{members} members")
        table, facts = dict(config["table"]), dict(config["facts"])
    except PROBLEMS as problem:
        raise ValueError(f"{path}: expected {FORMAT!r}, got {problem!r}; copy the folder again") from problem
    weights = [_with_prefix(tensors, f"{member}.") for member in range(members)]
    more = {name: value for name, value in tensors.items() if "." not in name}
    return StoredModel(experiment, signature, weights, facts, table, more)


def find_model(folder: str | Path) -> Path:
    """The folder with a model: ``folder`` itself, or the one in the folder of a seed, such as runs/mine/seed-41."""
    folder = Path(folder)
    for candidate in (folder, folder / FOLDER):
        if (candidate / CONFIGURATION).is_file():
            return candidate
    if (folder / EARLIER).is_file():
        raise ValueError(
            f"{folder}: expected a model that works without its training graphs, got one of an earlier version, which "
            "needs its training graphs; train it again"
        )
    seeds = sorted(folder.glob("seed-*"))
    remedy = f"name the folder of one seed, such as {seeds[0]}" if seeds else "'dgn train' and 'dgn fit' write one"
    raise FileNotFoundError(f"{folder}: expected the folder of a model, with {CONFIGURATION}, got none; {remedy}")


def _read_configuration(path: Path) -> dict[str, Any]:
    """The values of a configuration with the right format, checksum and preprocessing."""
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
        if config["format"] != FORMAT:
            raise ValueError(f"format {config['format']!r}")
        checksum = config.pop(CHECKSUM)
    except PROBLEMS as problem:
        raise ValueError(
            f"{path}: expected {FORMAT!r}, got {problem}; train or fit it again with this version of dgn"
        ) from problem
    if checksum != json_checksum(config):
        raise ValueError(f"{path}: expected checksum {checksum}, got another; the file was changed, copy it again")
    versions = config["preprocessing"]
    if versions != VERSIONS:
        raise ValueError(
            f"{path}: expected preprocessing as in this version of dgn, {VERSIONS}, got {versions}; train it again"
        )
    return dict(config)


def plain(value: Any) -> Any:
    """The value for JSON, None for NaN and infinity."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list | tuple) else value


def _with_prefix(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}
