"""Numbers of a log are read whole or not at all."""

from __future__ import annotations

import pytest

from privplan.audit.description.run_description import Reading
from privplan.audit.readers import text_log

from ..cases import for_each

SETTINGS = "noise_multiplier=1.1 sample_rate=0.00427 num_steps=3516 epsilon=1.28"
KEYS = {
    "noise_multiplier": "noise.noise_multiplier",
    "sample_rate": "sampling.rate",
    "num_steps": "schedule.steps",
    "epsilon": "claim.epsilon",
}
GOING_ON = [
    *("{}/2", "{} / 2", "{},525", "{}, 525", "{} 525", "{}'525", "{}_525", "{}k", "{} k", "{}*3"),
    *("{} * 1000", "{}%", "{} %", "{} percent", "{} -> 0.5", "{} → 0.5", "{}->0.5", "{} to 0.5"),
    *("{}-2", "{} - 2.5", "{}..2", "{}^2", "{} ± 0.1", "{} +/- 0.1", "{} million", "{} thousand"),
    *("{} in 235", "{} of 235", "{}:235", "{} x 2", "{} × 2", "{} times 2", "{} or 2", "{} (%)"),
    *("[{}, 2]", "~{}", "'{}'", "<{}", "({})", "tensor({})", "0x{}", "${}", "{} and 2", "{} = 2"),
]
WHOLE = [
    *("{}", "{}, loss=3", "{}; 3 epochs", "{} acc=0.3", "{}|3", "{} | 3", "{}.", "{}. 3 left"),
    *("{} and C=1", "{} k=3", "{}\t3", "{} - INFO - 3", "{} (RDP)", "{})", "{} for α = 14.0"),
    *("{}\x1b[0m", "{}\\n", "{} for 3 epochs", "{} < 8", "{} x=2", "{} M: 3"),
]


def read(text: str) -> Reading:
    assert text_log.recognises(text.encode(), "log")
    return text_log.read(text.encode(), "log")


@for_each("name", KEYS)
@for_each("form", GOING_ON)
def test_a_number_that_goes_on_is_left_out_with_a_doubt(name: str, form: str) -> None:
    lines = []
    for item in SETTINGS.split():
        key, _, number = item.partition("=")
        lines.append(f"{key} = {form.format(number) if key == name else number}")
    reading = read("\n".join(["epsilon = 0.5", *lines, "done"]))
    assert KEYS[name] not in reading.facts
    assert KEYS.keys() - {name} == {each for each in KEYS if KEYS[each] in reading.facts}
    assert any("not a plain number" in doubt and "line" in doubt for doubt in reading.doubts)


@for_each("form", WHOLE)
def test_a_number_that_is_whole_is_read(form: str) -> None:
    reading = read("\n".join(form.format(item) for item in SETTINGS.split()))
    assert {key: reading.facts[key].value for key in list(KEYS.values())[:3]} == {
        "noise.noise_multiplier": 1.1,
        "sampling.rate": 0.00427,
        "schedule.steps": 3516,
    }
    assert "claim.epsilon" in reading.facts


@for_each("pair", ["(eps 1,280, delta 1e-5)", "(ε = 2/3, δ = 1e-5)", "[eps: 3k, δ 1]"])
def test_a_pair_that_cannot_be_read_leaves_no_earlier_claim(pair: str) -> None:
    reading = read(f"epsilon = 0.5\nsigma = 1.1\n{pair}\n")
    assert "claim.epsilon" not in reading.facts


def test_what_is_computed_from_a_setting_is_no_setting() -> None:
    reading = read("epsilon = 0.5\n1/sample_rate = 1.0\n2*sigma = 2.2\n")
    assert "sampling.rate" not in reading.facts
    assert "noise.noise_multiplier" not in reading.facts


def test_a_log_whose_numbers_are_all_cut_is_no_log() -> None:
    assert not text_log.recognises(b"noise_multiplier=2/3\nnum_steps=3,525\n", "log")


def test_steps_that_are_printed_twice_are_in_doubt() -> None:
    line = "sigma=1.1 sample_rate=0.00427 num_steps=1000\n"
    reading = read(line * 2)
    assert "schedule.steps" not in reading.facts
    assert any("printed in 2 lines" in doubt for doubt in reading.doubts)
    assert read(line).facts["schedule.steps"].value == 1000


def test_noise_that_stops_is_never_that_of_all_steps() -> None:
    reading = read("sigma=1.1 q=1\nsigma=0.0 epsilon = 0.5\n")
    assert "noise.noise_multiplier" not in reading.facts
    assert any("changes" in doubt for doubt in reading.doubts)


@pytest.mark.parametrize(
    "line",
    [
        "(eps" + " " * 9_000,
        "epsilon" + " " * 9_000,
        "Epoch 1 " + "[" * 9_000,
        "epoch " * 1_500,
        "sigma=" * 1_500,
        "( eps " * 1_500,
        "1 " * 4_900 + "sigma",
    ],
)
def test_no_line_takes_more_than_its_length(line: str) -> None:
    # Searched again from each blank or bracket, this would take minutes.
    reading = read("epsilon = 0.5\n" + f"{line}\n" * 60 + "epsilon = 0.7\n")
    assert reading.facts["claim.epsilon"].value.value == 0.7
