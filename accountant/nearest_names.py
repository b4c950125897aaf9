"""The known name nearest to a misspelt one: of a word, a keyword of a function, or a field."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable
from functools import wraps
from inspect import signature
from typing import Any, cast

from .decoding import FunctionT
from .errors import InvalidInput


def nearest(word: object, known: Iterable[str], *, least_ratio: float = 0.6) -> str | None:
    """Return the known name that is most like a word; None where none is.

    Likeness is twice the number of characters that match over that of all, see `difflib`.

    >>> nearest("gausian", ("gaussian", "laplace"))
    'gaussian'
    """
    close = difflib.get_close_matches(str(word), list(known), n=1, cutoff=least_ratio)
    return close[0] if close else None


def suggestion(word: object, known: Iterable[str], otherwise: str) -> str:
    """Return the question whether the nearest known name was meant; `otherwise` without one."""
    close = nearest(word, known)
    return otherwise if close is None else f"Did you mean `{close}`?"


def named_keywords(function: FunctionT) -> FunctionT:
    """Return the function with an error for a keyword it does not have, which names the nearest.

    >>> named_keywords(nearest)("laplac", knwon=["laplace"])
    Traceback (most recent call last):
    privplan.accountant.errors.InvalidInput: `nearest` has no `knwon`. Did you mean `known`?
    """
    known = tuple(signature(function).parameters)

    @wraps(function)
    def checked(*positional: Any, **keywords: Any) -> Any:
        for name in keywords:
            if name not in known:
                raise InvalidInput(
                    f"`{function.__name__}` has no `{name}`.",
                    next_step=suggestion(name, known, f"Give one of {', '.join(known)}."),
                )
        return function(*positional, **keywords)

    return cast(FunctionT, checked)


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
                f"`{where}` has an unknown field `{name!s:.60}`.",
                why_closed,
                suggestion(name, known, otherwise),
            )
    for name in known:
        if name not in given and name not in optional:
            raise InvalidInput(f"`{where}` lacks the field `{name}`.", next_step=if_missing)
