"""The table: every row is consistent, and the known ones come out as they were measured.

The expected numbers are those of the project's knowledge of these systems, measured by other
programs before this one was written, to the digits at which they were noted.
"""

from __future__ import annotations

import functools
import math

import mpmath
import pytest

from privplan.accountant.claims import disco, uldp_fl
from privplan.accountant.claims import table as tables
from privplan.accountant.claims.table import SYSTEMS, VERDICTS, Claim

OBSERVERS = {"model", "server", "silo", "silo-with-records", "client", "peer", "analyzer"}
NEIGHBOURS = {"add-remove", "replace-one", "zero-out"}


DEAR = {
    2: "SS-Double, beta 1/50, by coordinate | analyzer",
    7: "SS-Double, beta 1/10, by coordinate | analyzer",
    8: "SS-Topk, beta 1/10, no overflow | analyzer",
    9: "SS-Topk, beta 1/10, 2 epochs | analyzer",
    10: "Figure 3, SS-Simple (ratio 2.55) | analyzer",
    11: "Figure 3, SS-Double (ratio 137.36) | analyzer",
}
"""Rows of FLAME that take longest, by their places: only the slow tests compute them."""


@functools.cache
def rows(system: str, *, dear: bool = False) -> dict[str, Claim]:
    """Return the rows of a system by their setting and observer, computed once."""
    left_out = DEAR if system == "flame" and not dear else {}
    claims = [row() for position, row in enumerate(tables.rows(system)) if position not in left_out]
    result = {f"{claim.setting} | {claim.observer}": claim for claim in claims}
    assert len(result) == len(claims), "two rows have the same name"
    return result


@pytest.mark.slow
def test_the_rows_that_take_longest_are_those_that_are_named() -> None:
    names = list(rows("flame", dear=True))
    assert {position: names[position] for position in DEAR} == DEAR


def assert_consistent(claim: Claim, system: str) -> None:
    assert claim.system == system
    assert claim.verdict in VERDICTS
    assert claim.neighbours in NEIGHBOURS
    assert claim.observer in OBSERVERS
    assert claim.unit
    assert claim.why.endswith(".")
    assert claim.source
    assert math.isfinite(claim.claimed)
    if claim.proven is not None and claim.lower is not None:
        assert claim.lower <= claim.proven
    if claim.proven == math.inf:
        assert claim.lower is not None
        assert claim.lower > claim.claimed
    if claim.verdict == "false":
        assert claim.lower is not None
        assert claim.lower > claim.largest


