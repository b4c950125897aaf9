"""DISCO's radius and its float shares: the published mechanism, its exact law, and the controls."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import chi2

pytest.importorskip("cryptography")
pytest.importorskip("nacl")

from privplan.accountant.claims import disco as claimed
from privplan.audit.demos import disco_radius as radius
from privplan.audit.demos import disco_shares as shares
from privplan.audit.demos import run_demo
from privplan.audit.demos.counting import delta_lower
from privplan.audit.statistics import Counts, epsilon_lower
from privplan.fl.crypto import additive

Z = claimed.published_classical_multiplier(10.0, 20)


def tensors(*sizes: int, seed: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.normal(0.0, 0.05, size).astype(np.float32) for size in sizes]


# --- the radius -----------------------------------------------------------------------------------


def test_the_radius_is_the_mean_of_the_last_three_norms_this_one_included() -> None:
    norms = np.array([9.0, 0.1, 0.2, 0.6])
    assert radius.published_radius(norms) == pytest.approx(0.3)
    assert radius.published_radius(norms[:1]) == 1.0
    assert radius.published_radius(np.zeros(3)) == claimed.FLOOR
    assert radius.published_radius(np.full(3, 5.0), clip=2.0) == 2.0


def test_the_noise_is_the_published_one() -> None:
    """100,000 numbers: the sum of squares is chi-square; a false alarm in 10,000 on each side."""
    rng = np.random.default_rng(1)
    update = np.full(100_000, 0.6 / math.sqrt(100_000))
    sent = radius.published_noisy_update(update, rng, multiplier=Z, earlier=[0.1, 0.2])
    kept = update * (0.3 / 0.6)
    statistic = float((((sent - kept) / (Z * 0.3)) ** 2).sum())
    assert 1e-4 < chi2.cdf(statistic, 100_000) < 1.0 - 1e-4


def test_the_radius_is_read_back_to_one_over_the_root_of_twice_the_dimension() -> None:
    rng = np.random.default_rng(2)
    for size in (100, 1000):
        update = np.full((2000, size), 0.5 / math.sqrt(size))
        read = radius.read_radius(radius.published_noisy_update(update, rng, multiplier=Z), Z)
        error = float(np.sqrt(np.mean((read / 0.5 - 1.0) ** 2)))
        # 2,000 draws: five standard errors are 8%.
        assert error == pytest.approx(1.0 / math.sqrt(2 * size), rel=0.08)


def test_norms_that_are_a_tenth_apart_are_told_apart() -> None:
    """1,000 numbers: the sum of squares over (z r)^2 is chi-square to 1 part in 400,000."""
    rng, runs = np.random.default_rng(3), 4000
    cut = math.sqrt(1.1)  # halfway, in the logarithm
    read = [
        radius.read_radius(
            radius.published_noisy_update(
                np.full((runs, 1000), 0.5 * norm / math.sqrt(1000)), rng, multiplier=Z
            ),
            Z,
        )
        > 0.5 * cut
        for norm in (1.0, 1.1)
    ]
    exact = chi2.cdf(1000 * cut**2, 1000) - chi2.cdf(1000 * (cut / 1.1) ** 2, 1000)
    assert exact == pytest.approx(0.97, abs=0.005)
    shown = delta_lower(Counts(int(read[0].sum()), runs, int((~read[1]).sum()), runs), epsilon=0.0)
    assert 0.95 < shown < exact


def test_the_exact_epsilon_agrees_with_the_incomplete_gamma_function() -> None:
    mpmath = pytest.importorskip("mpmath")
    mpmath.mp.dps = 40
    half = mpmath.mpf(radius.SMALL_TENSOR_SIZE) * (radius.RADIUS_THRESHOLD / claimed.FLOOR) ** 2 / 2
    q = mpmath.gammainc(radius.SMALL_TENSOR_SIZE // 2, half, regularized=True)
    exact = float(mpmath.log1p(-radius.DELTA) - mpmath.log(q))
    assert radius.exact_epsilon(radius.DELTA) == pytest.approx(exact, rel=1e-12)
    row = next(row() for row in claimed.ROWS if row().setting == radius.DEMO.rows[0])
    assert row.lower is not None
    assert radius.exact_epsilon(radius.DELTA) > row.lower > 1e11


def test_the_radius_contradicts_the_claim() -> None:
    found = run_demo("disco-radius", 3)
    epsilon, delta = found.measurements
    assert epsilon.contradicted
    assert 10.0 < epsilon.value < found.exact[0]
    assert delta.contradicted
    assert 0.95 < delta.value < 1.0


def test_a_public_radius_is_not_contradicted() -> None:
    """The control: the same noise, radius 1 whatever the update is; true epsilon of a round .5.

    The event of the demonstration, and the best one: the projection on the update.
    """
    rng, runs = np.random.default_rng(4), 100_000
    direction = np.full(radius.SMALL_TENSOR_SIZE, 1.0 / math.sqrt(radius.SMALL_TENSOR_SIZE))
    noise = [Z * rng.standard_normal((runs, radius.SMALL_TENSOR_SIZE)) for _ in range(2)]
    moved, still = direction + noise[0], noise[1]
    for events in (
        [radius.read_radius(one, Z) > radius.RADIUS_THRESHOLD for one in (still, moved)],
        [one @ direction > 0.5 for one in (still, moved)],
    ):
        alarms, hits = (int(one.sum()) for one in events)
        counts = Counts(alarms, runs, runs - hits, runs)
        assert epsilon_lower(counts, delta=radius.DELTA) < 10.0 / radius.RADIUS_ROUNDS
        assert delta_lower(counts, epsilon=10.0 / radius.RADIUS_ROUNDS) == 0.0


# --- the shares -----------------------------------------------------------------------------------


def test_partial_sums_add_up_to_the_sum_of_all_secrets() -> None:
    secrets = [tensors(50, 20, seed=seed) for seed in range(4)]
    sums, _ = shares.published_partial_sums(secrets, np.random.default_rng(5))
    for index in range(2):
        total = np.sum([one[index] for one in sums], axis=0)
        assert total == pytest.approx(np.sum([one[index] for one in secrets], axis=0), abs=2e-3)


def test_between_two_parties_a_peer_sees_everything() -> None:
    secrets = [tensors(50, seed=1), tensors(50, seed=2)]
    seen = shares.seen_by_peer(
        *shares.published_partial_sums(secrets, np.random.default_rng(6)), target=0, peer=1
    )
    assert seen[0] == pytest.approx(secrets[0][0], abs=1e-4)


def test_among_three_a_peer_sees_two_masks() -> None:
    """Its view is a secret plus two uniform masks: variance 2 M^2 / 3, and 5 sigma of 20,000."""
    secrets = [tensors(20_000, seed=seed) for seed in range(3)]
    sums, sent = shares.published_partial_sums(secrets, np.random.default_rng(7))
    hidden = shares.seen_by_peer(sums, sent, target=2, peer=0)[0] - secrets[2][0]
    assert np.abs(hidden).max() <= 200.0 + 1e-3
    assert float(np.var(hidden)) == pytest.approx(2 * 100.0**2 / 3, rel=0.05)


def test_the_difference_of_two_tensors_is_bare_for_every_peer() -> None:
    secrets = [tensors(64, 32, seed=seed) for seed in range(6)]
    sums, _ = shares.published_partial_sums(secrets, np.random.default_rng(8))
    for (first, second), (one, other) in zip(sums, secrets, strict=True):
        assert first[:32] - second == pytest.approx(one[:32] - other, abs=1e-3)


def test_the_programs_constants_are_those_of_its_shares() -> None:
    assert shares.DISCO_MAGNITUDE == additive.DISCO_MAGNITUDE
    assert shares.DISCO_SEED_BITS == additive.DISCO_SEED_BITS


def test_the_density_of_two_masks_is_a_triangle() -> None:
    x = np.linspace(-250.0, 250.0, 1001)
    expected = np.maximum(0.0, 200.0 - np.abs(x)) / 200.0**2
    assert shares._density(x, 2, 100.0) == pytest.approx(expected, abs=1e-15)


def test_the_exact_advantage_is_known_where_it_is_simple() -> None:
    """One mask in closed form; many small shifts under five masks are nearly Gaussian.

    The Fisher information of a sum of m >= 4 uniforms is a little above 1 / variance.
    """
    assert shares.exact_advantage(1, 1e-3, 10**6) == pytest.approx(1.0 - math.exp(-5.0), abs=1e-4)
    for masks, known in ((4, 0.34), (6, 0.28)):
        found = shares.exact_advantage(masks, 0.1, 10**6)
        least = 2.0 * ndtr(math.sqrt(3.0 / masks) / 2.0) - 1.0
        assert found == pytest.approx(known, abs=0.005)
        assert least < found < least + 0.01


@pytest.mark.parametrize("masks", [2, 3, 6])
def test_the_exact_advantage_agrees_with_another_generator(masks: int) -> None:
    """4,000 draws of each of 400 numbers with NumPy's uniforms: within 4 standard errors."""
    rng, runs, size = np.random.default_rng(masks), 4000, 400
    shift = 100.0 / math.sqrt(size)
    called = []
    for truth in (shift, 0.0):
        seen = truth + sum(rng.uniform(-100.0, 100.0, (runs, size)) for _ in range(masks))
        with np.errstate(divide="ignore"):
            on = np.log(shares._density(seen - shift, masks, 100.0))
            off = np.log(shares._density(seen, masks, 100.0))
        called.append(float(np.mean((on - off).sum(axis=1) > 0.0)))
    exact = shares.exact_advantage(masks, shift, size)
    assert called[0] - called[1] == pytest.approx(exact, abs=4.0 * math.sqrt(0.5 / runs))


