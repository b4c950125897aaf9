"""A fact as an option: `sampling.method=shuffled`."""

from __future__ import annotations

import re
import tomllib
from typing import Final

from ...accountant.errors import InvalidInput
from .fact import Reading
from .files import exact_decimal
from .keys import DOTTED, KEYS
from .printed_number import in_words
from .tables import reading_of_names, unknown_name

OPTION: Final = "--set"
EXAMPLE: Final = "Write --set KEY=VALUE, such as --set sampling.method=shuffled."
BARE_NUMBER: Final = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
MAX_OPTION_CHARACTERS: Final = 10_000


def reading_of_option(option: str) -> Reading:
    """Return what `KEY=VALUE` says of a run; the value is as in TOML, words without quotes.

    >>> reading_of_option("sampling.method=shuffled").facts["sampling.method"].text()
    'stated (--set)'
    >>> reading_of_option("claim.epsilon=1.20").facts["claim.epsilon"].value.highest
    1.205
    """
    if len(option) > MAX_OPTION_CHARACTERS:
        raise InvalidInput(f"The value of {OPTION} is too long.", next_step=EXAMPLE)
    name, equals, text = option.partition("=")
    name, text = name.strip(), text.strip()
    if not equals or not name or not text:
        raise InvalidInput(f"{OPTION} {in_words(option)} gives no key a value.", next_step=EXAMPLE)
    name = DOTTED.get(name, name)
    if name not in KEYS:
        raise unknown_name(name, OPTION)
    try:
        value = _value(name, text)
    except InvalidInput as error:
        what = f"In {OPTION}: {error.what}"
        raise InvalidInput(what, error.why, error.next_step or EXAMPLE) from None
    return reading_of_names({name: value}, OPTION, format="options")


def _value(name: str, text: str) -> object:
    """Return a value as TOML has it; a word or a text may stand without quotes."""
    key = KEYS[name]
    is_quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "\"'"
    if (key.words or key.is_text) and not is_quoted:
        return text
    try:
        parsed = tomllib.loads(f"value = {text}", parse_float=exact_decimal)
    except InvalidInput:
        raise
    except (ValueError, RecursionError):
        return _bare_number(text)
    # A line break in the text would begin another key.
    return parsed["value"] if set(parsed) == {"value"} else text


def _bare_number(text: str) -> object:
    """Return a number that TOML writes otherwise, such as .5; or the text as it is."""
    return exact_decimal(text) if BARE_NUMBER.fullmatch(text) else text
