"""The residual tier on runs of the systems: sound ones pass, broken ones are found."""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privplan.accountant.errors import InvalidInput
from privplan.accountant.mechanisms import Gaussian, clip, gaussian
from privplan.audit.residual import residual_tier, tier
from privplan.audit.residual.tier import judged
from privplan.fl.log import LogWriter

from ..cases import for_each
from .residual_runs import SILOS, SURE, WHAT, against, in_memory, normal

# --- runs of the systems --------------------------------------------------------------------------

needs_runs = pytest.mark.skipif(
    any(find_spec(name) is None for name in ("torch", "sklearn", "cryptography", "msgpack")),
    reason="runs need the extra `fl`",
)


def made(folder: Path, system: str = "uldp-avg", aggregation: str = "plain", rounds: int = 6):
    """Make a small run, and return its folder."""
    from privplan.fl.running.preparation import prepare
    from privplan.fl.running.session import execute
    from privplan.fl.settings import schema

    settings = schema.Settings(
        run=schema.RunSettings(system=system, rounds=rounds, seed=11),
        data=schema.DataSettings(name="breast-cancer", users=9, silos=3),
        privacy=schema.PrivacySettings(
            noise_multiplier=5.0, group=4 if system == "uldp-group" else 1
        ),
        training=schema.TrainingSettings(
            clip=0.1, local_rate=0.1, global_rate=2.0, local_epochs=1, batch=64, model="logistic"
        ),
        security=schema.SecuritySettings(aggregation=aggregation),  # type: ignore[arg-type]
    )
    folder.mkdir()
    with LogWriter.create(folder, fsync="never") as writer:
        execute(prepare(settings), folder, writer)
    return folder


SYSTEMS = ["uldp-avg", "uldp-sgd", "uldp-naive", "uldp-group"]


@needs_runs
@for_each("system", SYSTEMS)
def test_sound_systems_pass(tmp_path: Path, system: str) -> None:
    found = residual_tier(made(tmp_path / "run", system), alpha=SURE)
    assert against(found) == set()
    assert {one.what for one in found} >= {*WHAT} - {"weights of a unit"}


@needs_runs
def test_masked_sums_pass_and_show_the_same(tmp_path: Path) -> None:
    plain, masked = made(tmp_path / "one"), made(tmp_path / "two", aggregation="masked")
    assert residual_tier(plain) == residual_tier(masked)


@needs_runs
def test_a_run_without_noise_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"No release in .* has noise"):
        residual_tier(made(tmp_path / "run", "fedavg"))


def halved(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw half the noise, and state all of it."""
    honest = gaussian.discrete_gaussian

    def draw(stream: Any, count: int, scale: float) -> Any:
        return honest(stream, count, scale / 2.0)

    monkeypatch.setattr(gaussian, "discrete_gaussian", draw)


def again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw the same noise in every round."""
    honest, kept = gaussian.discrete_gaussian, {}

    def draw(stream: Any, count: int, scale: float) -> Any:
        return kept.setdefault((stream.id, count), honest(stream, count, scale)).copy()

    monkeypatch.setattr(gaussian, "discrete_gaussian", draw)


def unclipped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not clip."""

    def wide(rows: Any, weights: Any, _: Any, grid: float, __: Any) -> Any:
        return (np.asarray(rows) * (weights / grid)[:, None]).astype(np.int64)

    monkeypatch.setattr(clip, "clipped", wide)


@needs_runs
@for_each(
    ("fault", "system", "where"),
    [
        *((halved, system, "variance of the noise") for system in SYSTEMS),
        *((again, system, "equal noise") for system in SYSTEMS),
        *((unclipped, system, "norms after clipping") for system in SYSTEMS),
        *((unclipped, system, "sums made again") for system in SYSTEMS),
    ],
)
def test_broken_systems_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: Any, system: str, where: str
) -> None:
    fault(monkeypatch)
    assert where in against(residual_tier(made(tmp_path / "run", system), alpha=SURE))


@needs_runs
def test_missing_weights_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from privplan.fl.uldp import weighted

    monkeypatch.setattr(weighted, "user_weights", lambda _, counts: (counts > 0).astype(float))
    monkeypatch.setattr(weighted, "checked_weights", lambda weights: weights)
    assert against(residual_tier(made(tmp_path / "run"), alpha=SURE)) == {"weights of a unit"}


@needs_runs
def test_one_silo_with_less_noise_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = Gaussian.share_steps

    def less(self: Gaussian, ticket: Any, total: Any, name: str, part: str = "") -> Any:
        found = honest(self, ticket, total, name, part)
        return total + (found - total) // 2 if name == "noise/silo-1" else found

    monkeypatch.setattr(Gaussian, "share_steps", less)
    one = residual_tier(made(tmp_path / "run"))[0]
    assert one.contradicted
    assert one.sample["worst"] == "silo-1"
    assert one.observer == tier.AUDITOR


def test_a_run_that_went_on_is_read_in_its_segments() -> None:
    """Fingerprints under another key, and distances of another start, are not compared."""
    first, second = (in_memory(normal, 1, rounds=4, width=60) for _ in range(2))
    whole = replace(first, releases=first.releases + second.releases)
    assert len({one.segment for one in whole.releases}) == 2
    found = {one.what: one for one in judged(whole, 0.05)}
    assert not found[
        "equal noise"
    ].contradicted  # the same noise, which only the log's streams show
    assert found["shape of the noise"].sample["values"] == 2 * 4 * 60 * (SILOS + 1)
