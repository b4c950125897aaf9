"""What `account` answers: a guarantee, how it follows, and what was asked with it.

What the best attack reaches stands next to it in words, as a table and in JSON.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import typer

from ...accountant import rounding
from ..inputs import options
from ..inputs.request import QuestionOptions
from ..terminal.exit_codes import NOT_COMPUTABLE, OK
from ..terminal.output import Report, table, wrapped
from . import assumption_words, guarantee_words

if TYPE_CHECKING:
    from ...accountant.bound_routes import Route
    from ...accountant.errors import Unsupported
    from ...accountant.events import Event
    from ...accountant.guarantee import Bounds, Guarantee
    from ...accountant.risk import Risk
    from ...audit.description.run_description import Reading
    from ..inputs.described_run import DescribedRun
    from .guarantee_words import Quantity


@dataclass(frozen=True)
class Question:
    """The question about an event: `quantity` (epsilon or delta) at the `given` other number.

    `neighbours` is the neighbouring relation, and `engine` the only one to use, None for the best
    bound of all.  `chosen` says whether a person gave the other number, or it is the default.
    `units` is how many units are protected, where that was given.
    """

    quantity: Quantity
    given: float
    neighbours: str
    engine: str | None
    chosen: bool
    units: int | None = None
    unit: str = "unit"

    @classmethod
    def of(cls, context: typer.Context, asked: QuestionOptions) -> Question:
        """Return the question that the options ask; raise `InvalidInput` for bad options."""
        from ...accountant import validate
        from ...accountant.delta_checks import delta_from_zero, refuse_negative_epsilon
        from ...accountant.errors import InvalidInput

        neighbours, engine = asked.neighbours, asked.engine
        options.word(options.NEIGHBOURS, neighbours=neighbours)
        if engine is not None:
            options.word(options.ENGINES, engine=engine)
        given = options.strongest(context, {"delta": ["delta"], "epsilon": ["epsilon"]})
        if len(given) > 1:
            raise InvalidInput(
                "`delta` and `epsilon` exclude each other; both are given.",
                "The one that is given decides what the other one is.",
                "Give --delta to ask for epsilon, or --epsilon to ask for delta; a flag silences "
                "PRIVPLAN_* and privplan.toml.",
            )
        if given == ("epsilon",):
            refuse_negative_epsilon(asked.epsilon)
            value = options.checked(validate.non_negative, epsilon=asked.epsilon)
            return cls("delta", value, neighbours, engine, True)
        # Neither is given: epsilon at the default delta, and the report says that it was assumed.
        slack = asked.delta if given else options.DEFAULT_DELTA
        value = options.checked(delta_from_zero, delta=slack)
        return cls("epsilon", value, neighbours, engine, bool(given))

    def unit_count(self, units: int | None, accepted: bool, unit: str = "unit") -> int | None:
        """Return the checked `units`; raise `InvalidInput` where delta is 1 / units or more."""
        from ...accountant import validate
        from ...accountant.delta_checks import require_delta_below_units

        if units is None:
            return None
        count = options.checked(validate.count, units=units)
        if self.quantity == "epsilon":
            require_delta_below_units(
                self.given, count, unit, accepted=accepted, accept=options.ACCEPT_DELTA_FLAG
            )
        return count

    def check_routes(self) -> None:
        """Raise `InvalidInput` unless the question is epsilon at a delta, by any engine."""
        from ...accountant.errors import InvalidInput

        if self.quantity == "epsilon" and self.given == 0.0:
            raise InvalidInput(
                "`routes` lists the ways to an epsilon at a delta above 0.",
                "At delta 0 there is one way: the largest loss of each release.",
                "Leave out --routes, or give a delta above 0.",
            )
        if self.quantity == "delta" or self.engine is not None:
            raise InvalidInput(
                "`routes` lists the ways to an epsilon at a delta; it goes with no "
                + ("--epsilon." if self.quantity == "delta" else "--engine."),
                "Each way is an upper bound on epsilon, whichever engine it belongs to.",
                "Give --delta, and neither --epsilon nor --engine.",
            )

    def check_claim(self, group: int) -> None:
        """Raise `InvalidInput` unless the question is epsilon at a delta, of one record."""
        from ...accountant.errors import InvalidInput

        if group > 1:
            raise InvalidInput(
                "`claimed` is of one record, and --group asks about a unit of several.",
                "What is said of a run is compared with what it proves for a record.",
                "Leave out --group, or hand in an event that holds the group.",
            )
        if self.quantity == "delta":
            raise InvalidInput(
                "`claimed` is an epsilon, and --epsilon asks for a delta.",
                "A claim is compared with the epsilon that is proven at its delta.",
                "Give --delta in the place of --epsilon.",
            )

    def answer_of(self, event: Event, *, routes: bool = False) -> Answer:
        """Return the guarantee of an event; with `routes`, all upper bounds on epsilon too."""
        # Imported only now: a file that is no event is refused without loading the engines.
        from ...accountant.account import account as run

        given = {"delta" if self.quantity == "epsilon" else "epsilon": self.given}
        guarantee = run(event, neighbours=self.neighbours, engine=self.engine, **given)
        if not routes:
            return Answer(event, guarantee, self)
        from ...accountant.bound_routes import routes as routes_of

        listed = routes_of(event, delta=self.given, neighbours=self.neighbours)
        return Answer(event, guarantee, self, listed)


@dataclass(frozen=True)
class Answer:
    """The guarantee of an event, as the answer to a question; `routes` are its upper bounds."""

    event: Event
    guarantee: Guarantee
    question: Question
    routes: tuple[Route, ...] | None = None

    def assumptions(self) -> tuple[str, ...]:
        """Return the assumptions of the guarantee, and the defaults that were assumed here."""
        guarantee = self.guarantee
        sentences = assumption_words.assumptions(
            self.event, guarantee.neighbours, guarantee.unit, guarantee.observer
        )
        if self.question.quantity == "epsilon" and self.question.given > 0.0:
            sentences += options.delta_not_compared(self.question.given, self.question.units)
        if not self.question.chosen:
            sentences += (f"No delta was given: {options.DEFAULT_DELTA:g} is assumed.",)
        return sentences

    def report(self, *, explained: bool = False) -> Report:
        """Return the report; with `explained`, its text holds derivation and assumptions too."""
        guarantee, quantity = self.guarantee, self.question.quantity
        text = guarantee_words.guarantee_text(guarantee, quantity, self.event)
        result = guarantee_words.guarantee_json(guarantee, quantity)
        if self.routes is not None:
            text += f"\n\nEvery way to it\n{guarantee_words.routes_text(self.routes)}"
            result["routes"] = guarantee_words.routes_json(self.routes)
        if explained:
            text += f"\n\nHow it follows\n{guarantee_words.derivation_text(guarantee)}"
            text += f"\n\nWhat it rests on\n{assumption_words.bullets(self.assumptions())}"
        elif not self.question.chosen:
            text += f"\n(No delta was given: {options.DEFAULT_DELTA:g} is assumed.)"
        # --quiet prints the upper bound, which is the guarantee, rounded up.
        bounds = guarantee.epsilon if quantity == "epsilon" else guarantee.delta
        delta = self.question.given if quantity == "epsilon" else guarantee.delta.upper
        accepted = options.accepted(delta, self.question.units, self.question.unit)
        return Report(
            result=result,
            text=text,
            number=rounding.plain(bounds.upper),
            assumptions=self.assumptions(),
            warnings=(*accepted, *guarantee.warnings),
        )


def risk_of(event: Event, question: Question, attack: Mapping[str, Any]) -> Risk:
    """Return what an attack reaches, as `accountant.risk` takes it."""
    from ...accountant.risk import risk as run

    return run(event, neighbours=question.neighbours, **attack)


def with_risk(report: Report, risk: Risk) -> Report:
    """Return the report with what an attack reaches."""
    return replace(
        report,
        result={**report.result, "risk": risk_json(risk)},
        text=f"{report.text}\n\n{risk_text(risk)}",
        warnings=(*report.warnings, *further_warnings(report.warnings, risk)),
    )


def with_attack_sentence(report: Report, event: Event, question: Question) -> Report:
    """Return the report with one sentence about attacks, where that takes a moment only."""
    sentence = None if question.engine else sentence_at_once(event, question.neighbours)
    return report if sentence is None else replace(report, text=f"{report.text}\n{sentence}")


def report_of(run: DescribedRun, question: Question, *, routes: bool = False) -> Report:
    """Return the report about a run that options describe.

    Of a loader that shuffles it says what other relations know, and the loaders that prove more.
    """
    from ...accountant.errors import Unsupported
    from .loaders import LoaderAdvice

    event = run.event
    advised = run.is_shuffled and question.quantity == "epsilon" and question.engine is None
    try:
        report = question.answer_of(event, routes=routes).report()
    except Unsupported as refusal:
        if not advised:
            raise
        report = _without_guarantee(refusal, question)
    added: dict[str, object] = {
        "event": event.to_json(),
        "rounds": run.schedule.rounds,
        "rate": run.schedule.rate,
        "sampling": run.schedule.sampling,
    }
    text = report.text
    if advised:
        advice = LoaderAdvice.of(run, question.given, question.neighbours)
        added |= advice.json()
        text += "\n" + table([*advice.rows(), ("over", run.schedule.text())])
        text += "\n\n" + advice.text()
    return replace(report, result={**report.result, **added}, text=text.rstrip())


def with_curve(report: Report, event: Event, neighbours: str, path: Path) -> Report:
    """Return the report with what was written of the event's curves."""
    from .curve import write_curve

    written = write_curve(event, neighbours, path)
    refused = (written.refused,) if written.refused else ()
    return replace(
        report,
        result={**report.result, "curve": written.json()},
        text=f"{report.text}\n{table([written.row()])}",
        warnings=(*report.warnings, *refused),
    )


