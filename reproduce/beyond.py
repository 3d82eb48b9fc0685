"""Beyond the paper: our networks with and without their parts, beside what others published at the same size."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from dgn.plot.curves import new_figure, save_png
from dgn.training.experiment import Experiment
from dgn.training.run_folder import FinishedRun
from dgn.training.scores import format_score, main_metric, published_score, summarize
from dgn.training.tables import Table
from reproduce.cells import DATASETS, cells, shipped, table_datasets
from reproduce.results import Results
from reproduce.sections import in_brackets, other_data, told

PICTURE = "figures/zinc_parameters.png"
INK, OURS, BLIND = "#6b6e76", "C0", "C1"


class Peer(NamedTuple):
    """A published network; ``parameters`` are as reported, or the budget where only that was."""

    name: str
    parameters: int
    score: float


#: The best published at the sizes of ours, but for the paper's own: it is in the tables. In the units of tables.
PEERS: Mapping[str, tuple[Peer, ...]] = {
    "zinc": (
        Peer("GatedGCN", 100_000, 0.363), Peer("PNA", 100_000, 0.188), Peer("CIN-small", 100_000, 0.094),
        Peer("PNA", 500_000, 0.142), Peer("GPS", 500_000, 0.070), Peer("GIN+", 500_000, 0.065),
        Peer("GRIT", 500_000, 0.059),
    ),
    "pattern": (Peer("EGT", 100_000, 86.82),),
    "cifar10": (Peer("GRIT", 100_000, 76.47), Peer("GatedGCN+", 100_000, 77.22)),
    "molhiv": (Peer("CIN-small", 138_000, 80.55),),
}  # fmt: skip


def budget(experiment: Experiment) -> int:
    """Whom an experiment is held against: networks of about so many parameters."""
    return 500_000 if "-500k" in experiment.name else 100_000


def best_peer(experiment: Experiment) -> Peer | None:
    """The best published network of about the size of an experiment.

    >>> best_peer(shipped()["zinc/plus"])
    Peer(name='CIN-small', parameters=100000, score=0.094)
    """
    wanted = budget(experiment)
    near = [peer for peer in PEERS.get(experiment.data.dataset, ()) if 0.5 < peer.parameters / wanted < 2]
    pick = min if main_metric(experiment) == "mae" else max
    return pick(near, key=lambda peer: peer.score) if near else None


def beyond_table(chosen: Sequence[Experiment], results: Results) -> Table:
    """What was run of one dataset, whole networks before their ablations, below what was published."""
    rows: list[tuple[str, ...]] = []
    for cell in chosen:
        name, _, part = cell.name.partition("-ablation/")
        if not part:
            rows += [row for row in _published(cell) if row not in rows]
        if cell.name in results:
            rows.append(_row(part.replace("no-", "without ").replace("-", " ") or name, results[cell.name]))
    header = ("run", f"test {main_metric(chosen[0])}", "validation", "parameters", "seeds")
    return Table(f"Beyond the paper: {chosen[0].data.dataset}", header, tuple(rows))


def beyond_sections(results: Results) -> str:
    """The tables of all datasets of which anything was run, and the picture; nothing before."""
    parts = []
    for dataset in table_datasets("plus"):
        chosen = [cell for cell in cells("plus", dataset) if _begun(cell, results)]
        if chosen:
            other = in_brackets(other_data(run for cell in chosen for run in results.get(cell.name, ())))
            title = f"### {DATASETS[dataset]}, {main_metric(chosen[0])}{other}"
            parts += [title, beyond_table(chosen, results).to_markdown(), told(chosen, results)]
        if dataset == "zinc" and _drawn(results):
            parts.append(f"![Error on ZINC against the number of parameters]({PICTURE})")
    return "\n\n".join(parts)


def draw_beyond(results: Results, path: Path) -> bool:
    """Draw error against parameters on ZINC, published networks in grey, as PNG; return whether there was anything.

    Those whose size was published as a budget only stand at the budget.
    """
    bases = _drawn(results)
    if not bases:
        return False
    figure = new_figure((6.4, 4.0))
    axes = figure.subplots()
    tuned = shipped()["zinc/tuned"].published
    assert tuned is not None
    assert tuned.parameters is not None
    for peer in (Peer("DGN, the paper", tuned.parameters, tuned.score), *PEERS["zinc"]):
        axes.plot(peer.parameters, peer.score, "o", color=INK, markersize=4)
        axes.annotate(peer.name, (peer.parameters, peer.score), (6, -3), textcoords="offset points", color=INK, size=8)
    told: set[str] = set()
    for cell in bases:
        has_them = cell.network.num_directions > 0
        other = results.get(f"{cell.name}-ablation/{'no' if has_them else 'with'}-directions", ())
        both = (results[cell.name], other) if has_them else (other, results[cell.name])
        _point(axes, both[0], "ours with directions", OURS, told)
        _point(axes, both[1], "ours without", BLIND, told)
    axes.set(xscale="log", yscale="log", xlabel="parameters", ylabel="test MAE on ZINC", xlim=(7e4, 1e6))
    axes.set_xticks([1e5, 2e5, 5e5, 1e6], ["100k", "200k", "500k", "1M"])
    axes.set_yticks([0.05, 0.1, 0.2, 0.3], ["0.05", "0.1", "0.2", "0.3"])
    axes.minorticks_off()
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8)
    save_png(figure, path)
    return True


def _drawn(results: Results) -> list[Experiment]:
    return [cell for cell in cells("plus", "zinc") if "-ablation/" not in cell.name and cell.name in results]


def _point(axes: Any, runs: Sequence[FinishedRun], label: str, color: str, told: set[str]) -> None:
    """Draw runs, if there are any; the legend names the first of a label, and ``told`` keeps which it has named."""
    if runs:
        score = summarize(runs)
        look = {"fmt": "D", "markersize": 5, "color": color, "capsize": 3, "label": None if label in told else label}
        axes.errorbar(runs[0].parameters, score.mean, score.deviation or 0.0, **look)
        told.add(label)


def _published(cell: Experiment) -> list[tuple[str, ...]]:
    """The paper's tuned network, where it has one of this size, and the best of the others."""
    peer = best_peer(cell)
    rows: list[tuple[str, ...]] = []
    tuned = shipped()[f"{cell.data.dataset}/tuned"]
    if budget(cell) == 100_000 and tuned.published is not None:
        rows.append(("the paper, tuned", published_score(tuned), "", f"{tuned.published.parameters:,}", ""))
    if peer is not None:
        rows.append(
            (
                f"{peer.name}, published",
                format_score(main_metric(cell), peer.score),
                "",
                f"about {peer.parameters:,}",
                "",
            )
        )
    return rows


def _row(name: str, runs: Sequence[FinishedRun]) -> tuple[str, ...]:
    scores = (str(summarize(runs, split)) if split in runs[0].metrics else "" for split in ("test", "val"))
    return (name, *scores, f"{runs[0].parameters:,}", str(len(runs)))


def _begun(cell: Experiment, results: Results) -> bool:
    """Whether anything was run of an experiment or of its ablations."""
    base = cell.name.partition("-ablation/")[0]
    return any(name == base or name.startswith(f"{base}-ablation/") for name in results)
