"""What strict readers share: the nearest known name, closed lists of fields, decimal strings."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable
from typing import Final

from .errors import InvalidInput

MAX_DECIMAL_CHARACTERS: Final = 40
"""Most characters of a decimal string; the shortest form of a float has at most 24."""


def suggestion(
    word: object,
    known: Iterable[str],
    otherwise: str,
    form: str = "Did you mean `{}`?",
    cutoff: float = 0.6,
) -> str:
    """Return `form` with the known name that is nearest to `word`; `otherwise` if none is near.

    >>> suggestion("gausian", ("gaussian", "laplace"), "Known: gaussian, laplace.")
    'Did you mean `gaussian`?'
    """
    close = difflib.get_close_matches(str(word), list(known), n=1, cutoff=cutoff)
    return form.format(close[0]) if close else otherwise


def require_fields(
    given: Collection[str],
    known: Collection[str],
    where: str,
    *,
    optional: Collection[str] = (),
    why_closed: str = "",
    otherwise: str,
    if_missing: str = "",
) -> None:
    """Raise `InvalidInput` for the first field that is not known, else the first that is missing.

    The next step is the nearest known name or `otherwise`, and `if_missing` for a missing field.
    """
    for name in given:
        if name not in known:
            raise InvalidInput(
                f"`{where}` has an unknown field `{name:.60}`.",
                why_closed,
                suggestion(name, known, otherwise),
            )
    for name in known:
        if name not in given and name not in optional:
            raise InvalidInput(f"`{where}` lacks the field `{name}`.", next_step=if_missing)


def decimal_number(source: object) -> float | None:
    """Return the float of a decimal string; None for anything else, or too long a string."""
    if not isinstance(source, str) or len(source) > MAX_DECIMAL_CHARACTERS:
        return None
    try:
        return float(source)
    except ValueError:
        return None
