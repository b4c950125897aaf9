"""What a run would prove before it is begun, and what would lower it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from privplan.accountant.errors import InvalidInput
from privplan.fl.running.forecast import (
    DOUBLE_NOISE,
    HALF_ROUNDS,
    Forecast,
    ObserverForecast,
    forecast,
)
from privplan.fl.running.preparation import prepare
from privplan.fl.settings.schema import Settings
from privplan.fl.settings.toml_file import parse

from ..cases import for_each

BASE = """[run]
system = "{system}"
rounds = {rounds}
[data]
name = "breast-cancer"
users = 40
silos = 4
[privacy]
{privacy}
"""


def settings(
    more: str = "",
    system: str = "uldp-avg",
    rounds: int = 4,
    privacy: str = "noise_multiplier = 5.0",
) -> Settings:
    text = BASE.format(system=system, rounds=rounds, privacy=privacy) + more
    return parse(text.encode(), "run.toml")


def of(found: Forecast, observer: str) -> ObserverForecast:
    (only,) = (one for one in found.observers if one.observer == observer)
    return only


def test_the_numbers_are_those_of_the_plan() -> None:
    own = settings(privacy="epsilon = 8.0")
    found, planned = forecast(own), prepare(own).plan
    assert {one.observer: one.epsilon for one in found.observers} == {
        who: guarantee.epsilon for who, guarantee in planned.guarantees.items()
    }
    assert found.noise_multiplier == planned.noise["train"]
    assert found.rounds == 4


def test_a_change_is_what_another_run_would_prove() -> None:
    own = settings()
    best = of(forecast(own), "model").lowered_by
    louder = replace(own, privacy=replace(own.privacy, noise_multiplier=10.0))
    assert best is not None
    assert best.name == DOUBLE_NOISE
    assert best.epsilon == prepare(louder).plan.guarantees["model"].epsilon.upper


def test_noise_that_was_found_stays_when_rounds_are_halved_and_one_round_is_not() -> None:
    """Else the target would be met again, and no change would ever lower anything."""
    found = forecast(settings(privacy="epsilon = 8.0"))
    best = of(found, "model").lowered_by
    assert best is not None
    assert best.epsilon < 4.0
    found = forecast(settings(rounds=1))
    best = of(found, "model").lowered_by
    assert best is not None
    assert best.name not in (HALF_ROUNDS,)


def test_rounds_that_a_budget_cuts_are_not_counted_again() -> None:
    own = settings(privacy="epsilon = 1.1\nnoise_multiplier = 5.0", rounds=9)
    found = forecast(own)
    assert found.rounds == prepare(own).rounds == 2
    best = of(found, "model").lowered_by
    assert best is not None
    assert best.epsilon < of(found, "model").epsilon.upper


@for_each(
    ("more", "observer", "name"),
    [
        ('[training]\nweighting = "records"\n', "server", 'aggregation = "masked"'),
        ('[training]\nweighting = "records"\n', "silo-with-records", 'weighting = "uniform"'),
        ('[security]\naggregation = "masked"\n', "server", DOUBLE_NOISE),
    ],
)
def test_what_lowers_an_observers_epsilon_most(more: str, observer: str, name: str) -> None:
    best = of(forecast(settings(more)), observer).lowered_by
    assert best is not None
    assert best.name == name


def test_slots_hide_a_sample_from_the_server_of_private_weighting() -> None:
    found = forecast(
        settings(
            '[security]\naggregation = "private-weighting"\nkey_bits = 2048\n',
            privacy="noise_multiplier = 5.0\nsampling_rate = 0.3",
        )
    )
    best = of(found, "server").lowered_by
    assert best is not None
    assert best.name == "slots = 10"


@for_each(
    ("system", "privacy", "more"),
    [
        ("uldp-naive", "noise_multiplier = 5.0", "[uldp]\nas_published = true\n"),
        ("fedavg", "", ""),
    ],
)
def test_what_promises_nothing_is_lowered_by_nothing(system: str, privacy: str, more: str) -> None:
    text = BASE.format(system=system, rounds=2, privacy=privacy) + more
    if system == "fedavg":
        text = text.replace("[privacy]\n", "")
    found = forecast(parse(text.encode(), "run.toml"))
    assert {one.lowered_by for one in found.observers} == {None}


def test_nothing_is_written_and_what_cannot_be_planned_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    forecast(settings())
    assert [*tmp_path.iterdir()] == []
    with pytest.raises(InvalidInput, match="zero-out"):
        forecast(settings(privacy='noise_multiplier = 5.0\nneighbours = "zero-out"'))
