"""What a run has left, for a person and for a program."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from ...accountant import rounding
from ...accountant.errors import counted
from ...fl.observers.assumptions import remedies
from ...fl.observers.names import Coalition, coalition_of, observer_fields
from ...fl.observers.words import unit_before
from ...fl.settings.schema import circumstances_of
from ..terminal.output import Report, plain, table, wrapped
from . import assumption_words, guarantee_words, run_words
from .forecast import basis_of, counted_rows, note_rows, notes_json, observer_phrase

if TYPE_CHECKING:
    from ...accountant.guarantee import Guarantee
    from ...accountant.records import Security
    from ...fl.running import ReadyRun
    from ...fl.running.checkpoint import RoundMeasurement
    from ...fl.running.run_records import RunResult

_SILOS_DO_NOT_COLLUDE: Final = (
    "Silos and the server follow the protocol, and none of them tells another what it knows, but "
    "for coalitions that are named."
)

_USERS_DO_NOT_COLLUDE: Final = (
    "Users, the shuffler and the analyzer follow the protocol, and none of them tells another what "
    "it knows, but for users that are counted as colluders."
)


def line_of(measured: RoundMeasurement, observer: str) -> str:
    """Return one line on the model after a round, and what was spent by then before an observer."""
    parts = [f"{name} {value:.4g}" for name, value in [*measured.metrics.items()][:1]]
    if observer in measured.epsilon:
        spent = rounding.up(measured.epsilon[observer])
        parts.append(f"epsilon so far {spent}, before {observer}")
    return plain("   ".join(parts))


def report_of(
    ready: ReadyRun, result: RunResult, head: str | None, warnings: tuple[str, ...]
) -> Report:
    """Return what a run has left."""
    proven = result.guarantees[ready.prepared.opening.claim.observer]
    return Report(
        result=_json(ready, result, head),
        text=table(_rows(ready, result, head)),
        number=rounding.plain(proven.epsilon.upper),
        assumptions=_assumptions(ready),
        warnings=warnings,
    )


def _json(ready: ReadyRun, result: RunResult, head: str | None) -> dict[str, object]:
    prepared = ready.prepared
    proven = result.guarantees[prepared.opening.claim.observer]
    last = result.measured[-1] if result.measured else None
    return {
        "folder": str(ready.folder),
        "run_id": result.run_id,
        "system": prepared.system.name,
        "data": prepared.settings.data.name,
        "rounds": result.rounds,
        "planned": result.planned,
        "asked": prepared.asked,
        "counted": prepared.opening.plan.counted,
        "design": run_words.design_json(prepared.design),
        "notes": notes_json(prepared.notes),
        "reason": result.reason,
        "epsilon": guarantee_words.ends(proven.epsilon),
        "delta": prepared.opening.claim.delta,
        "unit": prepared.opening.claim.unit,
        "neighbours": prepared.opening.claim.neighbours,
        "observers": [
            {
                **observer_fields(who, prepared.settings.security.dropouts),
                "epsilon": guarantee_words.ends(guarantee.epsilon),
                "rests_on": list(_rests_on(ready, who, guarantee)),
            }
            for who, guarantee in result.guarantees.items()
        ],
        "metrics": {} if last is None else _numbers(last.metrics),
        "test": {
            "public": result.test.public,
            "source": result.test.source,
            "why": result.test.why,
        },
        **run_words.held_out_json(prepared, result.held_out),
        "model": result.model,
        "head": head,
        "seeded": prepared.settings.run.seed is not None,
        "as_published": prepared.opening.as_published,
        "study": run_words.study(prepared) or None,
        "aggregation": prepared.opening.aggregation,
    }


def _numbers(values: Mapping[str, float]) -> dict[str, float | None]:
    return {name: None if math.isnan(value) else value for name, value in values.items()}


def _rows(ready: ReadyRun, result: RunResult, head: str | None) -> list[tuple[str, str]]:
    prepared, folder = ready.prepared, plain(str(ready.folder))
    rounds = f"{result.rounds:,} of {prepared.asked:,} rounds"
    trained = (
        f"{prepared.system.name} on {prepared.federation.name}: {rounds}, "
        f"{run_words.population(prepared)}, "
        f"{prepared.width:,} {'numbers' if prepared.trained is None else 'parameters'}"
    )
    rows = [
        ("trained" if prepared.trained is not None else "released", trained),
        *run_words.study_rows(run_words.study(prepared)),
        *run_words.design_rows(prepared.design),
        *_proven_rows(ready, result),
        *note_rows(prepared.notes),
        *counted_rows(prepared.opening.plan),
    ]
    moments = prepared.settings.privacy.normalisation_noise
    if moments is not None:
        noise = rounding.as_given(moments)
        rows.append(
            ("normalised", f"by moments with noise multiplier {noise}; each epsilon pays for them")
        )
    security = prepared.opening.security
    if security is not None:
        rows.append(("summed", _protocol(security)))
    rows += run_words.held_out_rows(prepared, result.held_out)
    rows += _test_rows(result, prepared.federation.test_records)
    # Rounds that were begun and not released are paid for all the same.
    if result.rounds < result.planned:
        lost = result.planned - result.rounds
        rows.append(("lost", f"{counted(lost, 'round')}, spent where the run was cut off"))
    rows.append(("log", f"{folder}/log.jsonl"))
    rows.append(("head", head or "none"))
    rows.append(("next", f"privplan audit budget {shlex.quote(str(ready.folder))}"))
    return rows


def _test_rows(result: RunResult, records: int) -> list[tuple[str, str]]:
    """Return what the test data said, and who says that they are public; or why they are not."""
    test = result.test
    if result.held_out is not None:
        return []
    # A metric of private records would be a release that nobody has paid for.
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
        removal = (
            f"; all noise but one silo's is taken off under {security.key_bits:,}-bit Paillier"
        )
        removed = removal if run_words.is_noise_removed(security) else ""
        return f"{ring}: {security.parties:,} silos{allowed}{removed}"
    if security.protocol == "additive-shares":
        modulus = f"modulo 2^{security.ring_bits}" if security.ring_bits else "in no ring"
        ring = f"as additive shares, {modulus}"
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
    unit = unit_before(claim.observer, claim.unit, ready.prepared.federation.silos)
    changed = assumption_words.change(claim.neighbours, unit)
    rows = []
    first = result.guarantees[claim.observer]
    rows.append(
        (
            "proves",
            f"epsilon {rounding.up(first.epsilon.upper)} at delta "
            f"{rounding.as_given(claim.delta)}, {changed}",
        )
    )
    rows.append(("against", observer_phrase(ready.prepared, claim.observer)))
    rows += _basis(ready, claim.observer, first)
    # Who learns the same whatever it holds has one line, not one for each case.
    for who, guarantee in result.guarantees.items():
        if who != claim.observer and not _knows_no_more_by_holding(result, who):
            same = _knows_no_more_by_holding(result, f"{who}-with-records")
            whom = observer_phrase(ready.prepared, who, whatever=same)
            rows.append(("", f"{_epsilon_text(guarantee)} against {whom}"))
            rows += _basis(ready, who, guarantee)
    prepared = ready.prepared
    relief = remedies(circumstances_of(prepared.settings, prepared.federation.silos))
    return rows + [row for relieving in relief for row in wrapped("instead", relieving)]


def _knows_no_more_by_holding(result: RunResult, who: str) -> bool:
    """Return whether a coalition that holds a part of the unit has the number of one without."""
    guarantees, coalition = result.guarantees, coalition_of(who)
    if who not in guarantees or coalition is None or not coalition.holds:
        return False
    return guarantees[who].epsilon == guarantees[Coalition(coalition.colluders).name].epsilon


def _basis(ready: ReadyRun, who: str, guarantee: Guarantee) -> list[tuple[str, str]]:
    """Return what stands under a number: what it rests on, or why there is none."""
    upper, rests_on = guarantee.epsilon.upper, _rests_on(ready, who, guarantee)
    said = basis_of(ready.prepared, who, upper, rests_on)
    return wrapped("", "".join(said)) if said else []


def _rests_on(ready: ReadyRun, who: str, guarantee: Guarantee) -> tuple[str, ...]:
    """Return what a number rests on; nothing where there is none."""
    from ...fl.running.forecast import all_assumptions

    return all_assumptions(ready.prepared, who, guarantee.epsilon.upper)


def _epsilon_text(guarantee: Guarantee) -> str:
    upper = guarantee.epsilon.upper
    return "no guarantee" if math.isinf(upper) else f"epsilon {rounding.up(upper)}"


def _assumptions(ready: ReadyRun) -> tuple[str, ...]:
    prepared = ready.prepared
    if not prepared.promises:
        return ()
    claim = prepared.opening.claim
    texts = assumption_words.assumptions(
        prepared.opening.plan.events[claim.observer], claim.neighbours, claim.unit, claim.observer
    )
    # Honest behaviour is assumed of the parties that the protocol has.
    if prepared.opening.aggregation == "shuffle":
        texts += (_USERS_DO_NOT_COLLUDE,)
    elif prepared.federation.silos > 1:
        texts += (_SILOS_DO_NOT_COLLUDE,)
    return (
        *texts,
        "The numbers of users, silos and rounds are public"
        + (", and so are the test records." if prepared.test.public else "."),
        "Nothing but the released models and the published log leaves the run.",
    )
