"""`account --risk`, `calibrate --advantage | --tpr --fpr | --bayes`, and `explain risk`."""

from __future__ import annotations

import math
import re

import pytest

import privplan as pp
from privplan.accountant import events as ev
from privplan.accountant import rounding
from privplan.accountant.risk.sentence import attack_sentence, quick_tpr
from privplan.cli.inputs.schedule import from_epochs, from_rounds
from privplan.cli.pages import topics

from ..cases import for_each
from .conftest import Refused, Run

ROUNDS = ("--rate", "0.01", "--rounds", "1000")
SENTENCE = "An attacker who accuses 10 in 1,000 innocents finds at most 93 in 1,000 members."


def test_one_line_in_words_by_default(run: Run, event_file: str) -> None:
    outcome = run("account", event_file, "--delta", "1e-5")
    assert outcome.out.splitlines()[-1] == SENTENCE
    assert "attacker" not in run("account", event_file, "--engine", "rdp").out
    assert "risk" not in run("account", event_file, "--json").json["result"]
    assert run("account", event_file, "--quiet").out == "4.37718\n"


def test_the_json_of_a_risk_is_that_of_the_library(run: Run, event_file: str) -> None:
    words = ("--risk", "--fpr", "0.05", "--prior", "0.2", "--guesses", "4")
    result = run("account", event_file, *words, "--json").json["result"]
    answer = pp.risk(ev.Gaussian(1.0), fpr=0.05, prior=0.2, guesses=4)
    risk = result["risk"]
    assert {"epsilon", "delta", "neighbours", "engine", "derivation"} <= set(result)
    assert (risk["fpr"], risk["prior"], risk["guesses"]) == (0.05, 0.2, 4)
    for name in ("advantage", "tpr", "bayes_risk", "reconstruction", "mu", "mu_everywhere"):
        bounds = getattr(answer, name)
        assert risk[name] == {"lower": bounds.lower, "upper": bounds.upper}
    assert set(risk["assumes"]) == set(answer.assumes)
    assert risk["sentence"] == attack_sentence(0.05, answer.tpr.upper, "add-remove")


def test_the_rate_from_which_a_gaussian_dominates_can_be_asked_for(run: Run) -> None:
    words = ("--noise-multiplier", "1", "--rate", "0.1", "--rounds", "20", "--risk")
    event = ev.Repeat(20, ev.Poisson(0.1, ev.Gaussian(1.0)))
    for start in (1e-5, 0.01):
        risk = run("account", *words, "--from-fpr", str(start), "--json").json["result"]["risk"]
        bounds = pp.risk(event, from_fpr=start).mu
        assert risk["mu"] == {"lower": bounds.lower, "upper": bounds.upper}
        assert risk["from_fpr"] == start
    assert f"mu from FPR {start:g}" in run("account", *words, "--from-fpr", str(start)).out


def test_help_names_the_options_that_are_there(run: Run) -> None:
    said = " ".join(run("calibrate", "--help").out.replace("│", " ").split())
    assert "With --bayes: how likely a person is a member beforehand" in said
    assert "--risk" not in said


def test_the_table_rounds_to_the_side_that_stays_true(run: Run, event_file: str) -> None:
    answer = pp.risk(ev.Gaussian(1.0))
    lines = run("account", event_file, "--risk").out.splitlines()
    assert SENTENCE in lines
    (advantage,) = [line for line in lines if line.startswith("advantage")]
    assert f"at most {rounding.up(answer.advantage.upper)}" in advantage
    assert f"attained {rounding.down(answer.advantage.lower)}" in advantage
    (error,) = [line for line in lines if line.startswith("error at prior 0.5")]
    assert f"at least {rounding.down(answer.bayes_risk.lower)}" in error


@for_each(
    ("fpr", "tpr", "said"),
    [
        (0.01, 0.0700001, "accuses 10 in 1,000 innocents finds at most 71 in 1,000 members"),
        (0.01, 0.07, "accuses 1 in 100 innocents finds at most 7 in 100 members"),
        (0.05, 0.912, "accuses 5 in 100 innocents finds at most 92 in 100 members"),
        (1e-5, 1.04e-5, "10 in 1,000,000 innocents finds at most 11 in 1,000,000 members"),
        (1.0 / 3.0, 0.7, "3,333 in 10,000 innocents finds at most 7,000 in 10,000 members"),
        (2.0 / 3.0, 0.671, "6,666 in 10,000 innocents finds at most 6,800 in 10,000 members"),
        (0.9999999, 1.0, "9,999 in 10,000 innocents may find all members"),
        (0.01, 0.996, "accuses 1 in 100 innocents may find all members"),
    ],
)
def test_the_sentence_is_never_below_the_number(fpr: float, tpr: float, said: str) -> None:
    assert said in attack_sentence(fpr, tpr, "add-remove")


