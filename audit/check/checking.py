"""The check of a described run: prove, recompute, look for causes, say what is missing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from ...accountant.rounding import down
from ..description.files import reading_of_option
from ..description.keys import KEYS
from ..description.merging import describe, stating
from ..description.run_description import Reading, RunDescription
from ..description.run_settings import RunSettings
from .bounds import Proof
from .causes import causes_of
from .check_case import CheckCase
from .check_result import CheckResult, MissingFact, Verdict
from .checked_run import CheckedRun, Currency, claimed_currencies
from .claim_status import (
    ClaimStatus,
    DecidingCompletion,
    claim_status,
    decided_by_completion,
    deciding_completions,
    open_keys,
    steps_that_hold,
)
from .conventions import conventions_of, without_conventions
from .headline import headline
from .log_verdict import check_log, is_log
from .proving import prove, with_every_relation
from .second_layer import recompute
from .verdict import by_sampler, conditions_of, verdict_of

ALWAYS: Final = (
    "sampling.method",
    "noise.clip_source",
    "claim.neighbours",
    "claim.unit",
)
"""What no artefact of a library says, and every verdict about a trained model rests on."""

OF_FEDERATED_RUNS: Final = (
    "schedule.restarts",
    "aggregation.weights",
    "aggregation.expected_replies",
    "aggregation.replies",
)

OF_TRAINING: Final = (
    "data.records",
    "schedule.accumulation",
    "schedule.microbatches",
    "aggregation.normaliser",
    "schedule.restarts",
    "tuning.runs",
)
"""What changes a number where it is not what everybody assumes, the gravest first."""

RELEASES: Final = "releases"


def missing_facts(
    run: CheckedRun, proof: Proof, deciding: tuple[str, ...] = ()
) -> tuple[MissingFact, ...]:
    """Return the questions about a run: what the verdict waits for first, then by weight.

    `deciding` are keys that it waits for besides those that the proof lacks.
    """
    asked: list[str] = []
    if run.claim is None:
        asked.append("claim.epsilon")
    # The sampler decides most, and which other facts are needed.
    if proof.alternatives:
        asked.append("sampling.method")
    asked += [
        key.split(".noise_multiplier")[0] if key.startswith("releases") else key
        for key in proof.lacking
    ]
    asked += deciding
    waits_for = frozenset(asked)
    if run.settings.renews_every_days is not None and run.settings.horizon_days is None:
        asked.append("schedule.horizon_days")
    unsaid = run.settings.method == "unknown" and run.event is None
    asked += [
        key for key in ALWAYS if key not in run.known or (unsaid and key == "sampling.method")
    ]
    if run.currency == "epsilon" and "claim.delta" not in run.known:
        asked.append("claim.delta")
    if run.federated:
        asked += [key for key in OF_FEDERATED_RUNS if key not in run.known]
    if run.settings.unit == "user" and run.settings.records_per_user is None:
        asked.append("data.records_per_user")
    asked += [key for key in _of_training(run) if key not in run.known]
    return tuple(_question(key, key in waits_for) for key in dict.fromkeys(asked))


def _of_training(run: CheckedRun) -> Iterable[str]:
    units = {"user": "data.users", "silo": "data.silos"}.get(run.settings.unit)
    for key in OF_TRAINING:
        if key == "data.records" and units is not None:
            yield units
        else:
            yield key


def _question(key: str, deciding: bool) -> MissingFact:
    asks = KEYS[key].asks
    if key == RELEASES:
        asks = "What was released besides the sums, with which noise: a count for the clip?"
    return MissingFact(key, asks, deciding)


GRAVEST: Final[tuple[Verdict, ...]] = (
    *("false", "unverifiable", "unproven"),
    *("holds-not-from-these-settings", "holds"),
)
"""Verdicts, the gravest first."""

MOST_SETTLED: Final = 16
"""Rows whose options are tried; more than these have none."""

CONTRADICTED: Final = "what was said of the run contradicts itself"
"""Why nothing is proven of facts that cannot all be true."""


def check_readings(readings: Iterable[Reading], *, strict: bool = False) -> CheckResult:
    """Return the verdict about the run that all readings describe together.

    `strict` opens every convention (`conventions.py`): what nobody mentioned is then open as well.
    A log of privplan's own gets the verdict of its budget audit.  Raises `InvalidInput` for
    readings that describe no run, and for a log with other sources.
    """
    given = tuple(readings)
    log = next((reading for reading in given if is_log(reading)), None)
    if log is not None:
        return _with_headline(check_log(log, given))
    return check_description(describe(given), strict=strict)


def check_description(description: RunDescription, *, strict: bool = False) -> CheckResult:
    """Return the verdict about a described run; of several claims about it, the gravest.

    Of epsilon, rho and mu, each that is claimed is judged by itself; `other_claims` has the rest.
    """
    results = [
        _check_claim(description, currency, strict=strict)
        for currency in claimed_currencies(description)
    ]
    gravest = min(results, key=lambda result: GRAVEST.index(result.verdict))
    others = tuple(result for result in results if result is not gravest)
    return replace(gravest, other_claims=others)


def _check_claim(description: RunDescription, currency: Currency, *, strict: bool) -> CheckResult:
    """Return the verdict about a described run, in two layers, with causes and what is missing.

    The claim is `false` where it is below a certified lower end under every reading that the
    description leaves open, and `holds` where it reaches the upper end.  What is proven is about
    the relation that the description states or assumes, and depends on nothing claimed but delta.
    """
    run = CheckedRun.of(description, currency)
    # Of facts that contradict each other nothing says which are true: no number is proven.
    contradicted = Proof(None, unbounded=CONTRADICTED)
    proof = contradicted if run.contradictions else _proven(run, strict=strict)
    stands, by_relation = _claim_status(run, proof)
    case = CheckCase(run, proof, stands, recompute(run, stands, _settings_of(proof)))
    deciding: tuple[str, ...] = ()
    if by_relation and stands == "open":
        deciding = ("claim.neighbours",)
    completions: tuple[DecidingCompletion, ...] = ()
    if stands == "open":
        completions = tuple(
            _as_settled(each, description, currency, strict=strict)
            if index < MOST_SETTLED
            else each.unsettled
            for index, each in enumerate(deciding_completions(run.claim, proof))
        )
    if completions and not proof.alternatives:
        deciding += open_keys(proof)
    by_steps = ""
    if completions and run.claim is not None:
        by_steps = steps_that_hold(run, run.claim, proof)
    result = CheckResult(
        verdict=verdict_of(case),
        proven=proof.bounds,
        claimed=run.claim,
        delta=run.settings.delta,
        reproduced_by=case.reproductions,
        causes=causes_of(case),
        missing=missing_facts(run, proof, deciding),
        facts=description.facts,
        conditions=(*by_relation, *conditions_of(case)),
        alternatives=dict(proof.alternatives) or None,
        doubts=description.doubts,
        currency=run.currency,
        by_sampler=by_sampler(case),
        lacks=proof.unbounded,
        class_lower=proof.class_lower,
        conventions=() if strict else conventions_of(run),
        completions=completions,
        settled_by=by_steps,
        unit_is_open=run.of_users is not None,
    )
    return _with_headline(result)


def _proven(run: CheckedRun, *, strict: bool) -> Proof:
    """Return what is proven about a run, with its conventions or with all of them opened."""
    proof = prove(run)
    return without_conventions(run, proof) if strict else proof


def _as_settled(
    row: DecidingCompletion, description: RunDescription, currency: Currency, *, strict: bool
) -> DecidingCompletion:
    """Return a row with the ends of the run that its options state; without options if none do."""
    if not row.settles:
        return row
    options = map(reading_of_option, row.settles.split())
    run = CheckedRun.of(stating(description, options), currency)
    if run.contradictions:
        return row.unsettled
    proof = _proven(run, strict=strict)
    if proof.bounds is None or proof.lacking or proof.alternatives:
        return row.unsettled
    if run.claim is not None and decided_by_completion(run.claim, proof):
        return row.unsettled
    return replace(row, bounds=proof.bounds)


def _settings_of(proof: Proof) -> tuple[RunSettings, ...]:
    """Return the settings of the runs that the description allows, where these are several."""
    return tuple(each.run.settings for each, _ in proof.spread)


def _with_headline(result: CheckResult) -> CheckResult:
    return replace(result, headline=headline(result))


def _claim_status(run: CheckedRun, proof: Proof) -> tuple[ClaimStatus, tuple[str, ...]]:
    """Return how the claim stands, and what another relation would mean, where none was stated."""
    stands = claim_status(run.claim, proof)
    if stands != "false":
        return stands, ()
    # No relation was stated: the claim is false only if it is so under each.
    widest = with_every_relation(run, proof)
    if widest.bounds is None or widest == proof:
        return stands, ()
    says = (
        "Nobody stated which change of the data is hidden: where one is replaced by zeros, "
        f"{run.currency} is at least {down(widest.bounds.lower)}."
    )
    return ("false" if claim_status(run.claim, widest) == "false" else "open"), (says,)
