"""Parser of aggregator names."""

import math
import re
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Literal

from dgn.operators.radius import Word, walk_words

ISOTROPIC = ("mean", "sum", "max", "min", "std", "var")
BEYOND = 2  # directions searched for a group beyond its own, by default
_DIRECTIONAL = re.compile(
    r"(?P<operator>av|dx|fwd|bwd)(?P<direction>[1-9][0-9]*)(?P<plus>[+-][1-9][0-9]*)?(?P<options>(?:-[a-z]+[0-9.]*)*)"
)
_WALKS = re.compile(r"walks(?P<radius>[1-9][0-9]*)of(?P<fields>[1-9][0-9]*)(?P<permuted>-permuted)?")
_AUTHORS = re.compile(r"dir(?P<direction>[1-9][0-9]*)-(?P<operator>av|smooth|dx)(?P<options>(?:-[a-z].*)?)")


@dataclass(frozen=True)
class Directional:
    """One directional sum: its field column, shaping and weights.

    ``plus`` is a second direction that is added to the first, negative where it is subtracted.
    ``hardening`` is ``None`` for the field as it is, infinity for the argmax, a number for a softmax at that
    temperature. ``absolute`` takes the absolute value of the result, which makes a derivative invariant to the sign
    of the field. ``group`` is the number of first directions of which those near this one in eigenvalue form a group
    with it; the result is then a norm over the group, invariant to its basis. ``scope`` is what the weights are
    normalised over: each row, or the whole graph. ``split`` hardens the positive and the negative part separately.
    """

    operator: Literal["av", "dx", "fwd", "bwd"]
    direction: int
    balance: Literal["row", "center"] = "row"
    padding: Literal["zero"] | None = None
    hardening: float | None = None
    absolute: bool = False
    group: int | None = None
    plus: int = 0
    scope: Literal["node", "graph"] = "node"
    split: bool = False

    @property
    def columns(self) -> int:
        """The number of sums: a derivative along a group has one for each of its directions."""
        return self.group if self.group is not None and self.operator == "dx" else 1

    @property
    def num_directions(self) -> int:
        """The number of field columns that are read."""
        return max(self.direction, abs(self.plus)) if self.group is None else self.group


@dataclass(frozen=True)
class WalkFamily:
    """All walks of at most ``radius`` steps along the first ``fields`` directions, each of them one output.

    Steps along direction 1 come first, then those along direction 2, and so on; if ``permuted``, in any order, and the
    walk of no steps is one of them (appendix A.7).
    """

    radius: int
    fields: int
    permuted: bool = False

    @property
    def words(self) -> tuple[Word, ...]:
        """The walks, shorter ones first: :class:`dgn.Walks`."""
        return walk_words(self.fields, self.radius, self.permuted, identity=self.permuted)


def parse(name: str) -> str | Directional | WalkFamily:
    """The aggregator of a name; an isotropic name is returned unchanged.

    >>> parse("dx2-center-signed") == Directional("dx", 2, balance="center")
    True
    >>> parse("dx2-group").group, parse("dx2-group7").group
    (4, 7)
    >>> parse("fwd1-2").plus
    -2
    >>> parse("walks2of3")
    WalkFamily(radius=2, fields=3, permuted=False)
    >>> parse("dir1-av") == parse("av1")
    True
    """
    if name in ISOTROPIC:
        return name
    walks = _WALKS.fullmatch(name)
    if walks is not None:
        return WalkFamily(int(walks["radius"]), int(walks["fields"]), walks["permuted"] is not None)
    authors = _AUTHORS.fullmatch(name)
    plain = (
        f"{authors['operator'].replace('smooth', 'av')}{authors['direction']}{authors['options']}" if authors else name
    )
    match = _DIRECTIONAL.fullmatch(plain)
    if match is None:
        raise ValueError(_unknown(name))
    options, direction, plus = match["options"].split("-")[1:], int(match["direction"]), int(match["plus"] or 0)
    if plus and abs(plus) <= direction:
        raise ValueError(
            f"aggregator {name!r}: expected two different directions, the smaller number first, got {direction} and "
            f"{abs(plus)}; write it as in {match['operator']}1+2"
        )
    if any(option.startswith("group") for option in options):
        if plus:
            raise ValueError(_unknown(name))
        return _group(name, match["operator"], direction, options)  # type: ignore[arg-type]
    return replace(_with_options(name, match["operator"], direction, options), plus=plus)  # type: ignore[arg-type]


