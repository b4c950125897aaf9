"""`privplan account`: what did a known mechanism cost?"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...accountant import rounding
from ..inputs import attack_risk, options
from ..inputs.described_run import RunOptions
from ..inputs.request import OutputOptions, QuestionOptions, takes
from ..terminal.output import NOT_COMPUTABLE, OK, Report, show
from ..terminal.text import table, wrapped

if TYPE_CHECKING:
    from ...accountant.bound_routes import Route
    from ...accountant.errors import Unsupported
    from ...accountant.events import Event
    from ...accountant.guarantee import Guarantee
    from ...audit.description.fact import Reading
    from ..inputs.described_run import DescribedRun
    from ..reports.describe import Quantity

EventPath = Annotated[
    str | None,
    typer.Argument(
        metavar="[EVENT]", help="A JSON file, or - for standard input.", show_default=False
    ),
]

Units = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        help="How many units are protected: a delta of 1 / N or more is refused, or needs "
        "--accept-delta.",
        show_default=False,
    ),
]
Claimed = Annotated[
    str | None,
    typer.Option(
        metavar="E",
        help="An epsilon that is said of it, as it is printed: is it right?  Exit code 1 if it is "
        "false, 3 if it is not proven.",
        show_default=False,
    ),
]
Routes = Annotated[
    bool, typer.Option("--routes", help="List every way to the number, also those that lose.")
]
Curve = Annotated[
    Path | None,
    typer.Option(
        "--curve",
        metavar="FILE.csv",
        help="Write delta by epsilon, and the Renyi divergence by order, into a CSV file.",
        show_default=False,
    ),
]


@dataclass(frozen=True, kw_only=True)
class AccountRequest(OutputOptions, attack_risk.AttackOptions, QuestionOptions, RunOptions):
    """An event or a run, and what is asked of it."""

    event: EventPath = None
    routes: Routes = False
    units: Units = None
    accept_delta: options.AcceptDelta = False
    claimed: Claimed = None
    curve: Curve = None


@takes(AccountRequest)
def account(context: typer.Context, asked: AccountRequest) -> None:
    """Say what a known mechanism proves, from both sides.

    The mechanism is an EVENT (JSON, or a Renyi curve in a .csv file), or noisy sums:
    --noise-multiplier with --records, --batch and --epochs, or with --rate and --rounds, drawn as
    --sampling says.

    It finds epsilon at a --delta, or delta at an --epsilon; without either, delta is 1e-5.  The
    upper end of the answer is the guarantee, and nothing below the lower end is true of the
    mechanism.  With --group K it is about units of K records each.

    With --units N (or --records), a delta of 1 / N or more is refused without
    --accept-delta.  With --claimed E it says whether that number is right (privplan explain check);
    without --sampling it then holds only if batches were Poisson samples.  --quiet prints the upper
    end, and the verdict where there is a claim.

    One line says what an attacker reaches who accuses 1 in 100 innocents, where that takes a moment
    only; --risk says more, of any event: advantage, TPR at --fpr, error at --prior, naming 1 of
    --guesses, and the Gaussian that dominates from --from-fpr on.
    """
    from ...accountant import validate
    from ...accountant.work import require_little_work
    from ..inputs.claimed_run import TypedFacts, reading_of_claim
    from ..inputs.curve_file import read_released, require_replaceable
    from ..inputs.described_run import described, grouped
    from ..inputs.schedule import protected

    group = options.checked(validate.count, group=asked.group)
    run = described(context, asked.event, asked, group)
    units, unit = asked.units, "unit"
    if run is not None:
        units, unit = protected(context, run.kind, asked.records, units)
    question = Question.of(context, asked)
    counted = question.unit_count(units, asked.accept_delta, unit)
    question = replace(question, units=counted, unit=unit)
    if asked.routes:
        question.check_routes()
    if asked.claimed is not None:
        question.check_claim(group)
    if asked.curve is not None:
        require_replaceable(asked.curve)  # before anything is computed
    risks = RiskQuestion.of(asked, asked.engine)
    if run is None:
        assert asked.event is not None
        released = grouped(read_released(asked.event, asked.neighbours), group)
        require_little_work(released)
        report = question.answer_of(released, routes=asked.routes).report()
    else:
        released = run.event
        report = report_of(run, question, routes=asked.routes)
    if asked.claimed is not None:
        typed = TypedFacts(
            delta=question.chosen,
            neighbours=bool(options.strongest(context, {"neighbours": ["neighbours"]})),
            sampling=asked.sampling is not None,
        )
        reading = reading_of_claim(
            asked.claimed, question.given, asked.neighbours, run, released, typed
        )
        report = with_verdict(report, reading)
    if report.result.get("refused") is None and not (asked.quiet and not asked.as_json):
        report = risks.added_to(report, released, question, spoken=not asked.as_json)
    if asked.curve is not None:
        report = with_curve(report, released, asked.neighbours, asked.curve)
    show(report, as_json=asked.as_json, quiet=asked.quiet)


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
        from ..reports import describe

        guarantee = self.guarantee
        sentences = describe.assumptions(
            self.event, guarantee.neighbours, guarantee.unit, guarantee.observer
        )
        if self.question.quantity == "epsilon" and self.question.given > 0.0:
            sentences += options.delta_not_compared(self.question.given, self.question.units)
        if not self.question.chosen:
            sentences += (f"No delta was given: {options.DEFAULT_DELTA:g} is assumed.",)
        return sentences

    def report(self, *, explained: bool = False) -> Report:
        """Return the report; with `explained`, its text holds derivation and assumptions too."""
        from ..reports import describe

        guarantee, quantity = self.guarantee, self.question.quantity
        text = describe.guarantee_text(guarantee, quantity, self.event)
        result = describe.guarantee_json(guarantee, quantity)
        if self.routes is not None:
            text += f"\n\nEvery way to it\n{describe.routes_text(self.routes)}"
            result["routes"] = describe.routes_json(self.routes)
        if explained:
            text += f"\n\nHow it follows\n{describe.derivation_text(guarantee)}"
            text += f"\n\nWhat it rests on\n{describe.bullets(self.assumptions())}"
        elif not self.question.chosen:
            text += f"\n(No delta was given: {options.DEFAULT_DELTA:g} is assumed.)"
        # --quiet prints the upper bound, which is the guarantee, rounded up.
        bounds = guarantee.epsilon if quantity == "epsilon" else guarantee.delta
        delta = self.question.given if quantity == "epsilon" else guarantee.delta.upper
        accepted = options.accepted(delta, self.question.units, self.question.unit)
        return Report(
            result=result,
            text=text,
            number=rounding.bare(bounds.upper),
            assumptions=self.assumptions(),
            warnings=(*accepted, *guarantee.warnings),
        )


@dataclass(frozen=True)
class RiskQuestion:
    """What is asked about attacks: all of it (`asked`), or one sentence where it is cheap."""

    asked: bool
    fpr: float
    prior: float
    guesses: int
    from_fpr: float

    @classmethod
    def of(cls, options_given: attack_risk.AttackOptions, engine: str | None) -> RiskQuestion:
        """Return the question that the options ask; raise `InvalidInput` for bad options."""
        from ...accountant import validate
        from ...accountant.errors import InvalidInput

        asked = options_given.risk
        fpr, prior, guesses, start = (
            getattr(options_given, name) for name in ("fpr", "prior", "guesses", "from_fpr")
        )
        given = {"fpr": fpr, "prior": prior, "guesses": guesses, "from_fpr": start}
        named = [name for name, value in given.items() if value is not None]
        if named and not asked:
            raise InvalidInput(
                f"`{named[0]}` goes with --risk, which is not given.",
                "It says which attack is asked about.",
                f"Add --risk, or leave out --{named[0].replace('_', '-')}.",
            )
        if asked and engine is not None:
            raise InvalidInput(
                "--risk goes with no --engine.",
                "An attack is bounded by curves over all epsilons, which the pld engine gives.",
                "Leave out --engine.",
            )
        return cls(
            asked,
            0.01 if fpr is None else options.checked(validate.open_probability, fpr=fpr),
            0.5 if prior is None else options.checked(validate.open_probability, prior=prior),
            10 if guesses is None else options.checked(_two_or_more, guesses=guesses),
            1e-5 if start is None else options.checked(_up_to_half, from_fpr=start),
        )

    def added_to(self, report: Report, event: Event, question: Question, *, spoken: bool) -> Report:
        """Return the report with what an attacker reaches; `spoken` where it is for a person."""
        from ..reports import attack_risk as words

        if not self.asked:
            said = None
            if spoken and question.engine is None:
                said = words.sentence_at_once(event, question.neighbours)
            return report if said is None else replace(report, text=f"{report.text}\n{said}")
        from ...accountant.risk import risk as run

        risk = run(
            event,
            fpr=self.fpr,
            prior=self.prior,
            guesses=self.guesses,
            from_fpr=self.from_fpr,
            neighbours=question.neighbours,
        )
        return replace(
            report,
            result={**report.result, "risk": words.risk_json(risk)},
            text=f"{report.text}\n\n{words.risk_text(risk)}",
            warnings=(*report.warnings, *words.warnings_beside(report.warnings, risk)),
        )


def _two_or_more(**field: object) -> int:
    from ...accountant import validate

    return validate.count_from(2, **field)


def _up_to_half(**field: object) -> float:
    from ...accountant.risk.risk import start_of_mu

    return start_of_mu(**field)


def report_of(run: DescribedRun, question: Question, *, routes: bool = False) -> Report:
    """Return the report about a run that options describe.

    Of a loader that shuffles it says what other relations know, and the loaders that prove more.
    """
    from ...accountant.errors import Unsupported
    from ..reports.loaders import LoaderAdvice

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
    from ..reports.curve import write_curve

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
    from ..reports.check import beside_a_proof
    from ..reports.checked_runs import exit_code

    result = check_readings([reading])
    code = exit_code(result)
    return replace(
        report,
        result={**report.result, "check": result_json(result)},
        text=f"{beside_a_proof(result)}\n\n{report.text}",
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
