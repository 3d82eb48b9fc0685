"""Beyond the paper: our networks, their ablations, and published results of the same size."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from dgn.plot.curves import new_figure, save_png
from dgn.training.experiment import Experiment
from dgn.training.run_folder import FinishedRun
from dgn.training.scores import format_score, main_metric, published_score, summarize
from dgn.training.tables import Table
from reproduce.cells import DATASETS, METRIC_LABELS, cells, shipped, table_datasets
from reproduce.results import Results
from reproduce.sections import coverage, data_origins

PICTURE = "figures/zinc_parameters.png"
ABLATIONS = {"ffn": "feed-forward blocks", "structure": "structural encodings", "ema": "EMA"}  # words of a label
PUBLISHED_COLOR, WITH_COLOR, WITHOUT_COLOR = "#6b6e76", "C0", "C1"


class PublishedResult(NamedTuple):
    """A published score; ``parameters`` is the reported count, or the budget where only a budget was reported.

    None is for what is no network.
    """

    name: str
    parameters: int | None
    score: float


#: The best published results at our sizes, in the units of the tables. The paper's own are in the experiments.
PUBLISHED: Mapping[str, tuple[PublishedResult, ...]] = {
    "zinc": (
        PublishedResult("GatedGCN", 100_000, 0.363),
        PublishedResult("PNA", 100_000, 0.188),
        PublishedResult("CIN-small", 100_000, 0.094),
        PublishedResult("PNA", 500_000, 0.142),
        PublishedResult("GPS", 500_000, 0.070),
        PublishedResult("GIN+", 500_000, 0.065),
        PublishedResult("GRIT", 500_000, 0.059),
    ),
    "pattern": (PublishedResult("EGT", 100_000, 86.82),),
    "cifar10": (PublishedResult("GRIT", 100_000, 76.47), PublishedResult("GatedGCN+", 100_000, 77.22)),
    "molhiv": (PublishedResult("CIN-small", 138_000, 80.55),),
    "peptides-func": (
        PublishedResult("GCN+", 500_000, 72.61),
        PublishedResult("S2GCN", 500_000, 73.11),
        PublishedResult("ESA", 500_000, 73.57),
        PublishedResult("fingerprints with gradient boosting", None, 74.60),
    ),
}
LARGE = ("peptides-func",)  # whose literature has networks of 500,000 parameters


def budget(experiment: Experiment) -> int:
    """The parameter budget of an experiment: published networks of about this size are compared with it."""
    return 500_000 if "-500k" in experiment.name or experiment.data.dataset in LARGE else 100_000


def best_published(experiment: Experiment) -> PublishedResult | None:
    """The best published result within a factor of two of an experiment's parameter budget.

    >>> best_published(shipped()["zinc/plus"])
    PublishedResult(name='CIN-small', parameters=100000, score=0.094)
    """
    size = budget(experiment)
    published = PUBLISHED.get(experiment.data.dataset, ())
    candidates = [result for result in published if result.parameters and 0.5 < result.parameters / size < 2]
    best = min if main_metric(experiment) == "mae" else max
    return best(candidates, key=lambda result: result.score) if candidates else None


def beyond_table(chosen: Sequence[Experiment], results: Results) -> Table:
    """The results of one dataset: published ones first, then each network followed by its ablations."""
    rows: list[tuple[str, ...]] = []
    for cell in chosen:
        name, _, ablation = cell.name.partition("-ablation/")
        if not ablation:
            rows += [row for row in _published_rows(cell) if row not in rows]
        if cell.name in results:
            rows.append(_row(_ablation_label(ablation) or name, results[cell.name]))
    header = ("experiment", f"test {METRIC_LABELS[main_metric(chosen[0])]}", "validation", "parameters", "seeds")
    return Table(f"Beyond the paper: {chosen[0].data.dataset}", header, tuple(rows))


def beyond_sections(results: Results) -> str:
    """The tables of all datasets with results, and the figure, as Markdown; empty without results."""
    blocks = []
    for dataset in table_datasets("plus"):
        chosen = [cell for cell in cells("plus", dataset) if _has_results(cell, results)]
        if chosen:
            trained = {cell.name: results[cell.name] for cell in chosen if cell.name in results}
            title = f"### {DATASETS[dataset]}, {METRIC_LABELS[main_metric(chosen[0])]}"
            blocks += [title, *data_origins(trained), beyond_table(chosen, results).to_markdown()]
            blocks.append(coverage(chosen, results))
        if dataset == "zinc" and _zinc_networks(results):
            blocks.append(f"![Error on ZINC against the number of parameters]({PICTURE})")
    return "\n\n".join(blocks)


def draw_beyond(results: Results, path: Path) -> bool:
    """Whether anything was drawn: a PNG of test error against parameters on ZINC, published networks in grey.

    A network that was published with a budget only is drawn at the budget.
    """
    networks = _zinc_networks(results)
    if not networks:
        return False
    figure = new_figure((6.4, 4.0))
    axes = figure.subplots()
    tuned = shipped()["zinc/tuned"].published
    assert tuned is not None
    assert tuned.parameters is not None
    for name, parameters, score in (
        PublishedResult("DGN, the paper", tuned.parameters, tuned.score),
        *PUBLISHED["zinc"],
    ):
        assert parameters is not None
        axes.plot(parameters, score, "o", color=PUBLISHED_COLOR, markersize=4)
        axes.annotate(
            name, (parameters, score), (6, -3), textcoords="offset points", color=PUBLISHED_COLOR, size=8
        )  # fmt: skip
    labelled: set[str] = set()
    for cell in networks:
        has_directions = cell.network.num_directions > 0
        ablation = results.get(f"{cell.name}-ablation/{'no' if has_directions else 'with'}-directions", ())
        network = results[cell.name]
        with_directions, without = (network, ablation) if has_directions else (ablation, network)
        _draw_point(axes, with_directions, "ours, with directions", WITH_COLOR, labelled)
        _draw_point(axes, without, "ours, without directions", WITHOUT_COLOR, labelled)
    axes.set(xscale="log", yscale="log", xlabel="parameters", ylabel="test MAE on ZINC", xlim=(7e4, 1e6))
    axes.set_xticks([1e5, 2e5, 5e5, 1e6], ["100k", "200k", "500k", "1M"])
    axes.set_yticks([0.05, 0.1, 0.2, 0.3], ["0.05", "0.1", "0.2", "0.3"])
    axes.minorticks_off()
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8)
    save_png(figure, path)
    return True


def _zinc_networks(results: Results) -> list[Experiment]:
    """The networks on ZINC with results, without ablations."""
    return [cell for cell in cells("plus", "zinc") if "-ablation/" not in cell.name and cell.name in results]


def _draw_point(axes: Any, runs: Sequence[FinishedRun], label: str, color: str, labelled: set[str]) -> None:
    """Draw the score of runs, if there are any; ``labelled`` collects the labels that the legend has already."""
    if runs:
        score = summarize(runs)
        legend = None if label in labelled else label
        axes.errorbar(
            runs[0].parameters, score.mean, score.deviation or 0.0, fmt="D", markersize=5, color=color, capsize=3,
            label=legend,
        )  # fmt: skip
        labelled.add(label)


def _ablation_label(ablation: str) -> str:
    """The label of an ablation.

    >>> _ablation_label("no-structure"), _ablation_label("with-directions")
    ('without structural encodings', 'with directions')
    """
    words = ablation.replace("no-", "without ").replace("-", " ")
    for short, label in ABLATIONS.items():
        words = words.replace(short, label)
    return words


def _published_rows(cell: Experiment) -> list[tuple[str, ...]]:
    """Rows of the paper's tuned network, where it has this size, of the best other one, and of what is no network."""
    best, others = best_published(cell), PUBLISHED.get(cell.data.dataset, ())
    rows: list[tuple[str, ...]] = []
    tuned = shipped().get(f"{cell.data.dataset}/tuned")
    if budget(cell) == 100_000 and tuned is not None and tuned.published is not None:
        rows.append(("the paper, tuned", published_score(tuned), "", f"{tuned.published.parameters:,}", ""))
    for result in (*((best,) if best is not None else ()), *(each for each in others if each.parameters is None)):
        size = "" if result.parameters is None else f"about {result.parameters:,}"
        rows.append((f"{result.name}, published", format_score(main_metric(cell), result.score), "", size, ""))
    return rows


def _row(name: str, runs: Sequence[FinishedRun]) -> tuple[str, ...]:
    scores = (str(summarize(runs, split)) if split in runs[0].metrics else "" for split in ("test", "val"))
    return (name, *scores, f"{runs[0].parameters:,}", str(len(runs)))


def _has_results(cell: Experiment, results: Results) -> bool:
    """Whether an experiment, its base network or one of their ablations has results."""
    network = cell.name.partition("-ablation/")[0]
    return any(name == network or name.startswith(f"{network}-ablation/") for name in results)
