"""The run folder: the experiment, and for each seed the result and the metrics of every epoch."""

import csv
import hashlib
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dgn.data.io.atomic import atomic_file
from dgn.training.experiment import Experiment, load_experiment, read_experiment
from dgn.training.versions import collect_versions

if TYPE_CHECKING:
    from dgn.training.run import RunResult

CHECKSUM = "checksum"
EXPERIMENT, RESULT, METRICS = "experiment.yaml", "result.json", "metrics.csv"
FORMAT = "dgn result 1"


@dataclass(frozen=True)
class FinishedRun:
    """The content of the result file of one finished seed.

    ``beside`` are the seeds that were trained at the same time, this one included; they share ``seconds``. ``date`` is
    the day on which it finished.
    """

    experiment: Experiment
    seed: int
    parameters: int
    epochs: int
    steps: int
    seconds: float
    stopped: str
    device: str
    data: str
    metrics: Mapping[str, Mapping[str, float]]
    versions: Mapping[str, str]
    beside: tuple[int, ...] = ()
    date: str = ""

    @classmethod
    def of(cls, experiment: Experiment, result: "RunResult", data: str, beside: Sequence[int] = ()) -> "FinishedRun":
        """The record of a training result, with the versions of the software.

        ``data`` describes the graphs; their path on this machine is not recorded.
        """
        experiment = replace(experiment, data=replace(experiment.data, path=None))
        values = {key: value for key, value in asdict(result).items() if key != "history"}
        values |= {"beside": tuple(beside), "date": datetime.now(UTC).date().isoformat()}
        return cls(experiment=experiment, data=data, versions=collect_versions(), **values)


def seed_folder(out: Path, seed: int) -> Path:
    return out / f"seed-{seed}"


def write_text(path: Path, text: str) -> None:
    """Write a file atomically."""
    with atomic_file(path) as unfinished:
        unfinished.write_text(text, encoding="utf-8")


def check_folder(out: Path) -> None:
    """Refuse a path for a folder that is a file, or lies inside one."""
    file = next((path for path in (out, *out.parents) if path.is_file()), None)
    if file is not None:
        raise ValueError(f"--out: expected a folder, got the file {file}; choose another path")


def is_begun(out: Path, experiment: Experiment) -> bool:
    """Whether a folder holds a run of the experiment already.

    A folder of another experiment is refused: its runs would resume with other settings. ``training.epochs`` may grow
    (:meth:`Experiment.extend`) until a seed is finished. A folder without seeds counts as new.
    """
    check_folder(out)
    path = out / EXPERIMENT
    if not path.exists() or not any(out.glob("seed-*")):
        return False
    experiment, before = experiment.absolute(), load_experiment(path)
    if not any(out.glob(f"seed-*/{RESULT}")):
        before = experiment.extend(before)  # a finished seed had fewer epochs
    changed = experiment.format_diff(before)
    if changed:
        raise ValueError(
            f"{out}: expected a new folder or one of the same experiment, got one that differs in "
            f"{changed}; choose another with --out, or remove it"
        )
    return True


def write_experiment(out: Path, experiment: Experiment) -> None:
    """Write all settings of a run."""
    write_text(out / EXPERIMENT, experiment.absolute().to_yaml())


def write_run(out: Path, run: FinishedRun, history: Sequence[Mapping[str, float]]) -> None:
    """Write the metrics of every epoch, then the result, which marks a seed as finished."""
    folder = seed_folder(out, run.seed)
    write_text(folder / METRICS, to_csv(history))
    write_text(folder / RESULT, to_json(run))


def to_json(run: FinishedRun) -> str:
    """The text of a result file."""
    values = {"format": FORMAT} | {name: getattr(run, name) for name in FinishedRun.__dataclass_fields__}
    return seal(values | {"experiment": run.experiment.to_dict()})


def seal(values: Mapping[str, Any]) -> str:
    """JSON text of values with their checksum."""
    unsealed = {name: value for name, value in values.items() if name != CHECKSUM}
    return json.dumps({**unsealed, CHECKSUM: json_checksum(unsealed)}, indent=1) + "\n"


def json_checksum(values: Mapping[str, Any]) -> str:
    """The SHA-256 of values as JSON, whatever the order of their keys.

    >>> json_checksum({"a": 1, "b": [0.1]}) == json_checksum({"b": [0.1], "a": 1})
    True
    """
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def read_run(path: Path) -> FinishedRun:
    """The finished run of a result file."""
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        if values.pop("format", None) != FORMAT:
            raise ValueError(f"expected format {FORMAT!r}")
        checksum = values.pop(CHECKSUM, None)  # results of earlier versions have none
        if checksum is not None and checksum != json_checksum({"format": FORMAT, **values}):
            raise ValueError("another checksum: the file was changed")
        values |= {"experiment": read_experiment(values["experiment"]), "beside": tuple(values.get("beside", ()))}
        return FinishedRun(**values)
    except (ValueError, TypeError, KeyError, AttributeError) as problem:
        raise ValueError(f"{path}: expected a result of dgn, got {problem}; remove the file and run again") from problem


def finished_runs(out: Path) -> dict[int, FinishedRun]:
    """The finished runs of a folder by seed."""
    return {run.seed: run for run in map(read_run, sorted(out.glob(f"seed-*/{RESULT}")))}


def read_history(out: Path, seed: int) -> list[dict[str, float]]:
    """The metrics of every epoch of a finished seed."""
    text = (seed_folder(out, seed) / METRICS).read_text(encoding="utf-8")
    return [{key: float(value) for key, value in row.items() if value} for row in csv.DictReader(io.StringIO(text))]


def to_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows as CSV text, with the union of their columns.

    >>> to_csv([{"epoch": 1, "loss": 0.5}, {"epoch": 2, "mae": 0.25}]).split()
    ['epoch,loss,mae', '1,0.5,', '2,,0.25']
    """
    columns = list(dict.fromkeys(key for row in rows for key in row))
    text = io.StringIO()
    table = csv.DictWriter(text, columns, lineterminator="\n")
    table.writeheader()
    table.writerows(rows)
    return text.getvalue()
