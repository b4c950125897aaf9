"""The noise of a published system, with the unit that it is counted in, beside what it proves."""

from __future__ import annotations

from dataclasses import dataclass

from .. import validate
from ..errors import InvalidInput


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
