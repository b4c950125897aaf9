"""`privplan audit counts`: epsilon from the counts of somebody's audit."""

from __future__ import annotations

import pytest

from privplan.accountant import events as ev
from privplan.accountant.errors import InvalidInput
from privplan.audit.counts import (
    clopper_pearson_epsilon,
    f_dp_epsilon,
    gdp_family_epsilon,
    one_run_epsilon,
    one_run_f_dp,
)
from privplan.audit.statistics import Counts

from .conftest import Refused, Run

ONE_RUN = ("audit", "counts", "--canaries", "1000", "--guesses", "100", "--correct", "90")
TEST = (
    *("audit", "counts", "--negatives", "5000", "--false-alarms", "200"),
    *("--positives", "5000", "--misses", "4000"),
)


def test_one_run_has_its_published_numbers(run: Run) -> None:
    rows = run(*ONE_RUN, "--delta", "1e-5", "--json").json["result"]["rows"]
    assert [row["method"] for row in rows] == ["one-run", "one-run"]
    assert [row["delta"] for row in rows] == [1e-5, 0.0]
    assert [row["epsilon"] for row in rows] == pytest.approx([1.62614, 1.63083], abs=1e-5)
    assert all(row["assumes"] and row["source"] for row in rows)


def test_what_is_printed_is_rounded_down(run: Run) -> None:
    assert run(*ONE_RUN, "-q").out.strip() == "1.62614"
    text = run(*ONE_RUN).out
    assert "epsilon >= 1.626  (delta 1e-05, 95 % confidence)" in text
    assert "epsilon >= 1.630  (pure, 95 % confidence)" in text
    assert "fair coin of its own" in text


def test_pure_alone_where_delta_is_0(run: Run) -> None:
    result = run(*ONE_RUN, "--delta", "0", "--json").json["result"]
    assert [row["delta"] for row in result["rows"]] == [0.0]
    assert result["epsilon"] == pytest.approx(1.63083, abs=1e-5)


def test_a_test_has_a_number_for_any_mechanism_first(run: Run) -> None:
    result = run(*TEST, "--json").json["result"]
    assert [row["method"] for row in result["rows"]] == ["clopper-pearson", "gdp"]
    assert result["epsilon"] == pytest.approx(1.41721, abs=1e-5)
    assert result["counts"] == {
        "negatives": 5000,
        "false_alarms": 200,
        "positives": 5000,
        "misses": 4000,
    }


def test_more_thresholds_show_less(run: Run) -> None:
    single, best = (
        run(*TEST, "--thresholds", number, "--json").json["result"] for number in ("1", "20")
    )
    for before, after in zip(single["rows"], best["rows"], strict=True):
        assert after["epsilon"] < before["epsilon"]
        assert "20 thresholds" in after["assumes"][0]


def test_a_claim_below_what_is_shown_is_contradicted(run: Run) -> None:
    assert run(*ONE_RUN, "--claimed", "1.63").code == 0
    refuted = run(*ONE_RUN, "--claimed", "1.62")
    assert refuted.code == 1
    assert "epsilon 1.62: CONTRADICTED" in refuted.out


@pytest.mark.parametrize(("noise", "code"), [("1", 0), ("2", 1)])
def test_a_claimed_event_is_tested_with_its_family(run: Run, noise: str, code: int) -> None:
    event = f'{{"type": "gaussian", "noise_multiplier": {noise}}}'
    outcome = run(*TEST, "--event", "-", "--json", stdin=event)
    assert outcome.code == code
    row = outcome.json["result"]["rows"][-1]
    assert row["method"] == "f-dp"
    assert row["rejected"] is (code == 1)
    assert row["factor"] * float(noise) == pytest.approx(1.2417, abs=5e-4)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), "No counts were given"),
        (("--canaries", "10", "--guesses", "5"), "--correct must be given too"),
        (("--canaries", "10", "--negatives", "5"), "Counts of one run and of a test"),
        ((*ONE_RUN[2:], "--thresholds", "2"), "--thresholds is for the counts of a test"),
        ((*ONE_RUN[2:-1], "101"), "at most the number of guesses"),
        ((*ONE_RUN[2:], "--confidence", "1"), "`confidence`"),
        ((*ONE_RUN[2:], "--claimed", "-1"), "`claimed`"),
    ],
)
def test_what_is_no_count_is_refused(refused: Refused, words: tuple[str, ...], says: str) -> None:
    assert says in refused("audit", "counts", *words)


def test_each_method_says_of_which_mechanisms_it_holds() -> None:
    counts, event = Counts(200, 5000, 4000, 5000), ev.Gaussian(1.0)
    shown = (
        one_run_epsilon(1000, 100, 90, delta=1e-5),
        one_run_f_dp(1000, 100, 90, event, delta=1e-5),
        clopper_pearson_epsilon(counts, delta=1e-5),
        gdp_family_epsilon(counts, delta=1e-5),
        f_dp_epsilon(counts, event, delta=1e-5),
    )
    assert len({each.method for each in shown}) == 5
    assert [each.holds_for.startswith("any") for each in shown] == [True, False, True, False, False]
    # What holds of fewer mechanisms shows more.
    assert shown[1].epsilon > shown[0].epsilon
    assert shown[3].epsilon > shown[2].epsilon


def test_no_count_proves_with_certainty() -> None:
    with pytest.raises(InvalidInput):
        one_run_epsilon(10, 5, 5, delta=0.0, confidence=1.0)
