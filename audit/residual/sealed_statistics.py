"""The sealed statistics of a run's noise, each next to what the log says of the same release."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from ...accountant.errors import InvalidInput
from ...accountant.records import RoundIntent, RoundRelease, RunOpen
from ...fl.aggregation import clip_check, residuals
from ...fl.log import Line, Sidecar, read
from ..hazards.sidecar import require_fitting
from ..ledger import Entry, Ledger

JOINED: Final = "joined"
"""The sealed item that says how many units took part."""

SEALED_ITEMS: Final = (residuals.ITEM, clip_check.ITEM)
"""What every release with noise seals."""

_OF_ALL: Final = ("values", "n", "sums", "within_n")
_OF_EACH: Final = (
    *("fingerprints", "equal_sums", "zeros", "squares", "squares_n", "ks", "ks_n", "lag", "within"),
)
_SINCE_LATER: Final = ("earlier", "unordered")
"""Lists over silos that earlier versions did not seal."""
_OF_MANY: Final = frozenset(_OF_EACH) - {"fingerprints", "equal_sums"} | {"alike", "within_n"}
"""What is there for as many values as a statistic is kept of, and not for fewer."""

MAX_COUNT: Final = 2**53
"""Most values that are counted; a number that is larger was not counted by anybody."""

MAX_EARLIER: Final = 64
"""Most earlier residuals that one is compared with."""

COSINE_ROUNDING: Final = 1e-9
"""By how much a cosine that was computed in floats may be beyond 1."""


@dataclass(frozen=True)
class Angle:
    """The cosine of the angle between two residuals of `n` values each."""

    cosine: float
    n: int


@dataclass(frozen=True)
class ResidualStatistics:
    """Statistics of one residual: of the share of `silo`, or of the whole sum (None).

    `values` were there, `n` of them looked at, in `sums` sums; `squares` is the sum of squares of
    `squares_n` of them in units, None where they are too few to say more than how many they are.
    What earlier versions did not seal is None: `earlier` angles with residuals 2, 3, ... before,
    `unordered` fingerprints, and `of_sums`, the squares of the sums with the least and the most.
    """

    silo: int | None
    values: int
    n: int
    sums: int = 1
    equal_sums: int = 0
    fingerprint: str = ""
    squares: float | None = None
    squares_n: int = 0
    zeros: int = 0
    ks: float = 0.0
    ks_n: int = 0
    lag: Angle | None = None
    within: Angle | None = None
    earlier: tuple[Angle | None, ...] | None = None
    unordered: str | None = None
    of_sums: SumSquares | None = None


@dataclass(frozen=True)
class SumSquares:
    """The least and the largest sum of squares, in units, of single sums of `n` values each."""

    least: float
    most: float
    n: int


@dataclass(frozen=True)
class PartSquares:
    """The sum of squares, in units, of `n` values of one kind in the residual of a silo's share."""

    name: str
    silo: int
    squares: float
    n: int


@dataclass(frozen=True)
class Limits:
    """How near to their limits terms, sums and weights came; None where that was not looked at."""

    sum_off: float | None
    term_largest: float
    weight_largest: float | None


UNTESTED_FAMILIES: Final = ("none", "wishart")
"""Releases without noise, and with noise that promises nothing: there is nothing to hold it to."""


@dataclass(frozen=True)
class Release:
    """One release: what the log says of it, and what was sealed.

    `joined` is how many units took part, where that was sealed and rounds follow a schedule.
    """

    number: int
    intent: RoundIntent
    release: RoundRelease
    segment: str
    std: float
    shares: tuple[ResidualStatistics, ...]
    whole: ResidualStatistics | None
    arrived: tuple[int, ...]
    alike: Angle | None
    alike_silos: tuple[int, ...]
    limits: Limits
    parts: tuple[PartSquares, ...] = ()
    joined: int | None = None


@dataclass(frozen=True)
class Run:
    """All releases of a run that have noise, in their order."""

    opened: RunOpen
    releases: tuple[Release, ...]


