"""The design that `fedpower` chooses from public facts alone, and what its log must say."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privplan.accountant.records import RoundIntent, RunOpen
from privplan.audit.verify import verify
from privplan.fl.declarations.registry import declaration_of
from privplan.fl.fedpower.one_shot import OneShot
from privplan.fl.fedpower.planner import chosen_design
from privplan.fl.fedpower.power import PowerIteration
from privplan.fl.fedpower.settings import FedPowerSettings
from privplan.fl.frame.expected_log import first_of, phase_of
from privplan.fl.frame.expected_opening import OPENING, AtMost
from privplan.fl.running.preparation import prepare

from ...cases import for_each
from ..extras import needs
from ..small_runs import of, started
from .power_runs import built, configuration

AUTO: dict[str, Any] = {"system": "fedpower", "rounds": 16}
needs_data = needs("sklearn", "cryptography")


@for_each(
    ("dimension", "keys", "unit", "design"),
    [
        (64, {}, "record", "one-shot"),
        (6324, {}, "record", "one-shot"),
        (6325, {}, "record", "power"),
        (64, {"most_values": 2080}, "record", "one-shot"),
        (64, {"most_values": 2079}, "silo", "power"),
        (64, {}, "entry", "power"),
        (64, {"design": "power"}, "record", "power"),
        (7000, {"design": "one-shot"}, "record", "one-shot"),
        (9000, {"most_values": 10**9}, "record", "power"),
    ],
)
def test_the_design_follows_from_public_numbers(
    dimension: int, keys: dict[str, Any], unit: str, design: str
) -> None:
    found = chosen_design(
        FedPowerSettings(rank=2, row_norm=1.0, **keys), unit=unit, dimension=dimension
    )
    assert found.name == design
    assert all(found.reasons)


def test_one_shot_has_the_noise_of_one_release(tiny: Any) -> None:
    planned = built(tiny(), privacy={"epsilon": 2.0}, **AUTO)
    alone = built(tiny(), privacy={"epsilon": 2.0}, system="fedpower-one-shot", rounds=1)
    assert isinstance(planned, OneShot)
    assert planned.promise.noise_multiplier == alone.promise.noise_multiplier
    assert planned.promise.rounds == 1


def test_a_target_has_the_rounds_of_least_predicted_error(tiny: Any) -> None:
    made = built(tiny(), privacy={"epsilon": 2.0}, most_values=9, **AUTO)
    assert isinstance(made, PowerIteration)
    assert made.design.name == "power"
    rounds = made.promise.rounds
    assert 1 <= rounds < 16
    plain = built(tiny(), privacy={"epsilon": 2.0}, rounds=rounds)
    assert made.promise.noise_multiplier == plain.promise.noise_multiplier


def test_the_choice_uses_no_data(tiny: Any) -> None:
    """Federations of as many users, silos and columns have one plan, whatever their records are."""
    keys = {**AUTO, "privacy": {"epsilon": 2.0}, "most_values": 9}
    plans = [built(tiny(records=12 + 100 * seed, seed=seed), **keys).promise for seed in range(3)]
    assert plans[0] == plans[1] == plans[2]


def test_more_public_rows_change_the_choice(tiny: Any) -> None:
    keys = {**AUTO, "privacy": {"epsilon": 2.0}, "most_values": 9}
    rounds = {
        built(tiny(features=60), most_rows=rows, **keys).promise.rounds
        for rows in (10, 10**3, 10**4)
    }
    assert len(rounds) > 1


@for_each("observer", ["model", "server", "client"])
def test_the_multiplier_is_that_of_the_observer_of_the_claim(observer: str, tiny: Any) -> None:
    """Before an observer who sees less noise, all of it is more: fewer rounds, or as many."""
    privacy = {"epsilon": 4.0, "observer": observer}
    made = built(tiny(), privacy=privacy, most_values=9, most_rows=300, **AUTO)
    assert made.promise.claim.observer == observer
    assert made.promise.rounds < 16
    assert made.plan().guarantees[observer].epsilon.upper <= 4.0


@for_each("keys", [{}, {"most_values": 9}])
def test_given_noise_makes_the_configured_rounds(keys: dict[str, int], tiny: Any) -> None:
    made = built(tiny(), **AUTO, **keys)
    assert made.promise.rounds == (16 if keys else 1)
    assert len(made.design.reasons) == 1


def test_noise_and_target_are_cut_by_the_budget(tiny: Any) -> None:
    privacy = {"epsilon": 2.0, "noise_multiplier": 3.0}
    made = built(tiny(), privacy=privacy, most_values=9, **AUTO)
    plain = built(tiny(), privacy=privacy, rounds=16)
    assert 0 < made.promise.rounds == plain.promise.rounds < 16


@for_each("unit", ["record", "silo", "entry"])
def test_every_unit_has_a_plan(unit: str, tiny: Any, run: Any) -> None:
    made = built(tiny(), unit, privacy={"epsilon": 3.0}, **AUTO)
    models, log = run(made)
    assert len(log.releases) == made.promise.rounds
    assert np.isfinite(models[-1]).all()


def facts_of(settings: Any) -> Any:
    tables = settings.tables()
    return lambda table, key: getattr(tables[table], key)


@for_each("system", ["fedpower", "fedpower-power", "fedavg"])
def test_fewer_rounds_are_expected_where_that_is_declared(system: str) -> None:
    values = {
        ("run", "system"): system,
        ("run", "rounds"): 9,
        ("data", "normalisation"): "public",
        ("evaluation", "held_out_noise"): None,
        ("privacy", "epsilon"): 1.0,
        ("privacy", "noise_multiplier"): None,
    }
    expected = dict(OPENING)["plan.rounds"](lambda table, key: values[table, key])
    assert expected == (AtMost(9) if declaration_of(system).fewer_rounds else 9)
    assert declaration_of(system).fewer_rounds == (system == "fedpower")


@needs_data
@for_each("system", ["fedpower", "fedpower-one-shot", "fedpower-power"])
@for_each("keys", ["", "\nmost_values = 9"])
@for_each("noise", ["epsilon = 3.0", "noise_multiplier = 3.0"])
def test_what_a_log_states_is_what_its_configuration_fixes(
    noise: str, keys: str, system: str, tmp_path: Path
) -> None:
    if keys and system != "fedpower":
        pytest.skip("a key of the choice alone")
    own = configuration(
        run=f'system = "{system}"' + ("\nrounds = 3" if system == "fedpower-power" else ""),
        privacy=noise,
        fedpower=f"rank = 2\nrow_norm = 6.0{keys}",
    )
    folder = tmp_path / "run.d"
    done = started(own, folder)
    assert verify(folder).complete
    (opened,) = of(folder, RunOpen)
    read = facts_of(own)
    for intent in of(folder, RoundIntent):
        due = phase_of(read, intent, done.parameters.size)
        assert due.contribution == intent.contribution
        assert due.noise == intent.noise
        assert due.sensitivity == intent.sensitivity
    first = first_of(read)
    assert first is not None
    assert first.size == done.parameters.size
    allowed = dict(OPENING)["plan.rounds"](read)
    planned = opened.plan.rounds
    assert planned <= allowed.value if isinstance(allowed, AtMost) else planned == allowed
    assert done.reason == "finished"


@needs_data
def test_another_design_than_the_configuration_fixes_does_not_fit(tmp_path: Path) -> None:
    """A log of a Gram release, read with a configuration that has a power iteration."""
    from privplan.accountant.errors import InvalidInput

    own = configuration(run='system = "fedpower"', privacy="noise_multiplier = 3.0")
    started(own, tmp_path / "run.d")
    (intent,) = of(tmp_path / "run.d", RoundIntent)
    other = replace(own, table=replace(own.table, most_values=9))
    try:
        due = phase_of(facts_of(other), intent, None)
    except InvalidInput:
        return
    assert due.contribution != intent.contribution


@needs_data
@for_each(("keys", "name"), [("", "one-shot"), ("\nmost_values = 9", "power")])
def test_a_dry_run_says_which_design_it_is(keys: str, name: str, tmp_path: Path) -> None:
    from privplan.cli.reports.forecast import forecast_of

    path = tmp_path / "run.toml"
    path.write_text(
        '[run]\nsystem = "fedpower"\n[data]\nname = "breast-cancer"\nsilos = 3\n'
        f"[privacy]\nepsilon = 3.0\n[fedpower]\nrank = 2\nrow_norm = 6.0{keys}\n"
    )
    said = forecast_of(path)
    assert said.result["design"]["name"] == name
    assert "a Gram matrix has 465 numbers" in said.result["design"]["reason"]
    assert f"design   {name}: a Gram matrix has 465 numbers" in said.text
    assert json.dumps(said.result)
    prepared = prepare(configuration(run='system = "fedpower-power"'))
    assert prepared.design is None
