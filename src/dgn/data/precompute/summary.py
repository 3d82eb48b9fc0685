"""Counts and failures of a precomputation over a dataset."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field

from dgn.data.precompute.chunks import ChunkDirections


@dataclass(frozen=True)
class Summary:
    """Counts of a run, and the errors of failed graphs by index.

    ``repeated`` counts the components whose first eigenvalue is repeated, ``undecided`` the eigenvectors without a
    canonical sign, ``cached`` the chunks read from the cache.
    """

    graphs: int = 0
    components: int = 0
    repeated: int = 0
    undecided: int = 0
    chunks: int = 0
    cached: int = 0
    seconds: float = 0.0
    failures: Mapping[int, str] = field(default_factory=dict)

    def __add__(self, other: "Summary") -> "Summary":
        """The summary of both runs; the graphs of ``other`` follow those of this one."""
        names = ("graphs", "components", "repeated", "undecided", "chunks", "cached", "seconds")
        failures = {self.graphs + index: error for index, error in other.failures.items()}
        sums = {name: getattr(self, name) + getattr(other, name) for name in names}
        return Summary(**sums, failures={**self.failures, **failures})


def summarize(directions: ChunkDirections, chunks: int, cached: int, seconds: float) -> Summary:
    """The summary of a run that computed ``directions``."""
    exists = directions.eigenvalues.isfinite()
    return Summary(
        graphs=len(directions.components),
        components=len(directions.eigenvalues),
        repeated=int(directions.repeated[:, 0].sum()),
        undecided=int((exists & ~directions.sign_is_canonical).sum()),
        chunks=chunks,
        cached=cached,
        seconds=seconds,
        failures=directions.failures,
    )


def warn_of_failures(summary: Summary) -> None:
    """Warn once about the graphs that could not be solved; raise an error if none could."""
    if summary.failures:
        first = [f"graph {index}: {error}" for index, error in list(summary.failures.items())[:5]]
        more = f"; and {len(summary.failures) - 5} more" if len(summary.failures) > 5 else ""
        if len(summary.failures) == summary.graphs:
            raise ValueError(f"directions: expected graphs that can be solved, got none; {'; '.join(first)}{more}")
        warnings.warn(
            f"directions: {len(summary.failures)} of {summary.graphs} graphs could not be solved and have zeros: "
            f"{'; '.join(first)}{more}",
            stacklevel=3,
        )
