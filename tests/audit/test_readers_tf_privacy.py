"""Statements and lines of TF Privacy, as the library prints them."""

from __future__ import annotations

import math
import textwrap
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privplan.accountant.errors import InvalidInput
from privplan.audit.description.printed_number import PrintedNumber
from privplan.audit.description.run_description import Reading
from privplan.audit.readers import tf_privacy as reader

from ..cases import for_each
from .damaged import damaged, read_or_refused

EPSILONS: Final = (13.376, 1.616, 56.224, 6.425)


def number(epsilon: float, mark: str = "") -> str:
    return f"    inf{mark}" if math.isinf(epsilon) else f"{epsilon:12.3f}"


def level(kind: str, delta: str, accountant: str, once: float, poisson: float) -> str:
    """Return the paragraph of one level: a wrapped head, and two lines."""
    how = f"computed with {accountant} accounting:"
    if kind == "User":
        how = f"computed using {accountant} accounting and group privacy:"
    head = f"{kind}-level DP with add-or-remove-one adjacency at delta = {delta} {how}"
    mark = " (**)" if kind == "User" else ""
    return (
        f"{textwrap.fill(head, 80)}\n"
        f"    Epsilon with each example occurring once per epoch:  {number(once, mark)}\n"
        f"    Epsilon assuming Poisson sampling (*):               {number(poisson, mark)}"
    )


def statement(
    examples: str = "60000",
    batch: str = "256",
    noise: str = "1.1",
    epochs: str = "15.0",
    *,
    delta: str = "1e-05",
    microbatching: bool = False,
    per_user: int | None = None,
    accountant: str = "RDP",
    epsilons: tuple[float, float, float, float] = EPSILONS,
    width: int = 80,
) -> str:
    """Return a statement laid out as the library lays it out, in words of the same sentences."""
    word = "with" if microbatching else "without"
    bound = (
        "no bound on number of examples per user."
        if per_user is None
        else f"at most {per_user} examples per user."
    )
    first = (
        f"DP-SGD performed over {examples} examples with {batch} examples per iteration, noise "
        f"multiplier {noise} for {epochs} epochs {word} microbatching, and {bound}"
    )
    paragraphs = [
        textwrap.fill(first, width),
        "This privacy guarantee protects the release of all model checkpoints in addition\n"
        "to the final model.",
        level("Example", delta, accountant, *epsilons[:2]),
    ]
    if per_user is None:
        paragraphs.append("No user-level privacy guarantee is possible without a bound.")
    else:
        paragraphs.append(level("User", delta, accountant, *epsilons[2:]))
    paragraphs.append("(*) Poisson sampling is not usually done in training pipelines.")
    return "\n\n".join(paragraphs) + "\n"


def line(rate: str = "0.427", noise: str = "1.1", epsilon: str = "1.28") -> str:
    return (
        f"DP-SGD with sampling rate = {rate}% and noise_multiplier = {noise} iterated over 3516 "
        f"steps satisfies differential privacy with eps = {epsilon} and delta = 1e-05.\n"
        "The optimal RDP order is 18.0.\n"
    )


def read(text: str) -> Reading:
    """Return the reading of a text, which is recognised."""
    assert reader.recognises(text.encode(), "out.txt")
    return reader.read(text.encode(), "out.txt")


def values(reading: Reading) -> dict[str, object]:
    assert all(fact.provenance == "read" for fact in reading.facts.values())
    return {key: fact.value for key, fact in reading.facts.items()}


def test_statements() -> None:
    reading = read(statement())
    assert reading.format == reader.STATEMENT
    assert values(reading) == {
        "claim.epsilon": PrintedNumber(1.616, 0.0005),
        "claim.delta": 1e-5,
        "claim.unit": "record",
        "claim.neighbours": "add-remove",
        "claim.library": "tensorflow-privacy",
        "claim.accountant": "rdp",
        "noise.family": "gaussian",
        "noise.noise_multiplier": 1.1,
        "data.records": 60000,
        "sampling.batch": 256,
        "schedule.epochs": 15.0,
    }
    says = " ".join(reading.doubts)
    assert "13.376" in says
    assert "sampler" in says


@for_each("width", [30, 60, 80, 1000])
def test_lines_may_break_anywhere(width: int) -> None:
    assert values(read(statement(width=width))) == values(read(statement()))
    assert values(read(statement().replace("\n", "\r\n"))) == values(read(statement()))
    assert values(read("log of the run:\n" + statement() + "done")) == values(read(statement()))


def test_users_and_pld() -> None:
    reading = read(statement(per_user=3, accountant="PLD"))
    assert values(reading)["data.records_per_user"] == 3
    assert values(reading)["claim.accountant"] == "pld"
    assert values(reading)["claim.unit"] == "record"
    assert any("6.425" in doubt and "56.224" in doubt for doubt in reading.doubts)


