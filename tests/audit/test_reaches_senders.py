"""Whose messages an observer knows, by enumeration: its own, its users', those of colluders."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Final

import pytest

import privplan as pp
from privplan.accountant import events as ev
from privplan.accountant.records import Contribution, Noise, Reach, Sampling, Security, Weights
from privplan.audit.derivation.round_facts import RoundFacts
from privplan.audit.derivation.supported_event import supported

from ..cases import for_each
from .enumerating import ALONE, AMONG_A_USER, RESPONSE, coordinates, delta, responses, setting

# --- one's own messages ---------------------------------------------------------------------------


def test_a_client_of_many_records_knows_as_many_messages() -> None:
    """Of ten records' messages eight are the client's own, so one other hides each record."""
    mixed = Reach("shuffled", users=10, granularity="coordinate")
    facts = responses({"analyzer": mixed, "client": replace(mixed, colluders=1)})
    facts = replace(facts, contribution=Contribution(1.0, "l1", "record", "message"))
    case = replace(setting(2, security=Security("shuffler", 10, 10)), group=8, records=10)
    assert supported(facts, case, "analyzer") == ev.Shuffle(10, RESPONSE)
    assert delta(supported(facts, case, "client")) >= AMONG_A_USER
    assert supported(facts, case, "client") == ev.Shuffle(2, RESPONSE)


def test_a_client_of_many_records_takes_as_many_shares_off() -> None:
    """Of ten messages in a sum eight are its own, and so is their noise."""
    facts = replace(
        responses({"model": Reach("sum"), "client": Reach("sum-less-own")}),
        contribution=Contribution(1.0, "l2", "record", "message"),
        noise=Noise("gaussian", 4.0 * math.sqrt(10), 10, 4.0),
        shares=10,
        most_shares=10,
    )
    found = supported(facts, replace(setting(2, aggregation="plain"), group=8), "client")
    assert isinstance(found, ev.Gaussian)
    assert found.noise_multiplier <= 4.0 * math.sqrt(2)


@for_each("security", [None, Security("shuffler", 2, 2)])
def test_a_client_knows_its_message_whoever_is_trusted_to_mix(security: Any) -> None:
    """Of two messages one is the client's own, whatever is stated of colluders."""
    mixed = Reach("shuffled", users=2, granularity="coordinate")
    facts = responses({"analyzer": mixed, "client": mixed})
    case = setting(2, security=security)
    assert delta(supported(facts, case, "client")) >= ALONE
    if security is None:
        assert delta(supported(facts, case, "analyzer")) == pytest.approx(AMONG_A_USER, rel=1e-3)


def test_a_client_of_any_number_of_records_knows_any_number_of_messages() -> None:
    """The promise is for one record, and the client may have all ten but that one."""
    mixed = Reach("shuffled", users=10, granularity="coordinate")
    for security in (None, Security("shuffler", 10, 10)):
        facts = responses({"analyzer": mixed, "client": replace(mixed, colluders=1)})
        facts = replace(facts, contribution=Contribution(1.0, "l1", "record", "message"))
        case = replace(setting(2, security=security), unit="record", records=10)
        assert delta(supported(facts, case, "client")) >= ALONE
        assert supported(facts, case, "analyzer") == ev.Shuffle(10, RESPONSE)


@for_each("observer", ["silo", "silo-with-records", "peer"])
@for_each("stated", [None, {"colluders": 1}, {"colluders": 4}])
def test_a_silo_knows_the_messages_of_all_its_users(observer: str, stated: Any) -> None:
    """Nine of ten users may lie in the silo, which draws for them."""
    mixed = Reach("shuffled", users=10, granularity="coordinate")
    told = {} if stated is None else {observer: replace(mixed, **stated)}
    facts = responses({"analyzer": mixed, **told})
    case = replace(setting(10, security=Security("shuffler", 10, 10)), silos=2)
    assert delta(supported(facts, case, observer)) >= ALONE
    assert supported(facts, case, "analyzer") == ev.Shuffle(10, RESPONSE)
    sends = replace(facts, contribution=Contribution(1.0, "l1", "silo", "message"))
    sender = replace(case, unit="silo", silos=10)
    assert supported(replace(sends, reaches=()), sender, observer) == ev.Shuffle(9, RESPONSE)


def gaussians(unit: Any = "user", **given: Any) -> RoundFacts:
    """Return a round of 100 messages in [-1, 1], each with noise of 2, that are summed."""
    return replace(
        responses({}),
        contribution=Contribution(1.0, "l2", unit, "message"),
        noise=Noise("gaussian", 20.0, 100, 2.0),
        event=ev.Gaussian(1.0),
        shares=100,
        most_shares=100,
        reaches=None,
        **given,
    )


