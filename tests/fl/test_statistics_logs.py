"""What a configuration fixes of the log of a release, and what the log of a run says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privplan.accountant import events as ev
from privplan.accountant import records
from privplan.fl.declarations.registry import declaration_of
from privplan.fl.frame.expected_log import NotStated, first_of, phase_of
from privplan.fl.log import read
from privplan.fl.running.checkpoint import MODEL_FILE, Checkpoint
from privplan.fl.running.run_and_resume import run
from privplan.fl.settings.schema import Settings

from ..cases import for_each
from .extras import needs
from .statistics_runs import configuration

pytestmark = needs("sklearn", "cryptography")

NOISE = {
    "given": "noise_multiplier = 2.5",
    "found": "epsilon = 1.0",
    "both": "epsilon = 9.0\nnoise_multiplier = 4.0",
}

TABLES = {
    "record": "",
    "laplace": '\nnoise = "laplace"',
    "by class": "\nby_class = true\nlabel_weight = 2.0",
    "no intercept": "\nintercept = 0.0\nbits = 12",
    "user": "\nrows_per_user = 5",
    "silo": "\nsilo_rows = 40",
}

SECURITY = {
    "plain": 'aggregation = "plain"',
    "masked": 'aggregation = "masked"\ndropouts = 1',
    "shares": 'aggregation = "shares"',
}


def described(noise: str, table: str, security: str, neighbours: str = "add-remove") -> Settings:
    unit = table if table in ("user", "silo") else "record"
    return configuration(
        privacy=f'{NOISE[noise]}\nunit = "{unit}"\nneighbours = "{neighbours}"\ndelta = 0.001',
        statistics=f"row_norm = 6.0{TABLES[table]}",
        security=SECURITY[security],
    )


def reading(settings: Settings) -> Any:
    tables = settings.tables()
    return lambda table, key: getattr(tables[table], key)


def of(folder: Path, kind: type[Any]) -> Any:
    (line,) = [line.record for line in read(folder) if isinstance(line.record, kind)]
    return line


@for_each(
    "table, security, noise, neighbours",
    [
        (table, security, [*NOISE][(number + turned) % len(NOISE)], neighbours)
        for turned, neighbours in enumerate(("add-remove", "replace-one"))
        for number, (table, security) in enumerate(
            [*((t, "plain") for t in TABLES), ("user", "masked"), ("record", "shares")]
        )
    ],
)
def test_a_configuration_fixes_what_the_log_says(
    noise: str, table: str, security: str, neighbours: str, tmp_path: Path
) -> None:
    settings = described(noise, table, security, neighbours)
    run(settings, tmp_path / "out")
    intent, release = (
        of(tmp_path / "out", kind) for kind in (records.RoundIntent, records.RoundRelease)
    )
    expected = phase_of(reading(settings), intent, release.values)
    assert expected.contribution == intent.contribution
    assert expected.noise == intent.noise
    assert expected.sensitivity == intent.sensitivity
    assert expected.weights == intent.weights
    assert expected.sampling == intent.sampling
    assert expected.normaliser == release.normaliser
    assert release.clip_enforced
    first = first_of(reading(settings))
    assert first is not None
    assert first.size == release.values
    assert not first.any()
    assert intent.phase == "release"
    assert set(release.sealed) == set(settings.sealed_items()["release"])


def test_other_noise_is_not_what_the_configuration_fixes(tmp_path: Path) -> None:
    settings = described("found", "record", "plain")
    run(settings, tmp_path / "out")
    intent = of(tmp_path / "out", records.RoundIntent)
    weaker = replace(intent, event=ev.Gaussian(intent.event.noise_multiplier * 2.0))
    assert phase_of(reading(settings), weaker, None).noise != intent.noise
    other = replace(intent, event=ev.NoGuarantee("none"))
    with pytest.raises(NotStated):
        phase_of(reading(settings), other, None)


def test_the_file_of_the_run_has_the_parts_by_name_and_nothing_of_the_rows_is_logged(
    tmp_path: Path,
) -> None:
    outcome = run(described("given", "by class", "plain"), tmp_path / "out")
    arrays = Checkpoint.read(tmp_path / "out" / MODEL_FILE).arrays()
    assert {name: part.shape for name, part in arrays.items()} == {
        "gram": (2, 31 * 32 // 2),
        "labels": (31, 2),
    }
    assert np.array_equal(np.concatenate([p.ravel() for p in arrays.values()]), outcome.parameters)
    assert 0.5 < outcome.metrics["accuracy"] <= 1.0
    assert "loss" not in outcome.metrics
    # Counts, norms and sums before the noise are sealed: no line names them.
    run(described("given", "user", "masked"), tmp_path / "user")
    text = (tmp_path / "user" / "log.jsonl").read_text()
    assert "rows_beyond" in text  # the name of a commitment
    for name in ("term_largest", "sum_off", "squares"):
        assert name not in text
        assert name in (tmp_path / "user" / "sealed.jsonl").read_text()


def test_laplace_noise_keeps_a_pure_epsilon_and_without_a_fit_nothing_is_measured(
    tmp_path: Path,
) -> None:
    settings = configuration(statistics='row_norm = 6.0\nfit = "none"')
    assert run(settings, tmp_path / "unfitted").metrics == {}
    # At any delta: what it proves at 1e-3 is below the pure epsilon by no more than 2 delta.
    outcome = run(described("found", "laplace", "plain"), tmp_path / "out")
    event = of(tmp_path / "out", records.RoundIntent).event
    assert isinstance(event, ev.Laplace)
    pure = 1.0 / event.noise_multiplier
    assert outcome.guarantee.epsilon.upper <= 1.0 <= pure <= 1.0 + 2.1e-3


def test_the_declaration_loads_no_numpy() -> None:
    import subprocess
    import sys

    code = (
        "import sys; from privplan.fl.statistics import declaration; "
        "sys.exit('numpy' in sys.modules or 'torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    assert declaration_of("statistics").units == ("record", "user", "silo")
