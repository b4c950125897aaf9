"""ULDP-AVG and ULDP-SGD over private weighting: what they release, and what everybody may know."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from privplan.accountant import events as ev
from privplan.accountant.errors import InvalidInput, MissingParty, ProtocolFault
from privplan.accountant.mechanisms import Gate, RoundDescription
from privplan.accountant.odometer import Odometer
from privplan.accountant.randomness import Streams
from privplan.accountant.records import RoundAbort
from privplan.audit.derivation.noise import share_variance
from privplan.fl.frame.private_normalisation import MomentsRelease
from privplan.fl.settings.schema import SecuritySettings
from privplan.fl.uldp.hidden_weights import UldpAvgHiddenWeights
from privplan.fl.uldp.published_weights import PUBLISHED_WEIGHTING_EVENT, UldpAvgAsPublished
from privplan.fl.uldp.weighting import protocol

from ..cases import for_each

pytest.importorskip("phe")
pytest.importorskip("gmpy2")
pytest.importorskip("nacl")

SECURITY = SecuritySettings(aggregation="private-weighting", key_bits=512)


@pytest.fixture
def hidden(tiny, made_of):
    """Return the maker of systems with hidden weights, on a small federation."""

    def made(federation=None, *, step="average", security=None, **privacy):
        name = "uldp-avg" if step == "average" else "uldp-sgd"
        own = tiny() if federation is None else federation
        setup = made_of(name, own, training={"weighting": "records"}, **privacy)
        setup = replace(setup, security=replace(SECURITY, **(security or {})))
        return UldpAvgHiddenWeights(setup, step=step, weak_key=True)

    return made


@pytest.fixture
def rounds(monkeypatch):
    """Return a list that collects what each round is given, and what comes out."""
    seen, carried_out = [], protocol.PrivateWeighting.round

    def watched(self, number, rows, noise, **named):
        drawn = [list(one()) for one in noise]
        found = carried_out(self, number, rows, drawn, **named)
        seen.append((rows, drawn, named, found))
        return found

    monkeypatch.setattr(protocol.PrivateWeighting, "round", watched)
    return seen


def weights(federation, cap):
    """Return c_su / (sum_s c_su + 1) as fractions, from the formula."""
    counts = np.minimum(federation.counts, cap)
    return [[Fraction(int(c), int(row.sum()) + 1) for c in row] for row in counts]


@pytest.mark.parametrize("step", ["average", "gradient"])
def test_a_round_is_the_plain_computation_bit_for_bit(step, tiny, hidden, run, rounds):
    federation = tiny(users=7, silos=3, records=60)
    system = hidden(federation, step=step)
    models, _ = run(system, rounds=2)
    multiple = system.protocol_terms.multiple
    shares = weights(federation, system.protocol_terms.count_cap)
    mechanism = system.mechanism(5.0)
    for number, (rows, drawn, _, found) in enumerate(rounds):
        wanted = [sum(column) for column in zip(*drawn, strict=True)]
        for silo, (users, digits) in enumerate(rows):
            assert set(users.tolist()) == set(np.flatnonzero(federation.counts[:, silo]).tolist())
            for user, row in zip(users, digits, strict=True):
                scale = multiple * shares[user][silo]
                assert scale.denominator == 1
                wanted = [w + int(scale) * int(d) for w, d in zip(wanted, row, strict=True)]
        assert found == wanted
        moved = 3.0 / (7 * 3) * mechanism.units(wanted)
        assert (models[number + 1] == models[number] + moved).all()


def test_without_much_noise_it_is_what_floats_give(tiny, hidden, run):
    federation = tiny(users=7, silos=3, records=60)
    system = hidden(federation, noise_multiplier=1e-9)
    models, _ = run(system, rounds=1)
    clip, local = 0.25, system.setup.local
    wanted = np.zeros(4)
    shares = weights(federation, system.protocol_terms.count_cap)
    for user in range(7):
        for silo in range(3):
            own = np.flatnonzero((federation.user == user) & (federation.silo == silo))
            delta = local.delta(models[0], own)
            clipped = delta * min(1.0, clip / max(np.linalg.norm(delta), 1e-300))
            wanted += float(shares[user][silo]) * clipped
    found = (models[1] - models[0]) / (3.0 / (7 * 3))
    step = system.mechanism(1e-9).unit_grid
    assert np.abs(found - wanted).max() <= 7 * 2 * step
    assert np.abs(wanted).max() > 100 * step


def test_a_user_who_goes_moves_the_sum_by_less_than_the_clip(tiny, hidden, run, rounds):
    federation = tiny(users=6, silos=3, records=50)
    system = hidden(federation)
    run(system, rounds=1)
    stays = federation.user != 2
    less = replace(
        federation,
        absent_users=True,
        features=federation.features[stays],
        labels=federation.labels[stays],
        user=federation.user[stays],
        silo=federation.silo[stays],
    )
    run(hidden(less), rounds=1)
    (_, noise, _, whole), (_, other, _, without) = rounds
    assert noise == other  # of equal seeds
    moved = [a - b for a, b in zip(whole, without, strict=True)]
    agreed = system.protocol_terms
    assert 0 < sum(m * m for m in moved) < (agreed.multiple * agreed.largest) ** 2
    clip = Fraction(0.25)
    assert sum(m * m for m in moved) * system.mechanism(5.0).step ** 2 < clip**2


def test_a_user_without_records_takes_part_and_a_large_multiple_names_its_key(tiny, hidden, run):
    federation = replace(tiny(users=6), users=8, absent_users=True)  # two users have none
    models, log = run(hidden(federation), rounds=1)
    assert np.isfinite(models[1]).all()
    assert len(log.releases) == 1
    with pytest.raises(InvalidInput, match="count_limit"):
        hidden(security={"count_limit": 500}).plan()


@pytest.mark.parametrize(
    ("slots", "drawer"), [(None, "server"), (10, "oblivious-transfer")], ids=["server", "oblivious"]
)
def test_who_draws_decides_who_sees_the_sample(slots, drawer, tiny, hidden, run):
    federation = tiny(users=40, silos=2, records=120)
    system = hidden(federation, security={"slots": slots}, sampling_rate=0.3)
    models, log = run(system, rounds=4)
    assert {one.sampling.drawn_by for one in log.intents} == {drawer}
    assert all(one.sampling.rate >= Fraction(3, 10) or slots is None for one in log.intents)
    views = system.views(5.0)
    rate = system.rate
    assert views["model"] == ev.Poisson(rate, ev.Gaussian(5.0))
    assert views["server"] == (views["model"] if slots else ev.Gaussian(5.0))
    assert isinstance(views["silo"], ev.Poisson)
    assert isinstance(views["silo-with-records"], ev.Gaussian)
    assert len({model.tobytes() for model in models}) == 5
    joined = [entry.get("joined") for entry in log.sealed]
    assert all(one is None for one in joined) if slots else all(one is not None for one in joined)


def test_the_log_holds_the_protocol_and_no_count(tiny, hidden, run):
    system = hidden(tiny())
    opening = system.opening()
    assert opening.aggregation == "private-weighting"
    assert opening.security is not None
    assert opening.security == system.protocol_terms.security()
    assert (opening.security.noise, opening.security.count_limit) == ("every-residue", 40)
    _, log = run(system, rounds=1)
    (intent,) = log.intents
    assert intent.noise.grid * system.protocol_terms.multiple <= 2 * system.mechanism(5.0).unit_grid
    assert intent.noise.shares == 3
    assert intent.weights.rule == "records"


def test_a_round_that_broke_ends_the_session(tiny, hidden, run, monkeypatch):
    from privplan.fl.uldp.weighting.server import Server

    system = hidden(tiny())

    def broken(_):
        raise ProtocolFault("a message was broken")

    monkeypatch.setattr(Server, "total", broken)
    with pytest.raises(ProtocolFault, match="broken"):
        run(system, rounds=1)
    monkeypatch.undo()
    with pytest.raises(ProtocolFault, match="ended with a fault"):
        run(system, rounds=1)


def test_what_does_not_fit_is_refused(tiny, made_of, hidden):
    setup = replace(made_of("uldp-avg", tiny()), security=SECURITY)
    with pytest.raises(InvalidInput, match="uniform"):
        UldpAvgHiddenWeights(setup, step="average", weak_key=True)
    with pytest.raises(InvalidInput, match="uniform"):
        UldpAvgAsPublished(setup, step="average")
    with pytest.raises(InvalidInput, match="slots"):
        hidden(security={"slots": 10}, sampling_rate=0.25)
    with pytest.raises(InvalidInput, match="slots"):
        hidden(security={"slots": 10})
    with pytest.raises(InvalidInput, match="count_limit"):
        hidden(security={"count_limit": 3}).opening()
    strong = replace(made_of("uldp-avg", tiny(), training={"weighting": "records"}))
    strong = replace(strong, security=SECURITY)
    with pytest.raises(InvalidInput, match="key_bits"):
        UldpAvgHiddenWeights(strong, step="average").opening()


@for_each("kind", [UldpAvgHiddenWeights, UldpAvgAsPublished])
def test_moments_are_not_summed_under_weights_in_the_clear(kind, tiny, made_of):
    federation = tiny()
    setup = made_of("uldp-avg", federation, training={"weighting": "records"})
    moments = MomentsRelease(2.0, "records", "add-remove", federation, -1.0, 1.0)
    setup = replace(setup, security=SECURITY, normalisation=moments)
    with pytest.raises(InvalidInput, match='normalisation = "private"'):
        kind(setup, step="average")


@pytest.mark.parametrize("noise", [0.5, 5.0])
@pytest.mark.parametrize("limit", [4, 5, 7])
def test_an_audit_finds_the_noise_that_is_promised(noise, limit, hidden):
    """Where the grid is too coarse for that, the run is refused."""
    system = hidden(security={"count_limit": limit}, noise_multiplier=noise)
    try:
        mechanism = system.mechanism(noise)
    except InvalidInput:
        assert noise < 5.0
        assert limit < 7
        return
    intent = mechanism.intent(RoundDescription(1, "train"), "add-remove")
    found = share_variance(intent.noise) * intent.noise.shares
    assert found * (1 + Fraction(1, 10**9)) > Fraction(intent.noise.std) ** 2
    assert pytest.approx(noise, rel=1e-12) == intent.event.noise_multiplier


def test_the_published_protocol_runs_and_promises_nothing(tiny, made_of, run):
    federation = tiny(users=4, silos=2, records=20)
    setup = made_of("uldp-avg", federation, rounds=2, training={"weighting": "records"})
    system = UldpAvgAsPublished(replace(setup, security=SECURITY), step="average")
    opening = system.opening()
    assert opening.as_published
    assert opening.security is not None
    assert opening.security.noise == "multiples"
    assert opening.claim.epsilon is not None
    assert set(opening.plan.events.values()) == {ev.Repeat(2, PUBLISHED_WEIGHTING_EVENT)}
    models, log = run(system)
    assert all(one.event == PUBLISHED_WEIGHTING_EVENT for one in log.intents)
    assert len({model.tobytes() for model in models}) == 3
    target = made_of("uldp-avg", federation, epsilon=8.0, training={"weighting": "records"})
    wanting = UldpAvgAsPublished(replace(target, security=SECURITY), step="average")
    with pytest.raises(InvalidInput, match="as published"):
        wanting.plan()


def test_the_published_protocol_refuses_whom_it_cannot_weight_before_a_round(tiny, made_of):
    federation = tiny(users=4, silos=2, records=20)
    most = int(federation.counts.sum(axis=1).max())
    setup = made_of("uldp-avg", federation, training={"weighting": "records"})
    UldpAvgAsPublished(replace(setup, security=replace(SECURITY, count_limit=most)), step="average")
    few = replace(setup, security=replace(SECURITY, count_limit=most - 1))
    with pytest.raises(InvalidInput, match="count_limit") as caught:
        UldpAvgAsPublished(few, step="average")
    assert f"more than {most - 1} records" in caught.value.what


def test_a_seeded_run_draws_the_same_users_by_oblivious_transfer(tiny, made_of, run):
    def models(seed):
        setup = made_of("uldp-avg", tiny(), training={"weighting": "records"}, sampling_rate=0.5)
        setup = replace(setup, security=replace(SECURITY, slots=2))
        system = UldpAvgHiddenWeights(
            setup, step="average", streams=Streams.seeded(seed), weak_key=True
        )
        return [one.tobytes() for one in run(system, rounds=3)[0]]

    assert models(5) == models(5)
    assert models(5) != models(6)


# --- a setup that fails -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (MissingParty("silo-1 is not there."), "missing-party"),
        (ProtocolFault("silo-1 sent something else."), "error"),
        (KeyboardInterrupt(), "interrupted"),
    ],
)
def test_a_setup_that_fails_leaves_its_trace_and_spends_nothing(
    error, reason, hidden, log, monkeypatch
):
    def failing(_):
        raise error

    monkeypatch.setattr(protocol.Enrolment, "meet", failing)
    system, kept = hidden(), log()
    odometer = Odometer.for_plan(system.plan())
    gate = Gate(odometer, kept, Streams.seeded(1))
    with pytest.raises(type(error)):
        system.round(1, system.initial(), gate)
    assert kept.records == [RoundAbort(1, None, reason)]
    assert odometer.reading("model").epsilon == 0.0


def test_a_trace_that_cannot_be_kept_hides_no_fault(hidden, monkeypatch):
    class Full:
        def append(self, _):
            raise OSError(28, "No space left on device")

    def failing(_):
        raise ProtocolFault("silo-1 sent something else.")

    monkeypatch.setattr(protocol.Enrolment, "meet", failing)
    system = hidden()
    gate = Gate(Odometer.for_plan(system.plan()), Full(), Streams.seeded(1))
    with pytest.raises(ProtocolFault, match="something else") as caught:
        system.round(1, system.initial(), gate)
    assert "could not be recorded" in caught.value.__notes__[0]
