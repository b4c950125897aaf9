"""Numbers before observers whose reach takes something away, each worked out by hand.

The epsilon of Gaussian noise is found here from its profile, delta = Phi(-e / m + m / 2) -
exp(e) Phi(-e / m - m / 2) for a shift of m deviations, and not by the code that is asked.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Final

import pytest

import privplan as pp
from privplan.accountant import events as ev
from privplan.accountant.mechanisms import LaplaceMessages, ShuffledRound
from privplan.accountant.records import Noise, Reach, RoundIntent
from privplan.audit.derivation.supported_event import supported

from ..cases import for_each
from .ledgers import (
    CLIP,
    DELTA,
    SIGMA,
    Records,
    also,
    audited,
    evidence,
    intents,
    masks,
    opening,
    part,
    releases,
    upper,
    weighted,
)
from .shuffled import EACH
from .shuffled_enumeration import enumerated
from .shuffling import mixing, sent
from .test_messages_audited import of_mechanism
from .test_reaches import silent_in, stating


def gaussian(shift: float, delta: float = DELTA) -> float:
    """Return the epsilon of Gaussian noise on a sum that moves by so many deviations."""

    def excess(epsilon: float) -> float:
        near, far = epsilon / shift - shift / 2, epsilon / shift + shift / 2
        tail = math.erfc(near / math.sqrt(2)) - math.exp(epsilon) * math.erfc(far / math.sqrt(2))
        return tail / 2 - delta

    low, high = 0.0, shift * shift / 2 + shift * math.sqrt(2 * math.log(1 / delta))
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if excess(middle) > 0 else (low, middle)
    return high


def event(records: Records, observer: str) -> ev.Event:
    (kind,) = evidence(records).kinds
    return supported(kind.facts, evidence(records).setting, observer)


# --- sums of messages: who knows some of them takes their noise off ----------------------------


def masked_messages(*, silos: int = 7, told: int = 2) -> Records:
    """Return a log in which each silo sends one message in [-2, 2], of deviation 3, under masks."""
    share = Noise("gaussian", 3.0 * math.sqrt(silos), silos, 3.0, 0, 1, 2.0**-24)
    return also(
        opening(
            claim=part(unit="silo", neighbours="replace-one", epsilon=None),
            aggregation="masked",
            security=masks(silos, silos, told),
        ),
        intents(
            contribution=part(unit="silo", terms="message", bound=2.0),
            noise=share,
            sensitivity=4.0,
            views={},
        ),
    )(weighted(1, silos=silos, rule="none", views=False))


@for_each(
    ("observer", "noises"),
    [
        ("model", 7),
        ("server", 7),
        ("silo", 6),
        ("server+1", 6),
        ("server+2", 5),
    ],
)
@for_each("stated", [False, True])
def test_who_knows_some_messages_takes_their_noise_off(
    observer: str, noises: int, stated: bool
) -> None:
    """Under replace-one a message moves by 4, beside the noise of those who tell nothing."""
    log = stating(masked_messages()) if stated else masked_messages()
    assert upper(log, observer) == pytest.approx(gaussian(4 / (3 * math.sqrt(noises))), rel=1e-6)


def test_colluders_that_a_reach_states_are_taken_off() -> None:
    told = {"model": Reach("sum", colluders=3), "silo": Reach("sum-less-own", colluders=2)}
    log = stating(masked_messages(told=0), **told)
    for observer in (*told, "server"):  # who sees what is released, as the model does
        least = gaussian(4 / (3 * math.sqrt(4)))
        assert upper(log, observer) == pytest.approx(least, rel=1e-6)


def test_one_message_beside_those_that_are_known_is_seen() -> None:
    log = stating(masked_messages(told=0), silo=Reach("sum-less-own", colluders=5))
    assert upper(log, "silo") == pytest.approx(gaussian(4 / 3), rel=1e-6)


# --- messages that may be missing hide nobody ---------------------------------------------------


@for_each(("colluders", "dropouts"), [(0, 4), (1, 3), (3, 1), (4, 0), (2, 5)])
@for_each("assumed", [False, True])
def test_messages_that_may_be_missing_mix_nothing(
    colluders: int, dropouts: int, assumed: bool
) -> None:
    """Of 9 messages, the unit's own is mixed with those that surely came and are not known."""
    left, epsilon0, delta = 9 - colluders - dropouts, 1.5, 0.01
    reach = Reach("shuffled", colluders=colluders, users=9, dropouts=dropouts)
    log = sent(
        {"analyzer": reach, "shuffler": EACH},
        users=9,
        noise=Noise("randomized-response", 0.0),
        event=ev.RandomizedResponse(epsilon0, 2),
        security=None if assumed else mixing(9, colluders=colluders),
        delta=delta,
        values=2,
    )
    found = upper(log, "analyzer")
    assert found >= enumerated(left, epsilon0, delta) * (1 - 1e-9)
    assert event(log, "analyzer") == ev.Shuffle(left, ev.RandomizedResponse(epsilon0, 2))