def test_the_shares_contradict_their_independence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shares, "SHARE_RUNS", 200)
    monkeypatch.setattr(shares, "CERTAIN_SHARE_RUNS", 50)
    found = run_demo("disco-shares", 1)
    assert len(found.measurements) == 6
    for one, exact in zip(found.measurements, found.exact, strict=True):
        assert one.contradicted
        assert exact is not None
        assert 0.0 < one.value < exact


def test_shares_in_a_ring_are_not_contradicted() -> None:
    """The control: last shares modulo 2^64, read as fixed point, and the same two tests.

    Shares are drawn by the operating system: a false alarm once in 10^11.  Of DISCO's own shares
    the first test shows an advantage of .6, which 300 runs miss as rarely.
    """
    shift, size, runs = 100.0 / math.sqrt(512), 512, 300
    called = []
    for truth in (shift, 0.0):
        hits = np.zeros(2, int)
        for _ in range(runs):
            words = np.full(size, round(truth * 2**20), np.int64).astype(np.uint64)
            last = additive.share(words, 3)[1].astype(np.int64) / 2.0**20
            # Folded into the range of DISCO's masks, so that the density is never 0.
            hits += [shares.log_ratio(last % 400.0 - 200.0, shift, 2) > 0.0, last[0] > 0.0]
        called.append(hits)
    for hits, alarms in zip(*called, strict=True):
        counts = Counts(int(alarms), runs, runs - int(hits), runs)
        assert delta_lower(counts, epsilon=0.0, alpha=1e-6) == 0.0
