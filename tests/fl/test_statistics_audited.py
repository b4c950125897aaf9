"""Runs of private statistics under audit: what they promise is what their logs support."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from privplan.accountant.mechanisms import NoisyGram
from privplan.audit.budget import audit_budget
from privplan.audit.edits import edits_of
from privplan.fl.running.run_and_resume import run
from privplan.fl.settings.schema import Settings

from ..cases import for_each
from .extras import needs
from .statistics_runs import configuration

pytestmark = needs("sklearn", "cryptography")

TABLES = {"record": "", "user": "\nrows_per_user = 7", "silo": "\nsilo_rows = 40"}

VARIANTS: dict[str, tuple[str, str]] = {
    "plain": ('aggregation = "plain"', ""),
    "plain, coalition": ('aggregation = "plain"\ncolluders = 2', ""),
    "masked": ('aggregation = "masked"', ""),
    "masked, lossy": ('aggregation = "masked"\ndropouts = 1\ncolluders = 1', ""),
    "shares": ('aggregation = "shares"', ""),
    "shares, told": ('aggregation = "shares"\ncolluders = 2', ""),
    "laplace": ('aggregation = "plain"', '\nnoise = "laplace"'),
    "laplace, masked": ('aggregation = "masked"\ncolluders = 1', '\nnoise = "laplace"'),
    "by class": ('aggregation = "plain"', "\nby_class = true\nlabel_weight = 3.0"),
}


def described(name: str, unit: str, neighbours: str, noise: str) -> Settings:
    security, table = VARIANTS[name]
    return configuration(
        data='name = "breast-cancer"\nusers = 20\nsilos = 5',
        privacy=f'{noise}\nunit = "{unit}"\nneighbours = "{neighbours}"\ndelta = 0.001',
        statistics=f"row_norm = 6.0{TABLES[unit]}{table}",
        security=security,
    )


@for_each(
    "name, unit, neighbours",
    [
        (name, unit, ("add-remove", "replace-one")[(number + place) % 2])
        for number, name in enumerate(VARIANTS)
        for place, unit in enumerate(TABLES)
        if (number + place) % 3 != 2  # two units of each, and each unit six times
    ],
)
def test_the_audit_has_the_numbers_of_the_run(
    name: str, unit: str, neighbours: str, tmp_path: Path
) -> None:
    settings = described(name, unit, neighbours, "noise_multiplier = 4.0")
    if settings.privacy.unit == "silo":  # a delta of 1e-3 is far below 1 / silos
        assert settings.data.silos == 5
    result = run(settings, tmp_path / "out").result
    report = audit_budget(tmp_path / "out")
    assert report.errors == ()
    assert report.ok
    assert edits_of(tmp_path / "out") == ()
    found = {row.observer: row.total.upper for row in report.rows}
    assert set(found) >= set(result.guarantees)
    for observer, guarantee in result.guarantees.items():
        assert found[observer] == pytest.approx(guarantee.epsilon.upper, rel=1e-6), observer
        assert found[observer] <= guarantee.epsilon.upper * (1 + 1e-9), observer


@for_each("table", ["", '\nnoise = "laplace"'])
def test_half_the_noise_is_contradicted(
    table: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the residual tier, by which a sound run is contradicted once in 2,500."""
    from privplan.audit.residual.tier import residual_tier

    settings = configuration(statistics=f"row_norm = 6.0{table}")
    run(settings, tmp_path / "sound")
    honest: Any = NoisyGram._noise_of_share
    monkeypatch.setattr(
        NoisyGram, "_noise_of_share", lambda self, stream: honest(self, stream) // 2
    )
    run(settings, tmp_path / "half")
    sound, half = (residual_tier(tmp_path / name) for name in ("sound", "half"))
    assert [test.what for test in sound if test.contradicted] == []
    assert {"variance of parts of the noise"} <= {test.what for test in half if test.contradicted}


@for_each(
    "family, epsilon",
    [("gaussian", 1e-7), ("laplace", 1e-8), ("gaussian", 1e-300), ("laplace", 1e-300)],
)
def test_a_run_of_a_tiny_epsilon_is_not_accused(
    family: str, epsilon: float, tmp_path: Path
) -> None:
    settings = configuration(
        privacy=f"epsilon = {epsilon!r}", statistics=f'row_norm = 6.0\nnoise = "{family}"'
    )
    run(settings, tmp_path / "out")
    report = audit_budget(tmp_path / "out")
    assert report.errors == ()
    assert report.supported
