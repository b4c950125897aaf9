"""The bytes of a file as text or JSON, with limits: what every reader asks first.

Nothing here runs what it reads.  What is no text, or no JSON, is answered with None or
`NOT_JSON`; what is JSON and misleads (one key twice, nesting without end, a number with more
digits than any field has) raises `InvalidInput`.

Readers share facts that were read, fields that must be there, and the names that libraries give to
each setting (`ALIASES`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final, TypeVar

from ...accountant import validate
from ...accountant.decoding import MAX_JSON_NUMBER_CHARACTERS, parsed_json
from ...accountant.errors import InvalidInput, kind_of
from ..description.printed_number import PrintedNumber
from ..description.run_description import Fact, Phase

ALIASES: Final[Mapping[str, tuple[str, ...]]] = {
    role: tuple(names.split())
    for role, names in {
        "noise": "noise_multiplier sigma noise noise_mult noise_scale nm noisemultiplier dp_noise "
        "σ",
        "rate": "sample_rate sampling_rate q rate sampling_probability sampling_prob sample_prob",
        "steps": "steps num_steps n_steps iterations num_iterations count n_iter max_steps",
        "step": "step global_step iteration iter round global_round",
        "epochs": "epochs num_epochs n_epochs max_epochs num_train_epochs",
        "epoch": "epoch",
        "epsilon": "epsilon eps final_epsilon epsilon_spent spent_epsilon privacy_epsilon "
        "dp_epsilon ε",
        "target": "target_epsilon epsilon_target max_epsilon epsilon_budget epsilon_max "
        "privacy_budget",
        "delta": "delta target_delta dp_delta δ",
        "clip": "max_grad_norm clip clipping_norm l2_norm_clip clip_norm max_per_sample_grad_norm "
        "max_clip_norm l2_clip_norm per_sample_max_grad_norm clipping_threshold",
        "batch": "batch_size lot_size logical_batch_size expected_batch_size train_batch_size",
        "records": "dataset_size num_examples n_train train_size sample_size num_samples n_samples",
        "microbatches": "microbatches num_microbatches",
        "microbatch_size": "microbatch_size",
        "poisson": "poisson_sampling",
        "accumulation": "gradient_accumulation_steps accumulation_steps accumulate_grad_batches",
        "accountant": "accountant accountant_type mechanism",
    }.items()
}
"""What the readers of histories, logs and configurations know, with all names of each."""

OPTIMIZER_EPSILON: Final = 1e-4
"""An epsilon below this, in a log or a configuration, is that of an optimizer."""

_ROLE_OF: Final = {name: role for role, names in ALIASES.items() for name in names}


class NotJson:
    """What stands for a content that is no JSON, since JSON's null is None."""


NOT_JSON: Final = NotJson()


@lru_cache(maxsize=2)
def text_of(content: bytes) -> str | None:
    """Return the UTF-8 text of a content, without its byte order mark; None if it is none."""
    if b"\0" in content:
        return None
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None


def all_lines(content: bytes) -> list[str]:
    """Return the lines of a text, none for what is no text.

    Line feeds and carriage returns end lines (progress bars write the latter), and nothing else
    does: other characters that Python splits at may stand inside a line.
    """
    text = text_of(content) or ""
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def numbered_lines(content: bytes) -> list[tuple[int, str]]:
    """Return the lines of a text that are not blank, each with its number from 1."""
    return [(number, line) for number, line in enumerate(all_lines(content), 1) if line.strip()]


def lines_of(content: bytes) -> list[str]:
    """Return the lines of a text that are not blank; none for what is no text."""
    return [line for line in all_lines(content) if line.strip()]


def json_of_text(text: str, *, as_printed: bool = False) -> Any:
    """Return the value of a JSON text, `NOT_JSON` if it is none; see `json_of`."""
    try:
        return parsed_json(text, parse_float=Decimal if as_printed else float, parse_constant=float)
    except InvalidInput:
        raise
    except ValueError:
        return NOT_JSON


