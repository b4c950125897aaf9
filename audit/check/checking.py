"""The check of a described run: prove, recompute, look for causes, say what is missing."""

from __future__ import annotations

from collections.abc import Iterable

from ..description.merging import describe
from ..description.reading import Reading
from ..description.run_description import RunDescription
from .bounds import Proof, prove, with_every_relation
from .causes import apply_rules
from .check_case import CheckCase
from .check_result import CheckResult
from .checked_run import CheckedRun
from .log_verdict import check_log, is_log
from .missing_facts import missing_facts
from .second_layer import recompute
from .standing import Standing, standing
from .verdict import conditions_of, verdict_of


def check_readings(readings: Iterable[Reading]) -> CheckResult:
    """Return the verdict about the run that all readings describe together.

    A log of privplan's own gets the verdict of its budget audit.  Raises `InvalidInput` for
    readings that describe no run, and for a log beside other sources.
    """
    given = tuple(readings)
    log = next((reading for reading in given if is_log(reading)), None)
    if log is not None:
        return check_log(log, given)
    return check_description(describe(given))


def check_description(description: RunDescription) -> CheckResult:
    """Return the verdict about a described run, in two layers, with causes and what is missing.

    The claim is `false` where it is below a certified lower end under every reading that the
    description leaves open, and `holds` where it reaches the upper end.  Nothing claimed enters
    what is proven.
    """
    run = CheckedRun.of(description)
    proof, stands = _proven(run)
    case = CheckCase(run, proof, stands, recompute(run, stands))
    causes = apply_rules(case)
    return CheckResult(
        verdict=verdict_of(case),
        proven=proof.bounds,
        claimed=run.claim,
        delta=run.settings.delta,
        reproduced_by=case.reproductions,
        causes=causes,
        missing=missing_facts(run, proof),
        facts=description.facts,
        conditions=conditions_of(case),
        alternatives=dict(proof.alternatives) or None,
        doubts=description.doubts,
    )


def _proven(run: CheckedRun) -> tuple[Proof, Standing]:
    proof = prove(run)
    stands = standing(run.claim, proof)
    if stands == "false":
        # No relation was stated: the claim is false only if it is so under each.
        proof = with_every_relation(run, proof)
        stands = standing(run.claim, proof)
    return proof, stands
