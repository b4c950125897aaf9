"""Training logs: lines of text with an epsilon, or with settings of a private run.

Only these parts of a line are read, wherever they stand in it; NUMBER is a decimal such as 2.31,
8 or 1e-05, which keeps its digits.  A number that goes on (2/3, 3,525, 10k, 0.4 %, 1.1 -> 0.5) is
never cut: what it is for is left out of the reading, with a doubt:

- `(ε = NUMBER, δ = NUMBER)`, also with `epsilon`, `eps`, `delta`, with brackets, with `:` or
  nothing for `=`, and with ` for α = NUMBER` after it, which says that Renyi orders were used
- `NAME = NUMBER` or `NAME: NUMBER`, where NAME is one of: epsilon, ε, final epsilon, privacy
  epsilon; delta, δ, target delta; noise_multiplier, noise multiplier, sigma, σ; sample_rate,
  sampling_rate, sampling_probability; num_steps, total steps; max_grad_norm, l2_norm_clip;
  batch_size, lot_size; num_epochs, epochs; each with `_`, `-` or a space between words
- `Epoch 3`, `Epoch: 3`, `Train Epoch: 3`, with `[12800/60000 (21%)]` after it where it is the
  middle of an epoch

`target epsilon`, `max epsilon` and `epsilon budget` are targets, not claims.  The last epsilon is
the claim.  A line with two is refused, since nobody but the author can choose.  An epsilon below
1e-4 is that of an optimizer.  Source: the examples of Opacus and TF-Privacy, and logs of
repositories that follow them.

Numbers within a line of text: where they end, and whether they go on.

`noise_multiplier=2/3` is no 2, `num_steps=3,525` no 3 and `sample_rate=0.427 %` no 0.427.  What
goes on behind the digits is not worked out here: decimal commas and thousands look alike.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from ...accountant.errors import InvalidInput, counted
from ..description.run_description import Reading
from .content import NOT_JSON, OPTIMIZER_EPSILON, json_of, numbered_lines, read_facts
from .history import reading_of
from .history_rows import History

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


FORMAT: Final = "training log"
MAX_LINE: Final = 10_000
"""Longest line that is searched; longer ones hold data, not messages."""

NAMES: Final = {
    "target": r"(?:target|max)[ _-]epsilon|epsilon[ _-](?:budget|target)|target[ _-]ε",
    "epsilon": r"(?:final[ _-]|privacy[ _-])?epsilon|ε",
    "delta": r"(?:target[ _-])?delta|δ",
    "noise": r"noise[ _-]multiplier|sigma|σ",
    "rate": r"sample[ _-]rate|sampling[ _-]rate|sampling[ _-]probability",
    "steps": r"num[ _-]steps|total[ _-]steps",
    "clip": r"max[ _-]grad[ _-]norm|l2[ _-]norm[ _-]clip",
    "batch": r"batch[ _-]size|lot[ _-]size",
    "epochs": r"(?:num[ _-])?epochs",
}

_GAP: Final = r"[^\S\n]{0,8}"
"""Blanks within an item; without end they would be searched again from each of them."""

_ITEM: Final = re.compile(
    r"(?<![\w.\-])(?:"
    + "|".join(f"(?P<{role}>{names})" for role, names in NAMES.items())
    + rf"){_GAP}(?:=|:|≈){_GAP}(?=\S)",
    re.IGNORECASE,
)
_PAIR: Final = re.compile(
    rf"[(\[]{_GAP}(?:ε|epsilon|eps){_GAP}[=:≈]?{_GAP}({NUMBER}){_GAP},"
    rf"{_GAP}(?:δ|delta){_GAP}[=:≈]?{_GAP}({NUMBER}){_GAP}[)\]]",
    re.IGNORECASE,
)
_OPEN_PAIR: Final = re.compile(rf"[(\[]{_GAP}eps\b{_GAP}[=:≈]?{_GAP}(?=\S)", re.IGNORECASE)
"""How a pair begins that is none: `eps` by itself is no name."""

_VALUE: Final = re.compile(rf"({NUMBER})|[^\s,;]{{0,40}}", re.IGNORECASE)
_HINTS: Final = (
    "eps",
    "ε",
    "delta",
    "δ",
    "noise",
    "sigma",
    "σ",
    "rate",
    "norm",
    "size",
    "step",
    "epoch",
)
"""One of these stands in every name; most lines have none, and cost no search."""

_OPERATORS: Final = tuple(f"{digit}{sign}" for digit in "0123456789" for sign in "/*×^")

_ALPHA: Final = re.compile(r"for\s+(?:α|alpha)\s*[=:]", re.IGNORECASE)
_EPOCH: Final = re.compile(
    r"\bepoch\s*[:=#]?\s*\[?(\d{1,9})\b(?:[^(]{0,40}?\[\s*\d+/\d+\s*\(\s*(\d+)(?:\.\d+)?%\)\])?",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class _Value:
    """The `text` behind a name, and whether it is a number that is whole."""

    text: str
    is_whole: bool


def recognises(content: bytes, name: str) -> bool:
    """Return whether a text that is no JSON has a line with an epsilon or a noise multiplier."""
    del name
    if json_of(content) is not NOT_JSON:
        return False
    return any(
        role == "noise" or (role == "epsilon" and not _of_an_optimizer(item.text))
        for _, line in _lines(content)
        for role, item in _items(line)
        if item.is_whole
    )


def read(content: bytes, name: str) -> Reading:
    """Return the last epsilon as the claim, and the settings that the lines name."""
    rows: list[dict[str, str]] = []
    numbers: list[int] = []
    doubts: dict[str, str] = {}
    last_epsilon = ""
    orders = False
    unread: set[str] = set()
    for number, line in _lines(content):
        row = _row(line, number, doubts, unread)
        if "epsilon" in row:
            last_epsilon = line
            orders = orders or bool(_ALPHA.search(line))
            epoch = _EPOCH.search(line)
            row |= {"epoch": epoch[1]} if epoch else {}
        if row:
            rows.append(row)
            numbers.append(number)
    _leave_out_repeated_steps(rows, doubts, unread)
    columns = {role: role for role in (*NAMES, "epoch") if role not in unread}
    reading = reading_of(History(columns, rows, numbers), name, FORMAT)
    facts = dict(reading.facts)
    epochs = {row["epochs"] for row in rows if "epochs" in row and "epochs" in columns}
    if len(epochs) == 1 and "schedule.epochs" not in facts and (text := epochs.pop()).isdigit():
        facts |= read_facts(name, {"schedule.epochs": int(text) or None})
    if orders:
        facts |= read_facts(name, {"claim.accountant": "rdp"})
    was = "was" if len(rows) == 1 else "were"
    understood = (
        f"Of the log, {counted(len(rows), 'line')} {was} understood; others were passed over."
    )
    middle = _middle_of_epoch(last_epsilon)
    return Reading(name, FORMAT, facts, (*reading.doubts, understood, *doubts.values(), *middle))


def _row(line: str, number: int, doubts: dict[str, str], unread: set[str]) -> dict[str, str]:
    """Return the numbers of a line by role; what is left out is said in `doubts`, once a role.

    A role whose number cannot be read whole is entered in `unread`: no line is then believed about
    it, since others may say what held before.
    """
    row: dict[str, str] = {}
    for role, item in _items(line):
        text = item.text
        if not item.is_whole:
            unread |= {role} - {"target"}
            doubts.setdefault(
                f"{role} unread",
                f"The {role} in line {number}, {text!r}, is not a plain number; {role} is read "
                "from no line of the log.",
            )
        elif role == "epsilon" and _of_an_optimizer(text):
            doubts["optimizer"] = f"The epsilon {text} is taken for that of an optimizer."
        elif role == "target":
            doubts[role] = f"The target epsilon {text} is what was aimed at; it is no claim."
        elif row.setdefault(role, text) != text:
            raise InvalidInput(
                f"A line has two numbers for {role}, {row[role]} and {text}: {line[:80]!r}.",
                "Which of them is meant is not in the log.",
                "Remove all but one, or state it in a TOML file next to the log.",
            )
    return row


def _leave_out_repeated_steps(
    rows: list[dict[str, str]], doubts: dict[str, str], unread: set[str]
) -> None:
    """Leave steps out that are printed more than once: of each part, or of the whole run."""
    steps = [row["steps"] for row in rows if "steps" in row]
    if len(steps) > 1 and len(set(steps)) == 1:
        unread.add("steps")
        doubts["steps"] = (
            f"The steps {steps[0]} are printed in {len(steps):,} lines: of a part each, or of the "
            "whole run; state schedule.steps."
        )


def _of_an_optimizer(text: str) -> bool:
    return abs(float(text)) < OPTIMIZER_EPSILON


def _middle_of_epoch(line: str) -> list[str]:
    epoch = _EPOCH.search(line)
    if epoch and epoch[2] and int(epoch[2]) < 100:
        return [
            f"The last epsilon was printed in the middle of epoch {epoch[1]} ({epoch[2]}%): the "
            "rest of the epoch is not in it."
        ]
    return []


def _lines(content: bytes) -> Iterator[tuple[int, str]]:
    for number, line in numbered_lines(content):
        if len(line) <= MAX_LINE:
            yield number, line


def _items(line: str) -> Iterator[tuple[str, _Value]]:
    """Yield what a line says: roles with their numbers as printed, whole or not."""
    lowered = line.lower()
    if not any(hint in lowered for hint in _HINTS):
        return
    for pair in _PAIR.finditer(line):
        yield "epsilon", _Value(pair[1], True)
        yield "delta", _Value(pair[2], True)
    rest = _PAIR.sub(" ", line)
    for item in _ITEM.finditer(rest):
        value = _value_at(rest, item.end())
        # `1/sample_rate` and `2*sigma` are no settings.
        computed = rest[: item.start()].rstrip().endswith(_OPERATORS)
        if value is not None:
            role = next(role for role in NAMES if item[role])
            yield role, _Value(value.text, value.is_whole and not computed)
    for pair in _OPEN_PAIR.finditer(rest):
        value = _value_at(rest, pair.end())
        if value is not None and ("delta" in lowered or "δ" in lowered):
            yield "epsilon", _Value(value.text, False)


def _value_at(line: str, start: int) -> _Value | None:
    """Return what stands at a position; None for a word without a digit, which is no number."""
    match = _VALUE.match(line, start)
    if match is None:
        return None
    if match[1] and not goes_on(line, match.end()):
        return _Value(match[1], True)
    text = line[start : match.end() + 12].strip()
    return _Value(text, False) if any(character.isdigit() for character in text) else None
