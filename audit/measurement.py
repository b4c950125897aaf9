"""A measurement: one number, the tier that it belongs to, and what it proves.

    residual      is the noise that was drawn the noise that was logged?
    claim         is this mechanism no weaker than the one that is claimed?
    robust        what is lost at least, however what is seen of one unit depends on others?
    membership    how well people are told from strangers, on real data
    weakness      a published claim against a faithful simulation of its mechanism

They answer different questions, so no number is made of two tiers.  Whatever is measured is a
lower bound or an estimate of what is lost; nothing here is a guarantee.

An example run has such measurements next to what it claims and proves.  All of it is light, so that
what was kept is read without loading what runs and attacks.

**How seldom an attack accuses** a run that keeps its promise: two levels for every test.  One call
of `audit attack` contradicts a sound run with probability at most `CALL_ERROR_PROBABILITY`, 1 in
1,000, which the tiers that can accuse share as `STRICT_LEVELS` says.  Membership has no share: it
gives estimates, and an estimate contradicts nothing; asked for or not, it takes nothing from the
others. A tier that is taken alone keeps its share, so that three calls for a tier each accuse as
seldom as one call for all three.

Every test is made twice.  Rejected at its share, the run is contradicted; rejected at what is left
of alpha (1 - confidence) only, it is unusual: at most 1 sound run in 1 / alpha is.  Thresholds and
numbers of guesses are fixed for each level before the data are seen, by the level, the claim and a
part of the units that is not counted.  So either test alone is wrong with probability at most its
level, whatever the other one does: "contradicted" rests on the strict one alone.  Both are made on
the same canaries, and by the union bound anything at all is said of a sound run with probability
at most strict + rest = alpha.  For the same reason the larger of two lower bounds, one at either
level, is a lower bound with confidence 1 - alpha.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias, get_args

from ..accountant import validate
from ..accountant.errors import InvalidInput
from ..accountant.guarantee import as_neighbours

Tier = Literal["residual", "claim", "robust", "membership", "weakness"]
TIERS: Final[tuple[Tier, ...]] = get_args(Tier)

Kind = Literal["lower-bound", "estimate", "test"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)

Verdict = Literal["contradicted", "unusual", "not-contradicted"]
VERDICTS: Final[tuple[Verdict, ...]] = get_args(Verdict)

Curve: TypeAlias = tuple[tuple[float, float], ...]

ANY_MECHANISM: Final = "epsilon of any mechanism"
"""Where the `sample` of a robust result keeps what holds without a belief about the mechanism."""

NOT_PROOF: Final = (
    "A low value is not proof of privacy: it says that this attack found no more, "
    "and another one may."
)


@dataclass(frozen=True)
class Measurement:
    """One measured quantity, the claim that it is compared with, and what it proves.

    `value` is of `quantity` ("epsilon" unless said otherwise), at `delta` where that has one.
    `kind` says what the value is: a `lower-bound` on the truth that is wrong with probability at
    most 1 - `confidence`, an `estimate` without one, or a `test` whose value is a p-value.
    `claimed` is what it is compared with, None where nothing is claimed.  `contradicted` says that
    the claim is rejected at `level`: that happens to a sound run with probability at most that
    (see above; None where the level is 1 - `confidence`, as in results of earlier versions).
    `unusual` says that it is rejected at 1 - `confidence` only.  `proves` is one sentence,
    `assumes` what it rests on, `sample` how much was measured (canaries, guesses, models), by
    name.  `curves` are for plots: `trade-off` (false alarms, misses) and `roc` (false alarms,
    hits), rates in [0, 1].

    Range: `value` 0 or above, `confidence` and `level` in (0, 1), `delta` in [0, 1).  Raises
    `InvalidInput`, and refuses an estimate that contradicts anything, and a result that is both
    contradicted and unusual.
    """

    tier: Tier
    what: str
    value: float
    kind: Kind
    contradicted: bool
    proves: str
    observer: str
    unit: str
    neighbours: str
    claimed: float | None = None
    delta: float | None = None
    confidence: float = 0.95
    quantity: str = "epsilon"
    assumes: tuple[str, ...] = ()
    sample: Mapping[str, float | int | str] = field(default_factory=dict)
    curves: Mapping[str, Curve] = field(default_factory=dict)
    unusual: bool = False
    level: float | None = None

    def __post_init__(self) -> None:
        validate.choice(TIERS, tier=self.tier)
        validate.choice(KINDS, kind=self.kind)
        as_neighbours(self.neighbours)
        validate.open_probability(confidence=self.confidence)
        if self.delta is not None:
            validate.probability(delta=self.delta)
        if math.isnan(self.value) or self.value < 0.0:
            raise InvalidInput(f"`value` must be a number, 0 or above; it is {self.value!r}.")
        if self.level is not None:
            validate.open_probability(level=self.level)
        if self.contradicted and self.unusual:
            raise InvalidInput(
                "A result is contradicted or unusual, never both.",
                "Unusual is what is rejected at the weaker level only.",
                "Give one of them.",
            )
        if self.kind == "estimate" and (self.contradicted or self.unusual):
            raise InvalidInput(
                "An estimate contradicts nothing.",
                "It has no confidence of its own.",
                "Give a lower bound, or a test.",
            )

    @property
    def verdict(self) -> Verdict:
        """What the result says of the claim."""
        if self.contradicted:
            return "contradicted"
        return "unusual" if self.unusual else "not-contradicted"

    def to_json(self) -> dict[str, object]:
        """Return it as a JSON object, with the sentence that a low value proves nothing."""
        return {
            "tier": self.tier,
            "what": self.what,
            "quantity": self.quantity,
            "value": self.value,
            "kind": self.kind,
            "claimed": self.claimed,
            "contradicted": self.contradicted,
            "verdict": self.verdict,
            "level": self.level,
            "confidence": self.confidence,
            "delta": self.delta,
            "unit": self.unit,
            "neighbours": self.neighbours,
            "observer": self.observer,
            "proves": self.proves,
            "assumes": list(self.assumes),
            "sample": dict(self.sample),
            "curves": {
                name: [list(point) for point in curve] for name, curve in self.curves.items()
            },
            "note": NOT_PROOF,
        }


@dataclass(frozen=True)
class ExampleResult:
    """What a run claims, what its log proves before the same observer, and what was measured.

    `paper` is the published system that it stands for, `system` what was run, `as_published`
    whether it promises nothing.  `claimed` is None where nothing is claimed, `proven` infinite
    where no number holds.  `measured` is a lower bound that is wrong with probability at most
    1 - `confidence`, from `canaries` in a rehearsal; `contradicted` says that the claim is
    rejected.  All three are epsilon at `delta`.

    Range: `measured` 0 or above, `confidence` in (0, 1).  Raises `ValueError` outside of it.
    """

    paper: str
    system: str
    data: str
    rounds: int
    as_published: bool
    unit: str
    neighbours: str
    observer: str
    delta: float
    claimed: float | None
    proven: float
    measured: float
    confidence: float
    canaries: int
    contradicted: bool

    def __post_init__(self) -> None:
        # Written as what must hold, so that NaN fails it.
        if not (self.measured >= 0.0 and 0.0 < self.confidence < 1.0 and self.proven >= 0.0):
            raise ValueError("A value is 0 or above, and a confidence lies between 0 and 1.")


CALL_ERROR_PROBABILITY: Final = 0.001
"""How often one call contradicts a sound run, at most."""

STRICT_LEVELS: Final[Mapping[str, float]] = {"claim": 0.0004, "residual": 0.0004, "robust": 0.0002}
"""What each tier has of that."""


@dataclass(frozen=True)
class Levels:
    """At which probabilities a tier errs: `strict` to contradict, `rest` to call unusual."""

    strict: float
    rest: float


def levels_of(tier: str, alpha: float) -> Levels:
    """Return the levels of a tier, which sum to `alpha`.

    The strict one is the share of the tier, or half of `alpha` where that is less.  Range: `alpha`
    in (0, 1).

    >>> levels_of("claim", 0.0002)
    Levels(strict=0.0001, rest=0.0001)
    """
    strict = min(STRICT_LEVELS[tier], validate.open_probability(alpha=alpha) / 2.0)
    return Levels(strict, alpha - strict)


def one_in(probability: float) -> str:
    """Return a probability as people say it.

    >>> one_in(0.0004), one_in(0.05)
    ('1 in 2,500', '1 in 20')
    """
    return f"1 in {round(1.0 / probability):,}"


def unusual(alpha: float, tier: str) -> str:
    """Return what is said of a result that a tier rejects at `alpha` only.

    p-values of the residual tier reach the level, nearly; the others seldom do.

    >>> unusual(1.0 - 0.95, "claim")
    'unusual: at most one honest run in 20 looks like this'
    >>> unusual(1.0 - 0.95, "residual")
    'unusual: about one honest run in 20 looks like this'
    """
    often = "about" if tier == "residual" else "at most"
    return f"unusual: {often} one honest run in {round(1.0 / alpha):,} looks like this"