def test_all_coordinates_of_those_who_are_missing_are_too() -> None:
    reach = Reach(
        *("shuffled", "nothing", 1, 4), users=9, dimensions=3, chosen=3, granularity="coordinate"
    )
    log = sent({"analyzer": reach}, users=9, values=3, security=mixing(9, colluders=1))
    assert event(log, "analyzer") == ev.Repeat(3, ev.Shuffle(4, ev.Laplace(4.0)))


# --- shares of the noise that may be missing ----------------------------------------------------


@for_each(
    ("observer", "reach", "left"),
    [
        ("server", Reach("sum", dropouts=2), 3),
        ("server", Reach("sum", dropouts=3), 2),
        ("model", Reach("sum", dropouts=4), 1),
    ],
)
def test_noise_that_a_reach_says_may_be_missing_is_not_counted_on(
    observer: str, reach: Reach, left: int
) -> None:
    """Of 5 shares, each half of what is promised, one may be missing by the facts of the noise."""
    honest = weighted(1, aggregation="masked", dropouts=1)
    assert upper(honest, observer) == pytest.approx(gaussian(1 / SIGMA), rel=1e-6)
    log = stating(honest, **{observer: reach})
    shift = CLIP / (SIGMA * CLIP / 2 * math.sqrt(left))
    assert upper(log, observer) == pytest.approx(gaussian(shift), rel=1e-6)


def test_where_all_noise_may_be_missing_nothing_is_supported() -> None:
    honest = weighted(1, aggregation="masked", dropouts=1)
    assert math.isinf(upper(stating(honest, server=Reach("sum", dropouts=5)), "server"))


def test_messages_that_are_missing_from_a_sum_take_their_noise_along() -> None:
    log = stating(masked_messages(told=0), model=Reach("sum", dropouts=3))
    assert upper(log) == pytest.approx(gaussian(4 / (3 * math.sqrt(4))), rel=1e-6)


# --- who is taken to see each message knows whose they are --------------------------------------


def drawn_in_secret(rounds: int, *, aggregation: str = "plain") -> Records:
    """Return a log whose sample of users the silos keep from the server."""
    rule = "uniform" if aggregation == "plain" else "records"
    return weighted(
        rounds, rule=rule, rate=0.1, drawn_by="shared-secret", views=False, aggregation=aggregation
    )


def test_no_sample_hides_anybody_where_a_reach_is_contradicted() -> None:
    """Weights of 1/5, each beside its own noise of 5 clips over sqrt 5: a shift of 1/5 in all."""
    honest = stating(drawn_in_secret(1))
    known = gaussian(1 / SIGMA)
    assert upper(honest, "server") < known / 2
    for false in (Reach("sum"), Reach("nothing", users=3), Reach("shuffled", users=50)):
        log = stating(honest, server=false)
        assert not audited(log).ok
        assert upper(log, "server") >= known * (1 - 1e-9)
    log = stating(honest, server=Reach("sum"))
    assert upper(log, "server") == pytest.approx(known, rel=1e-6)


@for_each("aggregation", ["plain", "masked"])
def test_no_sample_hides_anybody_in_a_round_without_a_reach(aggregation: str) -> None:
    """Under masks weights are by records, up to all of them on one share of noise."""
    honest = stating(drawn_in_secret(2, aggregation=aggregation))
    shift = 1 / SIGMA if aggregation == "plain" else math.sqrt(5) / SIGMA
    assert upper(honest, "server") < gaussian(shift) / 2
    log = silent_in(honest, {2})
    assert upper(log, "server") >= gaussian(shift) * (1 - 1e-9)
    twice = silent_in(
        [
            replace(one, reaches={**(one.reaches or {}), "peer": Reach("each", knows_sample=True)})
            if isinstance(one, RoundIntent) and one.round == 1
            else one
            for one in honest
        ],
        {2},
    )
    assert upper(twice, "peer") >= gaussian(math.sqrt(2) * shift) * (1 - 1e-9)


# --- an observer that nobody knows --------------------------------------------------------------


RESPONSES: Final[dict[str, Any]] = {
    "noise": Noise("randomized-response", 0.0),
    "event": ev.RandomizedResponse(1.5, 2),
}


@for_each("given", [RESPONSES, {}], ids=["responses", "laplace"])
@for_each(
    "reaches",
    [
        {},
        {"server": Reach("each", knows_sample=True)},
        {"bystander": Reach("each", knows_sample=True)},
        {"bystander": Reach("nothing")},
    ],
)
def test_a_log_that_says_who_sees_what_says_nothing_of_a_stranger(
    given: dict[str, Any], reaches: dict[str, Reach]
) -> None:
    log = sent(reaches, users=50, values=1, aggregation="plain", **given)
    assert isinstance(event(log, "bystander"), ev.NoGuarantee)
    assert math.isinf(upper(log, "bystander"))
    assert math.isfinite(upper(log, "server"))


