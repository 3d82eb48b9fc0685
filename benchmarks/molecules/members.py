"""What the members of an ensemble of ``dgn fit`` are worth, alone and together, on scaffold splits of MoleculeNet.

    python -m benchmarks.molecules.members FOLDER --tables TABLES [--only delaney,sider] [--split-seeds 100,101]
    python -m benchmarks.molecules.members FOLDER --summary

TABLES is a folder with MoleculeNet's tables (delaney.csv.gz, ...). Each table and seed is one fit with the defaults,
whose test scores by members go into FOLDER/delaney-100.json; one that is there is not run again. The comparison has the
seeds 0, 1 and 2: choose members and their weights with others.
"""

import argparse
import json
import statistics
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import torch

from benchmarks.molecules.comparison import TABLES
from dgn.molecules.descriptor_models import member_outputs
from dgn.molecules.fit import FitOptions, fit_table
from dgn.molecules.model_io import Model
from dgn.molecules.rows import Molecules, read_table
from dgn.molecules.scores import mean_scores, score_classification, score_regression
from dgn.molecules.split import split_molecules
from dgn.molecules.table import open_table
from dgn.training.run_folder import write_text

PARTS = {  # the weights of networks, forest and kernel ridge regression
    "networks": (1.0, 0.0, 0.0),
    "forest": (0.0, 1.0, 0.0),
    "regression": (0.0, 0.0, 1.0),
    "networks, forest": (0.5, 0.5, 0.0),
    "networks, regression": (0.5, 0.0, 0.5),
    "a third each": (1 / 3, 1 / 3, 1 / 3),
}
CHOSEN = "chosen shares"  # those of the fitted model: thirds for classes


def score(model: Model, molecules: Molecules, metric: str) -> dict[str, float]:
    """The score of each part of a model."""
    outputs = member_outputs(model.ensemble, model.ensemble.pack(molecules.smiles), model.descriptor_models)
    assert model.descriptor_models is not None
    scores, models = {}, model.descriptor_models
    shares = {name: torch.tensor(part).double()[:, None].expand(3, len(model.scale)) for name, part in PARTS.items()}
    for name, share in {**shares, CHOSEN: models.shares}.items():
        mean = replace(model, descriptor_models=models.with_shares(share)).combine(outputs).mean
        none = torch.zeros_like(mean)
        if model.task == "regression":
            each = score_regression(model.targets, molecules.values, mean, none, none[0])
        else:
            each = score_classification(model.targets, molecules.values, mean)
        scores[name] = mean_scores(each)[metric]
    return scores


def run(file: Path, table: Path, targets: tuple[str, ...], metric: str, seed: int, epochs: int | None) -> None:
    """Fit a table on one split and write the scores of the parts."""
    start = time.process_time()
    data = read_table(open_table(table), targets=list(targets))
    split = split_molecules(data.molecules, data.task, "scaffold", seed)
    with tempfile.TemporaryDirectory() as folder:
        fitted = fit_table(data, split, FitOptions(epochs=epochs, seed=100 * seed, device="cpu"), Path(folder))
    assert fitted.held_out is not None
    report = {"metric": metric, "molecules": len(data.molecules.smiles), "epochs": epochs}
    report |= {"scores": score(fitted.model, fitted.held_out, metric), "processor": time.process_time() - start}
    file.parent.mkdir(parents=True, exist_ok=True)
    write_text(file, json.dumps(report, indent=1))


def to_markdown(folder: Path) -> str:
    """The mean score of each part over the splits of each table."""
    names = [*PARTS, CHOSEN]
    lines = [["table", "metric", "splits", *names], ["---"] * (len(names) + 3)]
    for table, (_, metric) in TABLES.items():
        scores = [json.loads(path.read_text())["scores"] for path in sorted(folder.glob(f"{table}-*.json"))]
        if scores:
            means = [f"{statistics.fmean(each[name] for each in scores):.3f}" for name in names]
            lines.append([table, metric, str(len(scores)), *means])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tables", type=Path, help="the folder with the tables")
    parser.add_argument("--only", default="freesolv,delaney,bace,clintox,sider,lipo")
    parser.add_argument("--split-seeds", default="100,101")
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--summary", action="store_true", help="print the table of the finished fits, and run nothing")
    arguments = parser.parse_args()
    if not arguments.summary and arguments.tables is None:
        parser.error("expected --tables, the folder with the tables, or --summary")
    torch.set_num_threads(1)
    for seed in () if arguments.summary else arguments.split_seeds.split(","):
        for table in arguments.only.split(","):
            file = arguments.folder / f"{table}-{seed}.json"
            if not file.exists():
                targets, metric = TABLES[table]
                run(file, arguments.tables / f"{table}.csv.gz", targets, metric, int(seed), arguments.epochs)
                print(file, "done", flush=True)
    print(to_markdown(arguments.folder))


if __name__ == "__main__":
    main()