def test_the_sentence_of_a_replaced_value_speaks_of_two_values() -> None:
    assert attack_sentence(0.01, 0.0372, "replace-one") == (
        "Of a unit whose value is A or B: an attacker who says B in 10 of 1,000 cases of A, says B "
        "in at most 38 of 1,000 cases of B."
    )
    assert attack_sentence(0.25, 1.0, "replace-one").endswith(
        "says B in 25 of 100 cases of A, may say B in all cases of B."
    )


def test_a_shuffled_loader_has_one_lower_end_and_each_warning_names_its_question(run: Run) -> None:
    words = ("--noise-multiplier", "1.1", "--records", "600", "--batch", "60", "--epochs", "1")
    outcome = run("account", *words, "--delta", "1e-5", "--sampling", "shuffled", "--risk")
    said = " ".join(outcome.err.split())
    (lower,) = re.findall(r"^at least   epsilon ([\d.]+),", outcome.out, re.MULTILINE)
    assert f"false: epsilon is at least {lower}." in said
    first, *others = said.split("warning: Of the attack, whose advantage is delta at epsilon 0: ")
    assert "epsilon would be" in first
    assert others
    assert all("epsilon would be" not in each for each in others)


def test_an_attack_that_is_not_known_is_not_said_to_gain_nothing(run: Run) -> None:
    words = ("--noise-multiplier", "0", "--records", "600", "--batch", "6", "--epochs", "2")
    lines = run("account", *words, "--risk").out.splitlines()
    unknown = {line.split("  ")[0] for line in lines if line.endswith("attained not known")}
    assert {"advantage", "TPR at FPR 0.01", "error at prior 0.5", "mu at every FPR"} <= unknown
    (what,) = [line for line in lines if line.startswith("for ")]
    assert "200 x a release without protection (no noise is added), Poisson" in what


def test_a_guess_attains_the_risk_of_what_reveals_nothing(run: Run) -> None:
    out = run("account", "-", "--risk", stdin='{"type": "compose", "events": []}').out
    assert "not known" not in out
    assert "at most 0.01000    attained 0.01000" in out


def test_a_risk_says_its_sentence_in_python() -> None:
    assert pp.risk(ev.Gaussian(1.0)).sentence == SENTENCE


def test_a_command_named_risk_leads_to_the_option(refused: Refused) -> None:
    assert "privplan account EVENT --risk" in refused("risk")


def test_what_takes_longer_is_left_to_the_option() -> None:
    assert quick_tpr(ev.BestOf("geometric", 10, ev.Gaussian(1.0)), "add-remove") is None
    many = ev.Compose([ev.Gaussian(1.0 + index) for index in range(9)])
    mixed = ev.Compose([ev.Poisson(0.1, ev.Gaussian(1.0 + index)) for index in range(9)])
    assert quick_tpr(many, "add-remove") is not None  # one Gaussian in all
    assert quick_tpr(mixed, "add-remove") is None


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--fpr", "0.1"), "`fpr` goes with --risk"),
        (("--guesses", "4"), "`guesses` goes with --risk"),
        (("--risk", "--fpr", "0"), "`fpr` must be a number strictly between 0 and 1"),
        (("--risk", "--fpr", "1"), "`fpr` must be"),
        (("--risk", "--prior", "1.5"), "`prior` must be"),
        (("--risk", "--guesses", "1"), "`guesses` must be an integer, 2 or above"),
        (("--risk", "--engine", "rdp"), "--risk goes with no --engine"),
        (("--from-fpr", "0.1"), "Add --risk, or leave out --from-fpr."),
        (("--risk", "--from-fpr", "0.6"), "`from_fpr` must be at most 0.5"),
        (("--epsilon", "-1"), "privplan.privacy_profile(event, [-1])"),
    ],
)
def test_questions_that_make_no_sense(
    words: tuple[str, ...], said: str, refused: Refused, event_file: str
) -> None:
    assert said in refused("account", event_file, *words)


