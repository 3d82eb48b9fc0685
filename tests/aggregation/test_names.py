"""Names of aggregators: each family is understood, and what is not is refused with the nearest name."""

import math

import pytest

from dgn.aggregation.names import ISOTROPIC, Directional, parse

MEANINGS = {
    "av1": Directional("av", 1),
    "dx1": Directional("dx", 1, absolute=True),
    "dx12": Directional("dx", 12, absolute=True),
    "dx3-signed": Directional("dx", 3),
    "av1-center": Directional("av", 1, balance="center"),
    "dx1-center": Directional("dx", 1, balance="center", absolute=True),
    "av2-pad": Directional("av", 2, padding="zero"),
    "dx2-pad": Directional("dx", 2, padding="zero", absolute=True),
    "fwd1": Directional("fwd", 1),
    "bwd4": Directional("bwd", 4),
    "av1-hard": Directional("av", 1, hardening=math.inf),
    "fwd1-hard": Directional("fwd", 1, hardening=math.inf),
    "dx1-soft10": Directional("dx", 1, hardening=10.0, absolute=True),
    "av1-soft0.5": Directional("av", 1, hardening=0.5),
    "dx1-group": Directional("dx", 1, absolute=True, group=3),
    "dx2-group2": Directional("dx", 2, absolute=True, group=2),
    "av1-group5": Directional("av", 1, group=5),
    "fwd1+2": Directional("fwd", 1, plus=2),
    "dx2-13-signed": Directional("dx", 2, plus=-13),
    "bwd1-2-hard": Directional("bwd", 1, plus=-2, hardening=math.inf),
    "av1-global": Directional("av", 1, scope="graph"),
    "dx2-global-signed": Directional("dx", 2, scope="graph"),
    "dx1-split": Directional("dx", 1, hardening=math.inf, split=True, absolute=True),
    "dx1-hard-split": Directional("dx", 1, hardening=math.inf, split=True, absolute=True),
    "av3-split-soft2": Directional("av", 3, hardening=2.0, split=True),
    "dx2-center-signed-hard": Directional("dx", 2, balance="center", hardening=math.inf),
}


@pytest.mark.parametrize("name", ISOTROPIC)
def test_isotropic_names_are_themselves(name):
    assert parse(name) == name


@pytest.mark.parametrize(("name", "meaning"), MEANINGS.items(), ids=MEANINGS)
def test_every_family_is_understood(name, meaning):
    assert parse(name) == meaning


@pytest.mark.parametrize(
    ("authors", "ours"),
    [("dir1-av", "av1"), ("dir2-smooth", "av2"), ("dir1-dx", "dx1"), ("dir3-dx-center", "dx3-center")],
)
def test_the_names_of_the_authors_are_understood(authors, ours):
    assert parse(authors) == parse(ours)


def test_the_order_of_options_does_not_matter():
    assert parse("dx1-signed-center-hard") == parse("dx1-hard-center-signed")


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("maen", "mean"), ("avg1", "av1"), ("av0", "av1"), ("av", "av1"), ("dx1-sign", "dx1-signed"),
        ("dx1-centre", "dx1-center"), ("forward1", "fwd1"), ("bwd", "bwd1"), ("av1-soft", "av1-soft10"),
        ("stdev", "std"),
    ],
)  # fmt: skip
def test_an_unknown_name_is_refused_and_the_nearest_named(name, nearest):
    with pytest.raises(ValueError, match=f"aggregator '{name}'.*did you mean '{nearest}'"):
        parse(name)


@pytest.mark.parametrize(
    "name",
    [
        "", "dx01", "dx-1", "av1-signed", "fwd1-center", "bwd1-pad", "fwd1-signed", "mean-hard", "max1",
        "fwd1-group", "dx1-group-signed", "dx1-hard-group", "av1-group-group", "dx1-group0", "dx1-group2.5",
        "dx1-hard-hard", "dx1-soft2-hard", "dx1-signed-signed", "dx1+", "fwd1+0", "fwd1+2+3", "dx1+2-group",
        "dx1-global-global", "fwd1-global", "dx1-global-group", "bwd1-split", "av1-split-split",
        "dx1-", "dx1-soft-2", "dx1-softinf", "dir1-max", "dir-av", "dir1-dx-2", "dir1-smooth+2", "DX1", " dx1",
    ],
)  # fmt: skip
def test_meaningless_names_are_refused(name):
    with pytest.raises(ValueError, match="expected one of mean, sum, max, min, std, var"):
        parse(name)


@pytest.mark.parametrize("name", ["av1-global-center", "dx1-pad-global"])
def test_the_norm_of_a_graph_balances_no_sides(name):
    with pytest.raises(ValueError, match=r"expected -global without -center or -pad"):
        parse(name)


def test_a_temperature_of_0_is_refused():
    with pytest.raises(ValueError, match=r"temperature above 0, got 0\.0; try av1-soft10"):
        parse("av2-soft0")


@pytest.mark.parametrize("name", ["fwd2+1", "dx1-1", "av3-2-center"])
def test_two_directions_come_in_order(name):
    with pytest.raises(ValueError, match="expected two different directions, the smaller number first"):
        parse(name)


@pytest.mark.parametrize(("name", "least"), [("dx1-group1", 2), ("av4-group3", 4)])
def test_a_group_without_its_own_direction_is_refused(name, least):
    with pytest.raises(ValueError, match=f"among the first {least} directions or more"):
        parse(name)
