"""What a run seals of its noise: statistics of what was drawn, right to the last digit, and no
more than that."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from privplan.accountant import records
from privplan.accountant.mechanisms import Gate, Gaussian, RoundDescription
from privplan.accountant.mechanisms.clip import Sparse
from privplan.accountant.mechanisms.noisy_sums import NoisySums
from privplan.accountant.odometer import Odometer
from privplan.accountant.randomness import Streams
from privplan.fl.aggregation.clip_check import ClipCheck, norms_of
from privplan.fl.aggregation.residuals import (
    EARLIER,
    MIN_VALUES,
    SAMPLE,
    SQUARED_VALUES,
    Residuals,
    every,
)
from privplan.fl.aggregation.sums import PlainAggregator, noisy_sum
from privplan.fl.frame.private_normalisation import MomentsRelease
from privplan.fl.settings.schema import SecuritySettings
from privplan.fl.uldp.group import UldpGroup
from privplan.fl.uldp.naive import UldpNaive
from privplan.fl.uldp.weighted import UldpAvgKnownWeights

GRID = 2.0**-20
NOISE = records.Noise("gaussian", 2.0, 4, 1.0, grid=GRID)


def drawn(rng, *shape, std=1.0):
    """Return noise in steps of the grid."""
    return np.rint(rng.normal(scale=std / GRID, size=shape)).astype(np.int64)


def sealed(kept, noise, *, whole=None, stated=NOISE):
    """Return what is sealed of the noise of each silo, by its number."""
    monitor = kept.monitor(stated)
    for silo, own in noise.items():
        monitor.share(silo, own, GRID)
    if whole is not None:
        monitor.whole(whole, GRID, list(noise))
    return monitor.items()["residuals"]


def cosine(one, other):
    one, other = one.ravel().astype(float), other.ravel().astype(float)
    return one @ other / np.sqrt((one @ one) * (other @ other))


# --- the statistics -------------------------------------------------------------------------------


def test_each_statistic_is_that_of_the_noise():
    rng, kept = np.random.default_rng(1), Residuals()
    before = {silo: drawn(rng, 300) for silo in range(3)}
    noise = {silo: drawn(rng, 300) for silo in range(3)}
    noise[1][[4, 7]] = 0
    total = sum(noise.values())
    sealed(kept, before)
    found = sealed(kept, noise, whole=total)
    assert found["silos"] == [0, 1, 2]
    assert (found["n"], found["values"], found["sums"]) == (300, 300, 1)
    assert found["zeros"] == [0, 2, 0]
    assert found["lag"] == pytest.approx([cosine(before[s], noise[s]) for s in range(3)])
    squares = [float(((own * GRID) ** 2).sum()) for own in noise.values()]
    assert found["squares"] == pytest.approx(squares, rel=1e-12)
    pairs = {(i, j): cosine(noise[i], noise[j]) for i in range(3) for j in range(i)}
    (most, least), value = max(pairs.items(), key=lambda one: abs(one[1]))
    assert found["alike"]["silos"] == [least, most]
    assert found["alike"]["cosine"] == pytest.approx(value)
    assert found["whole"]["silos"] == [0, 1, 2]
    assert found["whole"]["squares"] == pytest.approx(float(((total * GRID) ** 2).sum()))
    assert found["within"] == [None] * 3


def test_the_distance_is_that_of_all_rounds_and_never_above_that_of_kolmogorov():
    rng, kept, seen = np.random.default_rng(2), Residuals(), []
    for number in range(1, 6):
        seen.append(drawn(rng, 200, std=1.3))
        found = sealed(kept, {0: seen[-1]})
        exact = stats.kstest(np.concatenate(seen) * GRID, "norm").statistic
        assert found["ks_n"] == [200 * number]
        assert exact - 0.4 / 32 <= found["ks"][0] <= exact
    assert found["ks"][0] > 0.05  # it is 1.3 times as wide as is stated


def test_noise_is_compared_with_that_of_the_last_rounds():
    rng, kept = np.random.default_rng(8), Residuals()
    rounds = [[drawn(rng, 40) for _ in range(2)] for _ in range(EARLIER + 3)]
    for number, noise in enumerate(rounds):
        found = sealed(kept, dict(enumerate(noise)))
        for silo in range(2):
            cosines = [found["lag"][silo], *found["earlier"][silo]]
            known = min(number, EARLIER)
            exact = [cosine(rounds[number - ago][silo], noise[silo]) for ago in range(1, known + 1)]
            assert cosines[:known] == pytest.approx(exact)
            assert cosines[known:] == [None] * (EARLIER - known)


def test_of_several_sums_the_least_and_the_largest_squares_are_sealed():
    rng = np.random.default_rng(9)
    noise = {silo: drawn(rng, 7, 31) for silo in range(2)}
    found = sealed(Residuals(), noise)["of_sums"]
    squares = [((own * GRID) ** 2).sum(axis=1) for own in noise.values()]
    assert found["n"] == 31
    assert found["least"] == pytest.approx([own.min() for own in squares], rel=1e-12)
    assert found["most"] == pytest.approx([own.max() for own in squares], rel=1e-12)
    assert "of_sums" not in sealed(Residuals(), {0: drawn(rng, 31)})
    assert "of_sums" not in sealed(Residuals(), {0: drawn(rng, 31, MIN_VALUES - 1)})


def test_moved_noise_has_the_same_values_in_order_and_sums_of_a_round_are_compared():
    rng, kept = np.random.default_rng(10), Residuals()
    noise = drawn(rng, 40)
    moved = -np.roll(noise, 3)
    found = [sealed(kept, {0: own}) for own in (noise, moved, drawn(rng, 40))]
    assert found[0]["unordered"] == found[1]["unordered"] != found[2]["unordered"]
    assert len({each["fingerprints"][0] for each in found}) == 3
    assert sealed(kept, {0: drawn(rng, SQUARED_VALUES + 1)})["unordered"] == [None]
    rng, kept = np.random.default_rng(3), Residuals()
    noise = drawn(rng, 7, 31)
    found = sealed(kept, {0: noise})
    assert (found["sums"], found["n"], found["within_n"]) == (7, 217, 93)
    assert found["within"][0] == pytest.approx(cosine(noise[0:6:2], noise[1:6:2]))
    assert found["equal_sums"] == [0]
    noise[5] = noise[2]
    assert sealed(kept, {0: noise})["equal_sums"] == [1]


def test_of_few_values_nothing_is_kept_of_many_a_part_and_of_no_noise_no_angle():
    rng = np.random.default_rng(4)
    few = sealed(Residuals(), {0: drawn(rng, MIN_VALUES - 1), 1: drawn(rng, MIN_VALUES - 1)})
    assert set(few) == {
        *("segment", "std", "silos", "fingerprints", "equal_sums"),
        *("sums", "values", "n", "whole"),
    }
    assert "squares" in sealed(Residuals(), {0: drawn(rng, MIN_VALUES)})
    rng = np.random.default_rng(5)
    noise = drawn(rng, 50_001)
    noise[noise == 0] = 1  # one in some 50,000 values of this noise is 0 by chance
    noise[3] = 0
    found = sealed(Residuals(), {0: noise})
    assert SAMPLE / 2 < found["n"] <= SAMPLE
    assert found["values"] == 50_001
    assert found["zeros"] == [1]
    assert every(1000, 31) * SAMPLE >= 1000 * 31 / 2
    kept, nothing = Residuals(), np.zeros(20, np.int64)
    sealed(kept, {0: nothing, 1: nothing})
    found = sealed(kept, {0: nothing, 1: nothing})
    assert found["lag"] == [None, None]
    assert found["alike"] is None
    assert found["squares"] == [0.0, 0.0]


def leaves(found):
    """Return every number and text of a JSON value."""
    if isinstance(found, dict | list):
        inner = found.values() if isinstance(found, dict) else found
        return [one for each in inner for one in leaves(each)]
    return [found]


def test_what_is_sealed_does_not_grow_with_the_noise_and_holds_none_of_it():
    rng = np.random.default_rng(6)
    lengths = []
    for width in (31, 2000):
        noise = drawn(rng, width)
        noise += np.sign(noise) * 10**4  # none is a count of anything
        own = sealed(Residuals(), {0: noise}, whole=noise)
        lengths.append(len(json.dumps(own)))
        keyed = {
            own["segment"],
            *own["fingerprints"],
            *own["unordered"],
        }  # digits of these are drawn afresh
        assert all(re.fullmatch("[0-9a-f]{16}|[0-9a-f]{32}", one) for one in keyed)
        rest = [one for one in leaves(own) if one not in keyed]
        assert all(isinstance(one, int | float | None) for one in rest)
        assert not {*rest} & {*noise.tolist(), *(noise * GRID).tolist()}
    assert abs(lengths[0] - lengths[1]) < 60


def test_fingerprints_show_what_is_equal_and_only_to_the_run_itself():
    rng, kept, other = np.random.default_rng(7), Residuals(), Residuals()
    noise = drawn(rng, 40)
    one, two = (sealed(kept, {0: noise})["fingerprints"] for _ in range(2))
    assert one == two
    assert sealed(kept, {0: drawn(rng, 40)})["fingerprints"] != one
    assert sealed(other, {0: noise})["fingerprints"] != one  # another key
    assert kept.segment != other.segment
    for size in (16, 64):
        assert hashlib.blake2b(noise.tobytes(), digest_size=size).hexdigest()[:32] != one[0]
    kept = Residuals()
    key = next(value for value in vars(kept).values() if isinstance(value, bytes))
    found = sealed(kept, {0: np.arange(40)})
    assert len(key) == 32
    assert bytes(key).hex() not in json.dumps(found)
    assert repr(key) == "<secret>"


# --- what systems seal ----------------------------------------------------------------------------


@pytest.fixture
def noise(monkeypatch):
    """Return a list that collects the noise of every share, in units, as it is drawn."""
    seen, alone, steps = [], Gaussian._with_noise, NoisySums.noisy

    def share(self, stream, total):
        found = alone(self, stream, total)
        seen.append((found - total) * self.grid)
        return found

    def step(self, totals):
        found = steps(self, totals)
        seen.append(np.rint(found / self._grid - totals) * self._grid)
        return found

    monkeypatch.setattr(Gaussian, "_with_noise", share)
    monkeypatch.setattr(NoisySums, "noisy", step)
    return seen


@pytest.mark.parametrize("kind", ["average", "gradient", "naive"])
def test_a_system_seals_the_statistics_of_its_noise(kind, tiny, made_of, run, noise):
    federation = tiny(features=12)
    if kind == "naive":
        system = UldpNaive(made_of("uldp-naive", federation))
    else:
        system = UldpAvgKnownWeights(made_of("uldp-avg", federation), step=kind)
    _, log = run(system, rounds=3)
    last = None
    for number, one in enumerate(log.sealed):
        own, again = np.array(noise[3 * number : 3 * number + 3]), one["recomputed"]
        found = one["residuals"]
        assert found["squares"] == pytest.approx((own**2).sum(axis=1).tolist())
        assert found["whole"]["squares"] == pytest.approx(float((own.sum(axis=0) ** 2).sum()))
        assert found["std"] == log.intents[number].noise.share_std
        if last is not None:
            assert found["lag"] == pytest.approx([cosine(last[i], own[i]) for i in range(3)])
        assert again["sum_off"] <= 1.0
        assert 0.99 < again["term_largest"] <= 1.0  # some are clipped
        assert again["weight_largest"] is None or again["weight_largest"] <= 1.0
        last = own


def test_dp_sgd_seals_the_statistics_of_all_steps(tiny, made_of, run, noise):
    federation = tiny(features=12)
    system = UldpGroup(made_of("uldp-group", federation, group=3), rate=0.3)
    _, log = run(system, rounds=2)
    for number, one in enumerate(log.sealed):
        own = np.array(noise[system.steps * number : system.steps * (number + 1)])
        found, again = one["residuals"], one["recomputed"]
        assert (found["sums"], found["n"]) == (system.steps, system.steps * 12)
        assert found["squares"] == pytest.approx((own**2).sum(axis=(0, 2)).tolist())
        assert found["whole"] is None
        assert again["sum_off"] <= 1.0
        assert again["term_largest"] <= 1.0


def test_hidden_weights_seal_every_share_and_the_sum(tiny, made_of, run, monkeypatch):
    pytest.importorskip("phe")
    pytest.importorskip("gmpy2")
    from privplan.accountant.mechanisms import FineGaussian
    from privplan.fl.uldp.hidden_weights import UldpAvgHiddenWeights

    seen, share = [], FineGaussian.share

    def watched(self, *arguments):
        found = share(self, *arguments)
        seen.append(self.units(found))
        return found

    monkeypatch.setattr(FineGaussian, "share", watched)
    setup = made_of(
        "uldp-avg", tiny(features=12), training={"weighting": "records"}, sampling_rate=0.7
    )
    security = SecuritySettings(aggregation="private-weighting", key_bits=512)
    system = UldpAvgHiddenWeights(replace(setup, security=security), step="average", weak_key=True)
    _, log = run(system, rounds=2)
    for number, one in enumerate(log.sealed):
        own, found = np.array(seen[3 * number : 3 * number + 3]), one["residuals"]
        assert found["squares"] == pytest.approx((own**2).sum(axis=1).tolist())
        total = float((own.sum(axis=0) ** 2).sum())
        assert found["whole"]["squares"] == pytest.approx(total, rel=1e-6)
        assert 0.99 < one["recomputed"]["term_largest"] <= 1.0
        assert one["recomputed"]["weight_largest"] < 1.0


def test_the_moments_seal_theirs(tiny, noise, log):
    federation = tiny(features=12)
    step = MomentsRelease(5.0, "records", "add-remove", federation, -3.0, 3.0)
    kept = log()
    step.release(Gate(adaptive(), kept, Streams.seeded(3)), lambda _: None)
    (one,) = kept.sealed
    assert one["residuals"]["squares"] == pytest.approx((np.array(noise) ** 2).sum(axis=1).tolist())
    assert one["recomputed"]["sum_off"] <= 1.0
    assert one["recomputed"]["weight_largest"] == pytest.approx(1.0)


def adaptive():
    """Return an odometer that admits any round."""
    return Odometer(1000.0, delta=1e-5, observers=["model"])


def test_shares_are_seen_where_a_silo_sends_and_not_in_the_mechanism(log, monkeypatch):
    """A mechanism that adds less than it draws shows in what was sent."""
    mechanism = Gaussian(bound=1.0, std=4.0, shares=2)
    drawing = Gaussian._with_noise
    monkeypatch.setattr(
        Gaussian,
        "_with_noise",
        lambda self, stream, total: (drawing(self, stream, total) - total) // 2 + total,
    )
    squares = 0.0
    gate, kept = Gate(adaptive(), log(), Streams.seeded(5)), Residuals()
    for number in range(1, 21):
        with gate.open(mechanism.intent(RoundDescription(number, "train"), "add-remove")) as ticket:
            monitor = kept.monitor(ticket.intent.noise)
            sums = [np.arange(500), np.arange(500)]
            noisy_sum(PlainAggregator(), number, mechanism, ticket, sums, monitor=monitor)
            squares += sum(monitor.items()["residuals"]["squares"])
            ticket.close(values=500)
    assert squares / (20 * 1000 * mechanism.share_std**2) == pytest.approx(0.25, rel=0.05)


# --- sums that are made again ---------------------------------------------------------------------


MECHANISM = Gaussian(
    bound=0.5, std=3.0, shares=2, weights=records.Weights("records", 1.0), unit="user"
)


def again(rows, silo, weights, users=None, mechanism=MECHANISM, totals=None):
    """Return what is sealed of some rows, added in two parts, and the mechanism's sums of them."""
    intent = mechanism.intent(RoundDescription(1, "train"), "add-remove")
    width = rows.width if isinstance(rows, Sparse) else rows.shape[1]
    found = ClipCheck(intent, mechanism, 2, width)
    for some in (np.arange(len(silo)) < 5, np.arange(len(silo)) >= 5):
        part = rows[some]
        mine = None if users is None else users[some]
        found.add(part, silo[some], norms_of(part), weights[some], mine)
    made = mechanism.totals(rows, silo, 2, weights) if totals is None else totals
    return found.items(made)["recomputed"]


