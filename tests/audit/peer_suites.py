"""The suites of dp_accounting's own accountants, run with our accountant in the place of theirs.

`python -m tests.audit.peer_suites` prints the table: every test, and what became of it.
"""

from __future__ import annotations

import sys
import unittest
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal
from unittest import mock

from dp_accounting import NeighboringRelation
from dp_accounting.pld import pld_privacy_accountant
from dp_accounting.rdp import rdp_privacy_accountant

from privplan.audit.adapters.dp_accounting import CertifiedAccountant

Outcome = Literal["passed", "not applicable", "failed"]

PRIVATE_NAMES = ("_rdp", "_orders")
"""What tests read of their RdpAccountant, and no accountant needs to have."""

NO_ACCOUNTANT = "it asks functions of their module, and no accountant"
PRIVATE = "it reads private names of their RdpAccountant: its orders and its curve"

MORE_IS_KNOWN = (
    "the event is supported here: replacing a record moves the sum by twice the bound, which is "
    "the same noise at half the multiplier (Laplace, discrete Laplace) or the pair of "
    "(1-q) N(0) + q N(1) and (1-q) N(0) + q N(-1) (sampled Gaussian noise)"
)

FAILED_WITH_REASON: dict[str, str] = {
    "pld.test_composition_errors_for_neighboring_relation1": MORE_IS_KNOWN,
    "pld.test_composition_errors_for_neighboring_relation2": MORE_IS_KNOWN,
    "pld.test_composition_errors_for_neighboring_relation3": MORE_IS_KNOWN,
    "pld.test_composition_errors_for_neighboring_relation4": MORE_IS_KNOWN,
    "pld.test_poisson_subsampling_laplace_not_supported_for_replace_one": MORE_IS_KNOWN,
    "pld.test_mixture_of_gaussians_basic": (
        "delta is asked to 1e-12 of a value that their grid gives at an epsilon of eight digits: "
        "their 1e-6 lies within our bounds [9.996e-7, 1.0005e-6]"
    ),
    "pld.test_truncated_subsampled_gaussian_basic": (
        "their pair tells full samples apart and is the replace-one pair under every relation, "
        "17.904; the proven bounds are [8.567, 9.837] (accountant/engines/pld/pairs/truncated.py)"
    ),
    "rdp.test_supports": MORE_IS_KNOWN,
    "rdp.test_tree_wrong_neighbor_rel_replace": (
        "the event is supported here: who is replaced stays at its leaf, and moves each node above "
        "it by twice the bound"
    ),
    "rdp.test_laplace_repetition": (
        "100 releases of Laplace noise at delta 1e-10: the largest loss is 100, which their order "
        "1e10 gives; the proven bounds are [81.57, 81.58]"
    ),
    "rdp.test_epsilon_delta_consistency": (
        "delta at our epsilon is asked to 1e-7 of delta; both are upper ends, and the gap between "
        "them is 7e-5 of delta on the safe side"
    ),
    "rdp.test_log_a_frac_early_termination": (
        "it waits for a warning about their series, which is not used here"
    ),
}
"""Every test that our accountant fails, and the proof why."""


@dataclass(frozen=True)
class SuiteRow:
    """One test of theirs, and what became of it."""

    test: str
    outcome: Outcome
    why: str = ""


class _Counted:
    """Makes our accountant where a test makes theirs, and counts how often."""

    def __init__(self) -> None:
        self.made = 0

    def pld(
        self, relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE, *_: Any
    ) -> CertifiedAccountant:
        self.made += 1
        return CertifiedAccountant(relation)

    def rdp(
        self,
        orders: object = None,
        neighboring_relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE,
    ) -> CertifiedAccountant:
        del orders
        self.made += 1
        return CertifiedAccountant(neighboring_relation)


@contextmanager
def _replaced(counted: _Counted) -> Iterator[None]:
    with (
        mock.patch.object(pld_privacy_accountant, "PLDAccountant", counted.pld),
        mock.patch.object(rdp_privacy_accountant, "RdpAccountant", counted.rdp),
    ):
        yield


def rows(suite: Literal["pld", "rdp"]) -> list[SuiteRow]:
    """Run the tests of one of their accountants, and return what became of each."""
    counted = _Counted()
    with _replaced(counted):
        cases = unittest.defaultTestLoader.loadTestsFromTestCase(_suite(suite))
        return [_row(suite, case, counted) for case in cases]


def _suite(suite: str) -> type[unittest.TestCase]:
    module: Any
    if suite == "pld":
        from dp_accounting.pld import pld_privacy_accountant_test as module

        return module.PldPrivacyAccountantTest
    from dp_accounting.rdp import rdp_privacy_accountant_test as module

    return module.RdpPrivacyAccountantTest


def _row(suite: str, case: unittest.TestCase, counted: _Counted) -> SuiteRow:
    name = f"{suite}.{getattr(case, '_testMethodName', '')}"
    counted.made = 0
    result = unittest.TestResult()
    case.run(result)
    trouble = [text for _, text in (*result.failures, *result.errors)]
    if any(f"no attribute '{private}'" in text for text in trouble for private in PRIVATE_NAMES):
        return SuiteRow(name, "not applicable", PRIVATE)
    if not counted.made:
        return SuiteRow(name, "not applicable", NO_ACCOUNTANT)
    if not trouble:
        return SuiteRow(name, "passed")
    last = trouble[0].strip().splitlines()[-1]
    return SuiteRow(name, "failed", FAILED_WITH_REASON.get(name, last))


def main(write: Callable[[str], object] = sys.stdout.write) -> None:
    """Print every test, what became of it, and why."""
    for suite in ("pld", "rdp"):
        for row in rows(suite):
            write(f"{row.test:<75} {row.outcome:<15} {row.why}\n")


if __name__ == "__main__":
    main()
