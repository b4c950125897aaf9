"""Wishart noise on Gram matrices: exact sums, the published law, its failure, what is stated."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from privplan.accountant import events as ev
from privplan.accountant import records
from privplan.accountant.errors import InvalidInput, Unsupported
from privplan.accountant.mechanisms import RoundDescription, WishartGram, wishart_bits
from privplan.accountant.mechanisms.discrete_sampler import discrete_gaussian
from privplan.accountant.mechanisms.gram_rows import gram_total
from privplan.accountant.randomness import Streams
from privplan.accountant.sensitivity.gram import GramBound
from privplan.accountant.sensitivity.wishart import failure

from ..cases import for_each
from .mechanism_tickets import FALSE_ALARM, ticket_for

D = 5


def published(epsilon: float = 0.6, **given: Any) -> WishartGram:
    facts = {"gram": GramBound(dimension=D), "bits": 18, **given}
    return WishartGram.as_published(epsilon, **facts)


def square(values: np.ndarray, d: int = D) -> np.ndarray:
    """Return upper triangles (n, values) as symmetric matrices (n, d, d)."""
    matrices = np.zeros((len(values), d, d))
    matrices[:, *np.triu_indices(d)] = values
    return matrices + np.triu(matrices, 1).transpose(0, 2, 1)


def releases(epsilon: float, total: np.ndarray | None, count: int, seed: int = 1) -> np.ndarray:
    """Return releases of one sum, (count, d, d), each with the noise of a silo by itself."""
    mechanism = published(epsilon, shares=count)
    exact = np.zeros(mechanism.gram.values, np.int64) if total is None else total
    ticket = ticket_for(mechanism, seed=seed)
    sent = [mechanism.share_steps(ticket, exact, f"silo/{one}") for one in range(count)]
    return square(np.stack([mechanism.units(one) for one in sent]))


def test_a_release_is_the_exact_sum_and_z_z_t_in_integers_bit_for_bit() -> None:
    mechanism = published(bits=20, shares=2)
    rows = np.random.default_rng(3).normal(size=(50, D))
    total = gram_total(mechanism, rows).total
    sent = mechanism.share_steps(ticket_for(mechanism, seed=9), total, "silo/0")
    stream = Streams.seeded(9).stream("silo/0")
    drawn = discrete_gaussian(stream, D * (D + 1), mechanism.std * 2.0**20).reshape(D + 1, D)
    z = drawn.astype(object)  # integers of any size
    due = [sum(int(one[i] * one[j]) for one in z) for i in range(D) for j in range(i, D)]
    assert (sent - total).tolist() == due


def test_products_are_exact_however_many_columns_there_are() -> None:
    """Blocks of columns, each exact in float64: the largest entries decide how long they are."""
    d = 40
    gram = GramBound(dimension=d)
    mechanism = WishartGram(gram=gram, std=1.4, bits=20)
    noise = mechanism.share_steps(
        ticket_for(mechanism, seed=4), np.zeros(gram.values, np.int64), "silo/0"
    )
    drawn = discrete_gaussian(Streams.seeded(4).stream("silo/0"), d * (d + 1), 1.4 * 2.0**20)
    z = drawn.reshape(d + 1, d)
    assert 2**53 // int(np.square(z).max()) < d + 1 or np.abs(z).max() > 2**21
    exact = (z.T.astype(object) @ z.astype(object))[np.triu_indices(d)]
    assert noise.tolist() == exact.tolist()


def test_the_noise_has_the_moments_of_the_published_matrix() -> None:
    """E W = (d+1) c I, c = 1 / 2 epsilon; variances 2 (d+1) c^2 and (d+1) c^2.  Alarm: 1e-6."""
    epsilon, count = 0.3, 5_000
    c = 0.5 / epsilon
    noise = releases(epsilon, None, count)
    mean, k = noise.mean(axis=0), D + 1
    deviation = c * np.sqrt(k * (1.0 + np.eye(D)))
    limit = stats.norm.isf(FALSE_ALARM / 100 / 2)
    assert (np.abs(mean - k * c * np.eye(D)) < limit * deviation / math.sqrt(count)).all()
    spread = noise.std(axis=0) / deviation
    assert np.abs(spread - 1.0).max() < 0.12  # eight deviations, of tails as heavy as chi^2_6


def test_what_is_left_of_a_row_has_the_exact_law() -> None:
    """1 / x^T W^-1 x ~ c chi^2_2 for a unit row x: Kolmogorov and Smirnov, alarm 1e-6."""
    epsilon, x = 0.6, np.full(D, D**-0.5)
    inverse = np.linalg.inv(releases(epsilon, None, 2_000, seed=2))
    left = 1.0 / np.einsum("i,nij,j->n", x, inverse, x)
    assert stats.kstest(left, stats.chi2(2, scale=0.5 / epsilon).cdf).pvalue > FALSE_ALARM


def test_an_absent_record_is_proven_absent_with_the_golden_probability() -> None:
    """1 - e^-epsilon of the releases without it, and none with it; binomial, alarm 1e-6."""
    epsilon, count, rng = 1.0, 2_000, np.random.default_rng(11)
    mechanism = published(epsilon)
    rows = rng.normal(size=(20, D))
    rows[0] *= 10.0 / np.linalg.norm(rows[0])  # clipped to the norm 1
    rest = rows[1:]
    matrix = square(mechanism.units(gram_total(mechanism, rows).total)[None])[0]
    proven = {}
    for present, kept in ((True, rows), (False, rest)):
        seen = releases(epsilon, gram_total(mechanism, kept).total, count, seed=5 + present)
        proven[present] = int((np.linalg.eigvalsh(seen - matrix)[:, 0] < -1e-9).sum())
    assert proven[True] == 0
    low, high = stats.binom.interval(1.0 - FALSE_ALARM, count, failure(epsilon))
    assert low <= proven[False] <= high


@for_each("relation", ["add-remove", "replace-one"])
def test_it_states_no_guarantee_and_what_noise_it_is(relation: str) -> None:
    mechanism = published(0.6, shares=3, row_norm=2.0)
    intent = mechanism.intent(RoundDescription(0, "pca"), relation)
    assert isinstance(intent.event, ev.NoGuarantee)
    assert "negative eigenvalue" in intent.event.reason
    noise, gram = intent.noise, intent.contribution.gram
    assert (noise.family, noise.shares, noise.freedom) == ("wishart", 3, D + 1)
    assert noise.std == noise.share_std == math.sqrt(1.0 / 1.2)
    assert noise.grid == 4.0**-18
    assert gram is not None
    assert (gram.dimension, gram.row_norm, gram.bits, gram.classes) == (D, 2.0, 18, 0)
    assert records.RoundIntent.from_json(intent.to_json()) == intent


def test_no_other_event_can_be_stated_of_it() -> None:
    for event in (ev.Gaussian(100.0), ev.Pure(0.6), ev.Approximate(0.6, 0.5)):
        about = RoundDescription(0, "pca", event_override=event)
        with pytest.raises(Unsupported):
            published().intent(about, "add-remove")


def test_nothing_is_published_of_a_sample() -> None:
    sample = records.Sampling("poisson", "record", 0.5)
    with pytest.raises(Unsupported, match="of all units"):
        published().event("add-remove", sample)


def test_degrees_of_freedom_stand_in_no_other_noise() -> None:
    """A log of before reads the same, and one that lacks them has none."""
    old = {"family": "gaussian", "std": "1.0", "shares": 1, "share_std": "1.0"}
    old |= {"tolerated_dropouts": 0, "draws": 1, "grid": "0.0"}
    noise = records.Noise.from_json(old)
    assert noise.freedom is None
    assert noise.to_json() == old
    wishart = published().noise()
    assert wishart.to_json()["freedom"] == D + 1
    assert records.Noise.from_json(wishart.to_json()) == wishart


@for_each("epsilon", [0.0, -1.0, math.inf, math.nan])
def test_an_epsilon_that_is_none_is_refused(epsilon: float) -> None:
    with pytest.raises(InvalidInput, match="epsilon"):
        published(epsilon)


@for_each(
    "given",
    [
        {"row_norm": 0.0},
        {"row_norm": -1.0},
        {"shares": 0},
        {"bits": 7},
        {"bits": 21},
        {"unit": "entry"},
        {"gram": GramBound(dimension=D, classes=2)},
        {"gram": GramBound(dimension=D, trace=2.0)},
    ],
)
def test_what_is_out_of_range_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        published(**given)


def test_noise_that_does_not_suit_the_grid_is_refused() -> None:
    for epsilon, bits in ((1e6, 8), (1e-8, 20)):  # too coarse, and too wide for exact products
        with pytest.raises(InvalidInput, match="bits"):
            published(epsilon, bits=bits)


def test_a_total_of_another_shape_and_a_share_too_many_are_refused() -> None:
    mechanism = published()
    ticket, nothing = ticket_for(mechanism), np.zeros(mechanism.gram.values, np.int64)
    with pytest.raises(InvalidInput, match="integers"):
        mechanism.share_steps(ticket, nothing[1:], "silo/0")
    mechanism.share_steps(ticket, nothing, "silo/0")
    with pytest.raises(Unsupported, match="one more"):
        mechanism.share_steps(ticket, nothing, "silo/1")
    with pytest.raises(Unsupported, match="another mechanism"):
        published(1.0).share_steps(ticket_for(mechanism), nothing, "silo/0")


def test_the_grid_is_the_finest_on_which_all_fits() -> None:
    gram = GramBound(dimension=30)
    for rows, std, silos in ((10**6, 0.9, 3), (10**9, 5.0, 100), (10, 300.0, 2)):
        bits = wishart_bits(gram, most_rows=rows, std=std, shares=silos)
        WishartGram(gram=gram, std=std, bits=bits, shares=silos)
        largest = rows + silos * std**2 * stats.chi2(31).isf(1e-300)
        assert largest * 4.0**bits < 2.0**63
    with pytest.raises(InvalidInput, match="No grid"):
        wishart_bits(gram, most_rows=2**50, std=1.0)
    with pytest.raises(InvalidInput, match="No grid"):
        wishart_bits(gram, most_rows=10, std=1e6)
