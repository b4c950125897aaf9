"""Small runs described by hand, for tests of what is proven in every reading of them."""

from __future__ import annotations

import functools
from collections.abc import Mapping

from privplan.accountant import events as ev
from privplan.accountant.account import account
from privplan.accountant.guarantee import Bounds
from privplan.audit.check.bounds import Proof
from privplan.audit.check.check_result import CheckResult
from privplan.audit.check.checked_run import CheckedRun
from privplan.audit.check.checking import check_readings
from privplan.audit.check.front import DP_EVENT_FORMAT
from privplan.audit.check.proving import prove
from privplan.audit.description.merging import describe
from privplan.audit.description.run_description import Reading
from privplan.audit.description.tables import reading_of_names
from privplan.audit.readers.dp_accounting_events import event_reading

PLAIN: Mapping[str, object] = {
    "claim.delta": 1e-5,
    "claim.unit": "record",
    "claim.neighbours": "add-remove",
    "noise.noise_multiplier": 1.0,
    "noise.clip_source": "constant",
    "data.records": 10000,
    "sampling.method": "poisson",
    "sampling.rate": 0.01,
    "schedule.steps": 100,
}
FULL: Mapping[str, object] = {"sampling.method": "full", "schedule.steps": 1}
EPOCH: Mapping[str, object] = {"sampling.method": "shuffled", "claim.neighbours": "zero-out"}
NO_RATE = ("sampling.rate",)
BY_EPOCHS = ("sampling.rate", "schedule.steps")


def described(facts: Mapping[str, object], without: tuple[str, ...] = ()) -> Reading:
    plain = {key: value for key, value in PLAIN.items() if key not in without}
    return reading_of_names({**plain, **facts}, "by hand")


def run(facts: Mapping[str, object], without: tuple[str, ...] = ()) -> CheckResult:
    return check_readings([described(facts, without)])


def proof(facts: Mapping[str, object], without: tuple[str, ...] = ()) -> Proof:
    """Return what `run` proves of its numbers, without a search for causes."""
    return prove(CheckedRun.of(describe([described(facts, without)])))


def of_event(event: ev.Event, facts: Mapping[str, object]) -> CheckResult:
    """Return the verdict about a file that states an event, and no sampler."""
    claim = {key: PLAIN[key] for key in ("claim.delta", "claim.unit", "claim.neighbours")}
    said = reading_of_names({**claim, "claim.epsilon": 0.4, **facts}, "by hand")
    return check_readings([event_reading(event, "an event", DP_EVENT_FORMAT), said])


def proven(result: CheckResult | Proof) -> Bounds | None:
    return result.bounds if isinstance(result, Proof) else result.proven


def upper(result: CheckResult | Proof) -> float:
    bounds = proven(result)
    assert bounds is not None
    return bounds.upper


def lower(result: CheckResult | Proof) -> float:
    bounds = proven(result)
    assert bounds is not None
    return bounds.lower


@functools.cache
def ends(event: ev.Event, relation: str, delta: float) -> Bounds:
    return account(event, delta=delta, neighbours=relation).epsilon


def at_least(event: ev.Event, relation: str = "add-remove", delta: float = 1e-5) -> float:
    """Return a certified lower end of an event that the run may be."""
    return ends(event, relation, delta).lower


def at_most(event: ev.Event, relation: str = "add-remove", delta: float = 1e-5) -> float:
    """Return a certified upper end of an event that the run may be."""
    return ends(event, relation, delta).upper


def says(result: CheckResult, words: str) -> bool:
    return any(words in sentence for sentence in result.conditions)
