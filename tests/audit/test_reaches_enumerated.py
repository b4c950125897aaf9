"""What is stated to be seen beside the release and the mix, against exact laws of two messages."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from typing import Any, Final

import pytest

import privplan as pp
from privplan.accountant import events as ev
from privplan.accountant.records import Contribution, Noise, Reach, Sampling, Security, Weights
from privplan.audit.derivation.round_facts import RoundFacts
from privplan.audit.derivation.run_setting import RunSetting
from privplan.audit.derivation.supported_event import supported

ODDS: Final = 3
RESPONSE: Final = ev.RandomizedResponse(math.log(ODDS) * (1 + 1e-15), 2)
ORDER: Final = Fraction(3, 2)


def answered(value: int) -> list[Fraction]:
    """Return the law of a bit that is answered by randomized response."""
    return [Fraction(ODDS if word == value else 1, ODDS + 1) for word in (0, 1)]


DUMMY: Final = [Fraction(1, 2), Fraction(1, 2)]


def shuffled(*messages: list[Fraction]) -> Counter[int]:
    """Return the law of how many of some messages are 1."""
    law: Counter[int] = Counter()
    for words in itertools.product((0, 1), repeat=len(messages)):
        law[sum(words)] += math.prod(m[w] for m, w in zip(messages, words, strict=True))  # type: ignore[assignment]
    return law


def hockey_stick(one: Counter[int], other: Counter[int]) -> float:
    return float(sum(max(one[k] - ORDER * other[k], Fraction(0)) for k in one))


AMONG_A_USER: Final = max(
    hockey_stick(shuffled(answered(a), answered(c)), shuffled(answered(1 - a), answered(c)))
    for a, c in itertools.product((0, 1), repeat=2)
)
AMONG_A_DUMMY: Final = hockey_stick(shuffled(answered(1), DUMMY), shuffled(answered(0), DUMMY))
ALONE: Final = hockey_stick(shuffled(answered(1)), shuffled(answered(0)))


def responses(reaches: dict[str, Reach], **given: Any) -> RoundFacts:
    draws = given.pop("draws", 1)
    return RoundFacts(
        Contribution(1.0, "l1", "user", "message"),
        Noise("randomized-response", 0.0, draws=draws),
        Weights(),
        given.pop("sampling", Sampling()),
        0.0,
        RESPONSE,
        shares=1,
        draws=draws,
        certain_draws=draws,
        most_shares=1,
        single=given.pop("single", True),
        reaches=tuple(sorted(reaches.items())),
        **given,
    )


def setting(users: int, **given: Any) -> RunSetting:
    fields: dict[str, Any] = {"neighbours": "replace-one", "aggregation": "shuffle", **given}
    return RunSetting(
        unit="user", group=1, silos=1, as_published=False, users=users, records=None, **fields
    )


def delta(event: ev.Event, neighbours: str = "replace-one") -> float:
    if isinstance(event, ev.NoGuarantee):
        return 1.0
    epsilon = math.nextafter(math.log(ORDER), 0.0)
    return pp.account(event, epsilon=epsilon, neighbours=neighbours).delta.upper


# --- what is released, to who sees nothing else ---------------------------------------------------


def test_colluders_tell_who_sees_only_the_release() -> None:
    """18 of 20 users tell a server that holds ciphertexts what they sent: one hides the unit."""
    mixed = Reach("shuffled", users=20, granularity="coordinate")
    facts = responses({"analyzer": mixed, "server": Reach("nothing", colluders=18)})
    assert delta(supported(facts, setting(20), "server")) >= AMONG_A_USER
    assert delta(supported(facts, setting(20), "model")) < AMONG_A_USER


@pytest.mark.parametrize("rule", ["records", "none"])
@pytest.mark.parametrize("told", [1, 3, 5])
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


# --- sampled coordinates before who sees which they are -------------------------------------------


DIMENSIONS: Final = 40


def coordinates(padded_to: int, **seen: Any) -> RoundFacts:
    """Return a round of two users who each send one of many bits, padded with dummies."""
    mixed = Reach(
        "shuffled",
        users=2,
        dimensions=DIMENSIONS,
        chosen=1,
        padded_to=padded_to,
        granularity="coordinate",
        selection="oblivious",
        overflow="refuse",
        **seen,
    )
    return responses({"analyzer": mixed}, single=False, width=DIMENSIONS)


@pytest.mark.parametrize("neighbours", ["replace-one", "zero-out"])
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


@pytest.mark.parametrize(("users", "knows"), [(40, True), (38, False), (38, True)])
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


@pytest.mark.parametrize(
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


@pytest.mark.parametrize("fields", [{}, {"colluders": 1}, {"dropouts": 1}])
@pytest.mark.parametrize("observer", ["silo", "silo-with-records", "peer", "client"])
@pytest.mark.parametrize("terms", ["unit", "message"])
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


@pytest.mark.parametrize("terms", ["unit", "message"])
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


@pytest.mark.parametrize("security", [None, Security("shuffler", 2, 2)])
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


@pytest.mark.parametrize("observer", ["silo", "silo-with-records", "peer"])
@pytest.mark.parametrize("stated", [None, {"colluders": 1}, {"colluders": 4}])
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


@pytest.mark.parametrize("observer", ["silo", "silo-with-records", "peer"])
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


@pytest.mark.parametrize("observer", ["model", "server", "analyzer", "client", "silo"])
@pytest.mark.parametrize("security", [None, Security("shuffler", 101, 101)])
@pytest.mark.parametrize("stated", [None, Reach("sum")])
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


@pytest.mark.parametrize(
    ("released", "least"),
    [
        (Reach("each"), ALONE),
        (replace(MIX, users=2), AMONG_A_USER),
        (Reach("sum", colluders=998), AMONG_A_USER),
        (replace(MIX, colluders=998), AMONG_A_USER),
    ],
)
@pytest.mark.parametrize("observer", ["model", "server"])
def test_more_that_is_released_than_the_mix_counts(
    released: Reach, least: float, observer: str
) -> None:
    facts = responses({"analyzer": MIX, "model": released, "server": Reach("nothing")})
    assert delta(supported(facts, setting(1000), observer)) >= least
    same = responses({"analyzer": MIX, "model": Reach("sum"), "server": Reach("nothing")})
    assert supported(same, setting(1000), observer) == ev.Shuffle(1000, RESPONSE)


# --- who is not drawn takes the noise along -------------------------------------------------------


@pytest.mark.parametrize("sees", ["sum", "sum-less-own", "one-share"])
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


@pytest.mark.parametrize(("of", "silos"), [("user", 1), ("silo", 4)])
@pytest.mark.parametrize(("rate", "hides"), [(0.1, False), (0.75, True)])
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


@pytest.mark.parametrize("observer", ["model", "client"])
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
