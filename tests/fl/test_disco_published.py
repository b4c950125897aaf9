"""DISCO as published: rounds beside a plain recipe, the radius, and what a message gives away."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from privplan.accountant import records
from privplan.accountant.mechanisms.discrete_sampler import discrete_gaussian
from privplan.accountant.randomness import Streams
from privplan.fl.aggregation.choice import aggregator
from privplan.fl.disco import published
from privplan.fl.disco.published import PublishedDisco, radii
from privplan.fl.settings.schema import SecuritySettings

from ..cases import for_each
from . import disco_published_runs
from .disco_published_runs import PEERS, SEED, SIZES, TABLE, Scripted, moving
from .extras import needs

needs_masks = needs("cryptography", "msgpack")


@pytest.fixture
def built(tiny: Any, made_of: Any) -> Callable[..., PublishedDisco]:
    """Return what makes the system for given updates; see `disco_published_runs.built`."""
    return partial(disco_published_runs.built, tiny, made_of)


def drawn(system: PublishedDisco, rounds: int) -> Any:
    """Return the noise of every share, (rounds, peers, D), drawn anew from the run's seed."""
    mechanism = system.mechanism(system.promise.noise_multiplier)
    parameter = math.sqrt((mechanism.share_std / mechanism.grid) ** 2 + 64.0)
    streams, length = Streams.seeded(SEED), system.initial().size
    noise = [
        [discrete_gaussian(streams.stream(f"noise/silo-{peer}"), length, parameter)]
        for _ in range(rounds)
        for peer in range(system.setup.silos)
    ]
    return np.reshape(noise, (rounds, -1, length)) * mechanism.grid


def norm(vector: Any) -> float:
    return math.sqrt(sum(value * value for value in np.asarray(vector).tolist()))


def by_hand(system: Any, updates: Any, noise: Any, *, last: int = 3, this: bool = True) -> Any:
    """Return the models of the printed recipe, tensor by tensor, in plain floats."""
    own, clip, model = system.setup.training, system.setup.training.clip, system.initial()
    models, tensors = [model], [slice(0, 6), slice(6, 9)]
    for number in range(len(updates)):
        total = np.zeros_like(model)
        for peer in range(len(updates[0])):
            for part in tensors:
                known = [norm(updates[past, peer, part]) for past in range(number + this)][-last:]
                radius = max(1e-12, min(clip, sum(known) / len(known))) if known else clip
                update, size = updates[number, peer, part], norm(updates[number, peer, part])
                clipped = update if size <= radius else update * (radius / size)
                total[part] += clipped + noise[number, peer, part] * (radius / clip)
        model = model + own.global_rate / len(updates[0]) * total
        models.append(model)
    return np.array(models)


def truncated(system: PublishedDisco, rounds: int) -> float:
    """Return how far a model may be from one in floats: a step of the grid a round, and 1e-13."""
    mechanism = system.mechanism(system.promise.noise_multiplier)
    return rounds * system.setup.training.global_rate * (mechanism.grid + 1e-13)


