"""A number as it is printed: its value, and how far the last digit leaves it open."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

from ...accountant.errors import InvalidInput


@dataclass(frozen=True)
class PrintedNumber:
    """A finite number with `half_unit`, half of its last printed digit (0 where it is exact).

    Whoever printed `1.19` had a number of at most 1.195 before them; `highest` is that number.

    >>> PrintedNumber.of(epsilon=Decimal("1.19")).highest
    1.195
    >>> PrintedNumber.of(epsilon="1.19").highest, PrintedNumber.of(epsilon=3).highest
    (1.19, 3.0)
    """

    value: float
    half_unit: float = 0.0

    @property
    def highest(self) -> float:
        """Return the largest number that is printed so."""
        return float(Decimal(repr(self.value)) + Decimal(repr(self.half_unit)))

    @property
    def lowest(self) -> float:
        """Return the smallest number that is printed so."""
        return float(Decimal(repr(self.value)) - Decimal(repr(self.half_unit)))

    @classmethod
    def of(cls, **field: object) -> PrintedNumber:
        """Return the number of a field: a `Decimal` is open by its last digit, others are exact.

        Strings are read as decimals, and are exact, as integers and floats are.  Raises
        `InvalidInput` for what is no finite number, 0 or above.
        """
        ((name, value),) = field.items()
        if isinstance(value, PrintedNumber):
            return value
        number: Decimal | None = None
        if isinstance(value, (Decimal, str, int, float)) and not isinstance(value, bool):
            try:
                number = Decimal(str(value)) if not isinstance(value, Decimal) else value
            except InvalidOperation:
                number = None
        if number is None or not number.is_finite() or number < 0 or float(number) == float("inf"):
            raise InvalidInput(
                f"`{name}` must be a finite number, 0 or above; it is {value!s:.60}.",
                "A claim without a number cannot be checked.",
                f"Give `{name}` as it is printed, such as 1.19.",
            )
        exponent = number.as_tuple().exponent
        half = Decimal(0)
        # A decimal without decimal places (1e1) says nothing of where it was rounded.
        if isinstance(value, Decimal) and isinstance(exponent, int) and exponent < 0:
            half = Decimal(5).scaleb(exponent - 1)
        return cls(float(number), float(half))