@for_each("observer", ["silo", "silo-with-records", "peer"])
def test_a_silo_takes_the_noise_of_all_its_users_off_a_sum(observer: str) -> None:
    case = replace(setting(100, aggregation="plain"), silos=5)
    event = supported(gaussians(), case, observer)
    assert isinstance(event, ev.Gaussian)
    assert event.noise_multiplier <= 2.0
    for sees in ("sum", "sum-less-own", "nothing", "one-share"):
        told = replace(gaussians(), reaches=((observer, Reach(sees)),))  # type: ignore[arg-type]
        event = supported(told, case, observer)
        assert isinstance(event, ev.NoGuarantee) or delta(event) >= delta(ev.Gaussian(2.0))


def test_a_silo_that_tells_or_is_missing_has_any_number_of_users() -> None:
    """Five users in five silos' names: two silos may have four of them, and the unit is alone."""
    five = replace(
        gaussians(), noise=Noise("gaussian", 2.0 * math.sqrt(5), 5, 2.0), shares=5, most_shares=5
    )
    masks = Security("pairwise-masks", 5, 5, 4, 4, 64, colluders=2)
    case = replace(setting(5, aggregation="masked", security=masks), silos=5)
    whole = supported(five, case, "server")
    assert isinstance(whole, ev.Gaussian)
    assert whole.noise_multiplier == pytest.approx(2.0 * math.sqrt(5))
    for observer, told in (
        ("server+2", five),
        ("server", replace(five, reaches=(("server", Reach("sum", colluders=2)),))),
        ("server", replace(five, reaches=(("server", Reach("sum", dropouts=2)),))),
    ):
        event = supported(told, case, observer)
        assert isinstance(event, ev.Gaussian)
        assert event.noise_multiplier <= 2.0


def test_a_colluder_of_many_records_tells_as_many_messages() -> None:
    """Of 18 records' messages two colluders of eight each know 16; in a sum likewise."""
    mixed = Reach("shuffled", users=18, granularity="coordinate", colluders=2)
    facts = responses({"analyzer": mixed, "server": Reach("nothing", colluders=2)})
    facts = replace(facts, contribution=Contribution(1.0, "l1", "record", "message"))
    case = replace(setting(3), group=8, records=18)
    for observer in ("analyzer", "model", "server"):
        assert supported(facts, case, observer) == ev.Shuffle(2, RESPONSE)
    protocol = replace(case, security=Security("shuffler", 18, 18, colluders=2))
    assert supported(replace(facts, reaches=None), protocol, "analyzer") == ev.Shuffle(2, RESPONSE)
    missing = replace(facts, reaches=(("analyzer", replace(mixed, colluders=1, dropouts=1)),))
    assert supported(missing, case, "analyzer") == ev.Shuffle(2, RESPONSE)
    told = replace(gaussians("record"), reaches=(("model", Reach("sum", colluders=12)),))
    plain = replace(setting(20, aggregation="plain"), group=8, records=100)
    event = supported(told, plain, "model")
    assert isinstance(event, ev.Gaussian)
    assert event.noise_multiplier <= 2.0 * math.sqrt(100 - 12 * 8)


def test_a_colluder_of_many_records_fills_as_many_places() -> None:
    """A colluder of three records may send three messages of a dimension that is padded to four."""
    two = coordinates(4, colluders=1)
    two = replace(two, contribution=Contribution(1.0, "l1", "record", "message"))
    mixed = two.reaches[0][1]  # type: ignore[index]
    two = replace(two, reaches=(("analyzer", replace(mixed, users=5)),))
    event = supported(two, replace(setting(2), group=3, records=5), "analyzer")
    assert isinstance(event, ev.SampledShuffle)
    assert (event.users, event.padded_to) == (2, 1)


# --- a shuffle that does not count ----------------------------------------------------------------


@for_each("observer", ["model", "server", "analyzer", "client", "silo"])
@for_each("security", [None, Security("shuffler", 101, 101)])
@for_each("stated", [None, Reach("sum")])
def test_messages_that_nobody_mixes_are_not_known_to_be_summed(
    observer: str, security: Any, stated: Any
) -> None:
    """Nothing says that only their sum is released: each is seen, with its own noise."""
    facts = gaussians()
    if stated is not None:
        facts = replace(facts, reaches=(("model", stated),))
    event = supported(facts, setting(100, security=security), observer)
    assert isinstance(event, ev.Gaussian)
    assert event.noise_multiplier <= 2.0


# --- what is said of the release beside the mix ---------------------------------------------------


MIX: Final = Reach("shuffled", users=1000, granularity="coordinate")


@for_each(
    ("released", "least"),
    [
        (Reach("each"), ALONE),
        (replace(MIX, users=2), AMONG_A_USER),
        (Reach("sum", colluders=998), AMONG_A_USER),
        (replace(MIX, colluders=998), AMONG_A_USER),
    ],
)
@for_each("observer", ["model", "server"])
def test_more_that_is_released_than_the_mix_counts(
    released: Reach, least: float, observer: str
) -> None:
    facts = responses({"analyzer": MIX, "model": released, "server": Reach("nothing")})
    assert delta(supported(facts, setting(1000), observer)) >= least
    same = responses({"analyzer": MIX, "model": Reach("sum"), "server": Reach("nothing")})
    assert supported(same, setting(1000), observer) == ev.Shuffle(1000, RESPONSE)