@pytest.fixture
def messages(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return a list that collects what the peers of each round send, (peers, D)."""
    sent: list[Any] = []
    honest = published.float_sum

    def seen(by: Any, number: int, rows: Any) -> Any:
        sent.append(rows.copy())
        return honest(by, number, rows)

    monkeypatch.setattr(published, "float_sum", seen)
    return sent


# --- the recipe ---------------------------------------------------------------------------------


def test_rounds_are_the_printed_recipe(built: Any, run: Any) -> None:
    """Another window is off by more than a hundred times what truncation and rounding explain."""
    updates = moving()
    system = built(updates)
    models, _ = run(system, seed=SEED)
    noise = drawn(system, len(updates))
    tolerance = truncated(system, len(updates))

    def off(**recipe: Any) -> float:
        return float(np.abs(models - by_hand(system, updates, noise, **recipe)).max())

    assert off() <= tolerance
    for control in ({"last": 2}, {"last": 4}, {"last": 1}, {"this": False}):
        assert off(**control) > 100.0 * tolerance


def summed(way: str, updates: Any, tiny: Any, made_of: Any) -> PublishedDisco:
    """Return the system whose updates are summed in this way."""
    security = SecuritySettings(aggregation=way, keep_transcripts=way == "shares")  # type: ignore[arg-type]
    setup = made_of(
        "disco",
        tiny(silos=PEERS, users=PEERS),
        local=lambda *_: Scripted(updates),
        rounds=len(updates),
        **{"unit": "silo", "neighbours": "replace-one", "epsilon": 10.0, "observer": "peer"},
    )
    return PublishedDisco(
        replace(setup, security=security, aggregator=aggregator(security, PEERS)), TABLE
    )


@needs_masks
# Of a mean: a truncation to 2^-40; or .00005, the largest error of shares below 100.
@for_each("way, off", [("masked", 2.0**-40 + 1e-13), ("shares", 5e-5)])
def test_other_sums_are_the_same_to_their_rounding(
    way: str, off: float, tiny: Any, made_of: Any, run: Any
) -> None:
    updates = moving(rounds=3)
    plain, other = (
        np.array(run(summed(each, updates, tiny, made_of), seed=SEED)[0]) for each in ("plain", way)
    )
    apart = np.abs(plain - other).max()
    assert 0.0 < apart <= 3 * 3.0 * off
    assert np.abs(plain[-1] - plain[0]).max() > 1e3 * 9.0 * off


@needs_masks
def test_as_shares_whole_models_are_sent_in_no_ring(
    tiny: Any, made_of: Any, run: Any, messages: list[Any]
) -> None:
    """A peer reads off what another one sent the difference of its two tensors, sum or no sum."""
    from privplan.audit.attack_methods.transcripts import values

    system = summed("shares", moving(rounds=1), tiny, made_of)
    models, log = run(system, seed=SEED)
    assert system.opening().security == records.Security(
        "additive-shares", parties=PEERS, fewest=PEERS, ring_bits=0
    )
    assert {reach.sees for reach in log.intents[0].reaches.values()} == {"sum", "each"}
    run(summed("plain", moving(rounds=1), tiny, made_of), seed=SEED)
    sent = models[0] + messages[0]
    network = system.network
    assert network is not None
    seen = [one for one in network.view("silo-0") if one.kind == "float-partial"]
    assert [one.sender for one in seen] == ["silo-1", "silo-2", "silo-3"]
    for peer, message in enumerate(seen, 1):
        weight, bias = (np.frombuffer(raw, "<f4").astype(float) for raw in values(message))
        assert np.abs(weight[:3] - bias - (sent[peer, :3] - sent[peer, 6:])).max() < 1e-4


def test_the_intent_states_the_noise_of_the_largest_radius(built: Any, run: Any) -> None:
    updates = moving(rounds=2)
    system = built(updates)
    _, log = run(system, seed=SEED)
    clip, z = 0.25, 2.0 * math.sqrt(2.0 * math.log(1.25 * 2 / 1e-5)) / 5.0
    for intent, release in zip(log.intents, log.releases, strict=True):
        assert intent.contribution.bound == pytest.approx(clip * math.sqrt(2.0), rel=1e-12)
        assert (intent.contribution.source, intent.contribution.unit) == ("private", "silo")
        assert intent.noise.share_std == pytest.approx(z * clip, rel=1e-12)
        assert intent.noise.share_std >= z * clip * (1.0 - 1e-15)
        assert intent.noise.shares == PEERS
        assert release.shares == PEERS
        assert (release.normaliser.kind, release.normaliser.value) == ("constant", PEERS)
        norms = {"norm_largest", "norm_median"}
        assert set(release.sealed) == {"clipped", "not_finite", "terms", *norms}


# --- the radius ---------------------------------------------------------------------------------


def of_one(*norms: float, clip: float = 1.0) -> float:
    return float(radii([np.array([[value]]) for value in norms], clip)[0, 0])


@for_each(
    ("norms", "radius"),
    [
        ((0.5,), 0.5),
        ((0.2, 0.4), 0.3),
        ((0.2, 0.4, 0.6), 0.4),
        ((9.0, 0.2, 0.4, 0.6), 0.4),
        ((0.0, 0.0, 0.9), 0.3),
        ((0.5, 0.5, 5.0), 1.0),
        ((0.0, 0.0, 0.0), 1e-12),
        ((0.0,), 1e-12),
        ((7.0,), 1.0),
        ((math.inf, 0.1, 0.1), 1.0),
        ((math.nan, 0.1, 0.1), 1.0),
        ((math.nan, 0.1, 0.1, 0.1), 0.1),
    ],
    ids=str,
)
def test_the_radius_is_the_mean_of_three_norms_below_the_clip(
    norms: tuple[float, ...], radius: float
) -> None:
    assert of_one(*norms) == pytest.approx(radius, rel=1e-12)


@given(
    arrays(np.float64, (5, 3, 2), elements=st.floats(0.0, 10.0)),
    st.floats(1e-3, 10.0),
    st.integers(1, 5),
)
def test_a_radius_never_leaves_its_range_and_forgets_the_fourth_round(
    norms: Any, clip: float, rounds: int
) -> None:
    found = radii(list(norms[:rounds]), clip)
    assert ((found >= 1e-12) & (found <= clip)).all()
    earlier = [one * 7.0 for one in norms[: max(0, rounds - 3)]]
    assert np.array_equal(found, radii([*earlier, *norms[max(0, rounds - 3) : rounds]], clip))
    longer = [*norms[: rounds - 1], norms[rounds - 1] + 1.0]
    assert (radii(longer, clip) >= found).all()


def test_each_peer_and_each_tensor_has_a_radius_of_its_own() -> None:
    norms = [np.array([[0.1, 0.2], [0.3, 4.0]]), np.array([[0.3, 0.0], [0.1, 0.0]])]
    assert radii(norms, 1.0) == pytest.approx(np.array([[0.2, 0.1], [0.2, 1.0]]))


def test_an_update_that_is_no_number_counts_as_zero(built: Any, run: Any) -> None:
    """Its radius is the clip, while it is one of the last three; the model stays finite."""
    updates = moving()
    updates[1, 0, 2], updates[2, 1, 7] = math.inf, math.nan
    updates[1, 2, :6] = 1e200  # finite, but its square is not
    system = built(updates)
    models, log = run(system, seed=SEED)
    assert np.isfinite(models).all()
    # All of such a tensor is gone; by hand, with its norm counted as infinite.
    gone = updates.copy()
    gone[1, 0, :6] = gone[2, 1, 6:] = gone[1, 2, :6] = 0.0
    seen = [np.array([[norm(row[:6]), norm(row[6:])] for row in rows]) for rows in updates]
    assert not np.isfinite([seen[1][0, 0], seen[2][1, 1], seen[1][2, 0]]).any()
    noise, clip, model = drawn(system, len(updates)), 0.25, system.initial()
    for number in range(len(updates)):
        radius = np.repeat(radii(seen[: number + 1], clip), SIZES, axis=1)
        sizes = [[norm(row[:6]), norm(row[6:])] for row in gone[number]]
        size = np.repeat(np.array(sizes), SIZES, axis=1)
        clipped = gone[number] * np.minimum(1.0, radius / np.maximum(size, 1e-300))
        model = model + 0.75 * (clipped + noise[number] * (radius / clip)).sum(axis=0)
        assert np.abs(models[number + 1] - model).max() <= truncated(system, number + 1)
    assert log.sealed[1]["not_finite"] == 2
    assert log.sealed[2]["not_finite"] == 1


# --- what a message gives away ------------------------------------------------------------------


def test_a_tensor_that_did_not_move_has_noise_of_next_to_nothing(
    built: Any, run: Any, messages: list[Any]
) -> None:
    """Its noise is 1e-12 z, that of one that moved by the clip is z C: 2.5e11 times as much.

    One peer of four has a bias that never moves: a threshold halfway tells it in all 20 rounds.
    """
    updates = np.full((20, PEERS, 9), 1.0)
    updates[:, 0, 6:] = 0.0
    system = built(updates)
    run(system, seed=SEED)
    sent = np.array(messages)
    z, clip = system.multiplier, 0.25
    still, moved = np.abs(sent[:, 0, 6:]), np.abs(sent[:, 1:, 6:])
    # Sixty numbers: five standard errors of a root mean square are 46%.
    assert math.sqrt(np.mean(still**2)) == pytest.approx(1e-12 * z, rel=0.46)
    assert math.sqrt(np.mean(moved**2)) == pytest.approx(clip * z, rel=0.46)
    assert (still.max(axis=1) < 1e-6 * z).all()
    assert (moved.max(axis=2) > 1e-6 * z).all()


def test_a_norm_is_read_off_a_message_to_one_in_the_root_of_twice_its_length(
    tiny: Any, made_of: Any, run: Any, messages: list[Any]
) -> None:
    """400 messages of 100 numbers: rms error 1 / sqrt(200) = 7.07%, within 20% (5 errors)."""
    rounds, peers, length = 20, 20, 100
    rng = np.random.default_rng(1)
    lengths = np.repeat(rng.uniform(0.02, 0.2, (1, peers, 1)), rounds, axis=0)
    updates = rng.normal(size=(rounds, peers, length))
    updates *= lengths / np.linalg.norm(updates, axis=2, keepdims=True)

    def local(*_: Any) -> Scripted:
        training = Scripted(updates)
        training.model.parts = {"weight": (length,)}
        return training

    setup = made_of(
        "disco",
        tiny(silos=peers, users=peers),
        local=local,
        rounds=rounds,
        **{"unit": "silo", "neighbours": "replace-one", "epsilon": 10.0, "observer": "peer"},
    )
    system = PublishedDisco(setup, TABLE)
    run(system, seed=SEED)
    read_off = np.sqrt(np.mean(np.array(messages) ** 2, axis=2)) / system.multiplier
    error = read_off / lengths[..., 0] - 1.0
    assert math.sqrt(np.mean(error**2)) == pytest.approx(1.0 / math.sqrt(2.0 * length), rel=0.2)
