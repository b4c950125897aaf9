"""The check of a described run: prove, recompute, look for causes, say what is missing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from ...accountant.rounding import down
from ..description.merging import describe
from ..description.reading import Reading
from ..description.run_description import RunDescription
from .bounds import Proof, prove, with_every_relation
from .causes import apply_rules
from .check_case import CheckCase
from .check_result import CheckResult
from .checked_run import CheckedRun
from .headline import headline
from .log_verdict import check_log, is_log
from .missing_facts import missing_facts
from .second_layer import recompute
from .standing import Standing, standing
from .verdict import by_sampler, conditions_of, verdict_of

CONTRADICTED: Final = "what was said of the run contradicts itself"
"""Why nothing is proven of facts that cannot all be true."""


def check_readings(readings: Iterable[Reading]) -> CheckResult:
    """Return the verdict about the run that all readings describe together.

    A log of privplan's own gets the verdict of its budget audit.  Raises `InvalidInput` for
    readings that describe no run, and for a log beside other sources.
    """
    given = tuple(readings)
    log = next((reading for reading in given if is_log(reading)), None)
    if log is not None:
        return _with_headline(check_log(log, given))
    return check_description(describe(given))


def check_description(description: RunDescription) -> CheckResult:
    """Return the verdict about a described run, in two layers, with causes and what is missing.

    The claim is `false` where it is below a certified lower end under every reading that the
    description leaves open, and `holds` where it reaches the upper end.  What is proven is about
    the relation that the description states or assumes, and depends on nothing claimed but delta.
    """
    run = CheckedRun.of(description)
    # Of facts that contradict each other nothing says which are true: no number is proven.
    proof = Proof(None, unbounded=CONTRADICTED) if run.contradictions else prove(run)
    stands, by_relation = _standing(run, proof)
    case = CheckCase(run, proof, stands, recompute(run, stands))
    causes = apply_rules(case)
    deciding = ("claim.neighbours",) if by_relation and stands == "open" else ()
    result = CheckResult(
        verdict=verdict_of(case),
        proven=proof.bounds,
        claimed=run.claim,
        delta=run.settings.delta,
        reproduced_by=case.reproductions,
        causes=causes,
        missing=missing_facts(run, proof, deciding),
        facts=description.facts,
        conditions=(*by_relation, *conditions_of(case)),
        alternatives=dict(proof.alternatives) or None,
        doubts=description.doubts,
        currency=run.currency,
        by_sampler=by_sampler(case),
        lacks=proof.unbounded,
        class_lower=proof.class_lower,
    )
    return _with_headline(result)


def _with_headline(result: CheckResult) -> CheckResult:
    return replace(result, headline=headline(result))


def _standing(run: CheckedRun, proof: Proof) -> tuple[Standing, tuple[str, ...]]:
    """Return how the claim stands, and what another relation would mean, where none was stated."""
    stands = standing(run.claim, proof)
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
    return ("false" if standing(run.claim, widest) == "false" else "open"), (says,)
