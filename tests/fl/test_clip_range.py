"""Which clips a run may have: none beside which parameters of a model are rounded off."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import privplan as pp
from privplan.accountant import records
from privplan.accountant.errors import InvalidInput
from privplan.audit.budget import audit_budget
from privplan.fl.settings.rules import LEAST_CLIP, MOST_CLIP
from privplan.fl.settings.toml_file import parse

from ..cases import for_each
from .configured import SYSTEMS, read, written
from .extras import needs
from .small_runs import of, started
from .wards import ward

WITH_CLIP = [name for name, system in SYSTEMS.items() if system.has_use_for("training", "clip")]

runs = needs("torch", "sklearn", "cryptography")


@for_each("clip", ["1e-300", "1e-20", "9.99e-10", "1.01e9", "1e20", "1e100", "1e308"])
@for_each("system", WITH_CLIP)
def test_a_clip_beyond_floats_is_refused_for_every_system(system: str, clip: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse(written(system, training={"clip": clip}), "run.toml")
    error = caught.value
    assert f"clip = {float(clip):g} in [training], which must be from 1e-09 to 1e+09" in error.what
    assert "rounded off" in error.why
    assert error.next_step


@for_each("clip", [LEAST_CLIP, 1.0, MOST_CLIP])
@for_each("system", WITH_CLIP)
def test_the_ends_of_the_range_are_in_it(system: str, clip: float) -> None:
    assert read(system, training={"clip": repr(clip)}).training.clip == clip


@for_each("rule", ["fixed", "previous", "quantile"])
def test_the_first_clip_of_a_rule_is_held_to_it_too(rule: str) -> None:
    tables = {"training": {"clip": "1e-20"}, "disco": {"clip": f'"{rule}"'}}
    with pytest.raises(InvalidInput, match="clip = 1e-20"):
        read("disco", **tables)


def test_settings_of_a_program_are_held_to_it_too() -> None:
    with pytest.raises(InvalidInput, match=r"clip = 1e\+100"):
        pp.plan_run(ward(training={"clip": 1e100}))
    own = read("uldp-avg")
    with pytest.raises(InvalidInput, match="clip = 1e-20"):
        pp.plan_run(replace(own, training=replace(own.training, clip=1e-20)))


@runs
@for_each("clip", [LEAST_CLIP, MOST_CLIP])
@for_each("system", ["uldp-avg", "disco"])
def test_runs_at_the_ends_are_audited_without_an_error(
    system: str, clip: float, tmp_path: Path
) -> None:
    """With few users: their models move in every round, and there is noise to rely on."""
    data = {"silos": "3"} if system == "disco" else {"silos": "3", "users": "6"}
    started(read(system, data=data, training={"clip": repr(clip)}), tmp_path)
    report = audit_budget(tmp_path)
    assert report.ok
    models = [one.model_out for one in of(tmp_path, records.RoundRelease)]
    assert len(set(models)) == len(models) == 2


@runs
def test_a_log_of_an_earlier_version_is_judged_by_what_it_released(tmp_path: Path) -> None:
    """It may have a clip that no new run has, under which models did not repeat."""
    own = read("uldp-avg", data={"silos": "3", "users": "6"})
    started(replace(own, training=replace(own.training, clip=1e-10)), tmp_path)
    assert audit_budget(tmp_path).ok
