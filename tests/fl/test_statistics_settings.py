"""What a configuration of private statistics may say; all else is refused before the intent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("sklearn")

from privplan.accountant.errors import InvalidInput
from privplan.audit.budget import audit_budget
from privplan.audit.ledger.gram_facts import MAX_USABLE_FACT
from privplan.fl.running.preparation import prepare
from privplan.fl.running.run_and_resume import run
from privplan.fl.statistics.settings import MAX_FACT, RULES, StatisticsSettings

from ..cases import for_each
from .configured import assert_refused
from .statistics_runs import built, configuration, mechanism_of


def table(lines: str) -> dict[str, str]:
    return {"statistics": f"row_norm = 6.0\n{lines}"}


def of_unit(unit: str, lines: str = "") -> dict[str, str]:
    return {"privacy": f'noise_multiplier = 3.0\nunit = "{unit}"', **table(lines)}


REFUSED: dict[str, tuple[dict[str, str], str]] = {
    "no row norm": ({"statistics": "ridge = 1.0"}, r"lacks `row_norm` in \[statistics\]"),
    "row norm 0": ({"statistics": "row_norm = 0.0"}, "`row_norm` must be .* above 0"),
    "row norm nan": ({"statistics": "row_norm = nan"}, "`row_norm` must be"),
    "row norm small": ({"statistics": "row_norm = 1e-300"}, "`row_norm` must be from 1e-30 to"),
    "row norm large": ({"statistics": "row_norm = 1.1e30"}, "`row_norm` must be .* to 1e\\+30"),
    "label weight large": (table("label_weight = 1e300"), "`label_weight` must be from 1e-30 to"),
    "label weight": (table("label_weight = 0"), "`label_weight` must be .* above 0"),
    "intercept 1": (table("intercept = 1.0"), r"`intercept` must be a number in \[0, 1\)"),
    "intercept below 0": (table("intercept = -0.1"), "`intercept` must be"),
    "noise": (table('noise = "gausian"'), 'noise = "gaussian"'),
    "bits 7": (table("bits = 7"), "`bits` must be 0, or from 8 to 20"),
    "bits 21": (table("bits = 21"), "`bits` must be 0, or from 8 to 20"),
    "bits true": (table("bits = true"), "`bits` must be"),
    "fit": (table('fit = "lasso"'), "`fit` must be one of"),
    "ridge": (table("ridge = 0.0"), "`ridge` must be .* above 0"),
    "components": (table("components = -1"), "`components` must be an integer"),
    "rows 0": (of_unit("user", "rows_per_user = 0"), "`rows_per_user` must be"),
    "most rows": (table("most_rows = 0"), "`most_rows` must be"),
    "rounds": ({"run": 'system = "statistics"\nrounds = 2'}, r"rounds = 2 in \[run\]"),
    "survival": ({"data": 'name = "tcga-brca"'}, '"tcga-brca" in .* times of survival'),
    "rows of a user": (table("rows_per_user = 4"), '`rows_per_user` .* unit = "record"'),
    "silo rows": (of_unit("user", "silo_rows = 4"), '`silo_rows` .* unit = "user"'),
    "silo without rows": (of_unit("silo"), "lacks `silo_rows`"),
    "entry": (of_unit("entry"), "`unit` in .* record, user or silo"),
    "zero-out": (
        {"privacy": 'noise_multiplier = 3.0\nneighbours = "zero-out"'},
        '`neighbours` .* add-remove or replace-one; it is "zero-out"',
    ),
    "private moments": (
        {"data": 'name = "breast-cancer"\nnormalisation = "private"'},
        'normalisation = "private".* cannot pay',
    ),
    "a sample": (
        {"privacy": "noise_multiplier = 3.0\nsampling_rate = 0.5"},
        "`sampling_rate` .* no use for it",
    ),
    "training": ({"training": "clip = 1.0"}, "trains no model"),
    "no fit, ridge": (table('fit = "none"\nridge = 2.0'), '`ridge` with fit = "none"'),
    "private weighting": (
        {"security": 'aggregation = "private-weighting"'},
        "has no weights to hide",
    ),
    "no noise": ({"privacy": "delta = 1e-5"}, "lacks `epsilon` or `noise_multiplier`"),
    "delta 0": ({"privacy": "noise_multiplier = 3.0\ndelta = 0.0"}, "`delta` must be"),
}


@for_each("name", REFUSED)
def test_what_is_refused_names_the_key_and_what_to_do(name: str) -> None:
    tables, what = REFUSED[name]
    assert_refused(lambda: configuration(**tables), what)


PLANNED: dict[str, tuple[dict[str, str], str]] = {
    "rows below silos": (of_unit("user", "rows_per_user = 2"), "rows_per_user = 3 or more"),
    "usual rows": (of_unit("user"), "rows_per_user = 3 or more"),
    "components": (table("components = 31"), "`components` must be at most 30"),
    "bits": (table("bits = 20\nmost_rows = 1_000_000_000"), "fit into 64 bits on a grid of"),
    "too many rows": (table("most_rows = 1_000_000_000_000_000_000"), "do not fit into 64 bits"),
    "colluders": ({"security": 'aggregation = "masked"\ncolluders = 2'}, "`colluders` is 2"),
}


@for_each("name", PLANNED)
def test_what_does_not_suit_the_data_set_is_refused_before_anything_is_written(name: str) -> None:
    pytest.importorskip("cryptography")
    tables, what = PLANNED[name]
    assert_refused(lambda: prepare(configuration(**tables)), what)


def test_what_is_refused_of_sums_says_which_grid_fits() -> None:
    with pytest.raises(InvalidInput) as caught:
        prepare(configuration(**table("bits = 20\nmost_rows = 1_000_000_000")))
    bits = int(caught.value.next_step.split("bits = ")[1].split(",")[0])
    fitting = prepare(configuration(**table(f"bits = {bits}\nmost_rows = 1_000_000_000")))
    assert fitting.rounds == 1
    with pytest.raises(InvalidInput):
        prepare(configuration(**table(f"bits = {bits + 1}\nmost_rows = 1_000_000_000")))


def test_what_is_left_out_is_filled_in_and_every_rule_has_its_name(tiny: Any) -> None:
    with pytest.raises(InvalidInput, match=r"suits this noise|steps; it must be") as caught:
        mechanism_of(built(tiny(), most_rows=10**9, privacy={"noise_multiplier": 0.01}))
    assert "`label_weight`" in caught.value.next_step
    assert {rule.__name__ for rule in RULES} == {
        *("single_round", "of_classes", "capped_units", "_no_fit"),
    }
    found = configuration()
    assert found.table == StatisticsSettings(row_norm=6.0)
    assert (found.run.rounds, found.privacy.unit) == (1, "record")
    assert found.of(StatisticsSettings).most_rows is None


@for_each("row_norm", [1.0 / MAX_FACT, MAX_FACT])
def test_an_audit_counts_on_every_row_norm_that_is_taken(row_norm: float, tmp_path: Path) -> None:
    pytest.importorskip("cryptography")
    assert MAX_FACT == MAX_USABLE_FACT
    run(configuration(statistics=f"row_norm = {row_norm!r}"), tmp_path / "out")
    assert audit_budget(tmp_path / "out").supported


@for_each(
    ("unit", "lines", "most", "kept"),
    [
        ("record", "", 1_000_000, [None, None, None]),
        ("record", "most_rows = 500", 500, [None, None, None]),
        ("user", "rows_per_user = 8", 160, [3, 3, 2]),
        ("user", "rows_per_user = 3", 60, [1, 1, 1]),
        ("silo", "silo_rows = 200", 600, [200, 200, 200]),
    ],
)
def test_caps_follow_from_public_numbers(
    unit: str, lines: str, most: int, kept: list[int | None]
) -> None:
    terms = prepare(configuration(**of_unit(unit, lines))).system.terms
    assert terms.most_rows == most
    assert [terms.kept(silo) for silo in range(3)] == kept
    assert terms.gram.trace == (200.0 if unit == "silo" else 1.0)
    assert unit == "record" or sum(kept) >= terms.unit_rows


@for_each("unit", ["record", "user", "silo"])
def test_the_grid_is_chosen_from_public_numbers_alone(unit: str, tiny: Any) -> None:
    """Two federations of as many users and silos have one grid, whatever their records are."""
    few, many = tiny(records=12), tiny(records=400, seed=3)
    assert mechanism_of(built(few, unit)) == mechanism_of(built(many, unit))
    assert mechanism_of(built(few, unit)).bits >= 8


@for_each("noise", [0.1, 0.3, 3.0, 50.0, 2000.0])
@for_each("rows", [10, 10**6, 10**9])
def test_the_finest_grid_is_the_one_that_is_found_again(noise: float, rows: int, tiny: Any) -> None:
    """No finer grid fits its own noise, and the chosen one does."""
    from privplan.accountant.mechanisms import grid_bits
    from privplan.fl.statistics.settings import MAX_BITS

    system = built(tiny(), most_rows=rows, privacy={"noise_multiplier": noise})
    mechanism = mechanism_of(system)
    assert mechanism.event("add-remove").noise_multiplier >= noise
    fits = grid_bits(mechanism.gram, most_rows=rows, std=mechanism.std, shares=3)
    assert fits == mechanism.bits
    if mechanism.bits < MAX_BITS:
        with pytest.raises(InvalidInput, match="fit into 64 bits"):
            mechanism_of(
                built(
                    tiny(),
                    most_rows=rows,
                    bits=mechanism.bits + 1,
                    privacy={"noise_multiplier": noise},
                )
            )
