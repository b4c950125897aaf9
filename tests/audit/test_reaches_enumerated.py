"""What is stated to be seen beside the release and the mix, against exact laws of two messages."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any, Final

import pytest

from privplan.accountant import events as ev
from privplan.accountant.records import Contribution, Noise, Reach, Sampling, Security, Weights
from privplan.audit.derivation.round_facts import RoundFacts
from privplan.audit.derivation.supported_event import supported

from ..cases import for_each
from .enumerating import (
    ALONE,
    AMONG_A_USER,
    ORDER,
    RESPONSE,
    answered,
    coordinates,
    delta,
    hockey_stick,
    responses,
    setting,
    shuffled,
)

DUMMY: Final = [Fraction(1, 2), Fraction(1, 2)]


AMONG_A_DUMMY: Final = hockey_stick(shuffled(answered(1), DUMMY), shuffled(answered(0), DUMMY))


# --- what is released, to who sees nothing else ---------------------------------------------------


def test_colluders_tell_who_sees_only_the_release() -> None:
    """18 of 20 users tell a server that holds ciphertexts what they sent: one hides the unit."""
    mixed = Reach("shuffled", users=20, granularity="coordinate")
    facts = responses({"analyzer": mixed, "server": Reach("nothing", colluders=18)})
    assert delta(supported(facts, setting(20), "server")) >= AMONG_A_USER
    assert delta(supported(facts, setting(20), "model")) < AMONG_A_USER


@for_each("rule", ["records", "none"])
@for_each("told", [1, 3, 5])
def test_colluders_take_their_noise_off_the_release(rule: Any, told: int) -> None:
    """Of six shares of the noise so many are known; a user may lie with the others alone."""
    shares, share = 6, 4.0
    noise = Noise("gaussian", share * math.sqrt(shares), shares, share)
    facts = RoundFacts(
        Contribution(1.0, "l2", "user", "unit"),
        noise,
        Weights(rule),
        Sampling(),
        0.0,
        ev.Gaussian(1.0),
        *(shares, 1, 1, shares),
        single=False,
        reaches=(("coordinator", Reach("nothing", colluders=told)),),
    )
    peers = Security("additive-shares", shares, shares, ring_bits=64)
    case = setting(50, aggregation="shares", security=peers, neighbours="add-remove")
    found = supported(facts, replace(case, silos=shares), "coordinator")
    assert isinstance(found, ev.Gaussian)
    assert found.noise_multiplier <= share * math.sqrt(shares - told)


@for_each("neighbours", ["replace-one", "zero-out"])
def test_who_sees_the_sets_has_the_units_dimension(neighbours: Any) -> None:
    """The other user sends another coordinate: beside the unit's message lies one dummy."""
    case = setting(2, neighbours=neighbours)
    secret = supported(coordinates(2), case, "analyzer")
    known = supported(coordinates(2, also=("index-sets",)), case, "analyzer")
    assert delta(secret, "replace-one") < AMONG_A_DUMMY
    assert delta(known, "replace-one") >= AMONG_A_DUMMY


def test_a_set_that_is_seen_shows_that_a_unit_is_there() -> None:
    case = setting(2, neighbours="add-remove")
    known = supported(coordinates(2, also=("index-sets",)), case, "analyzer")
    assert isinstance(known, ev.NoGuarantee)


def test_of_known_sets_one_place_hides_nothing() -> None:
    known = supported(coordinates(1, also=("index-sets",)), setting(2), "analyzer")
    assert delta(known) >= ALONE


# --- samples --------------------------------------------------------------------------------------


@for_each(("users", "knows"), [(40, True), (38, False), (38, True)])
def test_all_who_tell_may_be_in_the_sample(users: int, knows: bool) -> None:
    """18 of 40 users tell what they sent, and may be 18 of the 20 that are drawn."""
    mixed = Reach(
        "shuffled", users=users, granularity="coordinate", colluders=18, knows_sample=knows
    )
    drawn = Sampling("fixed-size", "user", 0.5, "shared-secret", 20, 40)
    facts = responses({"analyzer": mixed}, sampling=drawn)
    protocol = Security("shuffler", 40, 38, colluders=18)
    for security in (None, protocol):
        event = supported(facts, setting(40, security=security), "analyzer")
        assert delta(event) >= (1.0 if knows else 0.5) * AMONG_A_USER
        assert not isinstance(event, ev.FixedSize)
        assert event in (RESPONSE, ev.Shuffle(2, RESPONSE))


@for_each(
    ("observer", "aggregation", "unit"),
    [
        ("analyzer", "shuffle", "user"),
        ("server", "shuffle", "user"),
        ("server+1", "plain", "record"),
    ],
)
def test_who_sees_each_message_by_its_sender_sees_the_sample(
    observer: str, aggregation: str, unit: Any
) -> None:
    """A unit that sends nothing was not drawn; who was has its own message, and no other law.

    One deviation lies between two numbers in [-1, 1] with noise of 2: at log(1.5) delta is .2637.
    """
    facts = replace(
        responses({observer: Reach("each")}),
        contribution=Contribution(1.0, "l2", unit, "message"),
        noise=Noise("gaussian", 2.0),
        sampling=Sampling("poisson", unit, 0.2, "silos"),
    )
    protocol = Security("shuffler", 100, 10) if aggregation == "shuffle" else None
    case = setting(100, aggregation=aggregation, security=protocol)
    case = replace(case, unit=unit, records=100)
    epsilon = math.log(float(ORDER))
    tails = [math.erfc((epsilon + half) / math.sqrt(2)) / 2 for half in (-0.5, 0.5)]
    assert tails[0] - 1.5 * tails[1] == pytest.approx(0.2637, abs=1e-4)
    assert delta(supported(facts, case, observer)) >= tails[0] - 1.5 * tails[1]


# --- the noise of one -----------------------------------------------------------------------------


@for_each("fields", [{}, {"colluders": 1}, {"dropouts": 1}])
@for_each("observer", ["silo", "silo-with-records", "peer", "client"])
@for_each("terms", ["unit", "message"])
def test_who_takes_part_may_have_made_the_one_share(
    observer: str, terms: Any, fields: dict[str, Any]
) -> None:
    """Of six shares one is its own with probability 1/6; then it sees the sum without noise."""
    facts = replace(
        responses({observer: Reach("one-share", **fields)}),
        contribution=Contribution(1.0, "l2", "user", terms),
        noise=Noise("gaussian", 24.0, 6, 10.0),
        shares=6,
        most_shares=6,
    )
    case = replace(setting(50, aggregation="plain"), silos=6)
    assert delta(supported(facts, case, observer)) >= 1 / 6


@for_each("terms", ["unit", "message"])
def test_who_adds_no_noise_sees_the_one_share(terms: Any) -> None:
    facts = replace(
        responses({"model": Reach("one-share"), "server": Reach("one-share", dropouts=1)}),
        contribution=Contribution(1.0, "l2", "user", terms),
        weights=Weights("uniform"),
        noise=Noise("gaussian", 24.0, 6, 9.0),
        shares=6,
        most_shares=6,
    )
    case = replace(setting(50, aggregation="plain"), silos=6)
    found = supported(facts, case, "model")
    assert isinstance(found, ev.Gaussian)
    assert found.noise_multiplier == pytest.approx(9.0)
    assert isinstance(supported(facts, case, "server"), ev.NoGuarantee)