TARGETS = {
    "advantage": ("--advantage", "0.1"),
    "tpr": ("--tpr", "0.07", "--fpr", "0.01"),
    "bayes_risk": ("--bayes", "0.2", "--prior", "0.3"),
}


@for_each("measure", TARGETS)
def test_noise_for_a_risk_is_that_of_the_library(measure: str, asked: Run) -> None:
    result = asked("calibrate", *TARGETS[measure], *ROUNDS, "--json").json["result"]
    values = {"advantage": {"advantage": 0.1}, "tpr": {"tpr": 0.07, "fpr": 0.01}}
    target = values.get(measure, {"bayes_risk": 0.2, "prior": 0.3})
    schedule = from_rounds(0.01, 1000)
    answer = pp.calibrate(lambda noise: schedule.around(ev.Gaussian(noise)), **target)
    assert result["noise_multiplier"] == answer.value
    assert result[measure] == {"lower": answer.risk.lower, "upper": answer.risk.upper}
    assert result["gap"] == answer.gap
    assert result["target"] == {"measure": measure, "value": answer.target}
    assert ev.from_json(result["event"]) == answer.event
    assert result["noise_multiplier_through_epsilon"] > answer.value


def test_noise_for_a_risk_for_a_person(run: Run) -> None:
    outcome = run("calibrate", *TARGETS["tpr"], *ROUNDS)
    assert (
        "proves             TPR 0.07000 at FPR 0.01, adding or removing one record" in outcome.out
    )
    assert "finds at most 7 in 100 members." in outcome.out
    quiet = run("calibrate", *TARGETS["tpr"], *ROUNDS, "-q").out
    assert quiet == "0.697668\n"


def test_a_prior_next_to_1_is_not_called_certain(run: Run) -> None:
    out = " ".join(run("calibrate", "--bayes", "5e-8", "--prior", "0.9999999", *ROUNDS).out.split())
    assert "a member with probability 0.9999999, whether it is one, errs" in out
    assert "probability 1," not in out


@for_each("measure", ["advantage", "bayes_risk"])
def test_of_two_values_of_a_record_neither_is_a_member(measure: str, run: Run) -> None:
    given = (*TARGETS[measure], *ROUNDS, "--neighbours", "replace-one")
    said = " ".join(run("calibrate", *given).out.split()).split("in words")[1]
    assert "value" in said
    assert "member" not in said
    assert "innocent" not in said


def test_what_epsilon_and_delta_allow_is_rounded_up_on_the_page() -> None:
    words = " ".join(topics.page("risk").split())
    allowed = math.exp(1.134) * 0.01 + 1e-5
    assert f"would allow {math.ceil(1000.0 * allowed)} in 1,000" in words
    assert f"is {rounding.up(allowed)}." in words
    # An upper bound for each epsilon: where both orders of the data sets differ, more is known.
    assert "It is at most e^eps FPR + delta(eps)" in words


def test_options_that_exclude_each_other_are_named_as_they_were_typed(refused: Refused) -> None:
    said = refused("calibrate", "--tpr", "0.2", "--fpr", "0.1", "--prior", "0.2", *ROUNDS)
    assert "`tpr` with `fpr` and `prior` exclude each other" in " ".join(said.split())


@for_each("group", [1, 5])
def test_a_shuffling_loader_is_warned_of_with_the_unit_of_its_number(group: int, run: Run) -> None:
    words = ("--records", "600", "--batch", "60", "--epochs", "2", "--group", str(group))
    outcome = run("calibrate", *TARGETS["tpr"], *words)
    said = " ".join(outcome.err.split())
    assert "a loader that shuffles is not Poisson sampling" in said
    (noise,) = re.findall(r"noise multiplier +([\d.]+)", outcome.out)
    plain = ev.Group(group, ev.Repeat(2, ev.Gaussian(float(noise))))
    tpr = pp.risk(plain, fpr=0.01).tpr.upper
    (reached,) = re.findall(r"proves only TPR ([\d.]+) at", said)
    assert float(reached) == pytest.approx(tpr, rel=1e-3)
    whom = "one record" if group == 1 else "one unit of 5 records"
    assert f"for {whom} replaced by zeros" in said