def read_run(folder: str | Path) -> Run:
    """Return the sealed statistics of a run, after checking that they are what was committed to.

    Raises `LogBroken` for a log whose chain is broken, and `InvalidInput` where there is no log, no
    sidecar, one that does not belong to the log or does not open a commitment, no noise, or no
    statistics of it.
    """
    lines = list(read(folder))
    entries = [Entry(line.number, line.seq, line.record) for line in lines]
    opens = any(isinstance(entry.record, RunOpen) for entry in entries)
    sealed = require_fitting(Ledger.of(entries), folder) if opens else Sidecar.read(folder)
    unopened = sealed.unopened(folder)
    if unopened:
        raise InvalidInput(
            f"The sidecar of {folder} does not open {len(unopened):,} commitments of its log; the "
            f"first is `{unopened[0].name}` in line {unopened[0].number}: {unopened[0].why}.",
            "What is tested must be what the log committed to.",
            "Ask the owner of the run for the whole sidecar.",
        )
    opened = next((line.record for line in lines if isinstance(line.record, RunOpen)), None)
    noisy = list(_noisy(lines))
    if opened is None or not noisy:
        raise InvalidInput(
            f"No release in {folder} has noise that can be tested.",
            "The residual tier compares the noise that was drawn with the noise that was logged.",
            "Give the folder of a run that adds noise and has made a round.",
        )
    lacking = [
        (line.number, intent)
        for line, intent, release in noisy
        if not set(SEALED_ITEMS) <= set(release.sealed)
    ]
    if lacking:
        raise _unsealed(opened, lacking, len(noisy), folder)
    # By commitment, so that each release gets what it itself committed to.
    known = {item.commitment: item.value for item in sealed.items}
    releases = tuple(
        replace(
            _release(
                line.number, intent, release, [known[release.sealed[item]] for item in SEALED_ITEMS]
            ),
            joined=_joined(line.number, intent, known.get(release.sealed.get(JOINED, ""))),
        )
        for line, intent, release in noisy
    )
    return Run(opened, releases)


def _unsealed(
    opened: RunOpen, lacking: Sequence[tuple[int, RoundIntent]], noisy: int, folder: str | Path
) -> InvalidInput:
    """Return why there is nothing to test: by what the log itself states of who draws noise."""
    number, _ = lacking[0]
    if any(intent.contribution.terms == "message" for _, intent in lacking):
        return InvalidInput(
            f"This tier does not apply to {folder}: its noise is in single messages (line "
            f"{number}).",
            "Whoever sends a message draws its noise alone, and nothing of it is sealed.",
            "Use another tier: claim and robust look at what such noise hides.",
        )
    why = "An earlier version made this run, and what it left out cannot be tested."
    step = "Make the run again, or use another tier."
    if opened.as_published:
        why = "A method as published may keep none, and what it left out cannot be tested."
        step = "Use another tier."
    return InvalidInput(
        f"{len(lacking):,} of {noisy:,} releases in {folder} sealed no statistics of their noise; "
        f"the first stands in line {number}.",
        why,
        step,
    )


def _noisy(lines: Sequence[Line]) -> list[tuple[Line, RoundIntent, RoundRelease]]:
    intents = {line.seq: line.record for line in lines if isinstance(line.record, RoundIntent)}
    noisy = []
    for line in lines:
        if isinstance(line.record, RoundRelease):
            intent = intents[line.record.intent]  # the reader has checked that it is there
            if intent.noise.family not in UNTESTED_FAMILIES:
                noisy.append((line, intent, line.record))
    return noisy


def _release(
    number: int, intent: RoundIntent, release: RoundRelease, values: Sequence[object]
) -> Release:
    family, terms = intent.noise.family, intent.contribution.terms
    # Of Gram matrices Laplace noise is sealed as the normal numbers of its quantiles.  Of a few
    # values no statistic is sealed that would have to be of one law.
    few = release.values < residuals.MIN_VALUES
    if family != "gaussian" and (family, terms) != ("laplace", "gram") and not few:
        raise InvalidInput(
            f"Line {number} releases {family!r} noise, which has no residual test.",
            "The tests are made for Gaussian noise.",
            "Use another tier.",
        )
    try:
        return _release_from(number, intent, release, *values)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        raise _not_understood(number) from None


def _joined(number: int, intent: RoundIntent, value: object) -> int | None:
    """Return how many units joined a round of a block; None where nobody sealed that."""
    if intent.block is None or value is None:
        return None
    try:
        return _count(value)
    except ValueError:
        raise _not_understood(number) from None


def _not_understood(number: int) -> InvalidInput:
    return InvalidInput(
        f"What line {number} of the log sealed of its noise is not understood.",
        "Its statistics are not those that runs of this version seal.",
        "Use the version that made the run.",
    )


def _release_from(
    number: int, intent: RoundIntent, release: RoundRelease, noise: Any, limits: Any
) -> Release:
    whole, alike = noise.get("whole"), noise.get("alike")
    return Release(
        number=number,
        intent=intent,
        release=release,
        segment=str(noise["segment"]),
        std=_number(noise["std"]),
        shares=_shares(noise),
        whole=None if whole is None else _residual(whole, None),
        arrived=() if whole is None else tuple(_count(silo) for silo in whole["silos"]),
        alike=None if alike is None else _angle(alike["cosine"], noise["n"]),
        alike_silos=() if alike is None else _pair(alike["silos"]),
        limits=Limits(
            None if limits["sum_off"] is None else _number(limits["sum_off"]),
            _number(limits["term_largest"]),
            None if limits["weight_largest"] is None else _number(limits["weight_largest"]),
        ),
        parts=tuple(_parts(noise)),
    )