# --- who is not drawn takes the noise along -------------------------------------------------------


@for_each("sees", ["sum", "sum-less-own", "one-share"])
def test_a_message_that_is_not_drawn_takes_its_noise_along(sees: Any) -> None:
    """Of two users each is drawn with .1; the other holds -1, the unit 1 or -1.

    Any threshold of what is released is a test, and bounds delta from below: here .0055 at epsilon
    1, where a sample in which the noise is always there would have .0003.
    """
    rate = 0.1
    facts = replace(
        gaussians(),
        noise=Noise("gaussian", 2.0 * math.sqrt(2), 2, 2.0),
        shares=2,
        most_shares=2,
        sampling=Sampling("poisson", "user", rate, "shared-secret"),
        reaches=(("model", Reach(sees)),),
    )
    event = supported(facts, setting(2, aggregation="plain"), "model")

    def above(threshold: float, value: float) -> float:
        """Return how likely more than a threshold above 0 is released."""

        def tail(mean: float, deviation: float) -> float:
            return math.erfc((threshold - mean) / (deviation * math.sqrt(2))) / 2

        unit_out = rate * tail(-1.0, 2.0)  # or nobody is drawn, and it is 0
        unit_in = (1 - rate) * tail(value, 2.0) + rate * tail(value - 1.0, 2.0 * math.sqrt(2))
        return (1 - rate) * unit_out + rate * unit_in

    tests = (above(t / 50, 1.0) - math.e * above(t / 50, -1.0) for t in range(1, 500))
    least = max(tests)
    assert least == pytest.approx(0.0055, rel=0.05)
    assert isinstance(event, ev.NoGuarantee) or (
        pp.account(event, epsilon=1.0, neighbours="replace-one").delta.upper >= least
    )


def test_colluders_tell_who_was_drawn() -> None:
    """Who takes part knows a common sample, and tells it: then nobody hides in it."""
    mixed = replace(MIX, users=40, colluders=2)
    drawn = Sampling("poisson", "user", 0.5, "shared-secret")
    facts = responses({"analyzer": mixed}, sampling=drawn)
    case = setting(40, security=Security("shuffler", 40, 20, colluders=2))
    assert supported(facts, case, "analyzer") == ev.Shuffle(18, RESPONSE)
    alone = replace(facts, reaches=(("analyzer", replace(mixed, colluders=0)),))
    hidden = supported(alone, setting(40, security=Security("shuffler", 40, 20)), "analyzer")
    assert hidden == ev.Poisson(0.5, ev.Shuffle(20, RESPONSE))


@for_each(("of", "silos"), [("user", 1), ("silo", 4)])
@for_each(("rate", "hides"), [(0.1, False), (0.75, True)])
def test_no_more_messages_are_counted_on_than_are_drawn(
    of: Any, silos: int, rate: float, hides: bool
) -> None:
    """Of 40 users four are drawn: a round that went on had not 30 messages, as the log says."""
    drawn = Sampling("poisson", of, rate, "server")
    mixed = replace(MIX, users=40, knows_sample=True)
    case = replace(setting(40, security=Security("shuffler", 40, 30)), silos=silos)
    event = supported(responses({"analyzer": mixed}, sampling=drawn), case, "analyzer")
    assert event == (ev.Shuffle(30, RESPONSE) if hides else RESPONSE)


def test_of_a_sample_of_others_nobody_knows_how_many_send() -> None:
    """Twenty records are drawn: they may be one user's, whose message is alone."""
    drawn = Sampling("fixed-size", "record", 0.2, "shared-secret", 20, 100)
    facts = responses({"analyzer": replace(MIX, users=100, knows_sample=True)}, sampling=drawn)
    assert delta(supported(facts, replace(setting(100), records=100), "analyzer")) >= ALONE


# --- messages of other weights --------------------------------------------------------------------


@for_each("observer", ["model", "client"])
def test_light_messages_hide_no_heavy_one(observer: str) -> None:
    """By records, the unit's message may weigh 1 and all others nothing."""
    facts = replace(gaussians(), weights=Weights("records"))
    event = supported(facts, setting(100, aggregation="plain"), observer)
    assert isinstance(event, ev.Gaussian)
    assert event.noise_multiplier <= 2.0
    mixed = replace(responses({"analyzer": MIX}), weights=Weights("records"))
    assert delta(supported(mixed, setting(1000), "analyzer")) >= ALONE


def test_who_sees_that_a_message_came_sees_that_its_unit_was_drawn() -> None:
    """An observer whom no table knows, and a log of before: the message itself, and no sample."""
    drawn = Sampling("poisson", "user", 0.25, "server", population=20)
    facts = replace(responses({}), reaches=None, sampling=drawn)
    assert supported(facts, setting(20), "stranger") == RESPONSE
