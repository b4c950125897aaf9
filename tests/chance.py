"""What a statistical test accepts, from the rate of false alarms that its docstring states."""

from __future__ import annotations

from typing import Any, Final

FALSE_ALARM: Final = 1e-6
"""How often a sound program may fail a statistical test, over seeds; seeds are fixed besides."""


def limits(
    distribution: Any, *, looks: int = 1, false_alarm: float = FALSE_ALARM
) -> tuple[float, float]:
    """Return the ends between which `looks` statistics all lie, but with chance `false_alarm`.

    Args:
        distribution: The frozen scipy distribution of one statistic when the program is sound; for
            a p-value, `scipy.stats.uniform()`.
        looks: How many statistics of this distribution the test compares, in all its cases.
        false_alarm: The chance, over seeds, that any of them lies outside; half of it on each side.

    >>> from scipy import stats
    >>> low, high = limits(stats.norm())
    >>> round(low, 3), round(high, 3)
    (-4.892, 4.892)
    >>> limits(stats.binom(1000, .5), looks=20)
    (411.0, 589.0)
    """
    side = false_alarm / (2.0 * looks)
    return float(distribution.ppf(side)), float(distribution.isf(side))