def with_verdict(report: Report, reading: Reading) -> Report:
    """Return the report with the verdict about a claim, and its exit code."""
    from ...audit.check.checking import check_readings
    from ...audit.check.result_json import result_json
    from .check import verdict_after_proof
    from .checked_runs import exit_code

    result = check_readings([reading])
    code = exit_code(result)
    return replace(
        report,
        result={**report.result, "check": result_json(result)},
        text=f"{verdict_after_proof(result)}\n\n{report.text}",
        number=result.verdict,
        ok=code == OK,
        failure=code or NOT_COMPUTABLE,
    )


def _without_guarantee(refusal: Unsupported, question: Question) -> Report:
    """Return the report of a run without a guarantee under the relation that was asked for."""
    result = {
        "epsilon": None,
        "delta": question.given,
        "neighbours": question.neighbours,
        "refused": str(refusal),
    }
    because = wrapped("", f"{refusal.what} {refusal.why}")
    text = table([(f"{'proves':<8}", "nothing that is known"), *because])
    return Report(result=result, text=text, number="-", ok=False, failure=NOT_COMPUTABLE)


def sentence_at_once(event: Event, neighbours: str) -> str | None:
    """Return one sentence about the best attack; None where it would take more than a moment."""
    from ...accountant.neighbours import as_neighbours
    from ...accountant.risk.sentence import USUAL_FPR, attack_sentence, quick_tpr

    relation = as_neighbours(neighbours)
    tpr = quick_tpr(event, relation)
    return None if tpr is None else attack_sentence(USUAL_FPR, tpr, relation)


