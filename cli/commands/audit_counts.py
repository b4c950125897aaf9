"""`privplan audit counts`: what the counts of somebody's audit show of epsilon."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import typer

from ...accountant import rounding
from ..inputs import options
from ..inputs.request import OutputOptions, takes
from ..terminal.output import Report, paragraph

if TYPE_CHECKING:
    from ...accountant.events import Event
    from ...audit.counts import CountedEpsilon

Canaries = Annotated[int | None, options.optional("M", "Canaries of one run, each in by a coin.")]
Guesses = Annotated[int | None, options.optional("R", "How many of the coins were guessed.")]
Correct = Annotated[int | None, options.optional("V", "How many guesses were right.")]
Negatives = Annotated[int | None, options.optional("N", "Units that were out.")]
FalseAlarms = Annotated[int | None, options.optional("N", "How many of them were called in.")]
Positives = Annotated[int | None, options.optional("N", "Units that were in.")]
Misses = Annotated[int | None, options.optional("N", "How many of them were called out.")]
Thresholds = Annotated[
    int, typer.Option(metavar="N", help="Thresholds that were tried; the best one is given.")
]
Delta = Annotated[float, typer.Option(help="Slack, delta; 0 is for pure differential privacy.")]
Confidence = Annotated[
    float, typer.Option(metavar="C", help="Each number errs with probability 1 - C at most.")
]
Claimed = Annotated[float | None, options.optional("E", "The claimed epsilon at --delta.")]
ClaimedEvent = Annotated[
    str | None,
    options.optional(
        "EVENT.json", "The claimed mechanism: also test its family (f-DP).", "--event"
    ),
]

GUESS_OPTIONS: Final = ("canaries", "guesses", "correct")
RATE_OPTIONS: Final = ("negatives", "false_alarms", "positives", "misses")

COUNT_ASSUMPTIONS: Final = (
    "The counts are believed: coins, independence and thresholds fixed beforehand cannot be seen "
    "in them.",
    "Each number is a bound from below that is wrong with probability at most 1 - confidence, by "
    "itself; several audits, or several numbers, err more often together.",
)


@options.option_group
class CountsRequest(OutputOptions):
    """The counts of one audit, and what is claimed."""

    canaries: Canaries = None
    guesses: Guesses = None
    correct: Correct = None
    negatives: Negatives = None
    false_alarms: FalseAlarms = None
    positives: Positives = None
    misses: Misses = None
    thresholds: Thresholds = 1
    delta: Delta = options.DEFAULT_DELTA
    confidence: Confidence = 0.95
    claimed: Claimed = None
    event: ClaimedEvent = None
    neighbours: options.Neighbours = "add-remove"

    def given(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """Return which of the options were given."""
        return tuple(name for name in names if getattr(self, name) is not None)


@takes(CountsRequest)
def counts(_: typer.Context, asked: CountsRequest) -> Report:
    """Turn the counts of an audit into a lower bound on epsilon.

    Either of one run: --canaries, --guesses, --correct.  Or of a test: --negatives, --false-alarms,
    --positives, --misses.  The first number holds for any mechanism; the others say of which.  With
    --claimed or --event, exit code 1 if the claim is rejected at the confidence.  --quiet prints
    the first number.
    """
    from ...accountant import validate

    if asked.claimed is not None:
        validate.non_negative(claimed=asked.claimed)
    rows = _rows(asked)
    rejected = _rejected(rows, asked.claimed)
    return Report(
        result={
            "epsilon": rows[0].epsilon,
            "delta": rows[0].delta,
            "confidence": asked.confidence,
            "claimed": asked.claimed,
            "contradicted": rejected,
            "counts": {name: getattr(asked, name) for name in asked.given(_names(asked))},
            "rows": [row.to_json() for row in rows],
        },
        text=_text(rows, asked, rejected=rejected),
        number=rounding.down(rows[0].epsilon, rounding.EXACT_DIGITS).replace(",", ""),
        assumptions=COUNT_ASSUMPTIONS,
        ok=not rejected,
    )


def _names(asked: CountsRequest) -> tuple[str, ...]:
    """Return the options of the one form of counts that was given, all of them."""
    from ...accountant.errors import InvalidInput

    forms = {form: asked.given(form) for form in (GUESS_OPTIONS, RATE_OPTIONS) if asked.given(form)}
    if len(forms) != 1:
        what = "Counts of one run and of a test were given." if forms else "No counts were given."
        raise InvalidInput(
            what,
            "One run has --canaries, --guesses and --correct; a test has --negatives, "
            "--false-alarms, --positives and --misses.",
            "privplan audit counts --canaries 1000 --guesses 100 --correct 90 --delta 1e-5",
        )
    ((form, given),) = forms.items()
    missing = [f"--{name.replace('_', '-')}" for name in form if name not in given]
    if missing:
        raise InvalidInput(
            f"{' and '.join(missing)} must be given too.",
            "A rate needs both what was counted and out of how many.",
            f"Add {' and '.join(missing)}.",
        )
    if form is GUESS_OPTIONS and asked.thresholds != 1:
        raise InvalidInput(
            "--thresholds is for the counts of a test.",
            "In one run the number of guesses is fixed beforehand, and no other one is tried.",
            "Leave --thresholds out.",
        )
    return form


def _rows(asked: CountsRequest) -> list[CountedEpsilon]:
    """Return what the counts show: of any mechanism first, then of families."""
    from ...audit import counts as counted
    from ...audit.statistics import Counts

    form, event = _names(asked), _event(asked)
    level = {"delta": asked.delta, "confidence": asked.confidence}
    numbers = [int(getattr(asked, name)) for name in form]
    if form is GUESS_OPTIONS:
        canaries, guesses, correct = numbers
        rows = [counted.one_run_epsilon(canaries, guesses, correct, **level)]
        if asked.delta > 0.0:
            pure = {**level, "delta": 0.0}
            rows.append(counted.one_run_epsilon(canaries, guesses, correct, **pure))
        if event is not None:
            relation = asked.neighbours
            rows.append(
                counted.one_run_f_dp(
                    canaries, guesses, correct, event, neighbours=relation, **level
                )
            )
        return rows
    errors = Counts(
        negatives=numbers[0], false_alarms=numbers[1], positives=numbers[2], misses=numbers[3]
    )
    rows = [counted.clopper_pearson_epsilon(errors, thresholds=asked.thresholds, **level)]
    if asked.delta > 0.0:
        rows.append(counted.gdp_family_epsilon(errors, thresholds=asked.thresholds, **level))
    if event is not None:
        rows.append(
            counted.f_dp_epsilon(
                errors, event, neighbours=asked.neighbours, thresholds=asked.thresholds, **level
            )
        )
    return rows


def _event(asked: CountsRequest) -> Event | None:
    from ...accountant.errors import InvalidInput
    from ..inputs.curve_file import read_event

    options.word(options.NEIGHBOURS, neighbours=asked.neighbours)
    if asked.event is None:
        return None
    if asked.delta == 0.0:
        raise InvalidInput(
            "--event needs a --delta above 0.",
            "A family of noise is compared at an epsilon, which few of them have at delta 0.",
            "Give --delta 1e-5.",
        )
    return read_event(asked.event)


def _rejected(rows: list[CountedEpsilon], claimed: float | None) -> bool:
    """Return whether a claim is rejected: by what holds of any mechanism, or of the family."""
    # Only the first row is of any mechanism at the claim's delta; the other rows say of which.
    return (claimed is not None and rows[0].epsilon > claimed) or any(
        row.rejected is True for row in rows
    )


def _text(rows: list[CountedEpsilon], asked: CountsRequest, *, rejected: bool) -> str:
    """Return the numbers for a person, each with what it is true of, and all that they assume."""
    lines = []
    for row in rows:
        what = "pure" if row.delta == 0.0 else f"delta {row.delta:g}"
        noise = "" if row.factor is None else f", noise x {rounding.up(row.factor)} rejected"
        lines.append(
            f"{row.method:<17}epsilon >= {rounding.down(row.epsilon)}  "
            f"({what}, {100.0 * row.confidence:g} % confidence{noise})"
        )
        lines.append(paragraph(" " * 17, f"Holds for {row.holds_for}."))
    claims = [] if asked.claimed is None else [f"epsilon {rounding.as_given(asked.claimed)}"]
    claims += [] if asked.event is None else ["the claimed event"]
    verdict = "CONTRADICTED" if rejected else "not contradicted"
    judged = [f"{' and '.join(claims)}: {verdict}"] if claims else []
    assumed = dict.fromkeys(sentence for row in rows for sentence in row.assumes)
    bullets = [paragraph("  - ", f"{sentence[:1].upper()}{sentence[1:]}.") for sentence in assumed]
    return "\n".join([*lines, *judged, "", "What they rest on:", *bullets])
