"""What attacks on a run measured, tier by tier: as a text, as JSON, and as one number (--quiet)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from ...accountant import rounding
from ...accountant.errors import counted
from ...fl.observers.words import phrase
from ..inputs import anchors, options
from ..terminal.output import Report, paragraph, plain, table

if TYPE_CHECKING:
    from ...audit.attack.report import AttackReport
    from ...audit.measurement import Measurement

SECRET: Final = (
    "Results of the tier {tiers} were seen before the noise: keep this output and the exit code to "
    "yourself. They are not in the log."
)
NO_ACCUSATION: Final = "What is unusual may be chance, and is no accusation."
_ESTIMATES: Final = "These are estimates: they bound nothing, and contradict nothing."

TIER_COLUMN_WIDTH: Final = 13
"""Columns before what a tier says."""

REHEARSED: Final = (
    "Claim and robust rehearse the run: its own settings once more, with canaries for users. That "
    "the rounds of the log were made so is the question of `privplan audit budget`."
)
INSERTED: Final = (
    "Claim and robust judge canaries that were in the run itself, whose coins the first line of "
    "the log commits to. That nothing else was released is no question of theirs."
)
"""What was attacked: settings that are made once more, or the run itself."""

ATTACK_ASSUMPTIONS: Final = (
    "CONTRADICTED is said of an honest run at most once in 1,000 calls, over all tiers together; "
    "unusual, by each tier, at most as often as it says. Many attacks on one run say either more "
    "often.",
    "Each lower bound errs with the probability that it states, by itself; several tiers, or "
    "several attacks, err more often together.",
)


def report_of(report: AttackReport, folder: str) -> Report:
    """Return what an attack found, tier by tier."""
    warnings = report.warnings
    # Results before the noise are secrets of the run, in this terminal's history too.
    if report.sealed_tiers:
        warnings = (SECRET.format(tiers=" and ".join(report.sealed_tiers)), *warnings)
    return Report(
        result=report.to_json(),
        text=_text(report, folder),
        number=_number(report),
        assumptions=(
            REHEARSED if report.rehearsed else INSERTED,
            *ATTACK_ASSUMPTIONS,
            *_assumed(report.measurements),
        ),
        warnings=warnings,
        ok=not report.contradicted,
    )


def _number(report: AttackReport) -> str:
    """Return the claim tier's number, or else the first one that was measured."""
    # Tiers prove different things, so --quiet never mixes them: claim, or the first that was taken.
    claim_tier = [measurement for measurement in report.measurements if measurement.tier == "claim"]
    value = (claim_tier or list(report.measurements))[0].value
    # A lower bound is rounded down, so that no digit claims more than was shown.
    return "inf" if value == float("inf") else rounding.down(value, 6).replace(",", "")


def _assumed(measurements: Sequence[Measurement]) -> tuple[str, ...]:
    """Return what each tier rests on, once."""
    sentences = (
        f"{measurement.tier}: {line[:1].upper()}{line[1:].rstrip('.')}."
        for measurement in measurements
        for line in measurement.assumes
    )
    return tuple(dict.fromkeys(sentences))


def _text(report: AttackReport, folder: str) -> str:
    from ...audit.measurement import NOT_PROOF

    blocks = [_tier(tier, report) for tier in options.TIERS]
    parts = [block for block in blocks if block]
    parts.append(table(_rows(report, folder)))
    # Where nothing is contradicted, a reader must not take silence for a proof.
    if not report.contradicted:
        parts += [paragraph("note: ", NO_ACCUSATION)] if report.unusual else []
        parts.append(paragraph("note: ", NOT_PROOF))
    return "\n\n".join(parts)


def _tier(tier: str, report: AttackReport) -> str:
    """Return what one tier found: a line for each measurement, and what it proves."""
    measurements = [measurement for measurement in report.measurements if measurement.tier == tier]
    labels = [tier, *[""] * len(measurements)]
    lines = [
        f"{label:<{TIER_COLUMN_WIDTH}}{_line(measurement)}"
        for label, measurement in zip(labels, measurements, strict=False)
    ]
    # Tests are judged together, since their p-values are corrected for one another.
    if measurements and all(measurement.kind == "test" for measurement in measurements):
        return "\n".join([*lines, *_tests(measurements)])
    # Estimates prove nothing, so no sentence of proof follows them.
    if measurements and all(measurement.kind == "estimate" for measurement in measurements):
        lines.append(f"{'':<{TIER_COLUMN_WIDTH}}{_ESTIMATES}")
        return "\n".join(lines)
    for sentence in dict.fromkeys(measurement.proves for measurement in measurements):
        lines.append(paragraph(" " * TIER_COLUMN_WIDTH, sentence))
    return "\n".join(lines)


def _test_sample(measurement: Measurement) -> str:
    """Return of how many rounds and values the noise was tested."""
    from ...audit.residual.tier import ROUNDS_TESTED, VALUES_TESTED

    if ROUNDS_TESTED not in measurement.sample:
        return ""
    values, rounds = int(measurement.sample[VALUES_TESTED]), int(measurement.sample[ROUNDS_TESTED])
    return f" of {counted(values, 'value')} in {counted(rounds, 'round')}"


