"""What audits found, as it stands in a run's log: written once, and read with suspicion.

Numbers with a fraction are decimal strings, as in every record.  What may not be published goes to
the sealed sidecar, and the log holds one commitment to all of it.  The chain says that a result
stands there unchanged since it was written, not that it is true: whoever can add a line to a log
that is not signed can add any result.

Of results on private records the log has one line whatever comes of the attack, since a line only
where something was found would say so to everybody: a failure is sealed as a result is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, SupportsFloat, SupportsIndex

from ..accountant.decoding import decimal_number
from ..accountant.errors import InvalidInput, MissingExtra, Unsupported
from ..accountant.records import AuditResult
from ..accountant.records.field_codec import value_of
from ..fl.log.hash_chain import is_hash
from ..fl.log.reader import read
from ..fl.log.writer import LogWriter
from .measurement import NOT_PROOF, VERDICTS, Curve, Measurement, Tier

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


LOGGED_TIERS: Final = ("claim", "robust", "membership")
"""Tiers that a log may hold; the others are about what stands before the noise, or no run."""

SEALED_FIELD: Final = "sealed"
"""The one field of a result whose content stands in the sidecar."""

MAX_CURVE_POINTS: Final = 128
"""Most points of one curve that are written."""

_MAX_RESULT_CHARACTERS: Final = 2000
_MAX_ENTRIES: Final = 64
_MAX_DECIMAL_CHARACTERS: Final = 40
"""Longest text, most entries of a list and longest number that are read."""

_FIELDS: Final[Mapping[str, Any]] = {
    **dict.fromkeys(("tier", "what", "quantity", "kind", "unit", "neighbours"), str),
    **dict.fromkeys(("observer", "proves", "note"), str),
    **dict.fromkeys(("value", "confidence"), float),
    **dict.fromkeys(("claimed", "delta"), float | None),
    "contradicted": bool,
    "assumes": tuple[str, ...],
    "sample": Mapping[str, object],
    "curves": Mapping[str, tuple[tuple[float, ...], ...]],
}
"""The fields of a result and what they hold, as fields of records do."""

_LATER_FIELDS: Final[Mapping[str, Any]] = {"verdict": str, "level": float | None}
"""What results of earlier versions lack, both or none: they contradict at 1 - confidence."""


@dataclass(frozen=True)
class Result:
    """One `audit.result` of a log, in line `number`; its texts are whatever somebody wrote there.

    `measurement` is None where the content is `sealed` (then this is the commitment to it), or
    where it cannot be read: `problem` says why.
    """

    number: int
    tier: str
    measurement: Measurement | None = None
    sealed: str | None = None
    problem: str = ""


@dataclass(frozen=True)
class AppendedLines:
    """The lines that were added, by number, and the head of the log after them."""

    lines: tuple[int, ...]
    head: str


def append_results(
    folder: str | Path,
    measurements: Sequence[Measurement] = (),
    *,
    sealed: Sequence[Measurement] = (),
    sealed_tiers: Sequence[Tier] = (),
    key: Ed25519PrivateKey | None = None,
) -> AppendedLines:
    """Add what was measured to the log of a run, closed or not, each as an `audit.result`.

    `sealed` are measurements that may not be published: the log gets one line for each of their
    tiers, a hiding commitment, and the sidecar the content, as the item `audit.TIER`; for one in
    `sealed_tiers` also where nothing was measured.  The whole chain is checked first; each line is
    on the disk before the next, so a crash leaves a log that holds some of the results, or a torn
    last line.

    Raises `InvalidInput` for tiers that do not belong in a log, before anything is written, and as
    `LogWriter.reopen`; `LogBroken` where the log cannot be written.
    """
    for named in (*(each.tier for each in (*measurements, *sealed)), *sealed_tiers):
        if named not in LOGGED_TIERS:
            raise InvalidInput(
                f"A result of the tier {named!r} does not belong in a log.",
                f"A log may hold {', '.join(LOGGED_TIERS)}; a residual was seen before the noise.",
                "Keep it in a sealed report.",
            )
    records = [AuditResult(measurement.tier, encoded(measurement)) for measurement in measurements]
    hidden: dict[str, list[object]] = {tier: [] for tier in sealed_tiers}
    for measurement in sealed:
        hidden.setdefault(measurement.tier, []).append(encoded(measurement))
    # Everything is encoded before the log is opened: a result that is refused writes nothing.
    with LogWriter.reopen(folder, key=key) as writer:
        for tier, content in hidden.items():
            commitment = writer.seal({f"audit.{tier}": content})[f"audit.{tier}"]
            records.append(AuditResult(tier, {SEALED_FIELD: commitment}))
        lines = tuple(writer.append(record) + 1 for record in records)
        return AppendedLines(lines, writer.head or "")


def measurements_in(folder: str | Path) -> tuple[Measurement, ...]:
    """Return every measurement that can be read in the log of a folder, in its order.

    Raises `BadLine` for a bad log, `InvalidInput` where there is none.
    """
    readable = (result.measurement for result in results_in(folder))
    return tuple(measurement for measurement in readable if measurement is not None)


def results_in(folder: str | Path) -> tuple[Result, ...]:
    """Return every `audit.result` in the log of a folder, those that cannot be read too.

    Raises `BadLine` for a bad log, `InvalidInput` where there is none.
    """
    return tuple(
        result_of(line.record, line.number)
        for line in read(folder)
        if isinstance(line.record, AuditResult)
    )


def result_of(record: AuditResult, number: int = 0) -> Result:
    """Return what a record says; a result that is forged or absurd becomes a `problem`."""
    tier, source = record.tier[:_MAX_DECIMAL_CHARACTERS], record.result
    if set(source) == {SEALED_FIELD} and is_hash(source[SEALED_FIELD]):
        return Result(number, tier, sealed=str(source[SEALED_FIELD]))
    try:
        if record.tier not in LOGGED_TIERS:
            raise InvalidInput(f"A result of the tier {tier!r} does not belong in a log.")
        measurement = decoded(source)
        if measurement.tier != record.tier:
            raise InvalidInput("Its tier and that of its content differ.")
    except InvalidInput as error:
        return Result(number, tier, problem=error.what)
    return Result(number, tier, measurement)


def encoded(measurement: Measurement) -> dict[str, object]:
    """Return the JSON of a measurement as a log holds it.

    Curves are thinned to `MAX_CURVE_POINTS` points, their ends kept.  Raises `InvalidInput` for
    what `decoded` would refuse.
    """
    content: dict[str, object] = {}
    for name, value in measurement.to_json().items():
        content[name] = _written(value, name)
    content["curves"] = {
        name: [[_written(float(part), name) for part in point] for point in _thinned(curve)]
        for name, curve in measurement.curves.items()
    }
    decoded(content)
    return content


def decoded(source: Mapping[str, object]) -> Measurement:
    """Return the measurement that a log holds.

    A text in `sample` that is the shortest decimal form of a number is that number.  A result of an
    earlier version has no verdict and no level, and reads as it did.  Raises
    `InvalidInput` for anything that `encoded` does not write: unknown or missing fields, numbers
    that are none or out of range, long texts, rates outside of [0, 1].
    """
    later = source.keys() & _LATER_FIELDS.keys()
    known = {**_FIELDS, **_LATER_FIELDS}
    if source.keys() - later != _FIELDS.keys() or later not in (set(), _LATER_FIELDS.keys()):
        strange = sorted(str(name)[:_MAX_DECIMAL_CHARACTERS] for name in source.keys() ^ known)
        raise InvalidInput(f"Its fields are not those of a measurement: {', '.join(strange[:5])}.")
    given: dict[str, Any] = {name: _field(name, known[name], source[name]) for name in source}
    if given.pop("note") != NOT_PROOF:
        raise _refused("note", "the sentence that a low value is not proof of privacy")
    given["sample"] = {name: _sampled(size) for name, size in given["sample"].items()}
    points = [point for curve in given["curves"].values() for point in curve]
    if not all(len(point) == 2 and all(0.0 <= part <= 1.0 for part in point) for point in points):
        raise _refused("curves", "lists of pairs of rates in [0, 1]")
    if given["claimed"] is not None and given["claimed"] < 0.0:
        raise _refused("claimed", "a number, 0 or above")
    contradicted = given["contradicted"]
    verdict = given.pop("verdict", "contradicted" if contradicted else VERDICTS[-1])
    if verdict not in VERDICTS or (verdict == "contradicted") != contradicted:
        raise _refused("verdict", f"one of {', '.join(VERDICTS)}, as `contradicted` says")
    return Measurement(unusual=verdict == "unusual", **given)


def _written(value: object, name: str) -> object:
    """Return a value as JSON has it, every number with a fraction as a decimal string."""
    if value is None or isinstance(value, (bool, str)):
        return value
    if hasattr(value, "tolist"):  # an array or a scalar of numpy
        return _written(value.tolist(), name)
    if isinstance(value, SupportsIndex):
        return int(value)
    if isinstance(value, SupportsFloat):
        return repr(float(value))
    if isinstance(value, Mapping):
        return {str(key): _written(element, name) for key, element in value.items()}
    if isinstance(value, (list, tuple)):
        return [_written(element, name) for element in value]
    raise _refused(name, "a text, a number, or a list or an object of these")


def _thinned(curve: Curve) -> Curve:
    if len(curve) <= MAX_CURVE_POINTS:
        return curve
    # Equal steps over the indices, so both ends of the curve stay.
    step = (len(curve) - 1) / (MAX_CURVE_POINTS - 1)
    return tuple(curve[round(index * step)] for index in range(MAX_CURVE_POINTS))


def _field(name: str, hint: Any, source: object) -> object:
    """Return what a field holds; no text, list or object of it is longer than results are."""
    try:
        value = value_of(hint, source, name)
    except InvalidInput as error:
        raise InvalidInput(f"`{name}` of a measurement: {error.what}") from None
    most = MAX_CURVE_POINTS if name == "curves" else _MAX_ENTRIES
    if not _is_short(value, most, 3):
        raise _refused(
            name,
            f"at most {most} entries, and texts of at most {_MAX_RESULT_CHARACTERS} characters",
        )
    return value


def _is_short(value: object, most: int, levels: int) -> bool:
    if isinstance(value, str):
        return len(value) <= _MAX_RESULT_CHARACTERS
    if not levels or not isinstance(value, (tuple, Mapping)):
        return True
    parts = (*value, *value.values()) if isinstance(value, Mapping) else value
    return len(value) <= most and all(_is_short(part, most, levels - 1) for part in parts)


def _sampled(value: object) -> float | int | str:
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63:
        return value
    if not isinstance(value, str):
        raise _refused("sample", "of texts and numbers")
    number = decimal_number(value)
    shortest = number is not None and repr(number) == value and not math.isnan(number)
    return number if number is not None and shortest else value


def _refused(name: str, allowed: str) -> InvalidInput:
    return InvalidInput(f"`{name}` of a measurement must be {allowed}.")


def sealed_whatever_is_found(
    tier: Tier,
    find: Callable[[], Sequence[Measurement]],
    folder: Path,
    *,
    append: bool,
    key: Ed25519PrivateKey | None,
) -> tuple[tuple[Measurement, ...], tuple[int, ...]]:
    """Return what `find` returns, and the lines that were added to the log of a folder.

    With `append` that is one line, a commitment, also where `find` raises.  What it raises goes
    on.  `Unsupported` and `MissingExtra` follow from settings and surroundings: they add none.
    """
    try:
        measured = tuple(find())
    except (Unsupported, MissingExtra):
        raise
    except Exception as error:  # whatever the records make of it
        if append:
            lines = append_results(folder, sealed_tiers=(tier,), key=key).lines
            if isinstance(error, InvalidInput):
                told = f"The log does not say so: its line {lines[0]} is a commitment."
                raise InvalidInput(
                    error.what, f"{error.why} {told}".strip(), error.next_step
                ) from None
        raise
    if not append:
        return measured, ()
    return measured, append_results(folder, sealed=measured, sealed_tiers=(tier,), key=key).lines