def test_infinite_epsilons() -> None:
    reading = read(statement(per_user=3, epsilons=(13.376, 1.616, 56.224, math.inf)))
    assert values(reading)["claim.epsilon"] == PrintedNumber(1.616, 0.0005)
    assert any("For a user it says inf" in doubt for doubt in reading.doubts)
    reading = read(statement(epsilons=(math.inf, math.inf, 0.0, 0.0)))
    assert "claim.epsilon" not in reading.facts
    assert any("nothing is claimed" in doubt for doubt in reading.doubts)


def test_microbatching_halves_the_noise_that_the_accountant_was_given() -> None:
    reading = read(statement(microbatching=True))
    assert values(reading)["noise.noise_multiplier"] == 0.55
    assert any("microbatches" in doubt and "half" in doubt for doubt in reading.doubts)
    assert not any("microbatches" in doubt for doubt in read(statement()).doubts)


def test_counts_that_were_floats() -> None:
    reading = read(statement("60000.0", "2.56e2"))
    assert values(reading)["data.records"] == 60000
    assert values(reading)["sampling.batch"] == 256


def test_lines_of_a_log() -> None:
    reading = read(line())
    assert reading.format == reader.LOG_LINE
    assert values(reading) == {
        "claim.epsilon": PrintedNumber(1.28, 0.005),
        "claim.delta": 1e-5,
        "claim.library": "tensorflow-privacy",
        "claim.accountant": "rdp",
        "noise.family": "gaussian",
        "noise.noise_multiplier": 1.1,
        "schedule.steps": 3516,
        "sampling.rate": 0.00427,
    }
    assert reading.facts["sampling.rate"].half_unit == 5e-6


@for_each(
    ("printed", "half_unit"),
    [
        ("1.28", 0.005),
        ("1.2", 0.005),
        ("12.8", 0.05),
        ("128", 0.5),
        ("5.91e+06", 5e3),
        ("1", 0.005),
    ],
)
def test_three_digits_are_open_by_half_of_the_last(printed: str, half_unit: float) -> None:
    assert values(read(line(epsilon=printed)))["claim.epsilon"] == PrintedNumber(
        float(printed), half_unit
    )


@for_each("exact", [1.2849999, 0.7242234, 99.95001, 5907982.31, 0.012345, 1.0])
def test_what_was_printed_lies_in_what_is_read(exact: float) -> None:
    claimed = values(read(line(epsilon=f"{exact:.3g}")))["claim.epsilon"]
    assert isinstance(claimed, PrintedNumber)
    assert claimed.lowest <= exact <= claimed.highest


@for_each("exact", [256 / 60000, 1 / 3, 0.5, 1.0, 1.2345e-7])
def test_a_rate_that_was_printed_lies_in_what_is_read(exact: float) -> None:
    fact = read(line(rate=f"{100 * exact:.3g}")).facts["sampling.rate"]
    assert isinstance(fact.value, float)
    assert abs(fact.value - exact) <= fact.half_unit * (1 + 1e-9)


def test_the_same_line_twice_is_one() -> None:
    assert values(read(line() + "again:\n" + line())) == values(read(line()))


@for_each(
    ("text", "says"),
    [
        (line() + line(epsilon="1.3"), "2 statements"),
        (statement() + line(), "2 statements"),
        (statement() + statement(noise="1.2"), "2 statements"),
        (statement() + level("Example", "1e-05", "RDP", 2.0, 1.0), "several of one kind"),
        (statement()[:150], "not as the library prints it"),
        (statement().split("Example-level")[0], "lacks its epsilons"),
        (statement().replace("256 examples", "256 samples"), "not as the library prints it"),
        (line().replace("satisfies", "may satisfy"), "not as the library prints it"),
        (line() + line()[:60], "not as the library prints it"),
        (statement("0"), "examples"),
        (statement(batch="2.5"), "examples per iteration"),
        (statement(delta="1.5"), "delta"),
        (statement(epochs="0.0"), "epochs"),
        (line(rate="101"), "sampling rate"),
        (line(noise="1e999"), "noise_multiplier"),
        (statement(noise="nan"), "not as the library prints it"),
        (statement(noise="-1.0"), "not as the library prints it"),
    ],
)
def test_what_makes_no_sense_is_refused(text: str, says: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        read(text)
    assert says in str(caught.value)


@for_each("text", ["", "DP-SGD", "we used DP-SGD with sampling", "eps = 1.28"])
def test_other_text_is_not_recognised(text: str) -> None:
    assert not reader.recognises(text.encode(), "README.md")


FILES: Final = [
    statement().encode(),
    statement(per_user=3, microbatching=True).encode(),
    line().encode(),
]


@settings(max_examples=500, deadline=None)
@given(damaged(FILES) | st.binary(max_size=60))
def test_damaged_files_are_read_or_refused(content: bytes) -> None:
    read_or_refused(reader.recognises, reader.read, content)


DIGITS: Final = st.text("0123456789.e+-infnan", max_size=12)


@settings(max_examples=300, deadline=None)
@given(DIGITS, DIGITS, DIGITS)
def test_any_numbers_are_read_or_refused(first: str, second: str, third: str) -> None:
    for text in (line(first, second, third), statement(first, second, third)):
        read_or_refused(reader.recognises, reader.read, text.encode())