@for_each("measure", TARGETS)
def test_ends_that_lie_apart_are_told_in_terms_of_the_target(measure: str, run: Run) -> None:
    words = ("--records", "600", "--batch", "6", "--epochs", "2", "--sampling", "shuffled")
    outcome = run("calibrate", *TARGETS[measure], *words)
    said = " ".join(outcome.err.split())
    named = {"advantage": "of the advantage", "tpr": "of the TPR"}
    assert f"The ends {named.get(measure, 'of how much less often than a guess')}" in said
    assert "delta" not in said
    assert "epsilon" not in said


@for_each("measure", TARGETS)
def test_the_certificate_says_how_it_bounds_the_risk(measure: str, asked: Run) -> None:
    result = asked("calibrate", *TARGETS[measure], *ROUNDS, "--json").json["result"]
    assert not {"epsilon", "delta"} & set(result)
    certificate, bounds = result["certificate"], result[measure]
    epsilon, delta = certificate["epsilon"], certificate["delta"]
    at = pp.account(ev.from_json(result["event"]), epsilon=epsilon)
    assert at.delta.upper <= delta * (1.0 + 1e-12)
    implied = {
        "advantage": delta,
        "tpr": min(math.exp(epsilon) * 0.01 + delta, 1.0 - math.exp(-epsilon) * (0.99 - delta)),
        "bayes_risk": 0.3 * (1.0 - delta),
    }[measure]
    assert bounds["lower" if measure == "bayes_risk" else "upper"] == pytest.approx(implied, 1e-4)
    assert "epsilon" in certificate["says"]


@for_each(
    ("words", "said"),
    [
        (("--tpr", "0.01", "--fpr", "0.07"), "`tpr` must be above `fpr`"),
        (("--tpr", "0.3"), "`fpr` is missing"),
        (("--fpr", "0.3"), "`tpr` is missing"),
        (("--tpr", "0.3", "--fpr", "1"), "`fpr` must be"),
        (("--tpr", "0.3", "--fpr", "0"), "`fpr` must be"),
        (("--advantage", "1"), "`advantage` must be"),
        (("--bayes", "0.6"), "`bayes` must be below 0.5"),
        (("--bayes", "0.6"), "Give a --bayes below 0.5."),
        (("--tpr", "0.01", "--fpr", "0.07"), "Give a --tpr above 0.07."),
        (("--prior", "0.6"), "`bayes` is missing"),
        (("--advantage", "0.1", "--tpr", "0.3", "--fpr", "0.1"), "Several targets"),
        (("--advantage", "0.1", "--epsilon", "1", "--delta", "1e-5"), "Several targets"),
        (("--advantage", "0.1", "--units", "100"), "`units` goes with --epsilon"),
    ],
)
def test_targets_that_make_no_sense(words: tuple[str, ...], said: str, refused: Refused) -> None:
    assert said in refused("calibrate", *words, *ROUNDS)


def test_the_numbers_of_the_page() -> None:
    page = topics.page("risk")
    event = from_epochs(60000, 256, 15.0).around(ev.Gaussian(1.1))
    from privplan.cli.reports.account import risk_text

    table = risk_text(pp.risk(event)).split("\n\n")[1].splitlines()[:-1]
    for line in table:
        assert re.sub(r"\s+", " ", line) in re.sub(r"\s+", " ", page)
    epsilon = pp.account(event, delta=1e-5).epsilon.upper
    assert f"(epsilon {rounding.up(epsilon)} at delta 1e-5)" in " ".join(page.split())


@for_each("measure", TARGETS)
def test_the_noise_on_the_page(measure: str, asked: Run) -> None:
    result = asked("calibrate", *TARGETS[measure], *ROUNDS, "--json").json["result"]
    (line,) = re.findall(
        rf"^  {' '.join(TARGETS[measure])} +(\d.*)$", topics.page("risk"), re.MULTILINE
    )
    shown = ("noise_multiplier", "noise_multiplier_through_epsilon")
    assert line.split() == [rounding.up(result[name]) for name in shown]


def test_the_number_that_is_printed_does_not_exceed_the_target(run: Run) -> None:
    words = ("--tpr", "0.020000001", "--fpr", "0.02", "--rate", "1", "--rounds", "1")
    (printed,) = re.findall(r"^proves +TPR ([\d.]+) at", run("calibrate", *words).out, re.MULTILINE)
    assert 0.02 < float(printed) <= 0.020000001
