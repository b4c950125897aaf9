"""`privplan audit attack`: what was demonstrably lost, and was it the mechanism that is claimed?"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from ..accountant import rounding
from ..accountant.errors import counted
from ..fl.observers.names import observer_name
from ..fl.observers.words import phrase
from . import anchors, options
from .audit_log_command import Folder
from .output import Report, paragraph, plain, show, table

if TYPE_CHECKING:
    from ..audit.attack import Tell
    from ..audit.attack_report import Asked, AttackReport
    from ..audit.measurement import Measurement

TIERS: Final = ("claim", "robust", "residual", "membership")

Tiers = Annotated[
    list[str] | None,
    typer.Option(
        "--tier",
        metavar="[" + "|".join(TIERS) + "]",
        help="Take this tier; may be given several times.  Without: the first three, where they "
        "can be taken.",
        show_default=False,
    ),
]
Observer = Annotated[
    str | None,
    typer.Option(
        metavar="WHO", help="Whose view is taken; without: that of the claim.", show_default=False
    ),
]
Canaries = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        help="Units that are put in or left out by a coin; without: 50,000, or fewer where each "
        "costs more.",
        show_default=False,
    ),
]
Rounds = Annotated[
    int | None,
    typer.Option(metavar="N", help="Rehearse fewer rounds than planned.", show_default=False),
]
Seed = Annotated[
    int | None,
    typer.Option(
        metavar="N", help="Make the rehearsal reproducible; fix it beforehand.", show_default=False
    ),
]
Confidence = Annotated[
    float,
    typer.Option(
        metavar="C",
        help="Each number errs with probability 1 - C at most; membership, about.  How seldom a "
        "run is contradicted does not depend on it.",
    ),
]
Data = Annotated[
    Path | None,
    typer.Option(
        metavar="PATH",
        help="The run's records, which only membership reads.  A log names none.",
        show_default=False,
    ),
]
SignKey = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Ed25519 private key (PEM) of a log that is signed.",
        show_default=False,
    ),
]
DryRun = Annotated[
    bool, typer.Option("--no-append", "--dry-run", help="Leave the folder as it is.")
]

SECRET: Final = (
    "Results of the tier {tiers} were seen before the noise: keep this output and the exit code to "
    "yourself. They are not in the log."
)
NO_ACCUSATION: Final = "What is unusual may be chance, and is no accusation."
_ESTIMATES: Final = "These are estimates: they bound nothing, and contradict nothing."

_WIDTH: Final = 13
"""Columns before what a tier says."""

ASSUMPTIONS: Final = (
    "Claim and robust rehearse the run: its own settings once more, with canaries for users. That "
    "the rounds of the log were made so is the question of `privplan audit budget`.",
    "CONTRADICTED is said of an honest run at most once in 1,000 calls, over all tiers together; "
    "unusual, by each tier, at most as often as it says. Many attacks on one run say either more "
    "often.",
    "Each lower bound errs with the probability that it states, by itself; several tiers, or "
    "several attacks, err more often together.",
)


def attack(
    folder: Folder,
    tier: Tiers = None,
    observer: Observer = None,
    canaries: Canaries = None,
    rounds: Rounds = None,
    seed: Seed = None,
    confidence: Confidence = 0.95,
    data: Data = None,
    sign_key: SignKey = None,
    no_append: DryRun = False,
    public_key: anchors.PublicKey = None,
    head: anchors.ExpectedHead = None,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Measure how much privacy a run demonstrably loses, tier by tier.

    claim asks whether the mechanism is the one that is claimed, robust how much right guesses show
    however canaries depend on one another, residual judges the noise that was drawn (it opens the
    sealed sidecar), membership tells the run's own people from strangers.  What may be published is
    added to the log.  Exit code 1 if the claim is contradicted, which one honest run in 1,000 is at
    most; what is unusual leaves with 0, and a low value proves nothing.  --quiet prints the claim
    tier's number.
    """
    from ..audit.attack import attack as attacked
    from ..audit.attack_report import Asked
    from ..fl.running.signing_key import private_key

    for name in tier or ():
        options.word(TIERS, tier=name)
    if observer is not None:
        observer_name(observer=observer)
    asked = Asked(
        tiers=tuple(tier or ()),  # type: ignore[arg-type]
        observer=observer,
        canaries=canaries,
        rounds=rounds,
        seed=seed,
        confidence=confidence,
        data=data,
    )
    key = None if sign_key is None else private_key(sign_key, "--sign-key")
    given = anchors.expected(public_key, head)
    with _status(shown=not (as_json or quiet)) as tell:
        found = _with_command(
            attacked, folder, asked, append=not no_append, key=key, tell=tell, **given
        )
    show(_report(found, folder), as_json=as_json, quiet=quiet)


