"""What a run over a dataset did."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field

from dgn.data.precompute.chunks import ChunkDirections


@dataclass(frozen=True)
class Summary:
    """Counts of a run, and why graphs failed, by their number.

    ``repeated`` are the components whose first eigenvalue occurs more than once, ``undecided`` the vectors whose sign
    the graph does not decide, ``cached`` the chunks that were solved before.
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
        """Both, the graphs of the other behind those of this one."""
        names = ("graphs", "components", "repeated", "undecided", "chunks", "cached", "seconds")
        later = {self.graphs + number: why for number, why in other.failures.items()}
        sums = {name: getattr(self, name) + getattr(other, name) for name in names}
        return Summary(**sums, failures={**self.failures, **later})


def summarize(found: ChunkDirections, chunks: int, cached: int, seconds: float) -> Summary:
    """Count what was found."""
    exists = found.eigenvalues.isfinite()
    return Summary(
        graphs=len(found.components),
        components=len(found.eigenvalues),
        repeated=int(found.repeated[:, 0].sum()),
        undecided=int((exists & ~found.sign_is_canonical).sum()),
        chunks=chunks,
        cached=cached,
        seconds=seconds,
        failures=found.failures,
    )


def warn_of_failures(summary: Summary) -> None:
    """One warning that names the graphs that could not be solved; where that is all of them, an error."""
    if summary.failures:
        few = [f"graph {number}: {why}" for number, why in list(summary.failures.items())[:5]]
        more = f"; and {len(summary.failures) - 5} more" if len(summary.failures) > 5 else ""
        if len(summary.failures) == summary.graphs:
            raise ValueError(f"directions: expected graphs that can be solved, got none; {'; '.join(few)}{more}")
        warnings.warn(
            f"directions: {len(summary.failures)} of {summary.graphs} graphs could not be solved and have zeros: "
            f"{'; '.join(few)}{more}",
            stacklevel=3,
        )