@lru_cache(maxsize=2)
def json_of(content: bytes, *, as_printed: bool = False) -> Any:
    """Return the value of a JSON content, `NOT_JSON` if it is none; nobody may change it.

    Numbers with a decimal point are floats, or with `as_printed` decimals that keep their digits.
    """
    text = text_of(content)
    if text is None or not text.lstrip()[:1]:
        return NOT_JSON
    return json_of_text(text, as_printed=as_printed)


def object_of(content: bytes, *, as_printed: bool = False) -> Mapping[str, Any] | None:
    """Return the JSON object of a content; None for anything else."""
    value = json_of(content, as_printed=as_printed)
    return value if isinstance(value, dict) else None


T = TypeVar("T")


def read_facts(name: str, values: Mapping[str, object]) -> dict[str, Fact]:
    """Return facts that were read from the file `name`; values that are None are left out."""
    return {key: Fact(value, "read", name) for key, value in values.items() if value is not None}


def exact(**field: object) -> PrintedNumber:
    """Return a number of a claim as a program stored it: exact, finite, 0 or above."""
    return PrintedNumber(validate.non_negative(**field))


def exact_delta(**field: object) -> float:
    """Return a delta in [0, 1), as a program has it."""
    delta = validate.probability(**field)
    if delta == 1:
        raise InvalidInput(
            f"`{next(iter(field))}` must be a number in [0, 1); it is 1.",
            "With delta 1 nothing is promised.",
            "Correct it in the file.",
        )
    return delta


def printed(text: str | Decimal, field: str) -> PrintedNumber:
    """Return a number of a claim as it is printed, open by half of its last digit.

    Raises `InvalidInput` for what is no finite number, 0 or above.
    """
    return PrintedNumber.of(**{field: decimal_of(text, field)})


def printed_delta(text: str | Decimal, field: str) -> float:
    """Return a delta as it is printed; see `exact_delta`."""
    return exact_delta(**{field: float(decimal_of(text, field))})


def digits_of(text: str | Decimal, field: str) -> tuple[int, ...]:
    """Return the digits of a number that a text writes, without zeros at the end."""
    return decimal_of(text, field).normalize().as_tuple().digits


def decimal_of(text: str | Decimal, field: str) -> Decimal:
    """Return the decimal that a text writes.

    Raises `InvalidInput` for what is no number, for NaN, and for more digits or a larger exponent
    than any float has; infinities are left to the checks of the field.
    """
    try:
        # Python takes 1_1 for 11, and nobody else does.
        plain = text if isinstance(text, Decimal) or "_" not in text else "nan"
        decimal = plain if isinstance(plain, Decimal) else Decimal(plain.strip())
    except ArithmeticError:
        decimal = Decimal("nan")
    digits = decimal.as_tuple()
    sizes = [len(digits.digits)]
    if isinstance(digits.exponent, int):
        sizes.append(abs(digits.exponent))
    if decimal.is_nan() or max(sizes) > MAX_JSON_NUMBER_CHARACTERS:
        raise InvalidInput(
            f"`{field}` must be a number; it is {str(text)[:40]!r}.",
            f"A number of at most {MAX_JSON_NUMBER_CHARACTERS} digits was expected there.",
            f"Correct `{field}` in the file.",
        )
    return decimal


def field_of(table: Mapping[str, Any], field: str, where: str) -> Any:
    """Return the value of a field that must be there; `where` names the table, or is empty."""
    if field not in table:
        raise InvalidInput(
            f"`{dotted(where, field)}` is missing.",
            "The format has this field in every version that is known here.",
            "Check that the file is whole, or describe the run in a TOML file.",
        )
    return table[field]


def checked_field(
    check: Callable[..., T], table: Mapping[str, Any], field: str, where: str = ""
) -> T:
    """Return what a check makes of a field that must be there; messages name its whole path."""
    return check(**{dotted(where, field): field_of(table, field, where)})