def _report(found: AttackReport, folder: str) -> Report:
    warnings = found.warnings
    if found.sealed_tiers:
        warnings = (SECRET.format(tiers=" and ".join(found.sealed_tiers)), *warnings)
    return Report(
        result=found.to_json(),
        text=_text(found, folder),
        number=_number(found),
        assumptions=(*ASSUMPTIONS, *_assumed(found.measurements)),
        warnings=warnings,
        ok=not found.contradicted,
    )


def _number(found: AttackReport) -> str:
    """Return the claim tier's number, or else the first one that was measured."""
    own = [one for one in found.measurements if one.tier == "claim"]
    value = (own or list(found.measurements))[0].value
    return "inf" if value == float("inf") else rounding.down(value, 6).replace(",", "")


def _assumed(measurements: Sequence[Measurement]) -> tuple[str, ...]:
    """Return what each tier rests on, once."""
    said = (
        f"{one.tier}: {line[:1].upper()}{line[1:].rstrip('.')}."
        for one in measurements
        for line in one.assumes
    )
    return tuple(dict.fromkeys(said))


def _text(found: AttackReport, folder: str) -> str:
    from ..audit.measurement import NOT_PROOF

    blocks = [_tier(tier, found) for tier in TIERS]
    parts = [block for block in blocks if block]
    parts.append(table(_rows(found, folder)))
    if not found.contradicted:
        parts += [paragraph("note: ", NO_ACCUSATION)] if found.unusual else []
        parts.append(paragraph("note: ", NOT_PROOF))
    return "\n\n".join(parts)


def _tier(tier: str, found: AttackReport) -> str:
    """Return what one tier found: a line for each measurement, and what it proves."""
    own = [one for one in found.measurements if one.tier == tier]
    labels = [tier, *[""] * len(own)]
    lines = [f"{label:<{_WIDTH}}{_line(one)}" for label, one in zip(labels, own, strict=False)]
    if own and all(one.kind == "test" for one in own):
        return "\n".join([*lines, *_tests(own)])
    if own and all(one.kind == "estimate" for one in own):
        lines.append(f"{'':<{_WIDTH}}{_ESTIMATES}")
        return "\n".join(lines)
    for said in dict.fromkeys(one.proves for one in own):
        lines.append(paragraph(" " * _WIDTH, said))
    return "\n".join(lines)


def _tested(one: Measurement) -> str:
    """Return of how many rounds and values the noise was tested."""
    from ..audit.residual.tier import ROUNDS, VALUES

    if ROUNDS not in one.sample:
        return ""
    values, rounds = int(one.sample[VALUES]), int(one.sample[ROUNDS])
    return f" of {counted(values, 'value')} in {counted(rounds, 'round')}"


def _tests(own: Sequence[Measurement]) -> list[str]:
    """Return what several tests say together: of those that reject anything, or of all."""
    from ..audit.levels import one_in

    failed = sum(one.contradicted for one in own)
    rare = sum(one.unusual for one in own)
    verdict = f"{failed:,} CONTRADICTED" if failed else "none is contradicted"
    verdict += f", {rare:,} unusual" if rare else ""
    alpha, level = 1.0 - own[0].confidence, own[0].level
    limits = f"at {alpha:.6g} or less it is unusual (at most {one_in(alpha)} honest runs)."
    if level is not None:
        limits = (
            f"at {level:.6g} or less the log is contradicted (at most {one_in(level)} honest "
            f"runs), {limits}"
        )
    said = [
        "Each p-value is corrected for all of these tests: " + limits,
        *dict.fromkeys(one.proves for one in own if one.verdict != "not-contradicted"),
    ]
    said += [own[0].proves] if not (failed or rare) else []
    lines = [f"{'':<{_WIDTH}}{counted(len(own), 'test')}{_tested(own[0])}: {verdict}"]
    return lines + [paragraph(" " * _WIDTH, one) for one in said]