@pytest.fixture
def terms():
    """Return rows of all sizes, with their silos and weights."""
    rng = np.random.default_rng(8)
    rows = rng.normal(size=(60, 40)) * 10.0 ** rng.uniform(-6, 6, (60, 1))
    rows[3] = 0.0
    return rows, rng.integers(0, 2, 60), rng.uniform(0.01, 1.0, 60)


def test_sums_made_again_agree_with_the_mechanism(terms):
    found = again(*terms)
    assert found["terms"] == 60
    assert 0.1 < found["sum_off"] <= 1.0
    assert 0.999 < found["term_largest"] <= 1.0
    rows, silo, weights = terms
    columns = np.argsort(np.random.default_rng(9).random(rows.shape), axis=1)[:, :5]
    few = Sparse(columns, np.take_along_axis(rows, columns, axis=1), rows.shape[1])
    dense, sparse = again(few.dense(), silo, weights), again(few, silo, weights)
    assert sparse == pytest.approx(dense)
    assert sparse["sum_off"] <= 1.0
    rng = np.random.default_rng(10)
    rows, silo = rng.normal(size=(200, 1000)), rng.integers(0, 2, 200)
    assert again(rows, silo, np.full(200, 0.5))["sum_off"] <= 1.0
    rows, silo = np.ones((6, 4)), np.zeros(6, np.int64)
    totals = MECHANISM.totals(rows, silo, 2, np.ones(6))
    totals[1, 0] += 2
    assert again(rows, silo, np.ones(6), totals=totals)["sum_off"] > 1.0
    rows, silo, _ = terms
    users = np.arange(60) // 3
    found = again(rows, silo, np.full(60, 0.4), users)
    assert found["weight_largest"] == pytest.approx(1.2)