def table_of(value: object, where: str) -> Mapping[str, Any]:
    """Return a value that must be a JSON object."""
    if not isinstance(value, dict):
        raise InvalidInput(
            f"`{where}` must be an object; it is {kind_of(value)}.",
            "The format has a table there.",
            "Check that the file is whole, or describe the run in a TOML file.",
        )
    return value


def list_of(value: object, where: str) -> list[Any]:
    """Return a value that must be a JSON list with something in it."""
    if not isinstance(value, list) or not value:
        what = "is empty" if value == [] else f"is {kind_of(value)}"
        raise InvalidInput(
            f"`{where}` must be a list with at least one entry; it {what}.",
            "A history without entries says nothing of a run.",
            "Give the file as it is after the last step.",
        )
    return value


def known_fields(table: Mapping[str, Any], known: Collection[str], where: str, what: str) -> None:
    """Raise `InvalidInput` for the first field that the versions known here do not have."""
    for name in table:
        if name not in known:
            raise InvalidInput(
                f"`{dotted(where, name):.100}` is not known.",
                f"The versions of {what} that are read here have no such field, and what it "
                "means could change every number.",
                "Describe the run in a TOML file (privplan explain check).",
            )


def word_of(value: object, words: Mapping[str, T], where: str) -> T:
    """Return what a word of the format stands for."""
    return words[validate.choice(tuple(words), **{where: value})]


def listed_few(names: Sequence[str], most: int = 8) -> str:
    """Return names in a sentence, the first of many.

    >>> listed_few(["a", "b", "c"], 2)
    'a, b and 1 more'
    """
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def dotted(where: str, field: str) -> str:
    """Return the path of a field inside a table.

    >>> dotted("config", "delta"), dotted("", "delta")
    ('config.delta', 'delta')
    """
    return f"{where}.{field}" if where else field


def merged_phases(phases: list[Phase]) -> tuple[Phase, ...]:
    """Return phases in order, with neighbours of the same noise and rate taken together.

    >>> merged_phases([Phase(1.0, 0.1, 2), Phase(1.0, 0.1, 3), Phase(2.0, 0.1, 1)])
    (Phase(noise_multiplier=1.0, rate=0.1, steps=5), Phase(noise_multiplier=2.0, rate=0.1, steps=1))
    """
    merged: list[Phase] = []
    for phase in phases:
        last = merged[-1] if merged else None
        if last and (last.noise_multiplier, last.rate) == (phase.noise_multiplier, phase.rate):
            steps = validate.count(steps=last.steps + phase.steps)
            merged[-1] = Phase(phase.noise_multiplier, phase.rate, steps)
        else:
            merged.append(phase)
    return tuple(merged)


def schedule_values(phases: list[Phase]) -> dict[str, object]:
    """Return the keys that say what phases do: plain settings for one, `schedule.phases` else."""
    merged = merged_phases(phases)
    if len(merged) > 1:
        return {"schedule.phases": merged}
    (phase,) = merged
    return {
        "noise.noise_multiplier": phase.noise_multiplier,
        "sampling.rate": phase.rate,
        "schedule.steps": phase.steps,
    }


def role_of(name: str) -> str | None:
    """Return what a name stands for; None for a name that is not known.

    >>> role_of("Noise-Multiplier"), role_of("train/epsilon"), role_of("loss")
    ('noise', 'epsilon', None)
    """
    plain = name.strip().strip("\"'").rpartition("/")[2]
    return _ROLE_OF.get(re.sub(r"[\s.\-]+", "_", plain.strip().lower()))


def speaks_of_privacy(roles: set[str]) -> bool:
    """Return whether names say something of a private run: its noise, or an epsilon."""
    return bool(roles & {"noise", "epsilon", "target"}) and len(roles) > 1
