"""Configurations: lines `key: value` or `key = value`, or one JSON object, with known keys.

The names and what they stand for are in `content.py`:

    noise_multiplier: 1.1        # comments are passed over
    max_grad_norm: 1.0
    batch_size = 256

A line has one key and one plain value (a number, a word, or a text in quotes); `[section]` and
`---` are passed over, and so are indented lines and lists, of which the reading says how many
there were.  This is no YAML: anchors, references and blocks are not understood, and a value of a
known key that is no number is named and left out.  In JSON only the first level is read.  Keys that
are not known are named, too.

`target_epsilon` and its like are targets, not claims.  `poisson_sampling: false` says that batches
are shuffled.  `num_microbatches` is into how many parts a batch is cut, so a part has batch /
num_microbatches records.  `disable_dp: true` and its like leave no guarantee.

Source: the flags of Opacus' and TF-Privacy's examples, and configurations of repositories that
follow them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Final

from ...accountant import validate
from ...accountant.errors import InvalidInput, counted
from ...accountant.events import Event, NoGuarantee
from ..description.printed_number import half_unit_of
from ..description.run_description import Reading
from .content import (
    OPTIMIZER_EPSILON,
    decimal_of,
    digits_of,
    lines_of,
    listed_few,
    object_of,
    printed,
    printed_delta,
    read_facts,
    role_of,
    speaks_of_privacy,
)

OFF: Final = frozenset(
    {"disable_dp", "disable_privacy", "no_dp", "no_privacy", "non_private", "without_dp"}
)
ON: Final = frozenset(
    {"enable_dp", "use_dp", "with_dp", "dp_enabled", "dp", "dpsgd", "dp_sgd", "enable_privacy"}
    | {"use_privacy", "is_private", "private", "differential_privacy", "use_dpsgd", "use_dp_sgd"}
)
"""Switches of all privacy: what leaves none where it is true, and what where it is false."""


def is_switch(key: str) -> bool:
    """Return whether a key switches privacy on or off.

    >>> is_switch("disable-dp"), is_switch("dpsgd"), is_switch("disable_bias")
    (True, True, False)
    """
    return _switch_name(key) in OFF | ON


def switched_off(settings: Mapping[str, object]) -> tuple[Event | None, list[str]]:
    """Return the event of a run without privacy if settings switch it off, and what is doubtful."""
    event: Event | None = None
    doubts = []
    for key, value in settings.items():
        if not is_switch(key):
            continue
        truth = _truth(value)
        if truth is None:
            doubts.append(f"`{key:.40}` is {str(value)[:40]!r}, neither true nor false; not read.")
        elif truth == (_switch_name(key) in OFF):
            event = NoGuarantee("its configuration switches privacy off")
            doubts.append(f"`{key:.40}` is {value}: the run had no privacy, whatever else was set.")
    return event, doubts


def _switch_name(key: str) -> str:
    return key.strip("\"' ").lower().replace("-", "_")


def _truth(value: object) -> bool | None:
    word = str(value).strip().lower()
    if word in ("true", "yes", "on", "1"):
        return True
    return False if word in ("false", "no", "off", "0") else None


FORMAT: Final = "configuration"

_KEY: Final = re.compile(r"[A-Za-z_\"'][\w.\-/\"' ]*")
_MAX_KEY: Final = 200
_MAX_VALUE: Final = 1000
"""Longer values are text, whatever stands in them."""
_STRUCTURE: Final = re.compile(r"\s+\S|-\s|---|\.\.\.|\[[\w.\- \"']+\]\s*$|[\w.\-]+:\s*$|[#;]")
_GROUPED: Final = re.compile(r"[+-]?\d{1,3}(?:_\d{3})+(?:\.\d+)?")
"""Thousands, as TOML and Python write them; other groups are slips."""
_NOTHING: Final = frozenset({"", "null", "none", "~"})

ALWAYS: Final = (
    "A configuration says what was asked for, not what ran, and has neither unit nor neighbouring "
    "relation.",
)

BELONGING: Final = {
    "restarts": "schedule",
    "phases": "schedule",
    "releases": "",
    "records_per_user": "data",
    "renews_every_days": "schedule",
}
"""Keys of a description that add to what was spent, and their tables."""

COUNTS: Final = {
    "steps": "schedule.steps",
    "batch": "sampling.batch",
    "records": "data.records",
    "microbatch_size": "schedule.microbatches",
    "accumulation": "schedule.accumulation",
}
"""Roles that are counts, and their keys."""


def recognises(content: bytes, name: str) -> bool:
    """Return whether a content is a configuration with keys of a private run."""
    del name
    table = _settings(content)
    if table is None:
        return False
    roles = {role for key in table[0] if (role := role_of(key)) is not None}
    return speaks_of_privacy(roles)


def read(content: bytes, name: str) -> Reading:
    """Return the settings of the keys that are known."""
    settings, passed_over = _settings(content) or ({}, 0)
    doubts = list(ALWAYS)
    if passed_over:
        doubts.append(
            f"Of nested entries, {passed_over:,} in all, nothing was read: only the first level is."
        )
    given: dict[str, tuple[str, object]] = {}
    unknown = [key for key in settings if role_of(key) is None and not is_switch(key)]
    _refuse_belonging(unknown)
    if unknown:
        listed = listed_few([f"`{key:.40}`" for key in unknown])
        doubts.append(
            f"Nothing was read of {counted(len(unknown), 'key')} that are not known here: {listed}."
        )
    for key, value in settings.items():
        role = role_of(key)
        if role is None or str(value).strip().lower() in _NOTHING:
            continue
        if role in given:
            raise InvalidInput(
                f"`{given[role][0]:.40}` and `{key:.40}` are both names for {role}.",
                "Which of them the run used is not in the file.",
                "Remove one of them.",
            )
        given[role] = (key, value)
    values = _Values(given, doubts).values()
    event, about_switches = switched_off(settings)
    facts = read_facts(name, values)
    for key, role in OPEN.items():
        if (fact := facts.get(key)) is not None:
            facts[key] = replace(fact, half_unit=_half_unit(role, *given[role]))
    return Reading(name, FORMAT, facts, (*doubts, *about_switches), event)


OPEN: Final = {"sampling.rate": "rate", "schedule.epochs": "epochs", "claim.delta": "delta"}
"""Keys whose numbers are open by their last digit, and their roles."""


def _half_unit(role: str, name: str, value: object) -> float:
    """Return how far the last digit leaves a number open; a delta of one digit was meant so."""
    text = str(value).strip()
    if role == "delta" and len(digits_of(text, name)) == 1:
        return 0.0
    return half_unit_of(decimal_of(text, name))


def _refuse_belonging(unknown: list[str]) -> None:
    for key in unknown:
        table = BELONGING.get(key.lower())
        if table is not None:
            raise InvalidInput(
                f"`{key}` is a key of a description, and this is a configuration without tables.",
                "It adds to what the run spent, and would be passed over.",
                f"Write it in a TOML file, under [{table}]." if table else "Write [[releases]].",
            )


class _Values:
    """Turns what was given for each role into values of keys, and collects doubts."""

    def __init__(self, given: Mapping[str, tuple[str, object]], doubts: list[str]) -> None:
        self.given = given
        self.doubts = doubts

    def values(self) -> dict[str, object]:
        values: dict[str, object] = {key: self.count(role) for role, key in COUNTS.items()}
        values |= self.claim()
        values["noise.noise_multiplier"] = self.noise()
        values["noise.clip"] = self.positive("clip")
        values["sampling.rate"] = self.rate()
        values["sampling.method"] = self.method()
        values["schedule.epochs"] = self.epochs()
        parts, batch = self.count("microbatches"), values["sampling.batch"]
        if parts is not None and isinstance(batch, int) and batch % parts == 0:
            values["schedule.microbatches"] = batch // parts
        elif parts is not None:
            self.doubts.append(
                f"A batch is cut into {parts:,} parts, and how many records a part has does not "
                "follow from the file: state schedule.microbatches."
            )
        return values

    def claim(self) -> dict[str, object]:
        values: dict[str, object] = {}
        epsilon = self.number("epsilon")
        if epsilon is not None:
            number = printed(epsilon, self.given["epsilon"][0])
            if number.value < OPTIMIZER_EPSILON:
                self.doubts.append(
                    f"`{self.given['epsilon'][0]}` {epsilon} is taken for that of an optimizer."
                )
            else:
                values["claim.epsilon"] = number
                self.doubts.append(
                    f"`{self.given['epsilon'][0]}` is read as what the run claims; if it is only "
                    "what was aimed at, what the run spent is not in the file."
                )
        target = self.number("target")
        if target is not None:
            printed(target, self.given["target"][0])
            self.doubts.append(
                f"`{self.given['target'][0]}` {target} is what was aimed at; it is no claim."
            )
        delta = self.number("delta")
        if delta is not None:
            values["claim.delta"] = printed_delta(delta, self.given["delta"][0])
        accountant = self.given.get("accountant", ("", None))[1]
        if isinstance(accountant, str) and re.fullmatch(r"[A-Za-z_]{2,20}", accountant):
            values["claim.accountant"] = accountant.lower()
        return values

    def noise(self) -> float | None:
        number = self.number("noise")
        if number is None:
            return None
        key = self.given["noise"][0]
        noise = validate.non_negative(**{key: float(number)})
        if noise == 0:
            self.doubts.append(
                f"`{key}` is {number}: that is no noise at all, or it is computed when the run "
                "starts; state noise.noise_multiplier."
            )
        return noise or None

    def rate(self) -> float | None:
        number = self.positive("rate")
        key = self.given["rate"][0] if number is not None else ""
        return None if number is None else validate.probability(**{key: number})

    def method(self) -> str | None:
        key, value = self.given.get("poisson", ("", None))
        word = {"true": "poisson", "false": "shuffled"}.get(str(value).strip().lower())
        if key and word is None:
            self.doubts.append(f"`{key}` is neither true nor false, and was not read.")
        return word

    def epochs(self) -> int | float | None:
        number = self.positive("epochs")
        return None if number is None else int(number) if number.is_integer() else number

    def positive(self, role: str) -> float | None:
        number = self.number(role)
        return None if number is None else validate.positive(**{self.given[role][0]: float(number)})

    def count(self, role: str) -> int | None:
        number = self.number(role)
        if number is None or (role == "steps" and number == -1):  # -1: as many as epochs take
            return None
        whole = number.is_finite() and abs(number) < validate.LARGEST_COUNT and number % 1 == 0
        value = int(number) if whole else float(number)
        return validate.count(**{self.given[role][0]: value})

    def number(self, role: str) -> Decimal | None:
        """Return the number of a role; None, with a doubt, for a value that is no number."""
        key, value = self.given.get(role, ("", None))
        if value is None:
            return None
        text = str(value).strip()
        if isinstance(value, bool) or not re.match(
            r"[+-]?(?:\d|\.\d|inf|nan)", text, re.IGNORECASE
        ):
            self.doubts.append(
                f"`{key:.40}` is {text[:40]!r}, which is no number; it was not read."
            )
            return None
        grouped = _GROUPED.fullmatch(text)
        return decimal_of(text.replace("_", "") if grouped else text, key)


def _settings(content: bytes) -> tuple[dict[str, object], int] | None:
    """Return the plain settings and how many entries were passed over; None for other files."""
    table = object_of(content, as_printed=True)
    if table is not None:
        plain = {key: value for key, value in table.items() if not isinstance(value, (dict, list))}
        return plain, len(table) - len(plain)
    settings: dict[str, object] = {}
    passed_over = 0
    for line in lines_of(content):
        if _STRUCTURE.match(line):
            passed_over += line[0] in " \t-" and not line.startswith("---")
            continue
        separator = re.search(r"[:=]", line[:_MAX_KEY])
        if separator is None:
            return None
        key, value = line[: separator.start()].rstrip(), _plain(line[separator.end() :].strip())
        if not _KEY.fullmatch(key) or value is None or key in settings:
            return None
        settings[key] = value
    return settings, passed_over


def _plain(text: str) -> str | None:
    """Return a value without quotes and comments; None where the line goes on as a sentence."""
    if len(text) > _MAX_VALUE:
        return text
    quoted = re.fullmatch(r"([\"'])(.*)\1\s*,?\s*(?:#.*)?", text)
    if quoted:
        return quoted[2]
    value = re.split(r"\s[#;]", f" {text}", maxsplit=1)[0].strip().rstrip(",")
    return None if re.search(r"[:=](?:\s|$)|\s=|\bε", value) else value
