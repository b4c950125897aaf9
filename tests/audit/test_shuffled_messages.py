"""Messages of each noise family, mixed and not, against every output of a small shuffle."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

import privplan as pp
from privplan.accountant import events as ev
from privplan.accountant.mechanisms import ShuffledRound
from privplan.accountant.records import Noise, Reach, RoundRelease, Sampling

from ..cases import for_each
from .ledgers import Records, changed, evidence, intents, opening, part, upper
from .shuffled import EACH, hazards, small, supported
from .shuffled_enumeration import enumerated
from .shuffling import mixing, sent

# --- messages, of each family ---------------------------------------------------------------------


@for_each(
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


@pytest.mark.quick(4)
@for_each("users", [2, 3, 5, 8])
@for_each("epsilon0", [0.5, 1.5])
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
    honest = ShuffledRound(1000).event(ev.Laplace(4.0), 8)

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
