"""The residual tier: is the noise that was drawn the noise that was logged?

Every question has a p-value, corrected for all of them together: for any level, a sound run has one
at or below it with probability at most that level.  So one set of p-values serves both levels of
`audit.measurement`: up to the strict one the log is contradicted, up to alpha it is unusual.  What
is found rests on what was there before the noise, so it is for a trusted auditor, and the sealed
report.

The sealed report is what a trusted auditor measured behind the noise, for nobody else's eyes.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

from ...accountant import validate
from ...accountant.decoding import parsed_json
from ...accountant.errors import InvalidInput
from ...accountant.records import RunOpen
from ...accountant.regular_file import regular_content
from ...fl.aggregation.residuals import EARLIER
from ...fl.files import atomic
from ...fl.log import Line, read
from ..measurement import STRICT_LEVELS, Measurement
from . import exact_tests, noise_tests
from .noise_tests import NoiseTest
from .p_values import holm
from .sealed_statistics import Run, read_run

AUDITOR: Final = "auditor"
"""Who sees behind the noise."""

ROUNDS_TESTED: Final = "rounds tested"
VALUES_TESTED: Final = "values tested"
"""How much was there to test, with every answer; public numbers."""

Test: TypeAlias = Callable[[Run], NoiseTest | None]

TESTS_BY_CHANCE: Final[tuple[Test, ...]] = (
    noise_tests.variance,
    noise_tests.parts,
    noise_tests.shape,
    noise_tests.over_time,
    noise_tests.across_silos,
    exact_tests.zeros,
)

EQUAL_NOISE_SHARE: Final = 0.02
"""The part of alpha for noise that is equal by chance; the rest is for the questions above."""

CERTAIN_TESTS: Final[tuple[Test, ...]] = (
    exact_tests.norms,
    exact_tests.sums,
    exact_tests.weights,
    exact_tests.schedule,
    exact_tests.drawn,
)

ASSUMES: Final = (
    "The run computed these statistics itself: one that lies about them, or makes them anew, is "
    "not found.",
    "Of each residual 2,048 values at most were looked at, evenly spaced; for the variance 65,536, "
    "and for values without noise all of them.",
    "What values of one residual have to do with each other is not asked.",
)

COMPARED: Final = (
    f"Noise is compared, value by value, with that of the {EARLIER} rounds before, and within a "
    "round; of older noise only what is equal as a whole is found, in whatever order and with "
    "whatever signs where a silo's noise has 65,536 values at most, and only where one process "
    "made both."
)

COMPARED_WITH_THE_LAST: Final = (
    "Noise is compared with the round before, and within a round; of older noise only what is "
    "equal as a whole is found, and only where one process made both: an earlier version, which "
    "sealed no more, made some of the rounds."
)


def residual_tier(folder: str | Path, *, alpha: float = 0.05) -> tuple[Measurement, ...]:
    """Return what the sealed statistics of a run's noise say, one measurement for each question.

    The value of each is a p-value, adjusted for all of them (Holm 1979): the log is contradicted
    where it is at most .0004, or `alpha` if that is less, and unusual where it is at most `alpha`.
    Over all questions that happens to a sound run with probability at most .0004, and `alpha`.  For
    a trusted auditor: none of it may be published.

    Range: `alpha` in (0, 1).  Raises `LogBroken` for a broken chain, and `InvalidInput` where there
    is no sidecar, where it does not open what the log committed to, and for runs without noise or
    without statistics of it.
    """
    return judged(read_run(folder), validate.open_probability(alpha=alpha))


def judged(run: Run, alpha: float) -> tuple[Measurement, ...]:
    """Return what the sealed statistics of a run say; see `residual_tier`."""
    by_chance = [answer for test in TESTS_BY_CHANCE if (answer := test(run)) is not None]
    if not by_chance:
        raise InvalidInput(
            "No residual of this run has as many values as a statistic is kept of.",
            "Statistics of a few values of noise would give the noise away.",
            "Use another tier, or a larger model.",
        )
    # Holm over the tests by chance, at the share of alpha that equal noise leaves.
    adjusted = [
        min(1.0, p / (1.0 - EQUAL_NOISE_SHARE)) for p in holm([test.p for test in by_chance])
    ]
    equal = exact_tests.equal(run)
    certain = [answer for test in CERTAIN_TESTS if (answer := test(run)) is not None]
    answers = [
        *zip(by_chance, adjusted, strict=True),
        (equal, min(1.0, equal.p / EQUAL_NOISE_SHARE)),
        *((answer, answer.p) for answer in certain),
    ]
    return tuple(_measured(run, answer, p, alpha) for answer, p in answers)


def _measured(run: Run, answer: NoiseTest, p: float, alpha: float) -> Measurement:
    claim = run.opened.claim
    # One p-value serves both levels: contradicted at the strict one, unusual at alpha.
    strict = min(STRICT_LEVELS["residual"], alpha)
    wrong = p <= strict
    rare = not wrong and p <= alpha
    return Measurement(
        tier="residual",
        what=answer.what,
        value=p,
        kind="test",
        contradicted=wrong,
        unusual=rare,
        level=strict,
        proves=answer.proves if wrong else _by_chance(alpha) if rare else NO_EVIDENCE,
        observer=AUDITOR,
        unit=claim.unit,
        neighbours=claim.neighbours,
        confidence=1.0 - alpha,
        quantity="p-value",
        assumes=(*ASSUMES, _compared(run), *_left_out(run)),
        sample={"p before correction": answer.p, **answer.sample, **_tested(run)},
    )


def _tested(run: Run) -> dict[str, int]:
    """Return how many rounds there were to test, and how many values of their noise."""
    values = sum(share.values for release in run.releases for share in release.shares)
    return {ROUNDS_TESTED: len(run.releases), VALUES_TESTED: values}


def _compared(run: Run) -> str:
    shares = [share for release in run.releases for share in release.shares]
    last = any(share.earlier is None for share in shares if share.squares is not None)
    return COMPARED_WITH_THE_LAST if last else COMPARED


def _left_out(run: Run) -> tuple[str, ...]:
    """Return what must be known of rounds of several sums, of which not all are looked at."""
    looked_at = [
        (share.sums, release.intent.noise.draws)
        for release in run.releases
        for share in release.shares
        if release.intent.noise.draws > 1
    ]
    if not looked_at:
        return ()
    sums, draws = min(looked_at, key=lambda pair: pair[0] / pair[1])
    return (
        f"Of the {draws:,} sums of a round {sums:,} were looked at, evenly spaced, for all that is "
        "said of noise, and a few of them were made again: a fault in the others alone is not "
        "found.",
    )


NO_EVIDENCE: Final = (
    "Nothing was found against the log here; a fault too small for this many values may be there, "
    "and so may one too small for the values of its round, if only one round has it."
)


def _by_chance(alpha: float) -> str:
    return (
        f"At most one honest run in {round(1.0 / alpha):,} has a p-value so small in any of its "
        "tests; a fault would show in another run of these settings too."
    )


SEALED_REPORT: Final = "sealed-report.json"

_MAX_REPORT_BYTES: Final = 2**26

NOT_FOR_PUBLICATION: Final = (
    "Not to be published: what stands here was computed from what was there before the noise, and "
    "no guarantee holds against who reads it. That it was written, and how long it is, may tell of "
    "data as well."
)


def write_sealed_report(folder: str | Path, measurements: Sequence[Measurement]) -> Path:
    """Write measurements into the sealed report next to a run's log, and return its path.

    The file is readable for its owner only, and whole or absent.  Measurements of the same tiers
    that it held are replaced, those of other tiers of the same run are kept; of two audits at once,
    the second waits.  Raises `InvalidInput` for no measurements, for a report that is not this
    run's, and for a file that cannot be written; `LogBroken` for a log whose chain is broken.
    """
    given = [measurement.to_json() for measurement in measurements]
    if not given:
        raise InvalidInput("A sealed report needs a measurement.")
    lines = list(read(folder))
    run_id = _run_id(lines)
    path = Path(folder) / SEALED_REPORT
    tiers = {row["tier"] for row in given}
    try:
        with _locked(path.parent):
            # Read and replaced under the lock; written aside and renamed, whole or not at all.
            kept = [row for row in _previous(path, run_id) if row["tier"] not in tiers]
            report = {
                "note": NOT_FOR_PUBLICATION,
                "run_id": run_id,
                "head": lines[-1].hash,
                "measurements": [*kept, *given],
            }
            content = json.dumps(report, indent=2, sort_keys=True, allow_nan=True) + "\n"
            atomic.write(path, content.encode("utf-8"), private=True)
    except OSError as error:
        raise InvalidInput(
            f"{path} cannot be written: {error.strerror}.",
            next_step="Make room on the disk, or give yourself the right to write there.",
        ) from None
    return path


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the folder's lock: of two audits at once, each keeps the other's results."""
    import fcntl

    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _run_id(lines: Sequence[Line]) -> str:
    if not lines or not isinstance(lines[0].record, RunOpen):
        raise InvalidInput("A sealed report belongs to a run; this log holds none.")
    return lines[0].record.run_id


def _previous(path: Path, run_id: str) -> list[dict[str, Any]]:
    """Return the measurements of a report that is there already."""
    try:
        source = parsed_json(
            regular_content(path, _MAX_REPORT_BYTES, within=path.parent), parse_constant=float
        )
        rows, owner = list(source["measurements"]), source["run_id"]
        _ = [row["tier"] for row in rows]
    except FileNotFoundError:
        return []
    except (OSError, ValueError, KeyError, TypeError):
        raise _foreign(path, "cannot be read as one") from None
    if owner != run_id:
        raise _foreign(path, "is that of another run")
    return rows


def _foreign(path: Path, why: str) -> InvalidInput:
    return InvalidInput(
        f"{path} should be a sealed report, and {why}.",
        "It is not written over: nobody could say what was lost.",
        "Move it away.",
    )