def _with_options(
    name: str, operator: Literal["av", "dx", "fwd", "bwd"], direction: int, options: list[str]
) -> Directional:
    sharpness = {"hard": math.inf} | {o: float(o[4:]) for o in options if re.fullmatch(r"soft([0-9]*\.)?[0-9]+", o)}
    hardening = [sharpness.pop(option) for option in options if option in sharpness]
    flags = [option for option in options if option in ("center", "pad", "signed", "global", "split")]
    sides = {"center", "pad", "global", "split"}
    allowed = {"av": sides, "dx": {*sides, "signed"}}.get(operator, set())
    unknown = len(options) - len(hardening) - len(flags)
    if {"center", "pad"} <= set(flags):
        raise ValueError(f"aggregator {name!r}: expected -center or -pad, got both; -pad balances both sides already")
    if "global" in flags and {"center", "pad"} & set(flags):
        raise ValueError(
            f"aggregator {name!r}: expected -global without -center or -pad, got both; these balance the two sides of "
            "each node, and -global leaves nodes their weight"
        )
    if unknown or len(hardening) > 1 or not set(flags) <= allowed or len(set(flags)) < len(flags):
        raise ValueError(_unknown(name))
    if hardening and not hardening[0] > 0:
        raise ValueError(
            f"aggregator {name!r}: expected a temperature above 0, got {hardening[0]}; try {operator}1-soft10"
        )
    return Directional(
        operator,
        direction,
        balance="center" if "center" in flags else "row",
        padding="zero" if "pad" in flags else None,
        hardening=hardening[0] if hardening else math.inf if "split" in flags else None,
        absolute=operator == "dx" and "signed" not in flags,
        scope="graph" if "global" in flags else "node",
        split="split" in flags,
    )


def _group(name: str, operator: Literal["av", "dx", "fwd", "bwd"], direction: int, options: list[str]) -> Directional:
    match = re.fullmatch(r"group([1-9][0-9]*)?", options[0])
    if match is None or len(options) > 1 or operator not in ("av", "dx"):
        raise ValueError(_unknown(name))
    size = int(match[1] or direction + BEYOND)
    if size < max(2, direction):
        raise ValueError(
            f"aggregator {name!r}: expected a group among the first {max(2, direction)} directions or more, got "
            f"{size}; try {operator}{direction}-group"
        )
    return Directional(operator, direction, absolute=operator == "dx", group=size)


def _unknown(name: str) -> str:
    examples = [*ISOTROPIC, "av1", "dx1", "fwd1", "bwd1", "dx1-signed", "av1-center", "dx1-center", "av1-pad"]
    examples += ["dx1-pad", "dx1-hard", "av1-soft10", "av1-group", "dx1-group", "av1-global", "dx1-global", "dx1-split"]
    examples += ["walks2of1", "walks2of2-permuted"]
    near = get_close_matches(name.lower(), examples, n=1, cutoff=0.4)
    remedy = f"did you mean {near[0]!r}?" if near else "see docs/aggregators.md"
    return (
        f"aggregator {name!r}: expected one of {', '.join(ISOTROPIC)}, or av, dx, fwd or bwd with the number of a "
        "direction, or of two as in fwd1+2 or fwd1-2, and options: -center, -pad or -global for av and dx, "
        "-signed for dx, -hard or -soft10 for all, -split with these for av and dx, or -group alone for av and dx; "
        f"or walks2of3 or walks2of3-permuted, of 2 steps along 3 directions; {remedy}"
    )
