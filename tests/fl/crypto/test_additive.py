"""Additive shares: exact sums from seeds, and the leaks of float shares as DISCO has them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from privplan.accountant.errors import InvalidInput
from privplan.fl.crypto.additive import (
    DISCO_MAGNITUDE,
    add_expanded,
    expand,
    no_guarantee_float_shares,
    share,
)

from ...cases import for_each
from ...chance import FALSE_ALARM


@given(
    st.lists(st.integers(0, 2**64 - 1) | st.sampled_from([0, 2**63, 2**64 - 1]), max_size=20),
    st.integers(2, 7),
)
def test_all_shares_together_are_the_vector(values, parties) -> None:
    words = np.array(values, np.uint64)
    before = words.copy()
    seeds, last = share(words, parties)
    assert len(seeds) == parties - 1
    assert np.array_equal(words, before)
    total = last.copy()
    for seed in seeds:
        total += expand(seed, len(words))
    assert np.array_equal(total, words)
    add_expanded(last, seeds, sign=1)
    assert np.array_equal(last, words)


def test_each_call_draws_new_seeds() -> None:
    words = np.zeros(100, np.uint64)
    seeds = [bytes(seed) for _ in range(20) for seed in share(words, 5)[0]]
    assert len(set(seeds)) == 80
    assert all(len(seed) == 32 for seed in seeds)
    assert "secret" in repr(share(words, 2)[0])


def test_tensors_of_different_length_do_not_share_a_prefix() -> None:
    seed = bytes(32)
    assert not np.isin(expand(seed, 100), expand(seed, 101)).any()


@for_each("missing", [0, 1, 2])
def test_all_shares_but_one_say_nothing(missing) -> None:
    """The statistic that breaks float shares, on words: a secret of zeros or of large numbers.

    200,000 words; chi-square of the top byte, 1 in 10^6 for all six looks.
    """
    for secret in (np.zeros(200_000, np.uint64), np.full(200_000, 2**63, np.uint64)):
        seeds, last = share(secret, 3)
        shares = [*(expand(seed, len(secret)) for seed in seeds), last]
        view = np.sum([one for index, one in enumerate(shares) if index != missing], axis=0)
        counts = np.bincount((view >> np.uint64(56)).astype(np.int64), minlength=256)
        assert stats.chisquare(counts).pvalue > FALSE_ALARM / 6


def test_wrong_input_is_refused() -> None:
    for bad in (np.zeros(3, np.int64), np.zeros((2, 2), np.uint64), [1, 2], np.zeros(3)):
        with pytest.raises(InvalidInput, match="uint64"):
            share(bad, 3)
    for parties in (1, 0, 2.5, True):
        with pytest.raises(InvalidInput, match="parties"):
            share(np.zeros(3, np.uint64), parties)
    for seed in (b"", bytes(16), bytes(33)):
        with pytest.raises(InvalidInput, match="32 bytes"):
            expand(seed, 3)
    out = np.zeros(3, np.uint64)
    for sign in (0, 2, -2):
        with pytest.raises(InvalidInput, match="sign"):
            add_expanded(out, [bytes(32)], sign=sign)
    with pytest.raises(InvalidInput, match="uint64"):
        add_expanded(np.zeros(3, np.uint32), [bytes(32)], sign=1)
    assert not out.any()


# --- as published: both leaks ---------------------------------------------------------------------


def tensors(rng, sizes, scale=1.0):
    return [(scale * rng.standard_normal(size)).astype(np.float32) for size in sizes]


def test_float_shares_sum_to_the_secret_up_to_rounding() -> None:
    secrets = tensors(np.random.default_rng(0), [50, 7, 0])
    shares = no_guarantee_float_shares(secrets, 4)
    assert [[one.shape for one in row] for row in shares] == [[(50,), (7,), (0,)]] * 4
    for index, secret in enumerate(secrets):
        total = np.sum([row[index] for row in shares], axis=0)
        assert total.dtype == np.float32
        assert np.abs(total - secret).max(initial=0) < 2e-4
    assert all(np.abs(one).max(initial=0) <= DISCO_MAGNITUDE for row in shares[:-1] for one in row)
    again = no_guarantee_float_shares(secrets, 3, seeds=[5, 6])
    same = no_guarantee_float_shares(secrets, 3, seeds=[5, 6])
    assert all(np.array_equal(a, b) for a, b in zip(again[2], same[2], strict=True))


@for_each("parties", [2, 5, 10])
def test_as_published_a_share_gives_away_the_difference_of_tensors(parties) -> None:
    """From the last share alone, and from a party's partial sum; with sound shares it does not."""
    rng = np.random.default_rng(3)
    sizes = (5000, 3000)
    everybody = [tensors(rng, sizes, 0.1) for _ in range(parties)]
    shares = [no_guarantee_float_shares(own, parties) for own in everybody]
    truth = everybody[0][0][:3000] - everybody[0][1]
    seen = shares[0][-1][0][:3000] - shares[0][-1][1]
    assert np.abs(seen - truth).max() < 5e-4
    assert np.corrcoef(seen, truth)[0, 1] > 0.99999

    # Party p's partial sum: the shares with index p, where the last of each secret is in one hand.
    partial = [
        np.sum([own[-1][index] for own in shares], axis=0, dtype=np.float32) for index in (0, 1)
    ]
    total = np.sum([own[0][:3000] - own[1] for own in everybody], axis=0)
    assert np.abs(partial[0][:3000] - partial[1] - total).max() < 5e-3

    joined = np.concatenate(everybody[0])
    words = np.round(joined * 2.0**20).astype(np.int64).view(np.uint64)
    _, last = share(words, parties)
    apart = (last[:3000] - last[5000:]).view(np.int64).astype(float)
    assert abs(np.corrcoef(apart, truth)[0, 1]) < 0.1  # 5.5 sigma at 3,000 draws


@for_each("parties", [2, 3])
def test_as_published_a_share_betrays_numbers_by_its_reach(parties) -> None:
    """Masks end at M, and nothing wraps around: beyond (n - 1) M a secret shows that it is not 0.

    20,000 numbers that are all 0, or all 10, from the last share alone.  With one mask the second
    is beyond M with probability 10/200 each (1,000 expected), with two beyond 2 M with
    (10/200)^2 / 2 (25 expected; none at all has probability 1e-11).  The first never is.
    """
    beyond = {}
    for secret in (0.0, 10.0):
        tensor = np.full(20_000, secret, np.float32)
        view = no_guarantee_float_shares([tensor], parties)[-1][0]
        beyond[secret] = int((view > (parties - 1) * DISCO_MAGNITUDE + 1e-3).sum())
    assert beyond[0.0] == 0
    assert beyond[10.0] > 0


def test_as_published_wrong_input_is_refused() -> None:
    good = [np.zeros(2, np.float32)]
    for parties, more, says in (
        (1, {}, "parties"),
        (3, {"seeds": [1]}, "seed"),
        (3, {"magnitude": 0.0}, "magnitude"),
    ):
        with pytest.raises(InvalidInput, match=says):
            no_guarantee_float_shares(good, parties, **more)
    assert "no-guarantee" in no_guarantee_float_shares.__doc__
