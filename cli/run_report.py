"""What a run has left, for a person and for a program."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from ..accountant import rounding
from ..fl.observers.assumptions import remedies
from ..fl.observers.names import SILO_WITH_RECORDS, Coalition, coalition_of, observer_fields
from ..fl.observers.words import in_a_run, phrase, unit_before
from ..fl.settings.circumstances import circumstances_of
from . import describe
from .output import Report, plain, table, wrapped

if TYPE_CHECKING:
    from ..accountant.guarantee import Guarantee
    from ..accountant.records import Security
    from ..fl.running import ReadyRun
    from ..fl.running.checkpoint import RoundMeasurement
    from ..fl.running.session import RunResult

_APART: Final = (
    "Silos and the server follow the protocol, and none of them tells another what it knows, but "
    "for coalitions that are named."
)

_MIXED: Final = (
    "Users, the shuffler and the analyzer follow the protocol, and none of them tells another what "
    "it knows, but for users that are counted as colluders."
)


def line_of(measured: RoundMeasurement) -> str:
    """Return one line on the model after a round, and what was spent by then."""
    parts = [f"{name} {value:.4g}" for name, value in [*measured.metrics.items()][:1]]
    if "model" in measured.epsilon:
        parts.append(f"epsilon so far {rounding.up(measured.epsilon['model'])}")
    return plain("   ".join(parts))


def report_of(
    ready: ReadyRun, result: RunResult, head: str | None, warnings: tuple[str, ...]
) -> Report:
    """Return what a run has left."""
    proven = result.guarantees[ready.prepared.opening.claim.observer]
    return Report(
        result=_json(ready, result, head),
        text=table(_rows(ready, result, head)),
        number=rounding.bare(proven.epsilon.upper),
        assumptions=_assumptions(ready),
        warnings=warnings,
    )


def _json(ready: ReadyRun, result: RunResult, head: str | None) -> dict[str, object]:
    own = ready.prepared
    proven = result.guarantees[own.opening.claim.observer]
    last = result.measured[-1] if result.measured else None
    return {
        "folder": str(ready.folder),
        "run_id": result.run_id,
        "system": own.system.name,
        "data": own.settings.data.name,
        "rounds": result.rounds,
        "planned": result.planned,
        "asked": own.settings.run.rounds,
        "reason": result.reason,
        "epsilon": describe.ends(proven.epsilon),
        "delta": own.opening.claim.delta,
        "unit": own.opening.claim.unit,
        "neighbours": own.opening.claim.neighbours,
        "observers": [
            {
                **observer_fields(who, own.settings.security.dropouts),
                "epsilon": describe.ends(one.epsilon),
                "rests_on": list(_rests_on(ready, who, one)),
            }
            for who, one in result.guarantees.items()
        ],
        "metrics": {} if last is None else _numbers(last.metrics),
        "test": {
            "public": result.test.public,
            "source": result.test.source,
            "why": result.test.why,
        },
        "model": result.model,
        "head": head,
        "seeded": own.settings.run.seed is not None,
        "as_published": own.opening.as_published,
        "aggregation": own.opening.aggregation,
    }


def _numbers(values: Mapping[str, float]) -> dict[str, float | None]:
    return {name: None if math.isnan(value) else value for name, value in values.items()}


def _rows(ready: ReadyRun, result: RunResult, head: str | None) -> list[tuple[str, str]]:
    own, folder = ready.prepared, plain(str(ready.folder))
    data, rounds = own.federation, f"{result.rounds:,} of {own.settings.run.rounds:,} rounds"
    trained = (
        f"{own.system.name} on {data.name}: {rounds}, {data.users:,} users, {data.silos:,} silos, "
        f"{own.width:,} {'numbers' if own.trained is None else 'parameters'}"
    )
    rows = [
        ("trained" if own.trained is not None else "released", trained),
        *_proven_rows(ready, result),
    ]
    moments = own.settings.privacy.normalisation_noise
    if moments is not None:
        noise = rounding.as_given(moments)
        rows.append(
            ("normalised", f"by moments with noise multiplier {noise}; each epsilon pays for them")
        )
    security = own.opening.security
    if security is not None:
        rows.append(("summed", _protocol(security)))
    rows += _test_rows(result, len(data.test_labels))
    if result.rounds < result.planned:
        lost = result.planned - result.rounds
        rows.append(("lost", f"{lost:,} rounds, spent where the run was cut off"))
    rows.append(("log", f"{folder}/log.jsonl"))
    rows.append(("head", head or "none"))
    rows.append(("next", f"privplan audit budget {folder}"))
    return rows


def _test_rows(result: RunResult, records: int) -> list[tuple[str, str]]:
    """Return what the test data said, and who says that they are public; or why they are not."""
    test = result.test
    if not test.public:
        return wrapped("test", f"none: {test.why}")
    shown = result.measured[-1].metrics if result.measured else {}
    source = test.source or "source not stated"
    said = f"on {records:,} records that are declared public: {source}"
    return [
        ("test", ", ".join(f"{name} {value:.4g}" for name, value in shown.items())),
        *wrapped("", said),
    ]


def _protocol(security: Security) -> str:
    """Return how the silos' updates were summed, in a line."""
    if security.protocol == "pairwise-masks":
        missing = security.parties - security.fewest
        allowed = f", {missing:,} of which may be missing" if missing else ""
        ring = f"under pairwise masks, modulo 2^{security.ring_bits}"
        return f"{ring}: {security.parties:,} silos{allowed}"
    if security.protocol == "additive-shares":
        ring = f"as additive shares, modulo 2^{security.ring_bits}"
        return f"{ring}, among {security.parties:,} silos, without a server"
    if security.protocol == "shuffler":
        told = f", {security.colluders:,} of which may collude" if security.colluders else ""
        return f"from messages through a shuffler: {security.parties:,} users{told}"
    drawn = ", as published" if security.noise == "multiples" else ""
    if security.slots:
        drawn = f"; users drawn by 1-of-{security.slots:,} oblivious transfer"
    return (
        f"by private weighting, {security.key_bits:,}-bit Paillier, counts up to "
        f"{security.count_limit:,} a user{drawn}"
    )


