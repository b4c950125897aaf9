"""Messages, and a shuffler: events are built from facts, and what is said beside them is not."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Any, Final

import pytest

import privplan as pp
from privplan.accountant import events as ev
from privplan.accountant.mechanisms import Shuffled
from privplan.accountant.records import Noise, Reach, RoundRelease, Sampling

from .ledgers import Records, audited, changed, evidence, intents, opening, part, upper
from .shuffling import DOUBLE, FLAME_DELTA, SMALL, mixing, sent

EACH: Final = Reach("each", knows_sample=True, selection="oblivious")
PRINTED: Final = {"model": Reach("sum"), "analyzer": DOUBLE, "shuffler": EACH}
NAMES: Final = {
    *("reach-contradicted", "reach-missing", "reach-assumed", "visible-messages"),
    *("protocol-mismatch", "missing-protocol"),
}


def hazards(records: Records) -> set[str]:
    return {one.id for one in audited(records).hazards} & NAMES


def supported(records: Records, observer: str) -> ev.Event:
    found = evidence(records)
    (kind,) = found.kinds
    return found.seen(kind, observer).supported


def local_number(count: int, event: ev.Event, delta: float = FLAME_DELTA) -> float:
    return pp.account(ev.Repeat(count, event), delta=delta, neighbours="replace-one").epsilon.upper


# --- FLAME's Double, as printed -------------------------------------------------------------------


def test_double_as_printed_is_derived_from_its_facts() -> None:
    log = sent(PRINTED, security=mixing(1000))
    event = ev.SampledShuffle(
        *(1000, 7850, 157, 333), "coordinate", "oblivious", "refuse", ev.Laplace(4.0)
    )
    assert supported(log, "analyzer") == event
    accounted = pp.account(event, delta=FLAME_DELTA, neighbours="replace-one")
    assert accounted.epsilon.upper == pytest.approx(0.1572, abs=5e-5)
    assert upper(log, "analyzer") == accounted.epsilon.upper
    assert supported(log, "shuffler") == ev.Repeat(157, ev.Laplace(4.0))
    assert upper(log, "shuffler") == local_number(157, ev.Laplace(4.0))
    assert 40 < upper(log, "shuffler") < 40.5
    assert upper(log) <= upper(log, "analyzer")
    assert not hazards(log)


def test_what_a_log_concludes_is_not_looked_at() -> None:
    """The stated event says more users and dimensions than the facts do."""
    wishful = ev.SampledShuffle(
        *(10**6, 7850, 1, 10**6), "coordinate", "oblivious", "refuse", ev.Laplace(4.0)
    )
    log = sent(PRINTED, security=mixing(1000), event=wishful, views={"analyzer": wishful})
    assert upper(log, "analyzer") == upper(sent(PRINTED, security=mixing(1000)), "analyzer")
    assert "event-mismatch" in {one.id for one in audited(log).hazards}


def small(reaches: dict[str, Reach] | None = None, **given: Any) -> Records:
    told = {"model": Reach("sum"), "analyzer": SMALL, "shuffler": EACH}
    fields = {"users": 100, "values": 60, "security": mixing(100), "delta": 1e-4, **given}
    return sent(told | (reaches or {}), **fields)


HONEST: Final = upper(small(), "analyzer")
WORST: Final = local_number(6, ev.Laplace(4.0), 1e-4)


@pytest.mark.parametrize(
    ("reach", "given"),
    [
        ({"users": 1000}, {}),  # more than there are
        ({"users": 101}, {"users": 200}),  # more than send one
        ({"dimensions": 600}, {}),  # more than were released
        ({"chosen": 1}, {"reaches": {"shuffler": replace(EACH, dimensions=60, chosen=6)}}),
        ({"padded_to": 400}, {"reaches": {"model": SMALL}}),
        ({"overflow": "cap"}, {"reaches": {"model": SMALL}}),
        ({"colluders": 0}, {"security": mixing(100, colluders=5)}),
        ({"padded_to": None}, {}),
        ({"users": None}, {}),
        ({}, {"aggregation": "plain"}),
        ({}, {"aggregation": "masked"}),
        ({}, {"security": mixing(100, fewest=1)}),
        ({}, {"security": mixing(500)}),
        ({}, {"security": replace(mixing(100), server="malicious")}),
        ({}, {"noise": Noise("laplace", 4.0, 7, 4.0, grid=2.0**-24)}),
    ],
)
def test_a_false_statement_counts_as_each_message(
    reach: dict[str, Any], given: dict[str, Any]
) -> None:
    told = given.pop("reaches", {}) | {"analyzer": replace(SMALL, **reach)}
    log = small(told, **given)
    assert "reach-contradicted" in hazards(log)
    assert upper(log, "analyzer") >= WORST * (1 - 1e-9) > HONEST
    assert not audited(log).ok


def test_terms_that_share_their_noise_are_not_mixed() -> None:
    log = small(terms="unit")
    assert "reach-contradicted" in hazards(log)
    assert upper(log, "analyzer") >= upper(small(reaches=None, terms="unit", aggregation="plain"))
    assert not any(isinstance(supported(log, who), ev.SampledShuffle) for who in PRINTED)


@pytest.mark.quick(4)
@pytest.mark.parametrize(
    "fields",
    [
        {"granularity": "tuple"},
        {"selection": "data-dependent"},
        {"users": 2},  # of few users, more places are dummies: the protocol's number counts
        {"users": 50},
        {"padded_to": 12},
        {"colluders": 5},
        {"dropouts": 90},
        {"knows_sample": True},
    ],
)
def test_a_statement_of_more_never_helps(fields: dict[str, Any]) -> None:
    log = small({"analyzer": replace(SMALL, **fields)})
    assert upper(log, "analyzer") >= HONEST * (1 - 1e-9)
    assert upper(log, "analyzer") >= upper(log)


def test_data_that_choose_coordinates_are_seen_by_who_sees_index_sets() -> None:
    chosen = replace(SMALL, selection="data-dependent", padded_to=100)
    log = small({"analyzer": chosen, "shuffler": replace(EACH, selection=None)})
    assert math.isinf(upper(log, "shuffler"))
    assert "depends on its data" in evidence(log).spent_total("shuffler").refusal


# --- a shuffler that is trusted, or blind ---------------------------------------------------------


def test_a_shuffler_without_a_protocol_is_assumed() -> None:
    log = small(security=None)
    report = audited(log)
    rows = {row.observer: row for row in report.rows}
    assert not report.errors
    assert rows["analyzer"].total.upper == HONEST
    assert any(one.startswith("assumed: the shuffler") for one in rows["analyzer"].rests_on)
    assert any(one.startswith("assumed: the shuffler") for one in rows["model"].rests_on)
    assert "reach-assumed" in hazards(log)
    assert rows["shuffler"].total.upper == WORST


BLIND: Final = Reach("nothing", knows_sample=True, also=("identities", "sizes"))


def test_who_mixes_ciphertexts_knows_their_order() -> None:
    log = small(
        {"shuffler": BLIND, "analyzer": Reach("shuffled", users=100)},
        security=mixing(100, key_bits=256),
        values=1,
    )
    assert upper(log) < upper(log, "shuffler") == local_number(1, ev.Laplace(4.0), 1e-4)
    assert not hazards(log)
    open_ = small({"shuffler": BLIND})
    assert "reach-contradicted" in hazards(open_)
    assert upper(open_, "shuffler") == WORST
    passing = small(
        {"coordinator": BLIND, "analyzer": Reach("shuffled", users=100)},
        security=mixing(100, key_bits=256),
        values=1,
    )  # it knows a ciphertext again
    assert upper(passing, "coordinator") == upper(log, "shuffler")
    weak = small({"shuffler": BLIND}, security=mixing(100, key_bits=1024))
    assert "reach-contradicted" in hazards(weak)
    trusted = small({"shuffler": BLIND}, security=None)
    assert "reach-assumed" in hazards(trusted)
    assert any(one.startswith("assumed: the shuffler holds") for one in row(trusted, "shuffler"))


@pytest.mark.parametrize("observer", ["shuffler", "coordinator"])
@pytest.mark.parametrize("sees", ["nothing", "sum"])
def test_who_adds_dummies_knows_them(observer: str, sees: Any) -> None:
    """What is released hides a unit among them, and before the shuffler they hide nobody."""
    blind = replace(BLIND, sees=sees)
    encrypted = small({observer: blind}, security=mixing(100, key_bits=256))
    assert upper(encrypted) == HONEST
    assert upper(encrypted, observer) == WORST
    for none in ({observer: blind}, {}):
        assert upper(small(none, security=None), observer) == WORST
    assert upper(small({}, security=mixing(100, key_bits=256)), observer) == WORST


@pytest.mark.parametrize("rounds", [1, 2])
def test_a_draw_for_each_message_is_one_round_of_coordinates(rounds: int) -> None:
    """`LaplaceMessages.noise` announces as many draws as a unit sends messages."""
    log = small(noise=Noise("laplace", 4.0, draws=6, grid=2.0**-24), rounds=rounds)
    once = small(rounds=rounds)
    for observer in ("analyzer", "shuffler", "model"):
        assert upper(log, observer) == upper(once, observer)


@pytest.mark.parametrize("draws", [2, 5, 7, 12])
def test_draws_that_are_not_the_messages_contradict(draws: int) -> None:
    log = small(noise=Noise("laplace", 4.0, draws=draws, grid=2.0**-24))
    assert "reach-contradicted" in hazards(log)
    assert upper(log, "analyzer") >= WORST


SHARED: Final = Noise("gaussian", math.sqrt(50) * 3.0, 50, 3.0, 0, 1, 2.0**-24)


@pytest.mark.parametrize(
    ("draws", "told", "whole"),
    [
        (1, None, True),
        (6, None, False),  # which may be six of any number of coordinates
        (6, Reach("sum"), False),
        (6, Reach("sum", dimensions=60, chosen=6), False),
        (1, Reach("sum", dimensions=60, chosen=1), False),
        (6, Reach("sum", dimensions=6, chosen=6), True),
        (6, Reach("sum", dimensions=60, chosen=60), False),
    ],
)
def test_a_sum_has_the_noise_of_who_surely_sends_to_it(
    draws: int, told: Reach | None, whole: bool
) -> None:
    log = sent(
        None if told is None else {"model": told},
        users=50,
        values=6 if whole else 60,
        aggregation="plain",
        norm="l2",
        noise=replace(SHARED, draws=draws),
    )
    share = 3.0 * (math.sqrt(50) if whole else 1.0)
    least = 60 if told is not None and told.chosen == 60 else draws
    assert upper(log) == pytest.approx(local_number(least, ev.Gaussian(share)), rel=1e-6)


def test_draws_of_which_nothing_is_said_are_not_mixed() -> None:
    log = sent(
        None,
        users=100,
        values=60,
        security=mixing(100),
        noise=Noise("laplace", 4.0, draws=6, grid=2.0**-24),
        delta=1e-4,
    )
    for observer in ("model", "analyzer", "shuffler"):
        assert upper(log, observer) == WORST


def row(records: Records, observer: str) -> tuple[str, ...]:
    (found,) = (one for one in audited(records).rows if one.observer == observer)
    return found.rests_on


@pytest.mark.parametrize(
    ("also", "analyzer", "neighbours"),
    [
        (("index-sets",), replace(SMALL, selection="data-dependent", padded_to=100), "replace-one"),
        (("sizes",), replace(SMALL, selection="data-dependent", padded_to=100), "replace-one"),
        (("identities",), SMALL, "add-remove"),
        (("sizes",), SMALL, "add-remove"),
    ],
)
def test_what_is_seen_beside_ciphertexts_may_depend_on_data(
    also: Any, analyzer: Reach, neighbours: str
) -> None:
    log = small(
        {"analyzer": analyzer, "shuffler": replace(BLIND, also=also)},
        security=mixing(100, key_bits=256),
        neighbours=neighbours,
    )
    assert math.isinf(upper(log, "shuffler"))


def test_identities_show_a_sample_that_should_hide() -> None:
    drawn = Sampling("poisson", "user", 0.5, "shared-secret")
    log = small(
        {"shuffler": replace(BLIND, knows_sample=False)},
        security=mixing(100, key_bits=256),
        sampling=drawn,
    )
    assert "reach-contradicted" in hazards(log)
    assert upper(log, "shuffler") >= upper(log)
    assert upper(log, "shuffler") >= WORST


# --- messages, of each family ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "event"),
    [
        ({"scale": 3.0, "bound": 1.5}, ev.Laplace(2.0)),
        ({"scale": 3.0, "bound": 1.5, "neighbours": "zero-out"}, ev.Laplace(2.0)),
        ({"family": "gaussian", "norm": "l2", "scale": 3.0, "bound": 1.5}, ev.Gaussian(2.0)),
    ],
)
def test_who_sees_each_message_gets_the_local_event(given: dict[str, Any], event: ev.Event) -> None:
    log = sent(
        {"server": Reach("each", knows_sample=True)},
        aggregation="plain",
        users=50,
        values=1,
        **given,
    )
    for observer in ("server", "model"):
        found = supported(log, observer)
        assert isinstance(found, type(event))
        stated = event.noise_multiplier  # type: ignore[attr-defined]
        assert found.noise_multiplier == pytest.approx(stated, rel=1e-9)
        assert found.noise_multiplier <= stated


def test_one_message_more_is_seen_by_who_counts_them() -> None:
    log = sent({"server": Reach("each")}, aggregation="plain", users=50, neighbours="add-remove")
    assert math.isinf(upper(log, "server"))
    assert math.isinf(upper(log))


def test_noise_of_all_messages_counts_where_the_facts_say_how_many_there_are() -> None:
    given: dict[str, Any] = {"users": 50, "family": "gaussian", "norm": "l2", "values": 3}
    plain = sent(None, aggregation="plain", scale=3.0, **given)
    single = supported(plain, "model")
    assert isinstance(single, ev.Gaussian)
    assert single.noise_multiplier == pytest.approx(3.0)
    noise = Noise("gaussian", math.sqrt(50) * 3.0, 50, 3.0, 0, 1, 2.0**-24)
    shared = sent(None, aggregation="plain", noise=noise, **given)
    found = supported(shared, "model")
    assert isinstance(found, ev.Gaussian)
    assert found.noise_multiplier == pytest.approx(3.0 * math.sqrt(50))
    fewer = changed(shared, RoundRelease, shares=20)
    found = supported(fewer, "model")
    assert isinstance(found, ev.Gaussian)
    assert found.noise_multiplier == pytest.approx(3.0 * math.sqrt(20))
    laplace = Noise("laplace", 3.0, 50, 3.0, grid=2.0**-24)
    alone = sent(None, aggregation="plain", users=50, noise=laplace)
    assert isinstance(supported(alone, "model"), ev.Laplace)
    assert upper(alone) >= upper(shared)


# --- an oracle: every output of a small shuffle, written out --------------------------------------


def enumerated(users: int, epsilon0: float, delta: float) -> float:
    """Return the smallest epsilon of binary reports without senders, over all other users' values.

    Every one of the 2^n outputs is listed for each data set; the shuffled one is their number of
    ones.  Slow, and exact but for the last digits.
    """
    truth = math.exp(epsilon0) / (1.0 + math.exp(epsilon0))

    def law(values: tuple[int, ...]) -> list[float]:
        found = [0.0] * (len(values) + 1)
        for output in itertools.product((0, 1), repeat=len(values)):
            chance = math.prod(
                truth if sent_ == value else 1.0 - truth
                for sent_, value in zip(output, values, strict=True)
            )
            found[sum(output)] += chance
        return found

    worst = 0.0
    for others in itertools.combinations_with_replacement((0, 1), users - 1):
        pair = law((0, *others)), law((1, *others))
        for one, other in (pair, pair[::-1]):
            low, high = 0.0, epsilon0
            for _ in range(60):
                middle = 0.5 * (low + high)
                excess = sum(
                    max(p - math.exp(middle) * q, 0.0) for p, q in zip(one, other, strict=True)
                )
                low, high = (middle, high) if excess > delta else (low, middle)
            worst = max(worst, high)
    return worst


@pytest.mark.quick(4)
@pytest.mark.parametrize("users", [2, 3, 5, 8])
@pytest.mark.parametrize("epsilon0", [0.5, 1.5])
def test_shuffled_reports_are_never_below_an_enumeration(users: int, epsilon0: float) -> None:
    delta = 0.01
    log = sent(
        {"analyzer": Reach("shuffled", users=users), "shuffler": EACH},
        users=users,
        noise=Noise("randomized-response", 0.0),
        event=ev.RandomizedResponse(epsilon0, 2),
        security=mixing(users),
        delta=delta,
        values=2,
    )
    assert supported(log, "analyzer") == ev.Shuffle(users, ev.RandomizedResponse(epsilon0, 2))
    exact, found = enumerated(users, epsilon0, delta), upper(log, "analyzer")
    assert exact <= found * (1 + 1e-9)
    assert found <= upper(log, "shuffler") <= epsilon0
    one_less = opening(security=mixing(users, colluders=1))(log)
    told = intents(reaches={"analyzer": Reach("shuffled", users=users, colluders=1)})(one_less)
    if users > 3:
        assert supported(told, "analyzer") == ev.Shuffle(
            users - 1, ev.RandomizedResponse(epsilon0, 2)
        )
        assert enumerated(users - 1, epsilon0, delta) <= upper(told, "analyzer") * (1 + 1e-9)


def test_the_oracle_sees_a_shuffle_of_too_few() -> None:
    """It would find a number that was derived for more users than there are."""
    for users, claimed in ((3, 30), (5, 200)):
        bold = pp.account(
            ev.Shuffle(claimed, ev.RandomizedResponse(1.5, 2)), delta=0.01, neighbours="replace-one"
        )
        assert enumerated(users, 1.5, 0.01) > bold.epsilon.upper


def test_a_vector_within_a_ball_is_mixed_by_its_epsilon_alone() -> None:
    """The blanket of Laplace noise on one value is larger than that on a vector."""
    reaches = {"analyzer": Reach("shuffled", users=1000), "shuffler": EACH}
    number = {**reaches, "analyzer": replace(reaches["analyzer"], granularity="coordinate")}
    one = sent(number, security=mixing(1000), values=1)
    many = sent(number, security=mixing(1000), values=5)
    norm = sent(reaches, security=mixing(1000), values=1)  # of a vector, for all that is said
    whole = {**reaches, "model": replace(reaches["analyzer"], granularity="tuple")}
    assert supported(one, "analyzer") == ev.Shuffle(1000, ev.Laplace(4.0))
    for log in (many, norm, sent(whole, security=mixing(1000), values=1)):
        event = supported(log, "analyzer")
        assert isinstance(event, ev.Shuffle)
        assert isinstance(event.event, ev.Local)
        assert 0.5 <= event.event.epsilon <= 0.5 + 1e-12
    assert upper(one, "analyzer") < upper(many, "analyzer") < upper(many, "shuffler")
    gaussian = sent(reaches, security=mixing(1000), values=5, family="gaussian", norm="l2")
    assert supported(gaussian, "analyzer") == supported(gaussian, "shuffler")
    assert supported(gaussian, "shuffler") == ev.Gaussian(supported_noise(gaussian))
    assert supported_noise(gaussian) == pytest.approx(4.0)
    length = sent(reaches, security=mixing(1000), values=1, family="gaussian", norm="l2")
    assert supported(length, "analyzer") == supported(length, "shuffler")
    steps = Noise("discrete-gaussian", 4.0, grid=0.25)
    for values in (1, 5):  # of few steps, a number is not as a vector
        coarse = sent(reaches, security=mixing(1000), values=values, norm="l2", noise=steps)
        assert not isinstance(supported(coarse, "shuffler"), ev.DiscreteGaussian)


def test_a_round_that_was_cut_off_sends_what_the_others_do() -> None:
    """What it would have released is not known; a run that was killed is no worse for that."""
    reaches = {"analyzer": Reach("shuffled", users=1000, granularity="coordinate")}
    noise = Noise("laplace", 4.0, draws=8, grid=2.0**-24)
    honest = Shuffled(1000).event(ev.Laplace(4.0), 8)

    def cut(values: int) -> Records:
        log = sent(reaches, security=mixing(1000), values=values, rounds=2, noise=noise)
        last = max(i for i, record in enumerate(log) if isinstance(record, RoundRelease))
        return log[:last]

    numbers = evidence(cut(8))
    assert {numbers.seen(kind, "analyzer").supported for kind in numbers.kinds} == {honest}
    vectors = evidence(cut(9))
    assert len({vectors.seen(kind, "analyzer").supported for kind in vectors.kinds}) == 1
    assert upper(cut(9), "analyzer") > upper(cut(8), "analyzer")


def supported_noise(records: Records) -> float:
    found = supported(records, "shuffler")
    assert isinstance(found, ev.Gaussian)
    return found.noise_multiplier


def test_users_who_are_drawn_are_as_many_as_surely_send() -> None:
    mixed = Reach("shuffled", users=1000, granularity="coordinate")
    reaches = {"analyzer": replace(mixed, knows_sample=True), "shuffler": EACH}
    drawn = Sampling("poisson", "user", 0.1, "server")
    log = sent(reaches, security=mixing(1000, fewest=50), values=1, sampling=drawn)
    assert supported(log, "analyzer") == ev.Shuffle(50, ev.Laplace(4.0))
    assumed = sent(reaches, values=1, sampling=drawn)
    assert supported(assumed, "analyzer") == ev.Laplace(4.0)
    secret = replace(drawn, drawn_by="shared-secret")
    hidden = sent(
        {"analyzer": mixed, "shuffler": EACH},
        security=mixing(1000),
        values=1,
        sampling=secret,
    )
    assert supported(hidden, "analyzer") == ev.Poisson(0.1, ev.Shuffle(1000, ev.Laplace(4.0)))
    lied = intents(sampling=part(drawn_by="server"))(hidden)
    assert "reach-contradicted" in hazards(lied)


def test_a_client_knows_its_own_message() -> None:
    mixed = Reach("shuffled", users=1000, granularity="coordinate")
    log = sent({"analyzer": mixed, "client": mixed}, security=mixing(1000), values=1)
    assert "reach-contradicted" in hazards(log)
    told = {"client": replace(mixed, colluders=1)}
    assert supported(sent(told, security=mixing(1000), values=1), "client") == ev.Shuffle(
        999, ev.Laplace(4.0)
    )


def test_what_the_table_says_is_seen_beside_cannot_be_left_out() -> None:
    """Ciphertexts come from somebody, so under add-remove a shuffler sees who is there."""
    silent = Reach("nothing")
    for neighbours, fine in (("replace-one", True), ("add-remove", False)):
        log = small({"shuffler": silent}, security=mixing(100, key_bits=256), neighbours=neighbours)
        assert math.isfinite(upper(log, "shuffler")) == fine
        assert math.isfinite(upper(log, "analyzer"))


def test_messages_of_those_who_were_drawn_have_no_noise_to_count_on() -> None:
    noise = Noise("gaussian", math.sqrt(50) * 3.0, 50, 3.0, 0, 1, 2.0**-24)
    given: dict[str, Any] = {"users": 50, "values": 3, "aggregation": "plain", "norm": "l2"}
    drawn = Sampling("fixed-size", "user", 0.2, "server", 10, 50)
    whole, part_ = (sent(None, noise=noise, **given, sampling=one) for one in (Sampling(), drawn))
    event = supported(part_, "model")
    inner = event.event if isinstance(event, ev.FixedSize) else event
    assert isinstance(inner, ev.Gaussian)
    assert inner.noise_multiplier <= 3.0
    assert upper(part_) > upper(whole)
