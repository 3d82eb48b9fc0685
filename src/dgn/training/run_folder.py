"""The folder of a run: its experiment, and for each seed the result and the metrics of every epoch."""

import csv
import io
import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dgn.training.experiment import Experiment, load_experiment, read_experiment
from dgn.training.versions import collect_versions

if TYPE_CHECKING:
    from dgn.training.run import RunResult

EXPERIMENT, RESULT, METRICS = "experiment.yaml", "result.json", "metrics.csv"
FORMAT = "dgn result 1"


@dataclass(frozen=True)
class FinishedRun:
    """One finished seed, as its result file tells it.

    ``beside`` are the seeds that were trained at the same time, its own among them: ``seconds`` passed for all of them
    at once. ``date`` is the day on which it finished.
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
        """A result of the training loop, with what it was made with.

        ``data`` says which graphs; where they lie on this machine is nobody's business later.
        """
        experiment = replace(experiment, data=replace(experiment.data, path=None))
        told = {key: value for key, value in asdict(result).items() if key != "history"}
        told |= {"beside": tuple(beside), "date": datetime.now(UTC).date().isoformat()}
        return cls(experiment=experiment, data=data, versions=collect_versions(), **told)


def seed_folder(out: Path, seed: int) -> Path:
    return out / f"seed-{seed}"


def write_text(path: Path, text: str) -> None:
    """Write a file in full or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        unfinished.write_text(text, encoding="utf-8")
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def check_folder(out: Path) -> None:
    """Refuse a place for a folder where a file is, or in a file."""
    file = next((place for place in (out, *out.parents) if place.is_file()), None)
    if file is not None:
        raise ValueError(f"--out: expected a folder, got the file {file}; name another place")


def is_begun(out: Path, experiment: Experiment) -> bool:
    """Tell whether a folder holds a run of the experiment already.

    A folder with another experiment is refused: its runs would be continued with settings they did not begin with. One
    in which no seed has begun is as good as new.
    """
    check_folder(out)
    path = out / EXPERIMENT
    if not path.exists() or not any(out.glob("seed-*")):
        return False
    changed = experiment.format_diff(load_experiment(path))
    if changed:
        raise ValueError(
            f"{out}: expected a new folder or one of the same experiment, got one that differs in "
            f"{changed}; choose another with --out, or remove it"
        )
    return True


def write_experiment(out: Path, experiment: Experiment) -> None:
    """Write down every setting of the run that begins."""
    write_text(out / EXPERIMENT, experiment.to_yaml())


def write_run(out: Path, run: FinishedRun, history: Sequence[Mapping[str, float]]) -> None:
    """Write the metrics of every epoch, then the result: a seed with a result file is finished."""
    folder = seed_folder(out, run.seed)
    write_text(folder / METRICS, to_csv(history))
    write_text(folder / RESULT, to_json(run))


def to_json(run: FinishedRun) -> str:
    """The text of a result file."""
    told = {"format": FORMAT} | {name: getattr(run, name) for name in FinishedRun.__dataclass_fields__}
    return json.dumps(told | {"experiment": run.experiment.to_dict()}, indent=1) + "\n"


def read_run(path: Path) -> FinishedRun:
    """Read a result file."""
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
        if told.pop("format", None) != FORMAT:
            raise ValueError(f"expected format {FORMAT!r}")
        told |= {"experiment": read_experiment(told["experiment"]), "beside": tuple(told.get("beside", ()))}
        return FinishedRun(**told)
    except (ValueError, TypeError, KeyError, AttributeError) as problem:
        raise ValueError(f"{path}: expected a result of dgn, got {problem}; remove the file and run again") from problem


def finished_runs(out: Path) -> dict[int, FinishedRun]:
    """The finished seeds of a folder."""
    return {run.seed: run for run in map(read_run, sorted(out.glob(f"seed-*/{RESULT}")))}


def read_history(out: Path, seed: int) -> list[dict[str, float]]:
    """The metrics of every epoch of a finished seed."""
    text = (seed_folder(out, seed) / METRICS).read_text(encoding="utf-8")
    return [{key: float(value) for key, value in row.items() if value} for row in csv.DictReader(io.StringIO(text))]


def to_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows as text, with all columns that any of them has.

    >>> to_csv([{"epoch": 1, "loss": 0.5}, {"epoch": 2, "mae": 0.25}]).split()
    ['epoch,loss,mae', '1,0.5,', '2,,0.25']
    """
    columns = list(dict.fromkeys(key for row in rows for key in row))
    text = io.StringIO()
    table = csv.DictWriter(text, columns, lineterminator="\n")
    table.writeheader()
    table.writerows(rows)
    return text.getvalue()
