"""From facts to a page: numbers are rounded so that what is printed is still true.

Every text of the log is escaped by the template, and the page may load and run nothing.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Final, TypeAlias

from ...accountant.errors import PrivplanError
from ...accountant.neighbours import UNIT_WORDS
from ...accountant.risk.sentence import USUAL_FPR, attack_sentence, tpr_at
from ...accountant.risk.trade_off import TradeOff, trade_off
from ...accountant.rounding import EXACT_DIGITS, as_given, down, up
from ...fl.observers.names import holds_part
from ...fl.observers.words import phrase, population_words, unit_before
from ...fl.settings.logged_tables import list_of_users, users_are_private
from ..measurement import ANY_MECHANISM, NOT_PROOF, Measurement, one_in, unusual
from . import figures
from .run_facts import RunFacts, contradicts
from .template import filled

TEMPLATE: Final = "page.html.j2"

MAX_RESULTS_SHOWN: Final = 60
"""Most results that the page shows."""

TIER_QUESTIONS: Final[Mapping[str, str]] = {
    "claim": "Is this mechanism no weaker than the one that is claimed?",
    "robust": "What do right guesses show, however units depend on each other?",
    "membership": "How well are people told from strangers?",
    "weakness": "Does a published claim hold on a simulation of its mechanism?",
    "residual": "Is the noise that was drawn the noise that was logged?",
}


Shown: TypeAlias = tuple[tuple[int, Measurement], ...]
"""Results with the numbers of their lines."""


MAX_ODDS_EPSILON: Final = 200.0
"""Largest epsilon whose odds are written out."""


@dataclass(frozen=True)
class Column:
    """One number before one observer: claimed, proven, measured, each as it is printed."""

    observer: str
    claimed: str
    proven: str
    rests_on: tuple[str, ...]
    measured: tuple[str, ...]
    within: str


def render(facts: RunFacts) -> str:
    """Return the page about a run, self-contained HTML.

    Raises `MissingExtra` where jinja2 or matplotlib is absent.
    """
    shown = _shown_of(facts)
    return filled(
        TEMPLATE,
        run=facts.opened,
        budget=facts.budget,
        unit=_unit(facts),
        before=phrase(facts.opened.claim.observer),
        relation=UNIT_WORDS[facts.opened.claim.neighbours],
        verdict=verdict(facts),
        odds=_odds(facts),
        attacker=_attacker(facts),
        refuted=bool(facts.contradicting) or not facts.budget.ok,
        proven=any(math.isfinite(row.total.upper) for row in facts.budget.rows),
        columns=_columns(facts, shown),
        measured=[_row(number, result) for number, result in shown],
        unshown=len(facts.measured) - len(shown),
        sealed=Counter(row.tier for row in facts.results if row.sealed is not None),
        unreadable=[row for row in facts.results if row.problem],
        tiers=TIER_QUESTIONS,
        evaluation=facts.evaluation,
        held_out=facts.held_out,
        spending=_spending(facts),
        trade_off=_trade_off(facts, shown),
        roc=figures.roc(
            [
                (f"line {n}: {result.tier}", result.curves["roc"])
                for n, result in shown
                if "roc" in result.curves
            ]
        ),
        not_proof=NOT_PROOF,
        most=MAX_RESULTS_SHOWN,
        as_given=as_given,
        population=population_words(
            facts.opened.population.users,
            facts.opened.population.silos,
            facts.opened.claim.unit,
            facts.opened.plan.events,
            at_most=users_are_private(facts.opened),
            listed=list_of_users(facts.opened) is not None,
        ),
        four_digits=_four_digits,
    )


def _four_digits(value: str) -> str:
    """Return a metric of the log to four digits, and what is no number as it stands."""
    try:
        return f"{float(value):.4g}"
    except ValueError:
        return value


def _shown_of(facts: RunFacts) -> Shown:
    """Return the results that are shown, in their order: what contradicts, and the newest."""
    against, measured = facts.contradicting, facts.measured
    if len(measured) <= MAX_RESULTS_SHOWN:
        return measured
    # What contradicts a claim is never pushed out by newer results.
    first = against[-MAX_RESULTS_SHOWN:]
    rest = [row for row in measured if not contradicts(row[1])]
    return tuple(
        sorted(
            (*first, *rest[len(rest) - MAX_RESULTS_SHOWN + len(first) :]), key=lambda row: row[0]
        )
    )


def _odds(facts: RunFacts) -> str | None:
    """Return e^epsilon, rounded up; None where no number is claimed, or none that can be shown."""
    epsilon = facts.opened.claim.epsilon
    return None if epsilon is None or epsilon > MAX_ODDS_EPSILON else up(math.exp(epsilon))


def _attacker(facts: RunFacts) -> str | None:
    """Return what the best attack on what the log proves reaches; None where no curve is known."""
    curve = _proven_line(facts)
    if curve is None:
        return None
    return attack_sentence(USUAL_FPR, tpr_at(curve, USUAL_FPR), facts.opened.claim.neighbours)


def _unit(facts: RunFacts) -> str:
    claim = facts.opened.claim
    unit = claim.unit if claim.group == 1 else f"{claim.unit} of up to {claim.group:,} records"
    return unit_before(claim.observer, unit) if holds_part(claim.observer) else unit


def verdict(facts: RunFacts) -> tuple[str, str]:
    """Return a word for the style, and one sentence."""
    budget = facts.budget
    against, measured = len(facts.contradicting), len(facts.measured)
    if against:
        counted = f" ({against:,} of {measured:,} results)" if measured > 1 else ""
        return "bad", f"What was measured contradicts what is claimed{counted}."
    if budget.supported is None:
        return "none", "The run claims no number, and nothing is promised."
    if not budget.ok:
        return "bad", "The log does not support what it claims."
    more = _rare(len(facts.unusual), measured)
    if budget.worst is not None:
        more = f" The worst number is {budget.worst.text}.{more}"
    if not budget.complete:
        return "open", f"The log supports what it claims so far; the run is not closed.{more}"
    return "good", f"The log supports what it claims.{more}"


def _rare(unusual: int, measured: int) -> str:
    """Return what is said of results that a few honest runs have as well."""
    if not unusual:
        return ""
    are = "is" if unusual == 1 else "are"
    return f" Of {measured:,} results, {unusual:,} {are} unusual, which is no accusation."


def _columns(facts: RunFacts, shown: Shown) -> list[Column]:
    claim = facts.opened.claim
    columns = []
    for row in facts.budget.rows:
        stated = claim.epsilon if row.observer == claim.observer else row.stated
        columns.append(
            Column(
                observer=phrase(row.observer, row.dropouts),
                claimed=_claimed(stated),
                proven=_proven(row.total.epsilon.lower, row.total.upper, row.total.refusal),
                rests_on=row.rests_on,
                measured=tuple(
                    f"{result.tier}: {_value(result)}{_mechanism_free(result)}"
                    + _elsewhere(facts, result)
                    + ", unusual" * result.unusual
                    for _, result in shown
                    if result.observer == row.observer and result.quantity == "epsilon"
                ),
                within="bad"
                if stated is not None and _exceeds(row.total.upper, stated)
                else "good",
            )
        )
    return columns


def _is_of_claim(facts: RunFacts, result: Measurement) -> bool:
    claim = facts.opened.claim
    return (result.unit, result.neighbours) == (claim.unit, claim.neighbours)


def _mechanism_free(result: Measurement) -> str:
    """Return what a robust result shows of any mechanism, where that is another number."""
    mechanism_free = result.sample.get(ANY_MECHANISM)
    if (
        result.tier != "robust"
        or not isinstance(mechanism_free, (int, float))
        or not mechanism_free >= 0.0
    ):
        return ""
    return f" for the claim's curve, {down(float(mechanism_free))} for any mechanism"


def _elsewhere(facts: RunFacts, result: Measurement) -> str:
    """Return what a result is about, where that is not what the row is about."""
    if _is_of_claim(facts, result) and result.delta == facts.opened.claim.delta:
        return ""
    return f" ({_about(result)})"


def _about(result: Measurement) -> str:
    delta = "" if result.delta is None else f", at delta {as_given(result.delta)}"
    return f"one {result.unit} {UNIT_WORDS[result.neighbours]}{delta}"


def _row(number: int, result: Measurement) -> dict[str, object]:
    return {
        "line": number,
        "tier": result.tier,
        "what": result.what,
        "observer": phrase(result.observer),
        "about": _about(result),
        "allowed": result.kind == "estimate",
        "claimed": "nothing" if result.claimed is None else up(result.claimed, EXACT_DIGITS),
        "value": _value(result) + _mechanism_free(result) + _confidence(result),
        "contradicted": contradicts(result),
        "verdict": _verdict_on(result),
        "proves": result.proves,
        "assumes": result.assumes,
        "sample": {name: _shown(value) for name, value in result.sample.items()},
    }


def _verdict_on(result: Measurement) -> str:
    """Return what a result says of its claim, and how often it says so of an honest run."""
    if contradicts(result):
        level = result.level or 1.0 - result.confidence
        return f"contradicted: at most {one_in(level)} honest runs is"
    if result.unusual:
        return unusual(1.0 - result.confidence, result.tier)
    return "" if result.kind == "estimate" or result.claimed is None else "not contradicted"


def _value(result: Measurement) -> str:
    """Return what was measured in words; a lower bound is rounded down, a p-value up."""
    if result.kind == "lower-bound":
        return f"{result.quantity} at least {down(result.value)}"
    if result.kind == "estimate":
        return f"{result.quantity} about {result.value:.4g}, an estimate"
    return f"{result.quantity} {up(result.value)}"


def _confidence(result: Measurement) -> str:
    """Return how sure a result is: exactly what it says, and nothing for an estimate."""
    if result.kind == "estimate":
        return ""
    # Through the shortest decimal, so that 1 - .95 is printed as .05.
    exact = Decimal(repr(result.confidence))
    if result.kind == "test":
        return f", against {_plain(1 - exact)}"
    return f", with {_plain(100 * exact)} % confidence"


def _plain(number: Decimal) -> str:
    return f"{number.normalize():f}" if number.adjusted() > -12 else str(number.normalize())


def _shown(value: float | int | str) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def _claimed(stated: float | None) -> str:
    if stated is None:
        return "nothing"
    return "no guarantee" if math.isinf(stated) else _above(stated)


def _above(epsilon: float) -> str:
    return f"epsilon {up(epsilon, EXACT_DIGITS)}"


def _proven(lower: float, upper: float, refusal: str) -> str:
    if math.isinf(upper):
        return f"no guarantee: {refusal}" if refusal else "no guarantee"
    least = f", and at least {down(lower, EXACT_DIGITS)}" if lower > 0.0 else ""
    return f"{_above(upper)}{least}"


def _exceeds(upper: float, stated: float) -> bool:
    return upper > stated * (1.0 + 1e-9)


def _spending(facts: RunFacts) -> str | None:
    claim, budget = facts.opened.claim, facts.budget
    stated = {row.observer: row.stated for row in budget.rows}.get(claim.observer)
    return figures.spending(facts.course, claim.epsilon, budget.planned_rounds, stated)


def _trade_off(facts: RunFacts, shown: Shown) -> str | None:
    """Return the figure of the claim's observer; without a curve where no engine has one."""
    observer = facts.opened.claim.observer
    curves = [
        result.curves["trade-off"]
        for _, result in shown
        if result.observer == observer
        and _is_of_claim(facts, result)
        and "trade-off" in result.curves
    ]
    return figures.trade_off(_proven_line(facts), curves)


def _proven_line(facts: RunFacts) -> TradeOff | None:
    if not math.isfinite(facts.budget.total.upper) or not facts.course:
        return None
    try:
        return trade_off(facts.event, facts.opened.claim.neighbours)
    except PrivplanError:
        return None
