"""Numbers within a line of text: where they end, and whether they go on.

`noise_multiplier=2/3` is no 2, `num_steps=3,525` no 3 and `sample_rate=0.427 %` no 0.427.  What
goes on behind the digits is not worked out here: decimal commas and thousands look alike.
"""

from __future__ import annotations

import re
from typing import Final

NUMBER: Final = (
    r"[+-]?(?:\d{1,40}(?:\.\d{1,40})?|\.\d{1,40})(?:[eE][+-]?\d{1,6})?(?![\w.]*\d)"
    r"|[+-]?inf\b|nan\b"
)
"""A decimal, infinity or NaN; no digits may follow it in the same word."""

_ENDS_WORD: Final = re.compile(r"$|[\s,;:.!?)\]}(\[|\"'`<>\x1b]|\\[nrt]")
"""What may stand directly behind a number."""

_MORE_DIGITS: Final = r"[,'`]\s?[\[(+-]?\.?\d|:\d|[^\S\t\n]\d|\s{0,2}[-–—~]\s?\.?\d"
"""Thousands, decimal commas, lists, ratios and ranges."""

_OPERATOR: Final = r"\s{0,4}(?:[%‰/*^×·÷±+→⇒=~≈]|--?>|\(\s?(?:%|percent|thousands?|millions?)|<-)"

_UNIT: Final = (
    r"\s{1,4}(?:percent|per\s?cent|per\s?mille|hundred|thousand|million|billion|bn|dozen|[kmb]|x|"
    r"times|out\s+of|divided|multiplied|squared|minus|plus)\b(?!\s?[=:])"
)
"""Words that multiply or divide; before `=` a letter is a name."""

_CONNECTED: Final = r"\s{1,4}(?:to|in|of|per|over|or|and|then|until|by)\s+[~+-]?\.?\d"

_GOES_ON: Final = re.compile("|".join((_MORE_DIGITS, _OPERATOR, _UNIT, _CONNECTED)), re.IGNORECASE)


def goes_on(line: str, end: int) -> bool:
    """Return whether a number that ends at a position is only part of what is written.

    >>> [goes_on(text, 1) for text in ("3,525", "2/3", "5 %", "9k", "8 to 2", "1 - 2")]
    [True, True, True, True, True, True]
    >>> [goes_on(text, 1) for text in ("3, q=1", "2", "5)", "9 epochs", "8. Then", "1 - INFO")]
    [False, False, False, False, False, False]
    """
    return _ENDS_WORD.match(line, end) is None or _GOES_ON.match(line, end) is not None
