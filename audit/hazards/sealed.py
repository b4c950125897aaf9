"""What a trusted auditor sees in the sealed sidecar: whether samples were as stated.

What is found here was computed before the noise.  It is for the auditor alone: it is not written to
the log, and a report that holds it is not to be published.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ...accountant.errors import counted
from ...accountant.records import Noise, RoundIntent, RoundRelease
from ...fl.declarations.sealed_items import RESIDUALS
from ...fl.log import Sidecar
from ..derivation.correlated_rounds import beyond_schedule
from ..evidence.evidence import Evidence
from ..findings import UNTOUCHED_COPY, Match, rule
from ..ledger.entries import Ledger
from .sidecar import values_of

COUNT_ITEMS: Final = ("joined", "sampled")
"""Names of sealed items that say how many units joined a round."""

FLAG_ITEM: Final = "taking_part"
"""Name of the sealed item that says how many records may be drawn in each silo."""

SEALED_FALSE_ALARM: Final = 1e-6
"""How often an honest run is accused, over all of its rounds."""

_MIN_COUNT_VARIANCE: Final = 9.0
_MIN_ROUNDS_FOR_SPREAD: Final = 10
"""Below these the spread of counts is not judged, as its law is not near enough to chi-squared."""


@dataclass(frozen=True)
class SealedCheck:
    """How much of the sealed sidecar was tested: public numbers, and nothing of what it says.

    Of `released` rounds, `rounds` had an item that was opened; `values` items were opened in all,
    and `counts` of them were tested against the sampling rate, or a schedule.
    """

    released: int
    rounds: int
    values: int
    counts: int

    def to_json(self) -> dict[str, int]:
        """Return the check as a JSON object."""
        return {
            "released": self.released,
            "rounds": self.rounds,
            "values": self.values,
            "counts": self.counts,
        }


def sealed_check(evidence: Evidence, sidecar: Sidecar) -> SealedCheck:
    """Return how much of the sidecar of a log is tested."""
    known = values_of(sidecar)
    return SealedCheck(
        evidence.ledger.released,
        *_opened(evidence.ledger, known),
        sum(map(len, _drawn(evidence, known).values())) + len(_joined(evidence.ledger, known)),
    )


def _opened(ledger: Ledger, known: Mapping[str, object]) -> tuple[int, int]:
    """Return how many rounds have an item that the sidecar opens, and how many items it opens."""
    opened_items = [
        sum(commitment in known for commitment in release.sealed.values())
        for _, _, release in ledger.releases
    ]
    return sum(map(bool, opened_items)), sum(opened_items)


@rule(
    "rate-against-counts",
    why="The sample was not drawn as stated, so what it amplifies is not known.",
    next_step="Find out how units were drawn. Do not publish this finding: it was seen before the "
    "noise.",
)
def rate_against_counts(evidence: Evidence, sidecar: Sidecar) -> list[Match]:
    """Fire where an honest Poisson draw would hardly ever have the counts of samples.

    They are binomial: their sum is tested exactly, and their spread by chi-squared, each at half of
    `SEALED_FALSE_ALARM`.
    """
    drawn = _drawn(evidence, values_of(sidecar))
    judged = [_judged(size, rate, counts) for (size, rate), counts in drawn.items()]
    return [match for match in judged if match is not None]


def _drawn(
    evidence: Evidence, known: Mapping[str, object]
) -> dict[tuple[int, float], list[tuple[int, int]]]:
    """Return the line and the count of each Poisson sample that is opened, by size and rate."""
    drawn: dict[tuple[int, float], list[tuple[int, int]]] = {}
    for kind in evidence.kinds:
        sampling = kind.facts.sampling
        users = evidence.ledger.opened.population.users if sampling.of == "user" else None
        size = sampling.population or users
        if sampling.method != "poisson" or not size or not 0.0 < sampling.rate < 1.0:
            continue
        for spent in kind.spent:
            for number, release in spent.releases:
                count = _count(release.sealed, known)
                if count is not None:
                    drawn.setdefault((size, sampling.rate), []).append((number, count))
    return drawn


@rule(
    "joined-against-schedule",
    why="The event of a block counts on how far apart the rounds of one unit are.",
    next_step="Find out who took part. Do not publish this finding: it was seen before the noise.",
)
def joined_against_schedule(evidence: Evidence, sidecar: Sidecar) -> Match | None:
    """Fire where more units joined rounds of a block than its schedule allows."""
    users = evidence.ledger.opened.population.users
    lines = beyond_schedule(_joined(evidence.ledger, values_of(sidecar)), users)
    if not lines:
        return None
    return Match(
        f"More units joined {counted(len(lines), 'round')} of a block than take part once in its "
        f"turns, of {users:,} users.",
        lines,
    )


def _joined(ledger: Ledger, known: Mapping[str, object]) -> list[tuple[RoundIntent, int, int]]:
    """Return how many units joined each round of a block that is opened, with its line."""
    return [
        (spent.intent, number, count)
        for spent, number, release in ledger.releases
        if spent.intent.block is not None and (count := _count(release.sealed, known)) is not None
    ]


@rule(
    "flags-against-caps",
    why="Each silo is stated to choose from its own records alone, under public caps; then it "
    "holds no more, and a silo that holds records of a user may learn what lies elsewhere.",
    next_step="Find out how records were chosen. Do not publish this finding: it was seen before "
    "the noise.",
)
def flags_against_caps(evidence: Evidence, sidecar: Sidecar) -> Match | None:
    """Fire where more records of a silo take part than caps allow that are dealt to all silos.

    Records that each silo chose by itself, at most k of a user, are at most ceil(k / |S|) of every
    user there.
    """
    users, silos = evidence.ledger.opened.population.users, evidence.setting.silos
    most = -(-evidence.setting.group // max(silos, 1)) * users
    known = values_of(sidecar)
    bad = []
    for kind in evidence.kinds:
        if kind.facts.sampling.chosen_by != "each-silo" or evidence.setting.group == 1:
            continue
        for spent in kind.spent:
            for number, release in spent.releases:
                counts = known.get(release.sealed.get(FLAG_ITEM, ""))
                if counts is not None and not _within(counts, silos, most):
                    bad.append(number)
    if not bad:
        return None
    return Match(
        f"More records of some silo take part than {most:,}, which caps of {users:,} users allow.",
        tuple(bad),
    )


@rule(
    "other-noise",
    why="Noise that was drawn for other facts proves nothing about these.",
    next_step=UNTOUCHED_COPY,
)
def other_noise(evidence: Evidence, sidecar: Sidecar) -> Match | None:
    """Fire where noise was sealed of another width, or of other values, than the log states."""
    known = values_of(sidecar)
    lines = tuple(
        number
        for spent, number, release in evidence.ledger.releases
        if _differs(known.get(release.sealed.get(RESIDUALS, "")), spent.intent.noise, release)
    )
    if not lines:
        return None
    return Match(
        f"The noise of {counted(len(lines), 'round')} was sealed with another width, or for "
        "another number of values, than the log states.",
        lines,
    )


def _differs(value: object, noise: Noise, release: RoundRelease) -> bool:
    """Return whether what was sealed of the residuals names other facts; absent ones do not."""
    if not isinstance(value, Mapping):
        return False
    std, values, sums = (value.get(name) for name in ("std", "values", "sums"))
    if std is not None and std != repr(noise.share_std):
        return True
    count = 1 if sums is None else sums
    return values is not None and (type(count) is not int or values != release.values * count)


def _count(sealed: Mapping[str, str], known: Mapping[str, object]) -> int | None:
    for name in COUNT_ITEMS:
        value = known.get(sealed.get(name, ""))
        if isinstance(value, int) and not isinstance(value, bool):
            return value
    return None


def _within(counts: object, silos: int, most: int) -> bool:
    if not isinstance(counts, list) or len(counts) != silos:
        return False
    return all(isinstance(count, int) and 0 <= count <= most for count in counts)


def _judged(size: int, rate: float, counts: list[tuple[int, int]]) -> Match | None:
    """Return the hazard of counts that an honest Poisson draw would hardly ever have."""
    from scipy.special import bdtr, chdtr, chdtrc

    lines = tuple(number for number, _ in counts)
    total, draws = sum(count for _, count in counts), len(counts)
    if any(not 0 <= count <= size for _, count in counts):
        return _counted("are impossible", size, rate, lines)
    below = float(bdtr(total, size * draws, rate))
    above = 1.0 if total == 0 else 1.0 - float(bdtr(total - 1, size * draws, rate))
    if 2.0 * min(below, above) < SEALED_FALSE_ALARM / 2.0:
        return _counted(f"average {total / draws:.4g}", size, rate, lines)
    variance = size * rate * (1.0 - rate)
    if draws < _MIN_ROUNDS_FOR_SPREAD or variance < _MIN_COUNT_VARIANCE:
        return None
    spread = sum((count - size * rate) ** 2 for _, count in counts) / variance
    if (
        2.0 * min(float(chdtr(draws, spread)), float(chdtrc(draws, spread)))
        < SEALED_FALSE_ALARM / 2.0
    ):
        shown = (variance * spread / draws) ** 0.5
        return _counted(f"spread by {shown:.3g}", size, rate, lines)
    return None


def _counted(what: str, size: int, rate: float, lines: tuple[int, ...]) -> Match:
    mean, deviation = size * rate, (size * rate * (1.0 - rate)) ** 0.5
    return Match(
        f"Samples {what}; at rate {rate:g} of {size:,} they average {mean:.4g} and spread by "
        f"{deviation:.3g}.",
        lines,
    )
