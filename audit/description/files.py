"""A description as a file (TOML, or JSON, told apart by their content), and a fact as an option."""

from __future__ import annotations

import re
import tomllib
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from ...accountant.decoding import parsed_json
from ...accountant.errors import InvalidInput, kind_of
from ...accountant.toml_source import MAX_TOML_BYTES
from .keys import DOTTED, KEYS
from .printed_number import in_words
from .run_description import Reading
from .tables import reading_of_names, reading_of_tables, unknown_name

MAX_NUMBER_CHARACTERS: Final = 64
"""Most characters of a decimal; the shortest form of a float has at most 24."""

LARGEST_DECIMAL_EXPONENT: Final = 350
"""Floats end at 1e308, and at 1e-324."""

TOML_FORMAT: Final = "description in TOML"
JSON_FORMAT: Final = "description in JSON"
_PART: Final = r"(?:[\w-]++|\"[^\"\n]*+\"|'[^'\n]*+')[ \t]*+\.[ \t]*+"
LONG_CHAIN: Final = re.compile(rf"(?<![\w-])(?:{_PART}){{20}}")
"""A dotted key of more parts than any description has; the parser takes quadratic time for it."""

HELP: Final = "See: privplan explain check"


def read_description(content: bytes, source: str) -> Reading:
    """Return what a description says; `source` is the name of its file, for provenance.

    Decimals keep their digits, so that 1.20 is known to two places.  Raises `InvalidInput`, which
    names the source, for more than 1 MiB, text that is neither TOML nor a JSON object, numbers
    beyond every float, repeated keys, and all that `reading_of_tables` refuses.

    >>> reading = read_description(b"[claim]\\nepsilon = 1.20", "run.toml")
    >>> reading.facts["claim.epsilon"].value
    PrintedNumber(value=1.2, half_unit=0.005)
    """
    tables, format = description_tables(content, source)
    return reading_of_tables(tables, source, format=format)


def description_tables(content: bytes, source: str) -> tuple[dict[str, Any], str]:
    """Return the tables of a description, not yet checked, and the format they were in."""
    if len(content) > MAX_TOML_BYTES:
        raise InvalidInput(f"{source} is larger than 1 MiB.", "A description is short.", HELP)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InvalidInput(
            f"{source} is not UTF-8 text.", "A description is TOML or JSON.", HELP
        ) from None
    is_json = text.lstrip().startswith("{")
    name = "JSON" if is_json else "TOML"
    try:
        tables = _json_object(text) if is_json else _toml_tables(text)
    except InvalidInput as error:
        raise InvalidInput(f"In {source}: {error.what}", error.why, error.next_step) from None
    except RecursionError:
        raise InvalidInput(f"{source} is nested too deeply.", next_step=HELP) from None
    except ValueError as error:
        too_long = "integer string conversion" in str(error)
        reason = "An integer has too many digits" if too_long else in_one_line(str(error))
        raise InvalidInput(f"{source} is not {name}.", f"{reason}.", "Correct the line.") from None
    if not tables:
        raise InvalidInput(f"{source} says nothing.", "It has no table.", HELP)
    return tables, JSON_FORMAT if is_json else TOML_FORMAT


def exact_decimal(text: str) -> Decimal:
    """Return a decimal with all its digits; raises `InvalidInput` where no float is near it.

    Infinity and NaN are left to the check of the key, which names it.

    >>> exact_decimal("1.20"), exact_decimal("1_000.5")
    (Decimal('1.20'), Decimal('1000.5'))
    """
    if len(text) > MAX_NUMBER_CHARACTERS:
        raise InvalidInput(
            f"The number {text[:20]}... has more than {MAX_NUMBER_CHARACTERS} characters.",
            next_step="Give it with fewer digits.",
        )
    number: Decimal | None
    try:
        number = Decimal(text)
    except InvalidOperation:  # an exponent above all that decimals have
        number = None
    if number is None or (number.is_finite() and abs(number.adjusted()) > LARGEST_DECIMAL_EXPONENT):
        raise InvalidInput(
            f"{in_words(text)} is no number that can be checked.",
            "Its exponent is beyond every float.",
            "Give a finite number, or leave the key out.",
        )
    return number


def in_one_line(text: str) -> str:
    """Return a parser's message without control characters and its last full stop."""
    return "".join(char if char.isprintable() else " " for char in text[:200]).rstrip(". ")


def _toml_tables(text: str) -> dict[str, Any]:
    if LONG_CHAIN.search(text):
        raise InvalidInput("A key has more than 20 parts.", "No key has more than two.", HELP)
    return tomllib.loads(text, parse_float=exact_decimal)


def _json_object(text: str) -> dict[str, Any]:
    value = parsed_json(text, parse_float=exact_decimal, parse_constant=exact_decimal)
    if not isinstance(value, dict):
        raise InvalidInput(f"A description is an object; this is {kind_of(value)}.")
    return value


OPTION: Final = "--set"
EXAMPLE: Final = "Write --set KEY=VALUE, such as --set sampling.method=shuffled."
PLAIN_NUMBER: Final = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
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
        return _plain_number(text)
    # A line break in the text would begin another key.
    return parsed["value"] if set(parsed) == {"value"} else text


def _plain_number(text: str) -> object:
    """Return a number that TOML writes otherwise, such as .5; or the text as it is."""
    return exact_decimal(text) if PLAIN_NUMBER.fullmatch(text) else text
