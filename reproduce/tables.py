"""A table of the paper beside our scores."""

from collections.abc import Mapping, Sequence

from dgn.training.experiment import Experiment
from dgn.training.scores import Score, main_metric, published_score
from dgn.training.tables import Table
from reproduce.cells import ROWS, TITLES, table_of


def paper_table(experiments: Sequence[Experiment], scores: Mapping[str, Score]) -> Table:
    """A table of the paper with our scores, by name of the experiment, beside its own; or one of ours alone."""
    first, published = experiments[0], any(each.published for each in experiments)
    title = TITLES[table_of(first) or "table1"]
    by_place = {(each.name.split("/")[-1], "/".join(each.name.split("/")[1:-1])): each for each in experiments}
    kinds = dict.fromkeys(kind for _, kind in by_place)
    rows = []
    for row in dict.fromkeys(row for row, _ in by_place):
        line = [row.replace("-", " ") if row in ROWS else row]
        for kind in kinds:
            cell = by_place.get((row, kind))
            both = ["", ""] if cell is None else [str(scores.get(cell.name, "-")), published_score(cell)]
            line += both[: 1 + published]
        rows.append(tuple(line))
    header = tuple(word for kind in kinds for word in (kind or "ours", f"{kind} paper".strip())[: 1 + published])
    return Table(f"{title}: {first.data.dataset}, {main_metric(first)}", ("run", *header), tuple(rows))
