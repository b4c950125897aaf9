"""`privplan calibrate --release gram`: noise for a Gram matrix with label sums."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path

import pytest

import privplan as pp
from privplan.accountant import events as ev
from privplan.accountant.mechanisms import NoisyGram, grid_bits
from privplan.accountant.sensitivity.gram import GramBound

from ..cases import for_each
from .conftest import Refused, Run

TARGET = ("--epsilon", "2", "--delta", "1e-5")
GRAM = ("--release", "gram", "--dimension", "784")
TEN = (*GRAM, "--classes", "10")


@for_each("neighbours", ["add-remove", "replace-one"])
@for_each("mechanism", ["gaussian", "laplace"])
@for_each("unit", ["record", "user", "silo"])
def test_the_json(unit: str, mechanism: str, neighbours: str, run: Run) -> None:
    cap = {"record": (), "user": ("--rows-per-user", "8"), "silo": ("--silo-rows", "8")}[unit]
    words = (*TEN, "--label-weight", "0.5", "--unit", unit, *cap)
    words = (*words, "--mechanism", mechanism, "--neighbours", neighbours)
    result = run("calibrate", *TARGET, *words, "--json").json["result"]
    rows, trace = {"record": (1, 1.0), "user": (8, 1.0), "silo": (8, 8.0)}[unit]
    bound = GramBound(dimension=784, classes=10, label_weight=0.5, rows=rows, trace=trace)
    assert result["sensitivity"] == {
        name: {"l2": bound.l2(name), "l1": bound.l1(name)} for name in ("add-remove", "replace-one")
    }
    assert result["epsilon"]["lower"] <= result["epsilon"]["upper"] <= 2.0
    assert result["gap"] == pytest.approx(2.0 - result["epsilon"]["lower"])
    assert (result["unit"], result["neighbours"]) == (unit, neighbours)
    assert (result["rows"], result["row_square"]) == (rows, trace / rows)
    assert result["values"] == 784 * 785 // 2 + 7840
    # The noise that is printed, beside what it has to cover, proves the epsilon that is printed.
    moved = result["sensitivity"][neighbours]["l1" if mechanism == "laplace" else "l2"]
    times = 2 if neighbours == "replace-one" else 1
    assert times * Fraction(result["sigma"]) >= Fraction(result["noise_multiplier"]) * Fraction(
        moved
    )
    family = ev.Laplace if mechanism == "laplace" else ev.Gaussian
    event = family(result["noise_multiplier"])
    assert result["event"] == event.to_json()
    proven = pp.account(event, delta=1e-5, neighbours=neighbours).epsilon
    assert result["epsilon"]["upper"] == pytest.approx(proven.upper, rel=1e-9)


def test_the_mechanism_with_that_multiplier_has_that_noise(run: Run) -> None:
    result = run("calibrate", *TARGET, *TEN, "--json").json["result"]
    gram = GramBound(dimension=784, classes=10)
    bits = grid_bits(gram, most_rows=60_000, std=result["sigma"])
    mechanism = NoisyGram.with_multiplier(
        result["noise_multiplier"], gram=gram, bits=bits, relation="add-remove"
    )
    assert result["sigma"] <= mechanism.std <= result["sigma"] * (1 + 2**-18)


def test_the_usual_keys_are_all_there(run: Run) -> None:
    usual = run("calibrate", *TARGET, "--rate", "1", "--rounds", "1", "--json").json["result"]
    result = run("calibrate", *TARGET, *TEN, "--json").json["result"]
    assert set(usual) < set(result)
    # One release of all data is one round at rate 1.
    assert (result["rounds"], result["rate"]) == (usual["rounds"], usual["rate"])
    assert result["noise_multiplier"] == pytest.approx(usual["noise_multiplier"], rel=1e-6)


def test_for_a_person(run: Run) -> None:
    outcome = run("calibrate", *TARGET, *TEN, "--neighbours", "replace-one")
    assert outcome.out == (
        "noise multiplier   3.988         2 x sigma / L2 sensitivity\n"
        "sigma              4.089         x R^2 on the diagonal, sigma / sqrt(2) above it\n"
        "on label sums      4.089         x R: sigma / label weight\n"
        "sensitivity        L2 2.051 (isometric), L1 885.9 (triangle)\n"
        "proves             epsilon 2.000 at delta 1e-05, replacing one record by another\n"
        "at least           epsilon 1.999, by any accounting\n"
        "by                 GDP\n"
        "over               one release of 315,560 numbers, of all data\n"
    )
    assert outcome.err == ""


def test_laplace_noise_is_on_the_triangle(run: Run) -> None:
    words = ("--mechanism", "laplace", "--label-weight", "2", "--unit", "user")
    out = run("calibrate", *TARGET, *TEN, *words, "--rows-per-user", "4").out
    assert "x R^2 on the upper triangle" in out
    assert "x R: scale / label weight" in out
    assert "per user           at most 4 rows, each of square norm 0.25 x R^2 or less" in out
    plain = run("calibrate", *TARGET, *GRAM, "--mechanism", "laplace").out
    assert "label" not in plain
    # Pure epsilon: the scale is the L1 sensitivity of the triangle, 392.5, by epsilon.
    assert float(plain.split("scale")[2].split()[0]) == pytest.approx(392.5 / 2, rel=1e-3)


LEAST: dict[str, tuple[bool, tuple[str, ...]]] = {
    "a unit that goes": (True, ()),
    "a unit that is replaced": (True, ("--neighbours", "replace-one")),
    "a row in another class": (True, ("--neighbours", "replace-one", "--by-class")),
    "rows in several classes": (
        False,
        (
            *("--neighbours", "replace-one", "--by-class"),
            *("--unit", "user", "--rows-per-user", "4"),
        ),
    ),
    "one column": (False, ("--neighbours", "replace-one", "--dimension", "1")),
    "Laplace": (False, ("--mechanism", "laplace")),
}


@for_each("name", list(LEAST))
def test_a_least_epsilon_is_shown_where_some_data_attain_the_bound(name: str, run: Run) -> None:
    """Of Laplace noise on many numbers the true epsilon may be far below: rho = (L2 / b)^2 / 2."""
    shown, words = LEAST[name]
    assert ("by any accounting" in run("calibrate", *TARGET, *TEN, *words).out) == shown
    result = run("calibrate", *TARGET, *TEN, *words, "--json").json["result"]
    assert (result["epsilon"]["lower"] > 1.99) == shown
    assert result["gap"] == pytest.approx(2.0 - result["epsilon"]["lower"])
    if name == "Laplace":
        rho = (result["sensitivity"]["add-remove"]["l2"] / result["sigma"]) ** 2 / 2
        true = pp.account(ev.ZCDP(rho), delta=1e-5, neighbours="add-remove").epsilon
        assert result["epsilon"]["lower"] <= true.upper < 0.1


def test_quiet_prints_the_noise_multiplier_rounded_up(run: Run) -> None:
    printed = float(run("calibrate", *TARGET, *TEN, "-q").out)
    result = run("calibrate", *TARGET, *TEN, "--json").json["result"]
    assert result["noise_multiplier"] <= printed <= result["noise_multiplier"] * (1 + 1e-5)


def test_a_matrix_for_each_class(run: Run) -> None:
    result = run("calibrate", *TARGET, *TEN, "--by-class", "--json").json["result"]
    assert result["values"] == 10 * 784 * 785 // 2 + 7840
    assert result["by_class"] is True
    bound = GramBound(dimension=784, classes=10, by_class=True)
    assert result["sensitivity"]["replace-one"]["l2"] == bound.l2("replace-one")


def test_delta_is_compared_with_the_units(run: Run, refused: Refused) -> None:
    target = ("--epsilon", "2", "--delta", "0.03", *TEN, "--unit", "user")
    unsaid = run("calibrate", *target, "--json").json
    assert "their number is not stated" in unsaid["assumptions"][-1]
    assert "50 users" in refused("calibrate", *target, "--units", "50")
    accepted = run("calibrate", *target, "--units", "50", "--accept-delta", "--json").json
    assert any("50 users are protected" in warning for warning in accepted["warnings"])
    assert any("A user has at most 1 row" in text for text in accepted["assumptions"])
    assert "`units` must be" in refused("calibrate", *target, "--units", "0")


def test_the_flag_silences_a_schedule_of_the_file(run: Run, refused: Refused) -> None:
    Path("privplan.toml").write_text("[calibrate]\nrecords = 60000\nbatch = 256\nepochs = 10\n")
    result = run("calibrate", *TARGET, *GRAM, "--json").json["result"]
    assert result["rounds"] == 1
    usual = run("calibrate", *TARGET, "--json").json["result"]
    assert usual["rounds"] == 2344
    assert "without --release gram" in refused("calibrate", *TARGET, "--dimension", "3")


@for_each(
    ("words", "said"),
    [
        (["--release", "gram"], "`dimension` is missing"),
        (["--release", "histogram"], "`release` must be one of gram"),
        ([*GRAM[:2], "--dimension", "0"], "`dimension` must be"),
        ([*GRAM[:2], "--dimension", "9000"], "`dimension` must be at most 8,192"),
        ([*GRAM, "--classes", "-1"], "`classes` must be"),
        ([*GRAM, "--classes", "5000"], "`classes` must be at most 1,024"),
        ([*GRAM, "--label-weight", "0"], "`label_weight` must be"),
        ([*GRAM, "--label-weight", "nan"], "Give --label-weight a value in that range"),
        ([*GRAM, "--by-class"], "two classes or more"),
        ([*GRAM, "--unit", "entry"], "`unit` must be one of record, user, silo"),
        ([*GRAM, "--rows-per-user", "3"], "`rows-per-user` is for the unit user"),
        ([*GRAM, "--unit", "silo", "--rows-per-user", "3"], "`rows-per-user` is for the unit"),
        ([*GRAM, "--unit", "user", "--silo-rows", "3"], "`silo-rows` is for the unit silo"),
        ([*GRAM, "--unit", "silo"], "`silo-rows` is missing"),
        ([*GRAM, "--unit", "user", "--rows-per-user", "0"], "`rows_per_user` must be"),
        ([*GRAM, "--rounds", "3"], "`rounds` is given with --release gram"),
        ([*GRAM, "--rate", "1"], "`rate` is given with --release gram"),
        ([*GRAM, "--records", "60000"], "`records` is given with --release gram"),
        ([*GRAM, "--group", "2"], "`group` is given with --release gram"),
        ([*GRAM, "--mechanism", "gauss"], "Did you mean --mechanism gaussian"),
        (["--rate", "1", "--rounds", "1", "--classes", "3"], "`classes` is given without"),
        (["--rate", "1", "--rounds", "1", "--unit", "user"], "`unit` is given without"),
    ],
)
def test_options_are_checked_at_the_door(words: list[str], said: str, refused: Refused) -> None:
    assert said in refused("calibrate", *TARGET, *words)


def test_what_cannot_be_computed_is_refused(refused: Refused) -> None:
    words = (*TARGET, *GRAM, "--neighbours", "zero-out")
    assert "not accounted under zero-out" in refused("calibrate", *words, code=3)
    words = (*TARGET, *TEN, "--label-weight", "1e200")
    assert "too extreme" in refused("calibrate", *words, code=3)


def test_the_file_may_describe_the_release_and_flags_outrank_it(run: Run, refused: Refused) -> None:
    Path("privplan.toml").write_text(
        '[calibrate]\nrelease = "gram"\ndimension = 30\nclasses = 2\nby_class = 1\n'
    )
    result = run("calibrate", *TARGET, "--dimension", "20", "--json").json["result"]
    assert (result["dimension"], result["classes"], result["by_class"]) == (20, 2, True)
    usual = run("calibrate", *TARGET, "--rate", "1", "--rounds", "3", "--json").json["result"]
    assert usual["rounds"] == 3
    said = refused("calibrate", *TARGET, "--dimension", "20", "--rounds", "3")
    assert "`rounds` is given with --release gram" in said


def test_the_pages_give_numbers_that_are_computed(run: Run) -> None:
    page = run("explain", "neighbours").out
    bound = GramBound(dimension=784, classes=10)
    for relation in ("add-remove", "replace-one"):
        assert f"{math.ceil(bound.l2(relation) * 1000) / 1000:.3f}" in page
    assert "--release gram" in run("explain", "group").out