def _tests(measurements: Sequence[Measurement]) -> list[str]:
    """Return what several tests say together: of those that reject anything, or of all."""
    from ...audit.measurement import one_in

    failed = sum(measurement.contradicted for measurement in measurements)
    rare = sum(measurement.unusual for measurement in measurements)
    verdict = f"{failed:,} CONTRADICTED" if failed else "none is contradicted"
    verdict += f", {rare:,} unusual" if rare else ""
    # All tests of a tier share one confidence and one strict level.
    alpha, level = 1.0 - measurements[0].confidence, measurements[0].level
    limits = f"at {alpha:.6g} or less it is unusual (at most {one_in(alpha)} honest runs)."
    if level is not None:
        limits = (
            f"at {level:.6g} or less the log is contradicted (at most {one_in(level)} honest "
            f"runs), {limits}"
        )
    sentences = [
        "Each p-value is corrected for all of these tests: " + limits,
        *dict.fromkeys(
            measurement.proves
            for measurement in measurements
            if measurement.verdict != "not-contradicted"
        ),
    ]
    # With nothing rejected, one sentence says what passing means.
    sentences += [measurements[0].proves] if not (failed or rare) else []
    tests = f"{counted(len(measurements), 'test')}{_test_sample(measurements[0])}"
    lines = [f"{'':<{TIER_COLUMN_WIDTH}}{tests}: {verdict}"]
    return lines + [paragraph(" " * TIER_COLUMN_WIDTH, sentence) for sentence in sentences]


def _line(measurement: Measurement) -> str:
    """Return one measurement on a line: the value, what is claimed, and the verdict."""
    quantity = plain(measurement.quantity)
    if measurement.kind == "test":
        sentence = f"{plain(measurement.what)}: {quantity} {measurement.value:.3g}"
    elif measurement.kind == "estimate":
        sentence = f"{plain(measurement.what)}: {quantity} {measurement.value:.4g}"
        sentence += f"{_interval(measurement)}, an estimate"
    else:
        sentence = f"{quantity} at least {rounding.down(measurement.value)}"
        sentence += _any_mechanism_bound(measurement)
    # A claim is rounded up and a bound on the truth down: neither looks better than it is.
    if measurement.claimed is not None and measurement.kind == "estimate":
        sentence += f"; the claim allows {rounding.up(measurement.claimed)}"
    elif measurement.claimed is not None:
        sentence += f" of {rounding.up(measurement.claimed)} claimed"
    verdict = _verdict(measurement)
    if measurement.kind == "lower-bound":
        sentence += f", {_percent(measurement)} confidence: {verdict}"
    elif measurement.verdict != "not-contradicted":
        sentence += f": {verdict}"
    return sentence


def _verdict(measurement: Measurement) -> str:
    """Return what a result says of the claim, in the words of the screen."""
    from ...audit.measurement import unusual

    if measurement.contradicted:
        return "CONTRADICTED"
    if measurement.unusual:
        return unusual(1.0 - measurement.confidence, measurement.tier)
    return "nothing is claimed" if measurement.claimed is None else "not contradicted"


def _any_mechanism_bound(measurement: Measurement) -> str:
    """Return what a robust result shows of any mechanism, where that is another number."""
    from ...audit.measurement import ANY_MECHANISM

    bound = measurement.sample.get(ANY_MECHANISM)
    if not isinstance(bound, (int, float)):
        return ""
    return f" (any mechanism: {rounding.down(float(bound))})"


def _interval(measurement: Measurement) -> str:
    """Return the interval of an estimate, where it has one."""
    # The log of a stranger may hold anything, so only numbers count as ends.
    ends = [measurement.sample.get(name) for name in ("lower", "upper")]
    numbers = [end for end in ends if isinstance(end, (int, float))]
    return f" [{numbers[0]:.3g}, {numbers[1]:.3g}]" if len(numbers) == 2 else ""


def _percent(measurement: Measurement) -> str:
    return f"{100.0 * measurement.confidence:.6g}%"


def _rows(report: AttackReport, folder: str) -> list[tuple[str, str]]:
    from . import assumption_words

    claim = report.claim
    unit = claim.unit if claim.group == 1 else f"{claim.unit} of up to {claim.group:,} records"
    hidden = assumption_words.change(claim.neighbours, unit)
    if claim.epsilon is None:
        hidden = f"nothing is promised; measured is {hidden}"
    rows = [
        ("hides", f"{hidden}, at delta {rounding.as_given(claim.delta)}"),
        ("observer", plain(phrase(report.observer))),
    ]
    rows += anchors.rows(report.checked, report.signature, report.up_to)
    rows += [("skipped", f"{skipped.tier}: {plain(skipped.reason)}") for skipped in report.skipped]
    if report.appended:
        rows.append(("appended", f"{folder}/log.jsonl, {_lines(report.appended)}"))
        rows.append(("head", str(report.head)))
    if report.sealed_report is not None:
        rows.append(("sealed", f"{report.sealed_report}, never to be published"))
    return rows


def _lines(numbers: Sequence[int]) -> str:
    """Return numbers of lines that follow one another, as far as nobody else adds any."""
    if len(numbers) == 1:
        return f"line {numbers[0]}"
    return f"lines {numbers[0]} {'and' if len(numbers) == 2 else 'to'} {numbers[-1]}"