def test_a_stranger_to_an_earlier_log_of_responses_sees_each_of_them() -> None:
    """No more than one response can be seen of a unit, whoever looks."""
    log = sent(None, users=50, values=1, aggregation="plain", **RESPONSES)
    assert event(log, "bystander") == ev.RandomizedResponse(1.5, 2)
    many = intents(noise=part(draws=3))(log)
    assert event(many, "bystander") == ev.Repeat(3, ev.RandomizedResponse(1.5, 2))


@for_each("users", [None, 50])
def test_which_coordinates_are_sent_may_tell_unless_it_is_said_that_no_data_choose(
    users: int | None,
) -> None:
    """A unit that sends what its data choose is known by that, however its values are mixed."""
    sees: Any = "shuffled" if users else "sum"
    seen = Reach(sees, users=users, also=("index-sets",))
    log = sent({"analyzer": seen}, users=50, values=1, security=mixing(50))
    assert math.isinf(upper(log, "analyzer"))
    known = sent({"analyzer": seen, "shuffler": EACH}, users=50, values=1, security=mixing(50))
    assert math.isfinite(upper(known, "analyzer"))  # one of them says that it is oblivious


def test_one_message_more_than_was_announced_counts_in_full() -> None:
    """Seven messages under an intent of six each: whose sender is known shows seven."""
    mixed = LaplaceMessages(1.0, 4.0, shuffled=ShuffledRound(40, 60, 6, 50))
    assert mixed.shuffled is not None
    reaches = {"analyzer": mixed.shuffled.reach(), "shuffler": EACH}
    log = of_mechanism(mixed, draws=6, values=60, users=40, reaches=reaches)
    more = releases(draws=7)(log)
    seven = pp.account(ev.Repeat(7, ev.Laplace(4.0)), delta=1e-6, neighbours="replace-one")
    assert upper(more, "shuffler") >= seven.epsilon.upper
    assert event(more, "analyzer") == ev.Repeat(2, event(log, "analyzer"))


def test_a_small_weight_takes_nothing_off_a_message() -> None:
    """It has its noise when it is weighted, so both shrink."""
    log = sent({"server": EACH}, users=50, values=1, aggregation="plain")
    light = intents(weights=part(largest_sum=0.25), sensitivity=0.5)(log)
    assert event(light, "server") == event(log, "server") == ev.Laplace(4.0)


def test_nobody_is_told_of_what_a_number_assumes_where_there_is_none() -> None:
    assumed = Reach("each", rests_on=("nobody looks",))
    for neighbours, fine in (("replace-one", True), ("add-remove", False)):
        log = sent(
            {"server": assumed}, users=50, values=1, aggregation="plain", neighbours=neighbours
        )
        assert math.isfinite(upper(log, "server")) == fine
        assert ("reach-assumed" in {hazard.id for hazard in audited(log).hazards}) == fine


def test_more_rounds_like_the_last_are_about_what_lies_elsewhere() -> None:
    """A silo that takes its own part off has the number of what lies elsewhere, and no other."""
    log = stating(weighted(1, aggregation="masked"), silo=Reach("sum-less-own", colluders=0))
    elsewhere = math.sqrt(3) / SIGMA * math.sqrt(0.8)
    assert evidence(log).with_more("silo", 2).upper == pytest.approx(gaussian(elsewhere), rel=1e-6)


def test_who_sees_each_part_of_a_release_sees_the_release() -> None:
    """Even parts with half of the noise each move by less than their sum does without one."""
    log = stating(weighted(1, dropouts=1), analyzer=Reach("each", dropouts=1))
    (kind,) = evidence(log).kinds
    apart = evidence(log).seen(kind, "analyzer").supported
    assert isinstance(apart, ev.Gaussian)
    assert apart.noise_multiplier == pytest.approx(SIGMA / 2 * math.sqrt(5), rel=1e-6)
    assert upper(log, "analyzer") == upper(log) == pytest.approx(gaussian(1 / SIGMA), rel=1e-6)
    more = evidence(log).with_more("analyzer", 2).upper
    assert more == pytest.approx(gaussian(math.sqrt(3) / SIGMA), rel=1e-6)


def test_a_sum_with_the_noise_of_one_has_a_fifth_of_its_variance() -> None:
    log = stating(weighted(1), server=Reach("one-share"))
    assert upper(log, "server") == pytest.approx(gaussian(math.sqrt(5) / SIGMA), rel=1e-6)