@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf, 1e200, -1.7e308])
def test_rows_that_are_not_finite_or_too_large_to_square(terms, odd):
    rows, silo, weights = terms
    rows[[2, 20, 40], [1, 2, 3]] = odd
    found = again(rows, silo, weights)
    assert found["sum_off"] <= 1.0
    assert found["term_largest"] <= 1.0


@pytest.mark.parametrize("fault", ["no clipping", "no weights", "other silo", "wider clip"])
def test_other_sums_are_too_far_off(terms, fault):
    rows, silo, weights = terms
    made = {
        "no clipping": lambda: np.rint(
            np.array([(weights * (silo == one)) @ np.clip(rows, -9, 9) for one in (0, 1)])
            / MECHANISM.grid
        ).astype(np.int64),
        "no weights": lambda: MECHANISM.totals(rows, silo, 2),
        "other silo": lambda: MECHANISM.totals(rows, 1 - silo, 2, weights),
        "wider clip": lambda: 101 * MECHANISM.totals(rows, silo, 2, weights) // 100,
    }[fault]()
    assert again(rows, silo, weights, totals=made)["sum_off"] > 10.0


def test_the_largest_term_is_clipped_by_itself_and_nothing_warns(terms, monkeypatch, recwarn):
    rows, silo, weights = terms
    honest = Gaussian.total
    monkeypatch.setattr(Gaussian, "total", lambda self, *own: 2 * honest(self, *own))
    assert again(rows, silo, weights)["term_largest"] == pytest.approx(2.0, rel=1e-4)
    rows, silo, weights = terms
    rows[0, 0], rows[1, 1] = np.nan, 1e300
    again(rows, silo, weights)
    assert not recwarn.list