def _proven_rows(ready: ReadyRun, result: RunResult) -> list[tuple[str, str]]:
    claim = ready.prepared.opening.claim
    if not ready.prepared.promises:
        return [("proves", "nothing: there is no guarantee")]
    unit = unit_before(claim.observer, claim.unit)
    changed = describe.change(claim.neighbours, unit)
    rows = []
    first = result.guarantees[claim.observer]
    rows.append(
        (
            "proves",
            f"epsilon {rounding.up(first.epsilon.upper)} at delta "
            f"{rounding.as_given(claim.delta)}, {changed}",
        )
    )
    rows.append(("against", _who(ready, claim.observer)))
    rows += _below(ready, claim.observer, first)
    for who, one in result.guarantees.items():
        if who != claim.observer and not _is_told(result, who):
            whom = _who(ready, who, whatever=_is_told(result, f"{who}-with-records"))
            rows.append(("", f"{_of(one)} against {whom}"))
            rows += _below(ready, who, one)
    own = ready.prepared
    relief = remedies(circumstances_of(own.settings, own.federation.silos))
    return rows + [row for one in relief for row in wrapped("instead", one)]


def _is_told(result: RunResult, who: str) -> bool:
    """Return whether a coalition that holds a part of the unit has the number of one without."""
    found, coalition = result.guarantees, coalition_of(who)
    if who not in found or coalition is None or not coalition.holds:
        return False
    return found[who].epsilon == found[Coalition(coalition.colluders).name].epsilon


def _below(ready: ReadyRun, who: str, one: Guarantee) -> list[tuple[str, str]]:
    """Return what stands under a number: what it rests on, or why there is none."""
    if math.isinf(one.epsilon.upper):
        reason = describe.no_guarantee(ready.prepared.plan.seen_by(who))
        return [] if reason is None else wrapped("", f"because {reason}")
    found = _rests_on(ready, who, one)
    return wrapped("", f"rests on: {'; '.join(found)}") if found else []


def _rests_on(ready: ReadyRun, who: str, one: Guarantee) -> tuple[str, ...]:
    """Return what a number rests on; nothing where there is none."""
    from ..fl.running.forecast import all_assumptions

    return all_assumptions(ready.prepared, who, one.epsilon.upper)


def _of(one: Guarantee) -> str:
    upper = one.epsilon.upper
    return "no guarantee" if math.isinf(upper) else f"epsilon {rounding.up(upper)}"


def _who(ready: ReadyRun, observer: str, *, whatever: bool = False) -> str:
    prepared = ready.prepared
    if coalition_of(observer) is not None:
        return phrase(observer, prepared.settings.security.dropouts, whatever=whatever)
    # Where a unit is some of a user's records, who holds others of them is no part of the promise.
    apart = SILO_WITH_RECORDS in prepared.plan.guarantees or prepared.opening.claim.group > 1
    return in_a_run(observer, prepared.opening.aggregation, told_apart=apart)


def _assumptions(ready: ReadyRun) -> tuple[str, ...]:
    own = ready.prepared
    if not own.promises:
        return ()
    claim = own.opening.claim
    texts = describe.assumptions(
        own.opening.plan.events[claim.observer], claim.neighbours, claim.unit, claim.observer
    )
    if own.opening.aggregation == "shuffle":
        texts += (_MIXED,)
    elif own.federation.silos > 1:
        texts += (_APART,)
    return (
        *texts,
        "The numbers of users, silos and rounds are public"
        + (", and so are the test records." if own.test.public else "."),
        "Nothing but the released models and the published log leaves the run.",
    )
