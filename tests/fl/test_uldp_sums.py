"""What each observer sees of a sum of weighted updates, by aggregation and by who draws."""

from __future__ import annotations

import math

import pytest

from privplan.accountant import events as ev
from privplan.accountant.errors import InvalidInput
from privplan.accountant.sensitivity import uldp
from privplan.fl.aggregation.weighted_sum import AGGREGATIONS, DRAWERS, weighted_sum, weighted_views

from ..cases import for_each

SIGMA, SILOS, RATE = 5.0, 5, 0.2
TRANSFER = "oblivious-transfer"


def views(aggregation="plain", drawn_by="server", **options):
    given = {"silos": SILOS, "rule": "records", "neighbours": "add-remove", "rate": RATE}
    return weighted_views(SIGMA, aggregation=aggregation, drawn_by=drawn_by, **{**given, **options})


def noise_of(event):
    inner = event.event if isinstance(event, ev.Poisson) else event
    return inner.noise_multiplier


def sampled(event):
    return isinstance(event, ev.Poisson)


# By hand: the noise in clips over how far one user moves what is seen, and whether it is hidden.
APART, SUM = SIGMA / math.sqrt(5), SIGMA
LEFT = SIGMA * math.sqrt(4 / 5)
TABLE = {
    ("plain", "server"): (APART, False, LEFT, False),
    ("plain", "shared-secret"): (APART, True, LEFT, False),
    ("masked", "server"): (SUM, False, LEFT, False),
    ("masked", "shared-secret"): (SUM, True, LEFT, False),
    ("private-weighting", "server"): (SUM, False, LEFT, True),
    ("private-weighting", "shared-secret"): (SUM, True, LEFT, False),
    ("private-weighting", TRANSFER): (SUM, True, LEFT, True),
}


@for_each(("aggregation", "drawn_by"), TABLE)
def test_who_sees_what(aggregation, drawn_by):
    found = views(aggregation, drawn_by)
    server, hidden, silo, from_silo = TABLE[aggregation, drawn_by]
    assert found["model"] == ev.Poisson(RATE, ev.Gaussian(SIGMA))
    assert noise_of(found["server"]) == pytest.approx(server, rel=1e-12)
    assert sampled(found["server"]) == hidden
    assert noise_of(found["silo"]) == pytest.approx(silo, rel=1e-12)
    assert sampled(found["silo"]) == from_silo
    in_the_clear = aggregation != "private-weighting"
    assert (found["silo-with-records"] == uldp.CLEAR_WEIGHTS) == in_the_clear


@for_each("neighbours", ["add-remove", "replace-one"])
@for_each("drawn_by", DRAWERS)
def test_no_sample_hides_a_user_from_a_silo_that_holds_some_of_it(neighbours, drawn_by):
    seen = views("private-weighting", drawn_by, neighbours=neighbours)["silo-with-records"]
    alone = uldp.insider_release(
        SIGMA,
        rounds=1,
        silos=SILOS,
        weighting="records",
        hidden_weights=True,
        neighbours=neighbours,
    )
    assert seen == alone.event
    assert not sampled(seen)


def test_samples_masks_and_single_silos_by_hand():
    for aggregation, drawn_by in TABLE:
        assert not any(sampled(one) for one in views(aggregation, drawn_by, rate=1.0).values())
    found = views("masked", rule="uniform")
    assert noise_of(found["server"]) == SIGMA
    assert noise_of(found["silo"]) == pytest.approx(SIGMA * math.sqrt(5 / 4), rel=1e-12)
    found = views("masked", tolerated_dropouts=4)
    assert isinstance(found["silo"], ev.NoGuarantee)
    assert found["server"] == ev.Gaussian(SIGMA)
    for aggregation in AGGREGATIONS[:2]:
        assert set(views(aggregation, silos=1)) == {"model", "server"}


@for_each("missing", [1, 2, 3])
def test_missing_silos_leave_a_silo_less_to_hide_behind(missing):
    mechanism = weighted_sum(
        SIGMA, bound=0.25, users=9, silos=SILOS, rule="records", tolerated_dropouts=missing
    )
    found = views("masked", tolerated_dropouts=missing)
    left = mechanism.share_std * math.sqrt(SILOS - missing - 1) / 0.25
    assert noise_of(found["silo"]) == pytest.approx(left, rel=1e-12)
    assert noise_of(found["silo"]) < noise_of(views("masked")["silo"])
    assert found["server"] == views("masked")["server"]
    assert found["model"] == views("masked")["model"]
    # What arrives at least has the noise that the server is promised.
    arrived = mechanism.share_std * math.sqrt(SILOS - missing) / 0.25
    assert arrived >= SIGMA


@for_each(
    ("aggregation", "options", "message"),
    [
        ("open", {}, "aggregation"),
        ("plain", {"drawn_by": "chance"}, "drawn_by"),
        ("plain", {"drawn_by": TRANSFER}, "oblivious transfer"),
        ("masked", {"drawn_by": TRANSFER}, "oblivious transfer"),
        ("private-weighting", {"rule": "uniform"}, "records"),
        ("private-weighting", {"tolerated_dropouts": 1}, "every silo"),
        ("plain", {"tolerated_dropouts": 1}, "every silo"),
        ("masked", {"tolerated_dropouts": -1}, "tolerated_dropouts"),
    ],
)
def test_what_does_not_go_together_is_refused(aggregation, options, message):
    with pytest.raises(InvalidInput, match=message):
        views(aggregation, **options)
