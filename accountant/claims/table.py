"""The table of claims: every row of every system, computed when it is asked for.

A row is one published privacy number next to what can be proven, and the rule that judges it.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from .. import validate
from ..errors import InvalidInput
from ..nearest_names import nearest


@dataclass(frozen=True)
class Noise:
    """The standard deviation of noise in a stated unit, and the epsilon that it proves.

    `deviation` is that of the noise on each number, in multiples of `length`: a clipping radius,
    whose symbol and meaning it gives ("r, the radius of a tensor").  Two deviations can only be
    compared where their lengths are the same.  `way` says how the noise is drawn or sized;
    `published` is whether a text or a program has it so.

    `proven` is an upper bound on epsilon at `delta` for one `unit` under `neighbours`, against
    `observer`; it is infinite where no finite number holds.

    Raises `InvalidInput` for numbers out of range, and for a length without a symbol and a meaning.
    """

    system: str
    setting: str
    way: str
    deviation: float
    length: str
    unit: str
    neighbours: str
    observer: str
    delta: float
    proven: float
    published: bool

    def __post_init__(self) -> None:
        validate.positive(deviation=self.deviation)
        validate.open_probability(delta=self.delta)
        # nan fails the comparison, too.
        if not self.proven >= 0.0:
            raise InvalidInput(
                f"`proven` must be a number, 0 or above; it is {self.proven!r}.",
                "It is an upper bound on epsilon, and infinite where nothing is proven.",
                "Compute it with `account`.",
            )
        symbol, comma, meaning = self.length.partition(", ")
        if not (symbol and comma and meaning):
            raise InvalidInput(
                f"`length` must be a symbol, a comma and what it means; it is {self.length!r}.",
                "Noise without its unit is a number without a meaning.",
                'Write "r, the radius of a tensor".',
            )

    @property
    def symbol(self) -> str:
        """The symbol of the length: `r` of "r, the radius of a tensor"."""
        return self.length.partition(", ")[0]


Verdict = Literal["proven", "loose", "unproven", "false", "no-guarantee"]

VERDICTS: Final[tuple[Verdict, ...]] = ("proven", "loose", "unproven", "false", "no-guarantee")
"""From the best news to the worst."""

LOOSE_CLAIM_FACTOR: Final = 1.05
"""A true claim within this factor of what is proven is `proven`; beyond, it is `loose`."""


@dataclass(frozen=True)
class Claim:
    """A number that a text prints, and where the truth lies.

    `claimed` is the number as the published formula gives it, in full; `printed` how the text
    writes it, empty where the text only plots it or leaves it to be computed.  Both are only
    ever compared: nothing is derived from them.  The claim is about `quantity` (epsilon, unless
    said otherwise) at slack `delta`, for one `unit` under the relation `neighbours`, against
    `observer`.

    `proven` is an upper bound on the truth: None where none is known, infinite where it is known
    that no finite number holds.  `lower` is a number that the truth is not below: None where
    none is known.  `why` is one sentence; `source` says where the claim stands.

    Raises `InvalidInput` for numbers out of range, and where `lower` exceeds `proven`.
    """

    system: str
    setting: str
    unit: str
    neighbours: str
    observer: str
    claimed: float
    delta: float
    proven: float | None
    lower: float | None
    why: str
    source: str
    printed: str = ""
    quantity: str = "epsilon"

    def __post_init__(self) -> None:
        validate.non_negative(claimed=self.claimed)
        validate.probability(delta=self.delta)
        # nan fails the comparison, too.
        for name in ("proven", "lower"):
            value = getattr(self, name)
            if value is not None and not value >= 0.0:
                raise InvalidInput(f"`{name}` must be a number, 0 or above; it is {value!r}.")
        if self.proven is not None and self.lower is not None and self.lower > self.proven:
            raise InvalidInput(
                f"{self.system}, {self.setting}: the lower end {self.lower!r} lies above what is "
                f"proven, {self.proven!r}.",
                "Both cannot be true, so one of them is wrong.",
            )

    @property
    def verdict(self) -> Verdict:
        """What follows from the numbers; see `judge`."""
        return judge(self.largest, self.proven, self.lower)

    @property
    def largest(self) -> float:
        """The largest reading of the claim: as computed, or as printed after rounding."""
        try:
            return max(self.claimed, float(self.printed.replace(",", "")))
        except ValueError:
            return self.claimed


@dataclass(frozen=True)
class RowMaker:
    """Makes the rows of one system, whose claims stand in one `text`; `shared` are usual fields."""

    system: str
    text: str
    shared: Mapping[str, Any]

    def __call__(
        self,
        setting: str,
        claimed: float,
        proven: float | None,
        lower: float | None,
        why: str,
        place: str = "",
        **fields: Any,
    ) -> Claim:
        """Return a row; `place` says where in the text, `fields` replace what is shared."""
        return Claim(
            system=self.system,
            setting=setting,
            claimed=claimed,
            proven=proven,
            lower=lower,
            why=why,
            source=f"{self.text}, {place}" if place else self.text,
            **{**self.shared, **fields},
        )


def judge(claimed: float, proven: float | None, lower: float | None) -> Verdict:
    """Return the verdict on a claimed number, from an upper and a lower bound on the truth.

    `no-guarantee` if it is known that no finite number holds; `false` if the truth is known to
    lie above the claim; `unproven` if it is not known to lie at or below it; and of the claims
    that are true, `loose` if they lie more than the factor `LOOSE_CLAIM_FACTOR` above what is
    proven.

    >>> judge(1.0, math.inf, math.inf), judge(1.0, 2.0, 1.5), judge(1.0, 2.0, 0.5)
    ('no-guarantee', 'false', 'unproven')
    >>> judge(1.0, 0.5, 0.4), judge(1.0, 0.99, None), judge(1.0, None, None)
    ('loose', 'proven', 'unproven')
    """
    if proven is not None and math.isinf(proven):
        return "no-guarantee"
    if lower is not None and lower > claimed:
        return "false"
    if proven is None or proven > claimed:
        return "unproven"
    return "loose" if claimed > LOOSE_CLAIM_FACTOR * proven else "proven"


SYSTEMS: Final = ("uldp-fl", "flame", "disco", "fedpower", "delm")
"""The published systems, in the order of the table; each is a module here without its dash."""

Row = Callable[[], Claim]
"""Computes one row."""

NOISE_MODULES: Final[Mapping[str, str]] = {"disco": "disco"}
"""The systems whose noise is shown with its unit, and the module that holds it."""


def rows(system: str) -> Sequence[Row]:
    """Return the rows of one system, not computed yet; raise `InvalidInput` for another name."""
    # Loaded on request: a system's rows pull in engines that others do not need.
    module = importlib.import_module(f".{as_system(system).replace('-', '_')}", __package__)
    claims: Sequence[Row] = module.ROWS
    return claims


def table(system: str | None = None) -> tuple[Claim, ...]:
    """Return the claims of one system, or of all, computed now.

    Every `proven` and `lower` is computed by the library; see `Claim`.  Raises `InvalidInput`
    for a system that is not in `SYSTEMS`.
    """
    chosen = SYSTEMS if system is None else (system,)
    return tuple(row() for name in chosen for row in rows(name))


def noise(system: str) -> tuple[Noise, ...]:
    """Return the noise of one system with its units, computed now; empty where none is shown.

    Raises `InvalidInput` for a system that is not in `SYSTEMS`.
    """
    name = NOISE_MODULES.get(as_system(system))
    if name is None:
        return ()
    module = importlib.import_module(f".{name}", __package__)
    lines: Sequence[Callable[[], Noise]] = module.NOISE
    return tuple(line() for line in lines)


def as_system(system: str) -> str:
    """Return `system` if it is one of `SYSTEMS`; raise `InvalidInput` otherwise."""
    if system in SYSTEMS:
        return system
    close = nearest(str(system).lower(), SYSTEMS, least_ratio=0.4)
    raise InvalidInput(
        f"`system` must be one of {', '.join(SYSTEMS)}; it is {system!r}.",
        "These are the published systems whose numbers are recomputed here.",
        f"privplan claims {close}" if close else "privplan claims",
    )