CLOSED = "Protocol 1, its leaks closed, 100 rounds"
NOTHING = ("inf", "inf", "no-guarantee")
EXPECTED = [
    # system, row, proven (rounded up), lower (rounded down), verdict
    ("uldp-fl", "Figure 2: GROUP, k = 1 | model", "2.63", "2.62", "loose"),
    ("uldp-fl", "Figure 2: GROUP, k = 2 | model", "5.84", "5.83", "loose"),
    ("uldp-fl", "Figure 2: GROUP, k = 4 | model", "13.60", "13.59", "loose"),
    ("uldp-fl", "Figure 2: GROUP, k = 8 | model", "34.19", "34.18", "loose"),
    ("uldp-fl", "Figure 2: GROUP, k = 16 | model", "95.2", "95.1", "loose"),
    ("uldp-fl", "Figure 2: GROUP, k = 32 | model", "295.8", "295.7", "loose"),
    ("uldp-fl", "Figure 2: GROUP, k = 64 | model", "1012", "1010", "loose"),
    ("uldp-fl", "Creditcard: GROUP, k = 2 | model", "19.8", "19.7", "loose"),
    ("uldp-fl", "Creditcard: GROUP, k = 8 | model", "151", "150", "loose"),
    ("uldp-fl", "Creditcard: GROUP, k = 64 | model", "6438", "6437", "loose"),
    ("uldp-fl", "Theorem 3: NAIVE, 100 rounds | model", "24.39", "24.38", "false"),
    ("uldp-fl", "AVG, 50 rounds | model", "6.58", "6.57", "loose"),
    ("uldp-fl", "AVG, 100 rounds | model", "10.00", "9.99", "loose"),
    ("uldp-fl", "AVG, 200 rounds | model", "15.46", "15.45", "loose"),
    ("uldp-fl", "AVG, 100 rounds, records exchanged | model", "24.39", "24.38", "false"),
    ("uldp-fl", "AVG-w, 100 rounds, a silo without the user | silo", "11.49", "11.47", "false"),
    ("uldp-fl", "AVG-w, 100 rounds, a silo with one record | silo-with-records", *NOTHING),
    ("uldp-fl", f"{CLOSED}, a silo with one record | silo-with-records", "28.38", "28.34", "false"),
    ("uldp-fl", "AVG, 100 rounds, one of 5 silos | silo", "8.73", "8.72", "loose"),
    ("uldp-fl", "AVG, 100 rounds, users at rate 0.1 | model", "0.759", "0.758", "loose"),
    ("uldp-fl", "AVG, 100 rounds, users at rate 0.3 | model", "2.54", "2.53", "loose"),
    ("uldp-fl", "AVG, 100 rounds, users at rate 0.5 | model", "4.49", "4.48", "loose"),
    ("uldp-fl", "AVG, 100 rounds, users at rate 0.7 | model", "6.60", "6.59", "loose"),
    ("uldp-fl", "AVG, 100 rounds, rate 0.1, server | server", "10.00", "9.99", "false"),
    ("uldp-fl", "Protocol 1 (AVG-w), 100 rounds | server", "inf", "inf", "no-guarantee"),
    ("uldp-fl", "Protocol 1 (AVG-w), ciphertexts, 100 rounds | server", *NOTHING),
    ("uldp-fl", "Protocol 1, its leaks closed, 100 rounds | server", "10.00", "9.98", "loose"),
    ("uldp-fl", f"{CLOSED}, rate 0.1 by oblivious transfer | server", "0.759", "0.757", "loose"),
    ("uldp-fl", f"{CLOSED}, rate 0.1 by oblivious transfer | silo", "0.864", "0.861", "false"),
    ("disco", "1 round, 1 tensor, public radii | peer", "10.4", "10.3", "false"),
    ("disco", "1 round, 6 tensors, public radii | peer", "33.7", "33.6", "false"),
    ("disco", "5 rounds, 6 tensors, public radii | peer", "10.8", "10.7", "false"),
    ("disco", "20 rounds, 6 tensors, public radii | peer", "4.5", "4.4", "loose"),
    ("disco", "20 rounds, 50 tensors, public radii | peer", "16.1", "16.0", "false"),
    ("disco", "20 rounds, 150 tensors, public radii | peer", "33.6", "33.5", "false"),
    ("fedpower", "an element, 1 round, delta 1e-05 | server", "0.76", "0.75", "loose"),
    ("fedpower", "an element, 23 rounds, delta 0.00023 | server", "3.54", "3.53", "loose"),
    ("fedpower", "an element, 92 rounds, delta 0.00092 | server", "7.54", "7.53", "loose"),
    ("fedpower", "an element, 92 rounds, delta 1e-05 | server", "9.88", "9.87", "loose"),
    ("fedpower", "one user removed, 1 round | server", "183", "182", "false"),
    ("fedpower", "one node set to zero | server", "10133", "10132", "false"),
    ("fedpower", "Algorithm 2: delta, 1 round | client", "0.0101", "0.0099", "false"),
    ("fedpower", "Algorithm 2: delta, 92 rounds | client", "0.604", "0.603", "false"),
    ("delm", "the whole | server", "inf", "inf", "no-guarantee"),
    ("delm", "PCA with Wishart noise | server", "inf", "inf", "no-guarantee"),
    ("delm", "PCA with Wishart noise: delta | server", "0.452", "0.451", "false"),
    ("delm", "split and shuffle, pure epsilon | analyzer", "1.2", "1.1", "false"),
    ("delm", "split and shuffle, one round at 1.2 | analyzer", "0.576", None, None),
    ("delm", "split and shuffle, one round at 3 | analyzer", "3.01", None, None),
    ("delm", "training, 250 rounds, any 1.2-DP step | server", "224.6", None, "unproven"),
    ("flame", "SS-Simple, by coordinate | analyzer", "0.0905", "0.0900", "loose"),
    ("flame", "SS-Double, beta 1/50, by coordinate | analyzer", "0.1574", "0.1435", "loose"),
    ("flame", "SS-Double, beta 1/50, whole tuples | analyzer", "40.28", "7.13", "false"),
    ("flame", "SS-Topk, beta 1/50, no overflow | analyzer", "1.445", "1.198", "false"),
    ("flame", "SS-Topk, beta 1/50, as specified | analyzer", "inf", "inf", "no-guarantee"),
    ("flame", "SS-Topk, beta 1/50, no sampling | analyzer", "1.445", "1.198", "loose"),
    ("flame", "SS-Double, beta 1/10, by coordinate | analyzer", "0.6232", "0.563", "loose"),
    ("flame", "SS-Topk, beta 1/10, no overflow | analyzer", "2.40", "1.984", "unproven"),
    ("flame", "SS-Topk, beta 1/10, 2 epochs | analyzer", "3.55", None, "loose"),
    ("flame", "Figure 3, SS-Simple (ratio 2.55) | analyzer", "24.40", None, "loose"),
    ("flame", "Figure 3, SS-Double (ratio 137.36) | analyzer", "0.4239", "0.411", "loose"),
    ("flame", "index privacy nu, 1 round | analyzer", "3.125", "3.125", "proven"),
    ("flame", "index privacy nu, 5 rounds | analyzer", "44.2", "44.1", "false"),
    ("flame", "Theorem 4 by Lemma 1, d = 7,850,000 | analyzer", None, "0.00776", "false"),
    ("flame", "Theorem 4 at delta 0, beta 1/50 | analyzer", "78.5", "78.4", "false"),
    ("flame", "baseline DP-FL at epsilon 20.53 | model", "26.0", "25.9", "false"),
    ("flame", "baseline DP-FL at epsilon 0.238 | model", "0.161", "0.160", "loose"),
]


