"""A table of the paper with our scores."""

from collections.abc import Mapping, Sequence

from dgn.training.experiment import Experiment
from dgn.training.scores import Score, main_metric, published_score
from dgn.training.tables import Table
from reproduce.cells import DATASETS, METRIC_LABELS, ROWS, TITLES, table_of


def paper_table(experiments: Sequence[Experiment], scores: Mapping[str, Score]) -> Table:
    """A table of the paper with our scores, keyed by experiment name, next to the published ones, if there are any."""
    first, published = experiments[0], any(cell.published for cell in experiments)
    title = TITLES[table_of(first) or "table1"]
    by_position = {(cell.name.split("/")[-1], "/".join(cell.name.split("/")[1:-1])): cell for cell in experiments}
    columns = dict.fromkeys(column for _, column in by_position)
    rows = []
    for row in dict.fromkeys(row for row, _ in by_position):
        line = [row.replace("-", " ") if row in ROWS else row]
        for column in columns:
            cell = by_position.get((row, column))
            pair = ["", ""] if cell is None else [str(scores.get(cell.name, "-")), published_score(cell)]
            line += pair[: 1 + published]
        rows.append(tuple(line))
    heads = ((column or "ours", f"{column} paper".strip())[: 1 + published] for column in columns)
    header = ("aggregators" if first.name.count("/") > 1 else "experiment", *(head for pair in heads for head in pair))
    metric = METRIC_LABELS[main_metric(first)]
    return Table(f"{title}: {DATASETS[first.data.dataset]}, {metric}", header, tuple(rows))