def _parts(noise: Mapping[str, Any]) -> Iterator[PartSquares]:
    """Yield the squares of each kind of values in each silo's share, where they have kinds."""
    silos = [_count(silo) for silo in noise["silos"]]
    for name, part in noise.get("parts", {}).items():
        n = _count(part["n"], least=residuals.MIN_VALUES, most=_count(noise["values"]))
        for silo, squares in zip(silos, part["squares"], strict=True):
            yield PartSquares(str(name), silo, _number(squares), n)


def _shares(noise: Mapping[str, Any]) -> tuple[ResidualStatistics, ...]:
    """Return each silo's residual, of statistics that are lists over silos."""
    silos = [_count(silo) for silo in noise["silos"]]
    single = {name: noise[name] for name in _OF_ALL if name in noise}
    lists = {name: noise[name] for name in _OF_EACH if name in noise}
    if any(len(values) != len(silos) for values in lists.values()):
        raise ValueError
    if silos and noise.keys() & _OF_MANY != (
        _OF_MANY if noise["n"] >= residuals.MIN_VALUES else set()
    ):
        raise ValueError  # a question that is not asked would seem to be answered
    lists |= {name: noise[name] for name in _SINCE_LATER if name in noise}
    of_sums = noise.get("of_sums")
    if of_sums is not None:
        lists |= {"least": of_sums["least"], "most": of_sums["most"]}
    if any(len(values) != len(silos) for values in lists.values()):
        raise ValueError
    return tuple(
        replace(
            _residual({**single, **{name: values[index] for name, values in lists.items()}}, silo),
            of_sums=None if of_sums is None else _of_sums(of_sums, index, noise),
        )
        for index, silo in enumerate(silos)
    )


def _of_sums(of_sums: Mapping[str, Any], index: int, noise: Mapping[str, Any]) -> SumSquares:
    """Return the extreme squares of the sums of one silo's residual."""
    n = _count(of_sums["n"], least=residuals.MIN_VALUES, most=_count(noise["values"]))
    return SumSquares(_number(of_sums["least"][index]), _number(of_sums["most"][index]), n)


def _pair(silos: Any) -> tuple[int, int]:
    first, second = silos
    return _count(first), _count(second)


def _residual(statistics: Mapping[str, Any], silo: int | None) -> ResidualStatistics:
    values, n, sums = (_count(statistics.get(name, 1)) for name in ("values", "n", "sums"))
    few = n < residuals.MIN_VALUES
    # All of a short residual is looked at, and of a long one at least half of `SAMPLE`.
    if not min(values, residuals.SAMPLE // 2) <= n <= values or not 1 <= sums <= n:
        raise ValueError
    return ResidualStatistics(
        silo=silo,
        values=values,
        n=n,
        sums=sums,
        equal_sums=_count(statistics.get("equal_sums", 0), most=sums - 1),
        fingerprint=str(statistics.get("fingerprints", "")),
        squares=None if few else _number(statistics["squares"]),
        squares_n=0 if few else _count(statistics["squares_n"], least=n, most=values),
        zeros=0 if few else _count(statistics["zeros"], most=values),
        ks=0.0 if few else _number(statistics["ks"], most=1.0),
        ks_n=0 if few else _count(statistics["ks_n"], least=n),
        lag=_angle(statistics.get("lag"), n),
        within=_angle(statistics.get("within"), statistics.get("within_n", 0)),
        earlier=_earlier(statistics.get("earlier"), n),
        unordered=None if statistics.get("unordered") is None else str(statistics["unordered"]),
    )


def _earlier(cosines: Any, n: int) -> tuple[Angle | None, ...] | None:
    if cosines is None:
        return None
    if not isinstance(cosines, list) or len(cosines) > MAX_EARLIER:
        raise ValueError
    return tuple(_angle(cosine, n) for cosine in cosines)


def _angle(cosine: Any, n: Any) -> Angle | None:
    if cosine is None:
        return None
    value = _number(cosine, least=-1.0 - COSINE_ROUNDING, most=1.0 + COSINE_ROUNDING)
    # Rounding beyond 1 is taken off; anything further was refused above.
    return Angle(min(1.0, max(-1.0, value)), _count(n, least=residuals.MIN_VALUES))


def _count(given: Any, *, least: int = 0, most: int = MAX_COUNT) -> int:
    """Return a number of things, which JSON has as an integer."""
    # `type(..) is int`: JSON's true would count as 1.
    if type(given) is not int or not least <= given <= most:
        raise ValueError
    return given


def _number(text: Any, *, least: float = 0.0, most: float = math.inf) -> float:
    """Return a number that is one; a statistic that is not, or is out of range, is no statistic."""
    value = float(text)
    if not least <= value <= most:
        raise ValueError
    return value