@pytest.mark.parametrize(
    ("system", "dear"),
    [*((each, False) for each in SYSTEMS), pytest.param("flame", True, marks=pytest.mark.slow)],
)
def test_rows_are_consistent_and_what_was_measured_before(system: str, dear: bool) -> None:
    claims = rows(system, dear=dear)
    for claim in claims.values():
        assert_consistent(claim, system)
    for of, row, proven, lower, verdict in EXPECTED:
        if of == system and (dear or row not in DEAR.values()):
            assert_as_measured(claims[row], proven, lower, verdict)


def assert_as_measured(
    claim: Claim, proven: str | None, lower: str | None, verdict: str | None
) -> None:
    """Upper ends may be smaller by a better bound, lower ends larger by a better test."""
    if proven is not None:
        assert claim.proven is not None
        assert claim.proven <= float(proven), claim.setting
    if lower is not None:
        assert claim.lower is not None
        assert claim.lower >= float(lower), claim.setting
        if proven is not None and verdict != "no-guarantee":
            assert claim.proven is not None
            assert claim.proven >= float(lower), claim.setting
    if verdict is not None:
        assert claim.verdict == verdict, claim.setting
    if claim.setting.startswith("Figure 2: GROUP"):
        # Its derivation is invalid for 32 and 64 records, and its numbers still hold.
        invalid = claim.setting.endswith(("= 32", "= 64"))
        assert claim.why.startswith("Derivation invalid") == invalid


def test_disco_tells_a_tensor_that_moved() -> None:
    """In 50 digits: one coordinate beyond a millionth of the larger noise."""
    with mpmath.workdps(50):
        seldom = mpmath.erf(mpmath.mpf("1e-6") / mpmath.sqrt(2))
        log_never = mpmath.log(mpmath.erfc(mpmath.mpf("1e6") / mpmath.sqrt(2)))
        exact = mpmath.log(1 - seldom - mpmath.mpf("1e-5")) - log_never
    claim = rows("disco")["as coded: radii follow the updates | peer"]
    assert claim.lower is not None
    assert float(exact) * (1 - 1e-6) <= claim.lower <= float(exact)
    assert claim.verdict == "no-guarantee"
    assert disco.FLOOR == 1e-12


def test_what_is_claimed_reaches_no_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another published number changes the claim and the verdict, and nothing else."""
    before = rows("disco")["1 round, 1 tensor, public radii | peer"]
    plain = uldp_fl._average(100)
    monkeypatch.setattr(uldp_fl, "published_user_epsilon", lambda *_, **__: 1.0)
    after = uldp_fl._average(100)
    assert (after.proven, after.lower) == (plain.proven, plain.lower)
    assert (plain.verdict, after.verdict) == ("loose", "false")
    assert before.claimed == 10.0


def test_where_no_pair_is_known_no_lower_end_is_given() -> None:
    """With local steps Z is secret at a sum, so the pair of one step a round says nothing."""
    result = rows("fedpower")
    assert result["Algorithm 3, p = 1, 92 rounds | server"].lower is not None
    claim = result["Algorithm 3, p = 4, 92 rounds | server"]
    assert (claim.lower, claim.verdict) == (None, "unproven")


def test_a_delta_is_said_at_an_epsilon() -> None:
    result = rows("fedpower")
    assert result["Algorithm 2: delta, 1 round | client"].quantity == "delta at epsilon 1"
    assert result["Algorithm 2: delta, 92 rounds | client"].quantity == "delta at epsilon 92"