def _line(one: Measurement) -> str:
    """Return one measurement on a line: the value, what is claimed, and the verdict."""
    quantity = plain(one.quantity)
    if one.kind == "test":
        said = f"{plain(one.what)}: {quantity} {one.value:.3g}"
    elif one.kind == "estimate":
        said = f"{plain(one.what)}: {quantity} {one.value:.4g}{_interval(one)}, an estimate"
    else:
        said = f"{quantity} at least {rounding.down(one.value)}{_anyway(one)}"
    if one.claimed is not None and one.kind == "estimate":
        said += f"; the claim allows {rounding.up(one.claimed)}"
    elif one.claimed is not None:
        said += f" of {rounding.up(one.claimed)} claimed"
    verdict = _verdict(one)
    if one.kind == "lower-bound":
        said += f", {_percent(one)} confidence: {verdict}"
    elif one.verdict != "not-contradicted":
        said += f": {verdict}"
    return said


def _verdict(one: Measurement) -> str:
    """Return what a result says of the claim, in the words of the screen."""
    from ..audit.levels import unusual

    if one.contradicted:
        return "CONTRADICTED"
    if one.unusual:
        return unusual(1.0 - one.confidence, one.tier)
    return "nothing is claimed" if one.claimed is None else "not contradicted"


def _anyway(one: Measurement) -> str:
    """Return what a robust result shows of any mechanism, where that is another number."""
    from ..audit.measurement import ANY_MECHANISM

    anyway = one.sample.get(ANY_MECHANISM)
    if not isinstance(anyway, (int, float)):
        return ""
    return f" (any mechanism: {rounding.down(float(anyway))})"


def _interval(one: Measurement) -> str:
    """Return the interval of an estimate, where it has one."""
    ends = [one.sample.get(name) for name in ("lower", "upper")]
    numbers = [end for end in ends if isinstance(end, (int, float))]
    return f" [{numbers[0]:.3g}, {numbers[1]:.3g}]" if len(numbers) == 2 else ""


def _percent(one: Measurement) -> str:
    return f"{100.0 * one.confidence:.6g}%"


def _rows(found: AttackReport, folder: str) -> list[tuple[str, str]]:
    from . import describe

    claim = found.claim
    unit = claim.unit if claim.group == 1 else f"{claim.unit} of up to {claim.group:,} records"
    hidden = describe.change(claim.neighbours, unit)
    if claim.epsilon is None:
        hidden = f"nothing is promised; measured is {hidden}"
    rows = [
        ("hides", f"{hidden}, at delta {rounding.as_given(claim.delta)}"),
        ("observer", plain(phrase(found.observer))),
    ]
    rows += anchors.rows(found.checked, found.signature, found.up_to)
    rows += [("skipped", f"{one.tier}: {plain(one.reason)}") for one in found.skipped]
    if found.appended:
        rows.append(("appended", f"{folder}/log.jsonl, {_lines(found.appended)}"))
        rows.append(("head", str(found.head)))
    if found.sealed_report is not None:
        rows.append(("sealed", f"{found.sealed_report}, never to be published"))
    return rows


def _lines(numbers: Sequence[int]) -> str:
    """Return numbers of lines that follow one another, as far as nobody else adds any."""
    if len(numbers) == 1:
        return f"line {numbers[0]}"
    return f"lines {numbers[0]} {'and' if len(numbers) == 2 else 'to'} {numbers[-1]}"


@contextmanager
def _status(*, shown: bool) -> Iterator[Tell | None]:
    """Show what is being done, on a terminal only; yield what is to be told."""
    if not (shown and sys.stderr is not None and sys.stderr.isatty()):
        yield None
        return
    from rich.console import Console

    with Console(stderr=True).status("reading the log") as status:
        yield lambda said: status.update(plain(said))


def _with_command(attacked: Any, folder: str, asked: Asked, **more: Any) -> AttackReport:
    """Attack, and name the command that installs what is missing."""
    from ..accountant.errors import MissingExtra
    from .doctor_command import install_command

    try:
        found: AttackReport = attacked(folder, asked, **more)
    except MissingExtra as error:
        raise type(error)(error.what, error.why, install_command("fl")) from None
    return found
