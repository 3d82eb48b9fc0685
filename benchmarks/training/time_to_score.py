"""The time to the published score, for `benchmarks/training/against_pyg.py`."""

import argparse
import time
from typing import Any

from dgn.training.experiment import load_experiment
from dgn.training.load import load_graphs
from dgn.training.trainer import train

TO_SCORE = {"zinc": "zinc/complex-e/mean-dx1", "molhiv": "molhiv/simple/mean-dx1"}


def score_time(name: str, arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Seconds of training until the validation score reaches the published test score, and in total, per seed."""
    if name not in TO_SCORE:
        return []
    path = [] if arguments.data is None else [f"data.path={arguments.data}"]
    experiment = load_experiment(TO_SCORE[name], [*path, *arguments.set])
    benchmark = load_graphs(experiment)
    lower, metric = benchmark.metric == "mae", benchmark.metric
    assert experiment.published is not None
    goal = experiment.published.score * (1 if lower else 0.01)
    reached: dict[int, float] = {}

    def on_epoch(report: Any) -> None:
        value = report.metrics[metric]
        if (value <= goal) if lower else (value >= goal):
            reached.setdefault(report.seed, report.seconds)

    start = time.perf_counter()
    results = train(experiment, benchmark, arguments.seeds, device=arguments.device, on_epoch=on_epoch)
    total = time.perf_counter() - start
    return [
        {"data": name, "seed": result.seed, "published": goal, "seconds to it": reached.get(result.seed, ""),
         "seconds": result.seconds, "epochs": result.epochs, "validation": result.metrics["val"][metric],
         "test": result.metrics["test"][metric], "all seeds, s": total}
        for result in results
    ]  # fmt: skip
