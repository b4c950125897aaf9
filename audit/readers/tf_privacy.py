"""TF Privacy: the statement of `compute_dp_sgd_privacy_statement`, and the older line of a log.

The statement is prose in wrapped lines: examples, batch, noise multiplier, epochs, whether
microbatches were used, delta, and up to four epsilons (of an example or a user; each example once
per epoch, or Poisson sampling), each with three decimal places or `inf (**)`.

    DP-SGD with sampling rate = 0.427% and noise_multiplier = 1.1 iterated over 3516 steps
    satisfies differential privacy with eps = 1.28 and delta = 1e-05.

is what `apply_dp_sgd_analysis` and `compute_noise` printed; rate and eps have three digits there.

The epsilon that is read is the example's under Poisson sampling, and no sampler is: the statement
itself says that Poisson sampling is seldom done.  With microbatching the library gave its
accountant half of the noise multiplier, and so does the reading.

Versions: tensorflow-privacy 0.2 to 0.9 (the statement since 0.8.10).
Source: tensorflow_privacy.privacy.analysis, modules compute_dp_sgd_privacy_lib and
compute_noise_from_budget_lib.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Final

from ...accountant import validate
from ...accountant.errors import InvalidInput
from ..description.printed_number import PrintedNumber
from ..description.run_description import Fact, Reading
from .content import decimal_of, printed, read_facts, text_of

STATEMENT: Final = "TF Privacy statement"
LOG_LINE: Final = "TF Privacy log line"

PRINTED_DIGITS: Final = 3
"""Digits of rate and eps in the line of a log."""

MAX_EXPONENT: Final = 400

_NUMBER: Final = r"[0-9]{1,40}(?:\.[0-9]{1,40})?(?:[eE][+-]?[0-9]{1,4})?"
_EPSILON: Final = r"(?:[0-9]{1,330}(?:\.[0-9]{1,20})?|inf|nan)"

_STATEMENT_START: Final = re.compile(r"DP-SGD\s+performed\s+over\s")
_LINE_START: Final = re.compile(r"DP-SGD\s+with\s+sampling\s+rate\s")

_SETTINGS: Final = re.compile(
    rf"DP-SGD performed over (?P<records>{_NUMBER}) examples with (?P<batch>{_NUMBER}) examples "
    rf"per iteration, noise multiplier (?P<noise>{_NUMBER}) for (?P<epochs>{_NUMBER}) epochs "
    r"(?P<microbatching>with|without) microbatching, and (?:no bound on number of|at most "
    rf"(?P<per_user>{_NUMBER})) examples per user\."
)
_LEVEL: Final = re.compile(
    r"(?P<level>Example|User)-level DP with add-or-remove-one adjacency at delta = "
    rf"(?P<delta>{_NUMBER}) computed (?:with|using) (?P<accountant>[A-Z]{{2,10}}) accounting"
    r"(?: and group privacy)?: Epsilon with each example occurring once per epoch: "
    rf"(?P<once>{_EPSILON})(?: \(\*\*\))? Epsilon assuming Poisson sampling \(\*\): "
    rf"(?P<poisson>{_EPSILON})(?= |$)"
)
_LINE: Final = re.compile(
    rf"DP-SGD with sampling rate = (?P<percent>{_NUMBER})% and noise_multiplier = "
    rf"(?P<noise>{_NUMBER}) iterated over (?P<steps>[0-9]{{1,19}}) steps satisfies differential "
    rf"privacy with eps = (?P<epsilon>{_NUMBER}|inf|nan) and delta = (?P<delta>{_NUMBER})\.?(?= |$)"
)

STATEMENT_DOUBTS: Final = (
    "The statement does not say the clipping norm, where it came from, or the sampler.",
    "It says that shuffled data are believed to be close to Poisson sampling; that is refuted: "
    "shuffled batches can cost far more.",
)
LINE_DOUBTS: Final = (
    "The line prints rate and eps with three digits; give records and batch to make them exact.",
    "It assumes Poisson sampling and records that are clipped each by itself; whether the run did "
    "so it does not say, and microbatches would double the sensitivity.",
)


def recognises(content: bytes, name: str) -> bool:
    """Return whether a text holds a statement or a line of TF Privacy."""
    del name
    if b"DP-SGD" not in content:
        return False
    text = text_of(content)
    return text is not None and bool(_STATEMENT_START.search(text) or _LINE_START.search(text))


def read(content: bytes, name: str) -> Reading:
    """Return what a statement or a line of TF Privacy says.

    Raises `InvalidInput` for one that is cut off or changed, several that differ, and a number
    outside its range.
    """
    text = " ".join((text_of(content) or "").split())
    statements = {match[0] for match in _SETTINGS.finditer(text)}
    lines = {match[0] for match in _LINE.finditer(text)}
    starts = len(_STATEMENT_START.findall(text)) + len(_LINE_START.findall(text))
    whole = len(_SETTINGS.findall(text)) + len(_LINE.findall(text))
    if starts != whole or not starts:
        raise InvalidInput(
            f"`{name}` holds a sentence of TF Privacy that is not as the library prints it.",
            "A sentence that was cut off or edited could be read as another run.",
            "Give the whole output, or describe the run in a TOML file.",
        )
    if len(statements) + len(lines) > 1:
        raise InvalidInput(
            f"`{name}` holds {len(statements) + len(lines)} statements of TF Privacy that differ.",
            "Which of them belongs to the run is not said.",
            "Give each in a file of its own.",
        )
    return _statement(text, name) if statements else _line(text, name)


def _statement(text: str, name: str) -> Reading:
    settings = _SETTINGS.search(text)
    levels = {match["level"]: match for match in _LEVEL.finditer(text)}
    different = {match[0] for match in _LEVEL.finditer(text)}
    if settings is None or "Example" not in levels or len(different) != len(levels):
        raise InvalidInput(
            f"The statement in `{name}` lacks its epsilons, or has several of one kind.",
            "They stand in lines that begin with Epsilon.",
            "Give the whole output.",
        )
    example, user = levels["Example"], levels.get("User")
    doubts = list(STATEMENT_DOUBTS)
    values: dict[str, object] = {
        "claim.epsilon": _claimed(example["poisson"], doubts),
        "claim.delta": _delta(example["delta"]),
        "claim.unit": "record",
        "claim.neighbours": "add-remove",
        "claim.library": "tensorflow-privacy",
        "claim.accountant": example["accountant"].lower(),
        "noise.family": "gaussian",
        "noise.noise_multiplier": _noise(settings, doubts),
        "data.records": _count(settings["records"], "examples"),
        "sampling.batch": _count(settings["batch"], "examples per iteration"),
        "schedule.epochs": validate.positive(epochs=_float(settings["epochs"], "epochs")),
    }
    if settings["per_user"] is not None:
        values["data.records_per_user"] = _count(settings["per_user"], "examples per user")
    doubts.append(
        "Read is the epsilon of an example under Poisson sampling; with each example once per "
        f"epoch the statement says {example['once']}."
    )
    if user is not None:
        doubts.append(
            f"For a user it says {user['poisson']} under Poisson sampling, and {user['once']} with "
            "each example once per epoch."
        )
    upper_only = ""
    if settings["microbatching"] == "with":
        upper_only = (
            "Half of the noise multiplier stands for microbatches of any size; records that are "
            "alone in theirs lose less."
        )
    return Reading(name, STATEMENT, read_facts(name, values), tuple(doubts), upper_only=upper_only)


def _noise(settings: re.Match[str], doubts: list[str]) -> float:
    """Return the noise multiplier that the accountant was given."""
    noise = _noise_multiplier(settings["noise"])
    if settings["microbatching"] == "without":
        return noise
    doubts.append(
        "The run used microbatches, whose size is not said: the accountant was given half of the "
        f"noise multiplier {noise:g}, and so it is read."
    )
    return noise / 2.0


def _line(text: str, name: str) -> Reading:
    line = _LINE.search(text)
    if line is None:
        raise InvalidInput(f"`{name}` holds no line of TF Privacy.")
    doubts = list(LINE_DOUBTS)
    percent = _decimal(line["percent"], "sampling rate")
    epsilon = _claimed(line["epsilon"], doubts)
    if epsilon is not None:
        digits = _half_unit(_decimal(line["epsilon"], "eps"))
        epsilon = PrintedNumber(epsilon.value, digits)
    values: dict[str, object] = {
        "claim.epsilon": epsilon,
        "claim.delta": _delta(line["delta"]),
        "claim.library": "tensorflow-privacy",
        "claim.accountant": "rdp",
        "noise.family": "gaussian",
        "noise.noise_multiplier": validate.non_negative(
            noise_multiplier=_float(line["noise"], "noise_multiplier")
        ),
        "schedule.steps": _count(line["steps"], "steps"),
    }
    facts = read_facts(name, values)
    rate = validate.probability(**{"sampling rate": float(percent.scaleb(-2))})
    if rate > 0.0:
        facts["sampling.rate"] = Fact(rate, "read", name, _half_unit(percent.scaleb(-2)))
    return Reading(name, LOG_LINE, facts, tuple(doubts))


def _claimed(text: str, doubts: list[str]) -> PrintedNumber | None:
    """Return the epsilon that is printed; None, and a doubt, where none is finite."""
    if text not in ("inf", "nan"):
        return printed(text, "epsilon")
    doubts.append(f"The epsilon is printed as {text}: nothing is claimed.")
    return None


def _half_unit(number: Decimal) -> float:
    """Return half of the last digit of a number that `.3g` printed, which drops zeros at the end.

    >>> _half_unit(Decimal("1.2")), _half_unit(Decimal("12.8")), _half_unit(Decimal(0))
    (0.005, 0.05, 0.0)
    """
    if number == 0:
        return 0.0
    digits = max(len(number.as_tuple().digits), PRINTED_DIGITS)
    return float(Decimal(5).scaleb(number.adjusted() - digits))


def _decimal(text: str, field: str) -> Decimal:
    number = decimal_of(text, field)
    if not abs(number.adjusted()) < MAX_EXPONENT:
        raise InvalidInput(f"`{field}` is {text:.60}, which is no number that is met.")
    return number


def _float(text: str, field: str) -> float:
    return float(decimal_of(text, field))


def _noise_multiplier(text: str) -> float:
    return validate.non_negative(noise_multiplier=_float(text, "noise_multiplier"))


def _delta(text: str) -> float:
    return validate.probability(delta=_float(text, "delta"))


def _count(text: str, field: str) -> int:
    number = _float(text, field)
    # Whoever calls the library with 6e4 has it print 60000.0.
    return validate.count(**{field: int(number) if number.is_integer() else number})
