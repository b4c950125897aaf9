"""What a trusted auditor sees in the sealed sidecar: whether samples were as stated.

What is found here was computed before the noise.  It is for the auditor alone: it is not written to
the log, and a report that holds it is not to be published.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ...accountant.records import Noise, RoundIntent, RoundRelease
from ...fl.declarations.sealed_items import RESIDUALS
from ...fl.log import Sidecar
from ..derivation.correlated_rounds import beyond_schedule
from ..evidence.evidence import Evidence
from ..ledger.entries import Ledger
from .rule import Hazard, rounds
from .sidecar import misfits

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


def sealed_hazards(
    evidence: Evidence, folder: str | Path
) -> tuple[tuple[Hazard, ...], SealedCheck]:
    """Return what the sidecar of a folder shows against its log, and how much of it was tested.

    An item must be of the release under which it is committed to (`sidecar.misfits`), and state the
    width and the values of the noise as the log does.  The counts of Poisson samples are binomial:
    their sum is tested exactly, and their spread by chi-squared, each at half of
    `SEALED_FALSE_ALARM`. Records that each silo is stated to have chosen by itself, at most k of a
    user, are at most ceil(k / |S|) of every user there.  The units of a block's rounds are at most
    all of them in its turns (`blocks.beyond_schedule`).  Raises `InvalidInput` where there is no
    sidecar, or where an item does not fit its own commitment.
    """
    sidecar = Sidecar.read(folder)
    known = {item.commitment: item.value for item in sidecar.items}
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
    hazards = [_judged(size, rate, counts) for (size, rate), counts in drawn.items()]
    joined = [
        (spent.intent, number, count)
        for spent in evidence.ledger.spent
        for number, release in spent.releases
        if spent.intent.block is not None and (count := _count(release.sealed, known)) is not None
    ]
    hazards.append(_too_often(joined, evidence.ledger.opened.population.users))
    hazards.append(_beyond_caps(evidence, known))
    hazards.append(_other_noise(evidence.ledger, known))
    hazards += misfits(evidence.ledger, sidecar, folder)
    check = SealedCheck(
        evidence.ledger.released,
        *_opened(evidence.ledger, known),
        sum(len(counts) for counts in drawn.values()) + len(joined),
    )
    return tuple(hazard for hazard in hazards if hazard is not None), check


def _opened(ledger: Ledger, known: Mapping[str, object]) -> tuple[int, int]:
    """Return how many rounds have an item that the sidecar opens, and how many items it opens."""
    opened_items = [
        sum(commitment in known for commitment in release.sealed.values())
        for spent in ledger.spent
        for _, release in spent.releases
    ]
    return sum(map(bool, opened_items)), sum(opened_items)


def _other_noise(ledger: Ledger, known: Mapping[str, object]) -> Hazard | None:
    """Return the hazard of noise of another width, or of other values, than the log states."""
    lines = tuple(
        number
        for spent in ledger.spent
        for number, release in spent.releases
        if _differs(known.get(release.sealed.get(RESIDUALS, "")), spent.intent.noise, release)
    )
    if not lines:
        return None
    return Hazard(
        "other-noise",
        "error",
        f"The noise of {rounds(len(lines))} was sealed with another width, or for another number "
        "of values, than the log states.",
        "Noise that was drawn for other facts proves nothing about these.",
        "Take the log from a copy that nobody has touched.",
        None,
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


def _beyond_caps(evidence: Evidence, known: Mapping[str, object]) -> Hazard | None:
    """Return the hazard of more records in a silo than caps allow that are dealt to all silos."""
    users, silos = evidence.ledger.opened.population.users, evidence.setting.silos
    most = -(-evidence.setting.group // max(silos, 1)) * users
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
    return Hazard(
        "flags-against-caps",
        "error",
        f"More records of some silo take part than {most:,}, which caps of {users:,} users allow.",
        "Each silo is stated to choose from its own records alone, under public caps; then it "
        "holds no more, and a silo that holds records of a user may learn what lies elsewhere.",
        "Find out how records were chosen. Do not publish this finding: it was seen before the "
        "noise.",
        None,
        tuple(bad),
    )


def _too_often(joined: list[tuple[RoundIntent, int, int]], users: int) -> Hazard | None:
    """Return the hazard of rounds of a block that more units joined than its schedule allows."""
    lines = beyond_schedule(joined, users)
    if not lines:
        return None
    return Hazard(
        "joined-against-schedule",
        "error",
        f"More units joined {rounds(len(lines))} of a block than take part once in its turns, of "
        f"{users:,} users.",
        "The event of a block counts on how far apart the rounds of one unit are.",
        "Find out who took part. Do not publish this finding: it was seen before the noise.",
        None,
        lines,
    )


def _within(counts: object, silos: int, most: int) -> bool:
    if not isinstance(counts, list) or len(counts) != silos:
        return False
    return all(isinstance(count, int) and 0 <= count <= most for count in counts)


def _judged(size: int, rate: float, counts: list[tuple[int, int]]) -> Hazard | None:
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


def _counted(what: str, size: int, rate: float, lines: tuple[int, ...]) -> Hazard:
    mean, deviation = size * rate, (size * rate * (1.0 - rate)) ** 0.5
    return Hazard(
        "rate-against-counts",
        "error",
        f"Samples {what}; at rate {rate:g} of {size:,} they average {mean:.4g} and spread by "
        f"{deviation:.3g}.",
        "The sample was not drawn as stated, so what it amplifies is not known.",
        "Find out how units were drawn. Do not publish this finding: it was seen before the noise.",
        None,
        lines,
    )