def further_warnings(others: tuple[str, ...], risk: Risk) -> tuple[str, ...]:
    """Return the warnings about a risk that are not among `others`; each says what it is about."""
    new = [warning for warning in dict.fromkeys(risk.warnings) if warning not in others]
    return tuple(f"Of the attack, whose advantage is delta at epsilon 0: {text}" for text in new)


RISK_FACTS: Final = (
    *("advantage", "fpr", "tpr", "prior", "bayes_risk", "guesses", "reconstruction", "from_fpr"),
    *("mu", "mu_everywhere", "sentence"),
)


def risk_json(risk: Risk) -> dict[str, object]:
    """Return the JSON of a risk: each number with two ends."""
    return {**guarantee_words.facts(risk, *RISK_FACTS), "assumes": dict(risk.assumes)}


def risk_text(risk: Risk) -> str:
    """Return the sentence and the table; a guarantee is rounded to the side that stays true."""
    given = rounding.as_given
    rows = [
        ("advantage", _most(risk.advantage, by_guessing=0.0)),
        (f"TPR at FPR {given(risk.fpr)}", _most(risk.tpr, by_guessing=risk.fpr)),
        (
            f"error at prior {given(risk.prior)}",
            _least(risk.bayes_risk, by_guessing=min(risk.prior, 1.0 - risk.prior)),
        ),
        (f"naming 1 of {risk.guesses:,}", _most(risk.reconstruction)),
        (f"mu from FPR {given(risk.from_fpr)}", _most(risk.mu, by_guessing=0.0)),
        ("mu at every FPR", _most(risk.mu_everywhere, by_guessing=0.0)),
    ]
    return f"{risk.sentence}\n\n{table(rows)}\n(What each means: privplan explain risk)"


NEGLIGIBLE: Final = 1e-9
"""What an attack must gain over a guess, relative, to be one."""


def _most(bounds: Bounds, by_guessing: float | None = None) -> str:
    # Where no attack is known that beats a guess, the other end says nothing about attacks.
    unknown = by_guessing is not None and (
        bounds.lower <= by_guessing < bounds.upper * (1.0 - NEGLIGIBLE)
    )
    attained = "not known" if unknown else rounding.down(bounds.lower)
    return f"at most {rounding.up(bounds.upper):<10} attained {attained}"


def _least(bounds: Bounds, by_guessing: float) -> str:
    unknown = bounds.lower < by_guessing * (1.0 - NEGLIGIBLE) and bounds.upper >= by_guessing
    attained = "not known" if unknown else rounding.up(bounds.upper)
    return f"at least {rounding.down(bounds.lower):<9} attained {attained}"
