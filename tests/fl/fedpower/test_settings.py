"""What a configuration of FedPower may say; all else is refused before the first intent."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("sklearn")

from privplan.accountant.errors import InvalidInput
from privplan.fl.fedpower.settings import FedPowerSettings
from privplan.fl.running.preparation import prepare

from ...cases import for_each
from ..configured import assert_refused
from .power_runs import UNITS, built, configuration


def table(lines: str, system: str = "fedpower-power") -> dict[str, str]:
    keys = f"rank = 2\nrow_norm = 6.0\n{lines}"
    return {"run": f'system = "{system}"', "fedpower": keys}


def of_unit(unit: str, lines: str = "", system: str = "fedpower-power", also: str = "") -> Any:
    privacy = f'noise_multiplier = 3.0\nunit = "{unit}"\n{also}'
    return {"privacy": privacy, **table(lines, system)}


REPLACED = 'neighbours = "replace-one"'
SHOT = "fedpower-one-shot"

REFUSED: dict[str, tuple[dict[str, str], str]] = {
    "no rank": ({"fedpower": "row_norm = 6.0"}, r"lacks `rank` in \[fedpower\]"),
    "no row norm": ({"fedpower": "rank = 2"}, r"lacks `row_norm` in \[fedpower\]"),
    "rank 0": ({"fedpower": "rank = 0\nrow_norm = 6.0"}, "`rank` must be a positive integer"),
    "row norm 0": ({"fedpower": "rank = 2\nrow_norm = 0.0"}, "`row_norm` must be .* above 0"),
    "row norm nan": ({"fedpower": "rank = 2\nrow_norm = nan"}, "`row_norm` must be"),
    "row norm": ({"fedpower": "rank = 2\nrow_norm = 1e31"}, "`row_norm` must be from 1e-30 to"),
    "divisor": (table("divisor = 1e-31"), "`divisor` must be from 1e-30 to 1e\\+30"),
    "oversampling": (table("oversampling = -1"), "`oversampling` must be an integer"),
    "most rows": (table("most_rows = 0"), "`most_rows` must be"),
    "signal 1": (table("signal = 1.0", "fedpower"), r"`signal` must be a number in \[0, 1\)"),
    "design": (table('design = "svd"', "fedpower"), "`design` must be one of"),
    "most values": (table("most_values = 0", "fedpower"), "`most_values` must be"),
    "change": (of_unit("entry", "largest_change = 0.0", also=REPLACED), "`largest_change` must be"),
    "user": (of_unit("user"), "`unit` in .* record, silo or entry"),
    "user, one shot": (of_unit("user", "", SHOT), "`unit` in .* record or silo"),
    "entry, one shot": (of_unit("entry", "", SHOT, REPLACED), "`unit` in .* record or silo"),
    "entry, chosen": (
        of_unit("entry", 'largest_change = 1.0\ndesign = "one-shot"', "fedpower", REPLACED),
        'unit = "entry" .* design = "one-shot"',
    ),
    "silo without rows": (of_unit("silo"), "lacks `silo_rows`"),
    "rows without silo": (table("silo_rows = 4"), '`silo_rows` .* unit = "record"'),
    "entry without change": (of_unit("entry", also=REPLACED), "lacks `largest_change`"),
    "change without entry": (table("largest_change = 4.0"), '`largest_change` .* unit = "record"'),
    "entry, add-remove": (
        of_unit("entry", "largest_change = 1.0"),
        'neighbours = "add-remove" for unit = "entry"',
    ),
    "rounds of one shot": (
        {**table("", SHOT), "run": f'system = "{SHOT}"\nrounds = 2'},
        r"rounds = 2 in \[run\]",
    ),
    "rounds of a chosen one": (
        {
            **table('design = "one-shot"', "fedpower"),
            "run": 'system = "fedpower"\nrounds = 2',
        },
        r"rounds = 2 in \[run\]",
    ),
    "design of power": (table('design = "power"'), "`design` .*fedpower-power"),
    "signal of power": (table("signal = 0.4"), "`signal` .*fedpower-power"),
    "p of power": (table("synchronise_every = 2"), "`synchronise_every` .*fedpower-power"),
    "as published": (table("as_published = true"), "`as_published` .*fedpower-power"),
    "divisor of one shot": (table("divisor = 2.0", SHOT), "`divisor` .*fedpower-one-shot"),
    "a sample": (
        {"privacy": "noise_multiplier = 3.0\nsampling_rate = 0.5"},
        "`sampling_rate` .* no use for it",
    ),
    "private moments": (
        {"data": 'name = "breast-cancer"\nnormalisation = "private"'},
        'normalisation = "private".* cannot pay',
    ),
    "training": ({"training": "clip = 1.0"}, "trains no model"),
    "no noise": ({"privacy": "delta = 1e-5"}, "lacks `epsilon` or `noise_multiplier`"),
    "private weighting": ({"security": 'aggregation = "private-weighting"'}, "no weights to hide"),
}


@for_each("name", REFUSED)
def test_what_is_refused_names_the_key_and_what_to_do(name: str) -> None:
    tables, what = REFUSED[name]
    assert_refused(lambda: configuration(**tables), what)


PLANNED: dict[str, tuple[dict[str, str], str]] = {
    "rank": ({"fedpower": "rank = 31\nrow_norm = 6.0"}, "`rank` is 31; the data have 30 columns"),
    "oversampling": (table("oversampling = 29"), "`oversampling` 29; the data have 30 columns"),
    "rank, one shot": (
        {**table("", SHOT), "fedpower": "rank = 31\nrow_norm = 6.0"},
        "`rank` is 31; the data have 30",
    ),
    "rank, chosen": (
        {**table("", "fedpower"), "fedpower": "rank = 31\nrow_norm = 6.0"},
        "`rank` is 31; the data have 30",
    ),
    "rows": (table("most_rows = 1_000_000_000_000_000_000"), "No grid suits this product"),
    "colluders": ({"security": 'aggregation = "masked"\ncolluders = 2'}, "`colluders` is 2"),
    "observer": (
        {"privacy": 'epsilon = 1.0\nobserver = "peer"'},
        "no observer 'peer' of its own",
    ),
}


@for_each("name", PLANNED)
def test_what_does_not_suit_the_data_is_refused_before_anything_is_written(name: str) -> None:
    pytest.importorskip("cryptography")
    tables, what = PLANNED[name]
    assert_refused(lambda: prepare(configuration(**tables)), what)


@for_each("system", ["fedpower-power", SHOT, "fedpower"])
def test_sampled_users_are_refused_at_the_door(system: str, tiny: Any) -> None:
    with pytest.raises(InvalidInput, match="does not sample users"):
        built(tiny(), system=system, rounds=1, privacy={"sampling_rate": 0.5})


def test_defaults_are_those_of_the_settings() -> None:
    found = configuration()
    assert found.table == FedPowerSettings(rank=2, row_norm=6.0)
    assert found.run.rounds == 6
    assert configuration(**table("", SHOT)).run.rounds == 1
    assert configuration(**table("", "fedpower")).run.rounds == 16


@for_each("unit", UNITS)
def test_the_grid_is_chosen_from_public_numbers_alone(unit: str, tiny: Any) -> None:
    """Two federations of as many users and silos have one mechanism, whatever their records."""
    few, many = built(tiny(records=12), unit), built(tiny(records=400, seed=3), unit)
    assert few.mechanism(3.0) == many.mechanism(3.0)
    assert few.mechanism(3.0).event(few.setup.privacy.neighbours).noise_multiplier >= 3.0


@for_each(
    ("lines", "unit", "most"),
    [("", "record", 1_000_000), ("most_rows = 500", "record", 500), ("silo_rows = 7", "silo", 21)],
)
def test_the_number_of_rows_is_public(lines: str, unit: str, most: int) -> None:
    assert prepare(configuration(**of_unit(unit, lines))).system.terms.most_rows == most
