"""What private weighting is worth against parties that do not follow it: nothing that is promised.

The numbers of `privplan explain uldp-fl` are computed here, by the protocol itself.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import log_ndtr

import privplan as pp
from privplan.accountant import events as ev
from privplan.fl.uldp.weighting import enrolment, server
from privplan.fl.uldp.weighting.protocol import PrivateWeighting
from privplan.fl.uldp.weighting.terms import WeightingTerms

DELTA = 1e-5
DIGITS = [900, -1700, 40]
USERS = 20
"""Whose updates the sum has room for, so there is room for a tenfold one."""


def delta_of(epsilon: float, mu: float) -> float:
    """Return the delta of two Gaussians mu deviations apart, by its closed form."""
    far = math.exp(epsilon + float(log_ndtr(-mu / 2 - epsilon / mu)))
    return math.exp(float(log_ndtr(mu / 2 - epsilon / mu))) - far


def mu_of(epsilon: float) -> float:
    return float(brentq(lambda mu: delta_of(epsilon, mu) - DELTA, 1e-6, 50.0))


def terms() -> WeightingTerms:
    return WeightingTerms(
        users=USERS,
        silos=3,
        dimensions=len(DIGITS),
        largest=2**11 - 1,
        tail=2**40,
        key_bits=512,
        count_limit=40,
        digits=12,
        weak_key=True,
    )


def decrypted(counts: list[int]) -> list[Fraction]:
    """Return what a user's one update weighs in the sum, in a run without noise."""
    own = terms()
    session = PrivateWeighting(own, [counts, *[[0] * 3] * (USERS - 1)])
    rows: Any = [([0], [DIGITS]), ([], np.empty((0, 3), int)), ([], np.empty((0, 3), int))]
    total = session.round(1, rows, [[0] * 3] * 3)
    return [Fraction(one, own.multiple * digit) for one, digit in zip(total, DIGITS, strict=True)]


def test_a_silo_that_enrols_with_false_counts_turns_8_into_209(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ten counts in the first silo, a dummy, and minus ten from the last: N_u is 1."""
    assert set(decrypted([10, 0, 0])) == {Fraction(10, 11)}
    honest = enrolment.checked_shares

    def false_ones(shares: Any, own: WeightingTerms) -> Any:
        found = honest(shares, own)
        return np.where(found == 7, -10, found)

    monkeypatch.setattr(enrolment, "checked_shares", false_ones)
    assert set(decrypted([10, 0, 7])) == {Fraction(10)}
    mu = mu_of(8.0)
    assert brentq(lambda epsilon: delta_of(epsilon, 10 * mu) - DELTA, 1.0, 600.0) == pytest.approx(
        209, abs=0.5
    )
    found = pp.account(ev.Gaussian(1.0 / (10 * mu)), delta=DELTA).epsilon.upper
    assert found == pytest.approx(209, abs=0.5)


def test_an_active_server_that_encrypts_ten_times_the_inverse_does_so_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The silos raise what they are sent to their own counts, whatever it is."""
    honest = server.inverses

    def tenfold(columns: Any, modulus: int) -> list[int]:
        return [10 * one % modulus for one in honest(columns, modulus)]

    monkeypatch.setattr(server, "inverses", tenfold)
    assert set(decrypted([10, 0, 0])) == {10 * Fraction(10, 11)}


def test_a_silo_that_marks_a_user_beyond_the_clip_reads_its_count_off_the_model() -> None:
    """Fifty clips, for which a sum of fifty users has room, against the noise that proves 8.

    The silo holds one of the user's records, and a dummy is counted: N_u is 2, or more.
    """
    sigma, mark = 1.0 / mu_of(8.0), 50.0
    alone, one_more = mark / 2, mark / 3
    wrong = math.exp(float(log_ndtr(-(alone - one_more) / 2 / sigma)))
    assert wrong < 1e-11
