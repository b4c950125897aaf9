"""The residual tier: sound runs pass, broken noise is found, and what is found stays sealed."""

from __future__ import annotations

import json
import stat
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from privplan.accountant.errors import InvalidInput
from privplan.accountant.mechanisms import Gaussian, clip, gaussian
from privplan.audit.measurement import Measurement
from privplan.audit.residual import SEALED_REPORT, residual_tier, tier, write_sealed_report
from privplan.audit.residual.tier import judged
from privplan.fl.files import atomic
from privplan.fl.log import BadLine, LogWriter
from privplan.fl.log.canonical import LOG, SEALED

from . import logs
from .residual_runs import SILOS, in_memory, intent, items, normal, on_disk, opening, release

WHAT = (
    "variance of the noise",
    "shape of the noise",
    "noise over time",
    "noise across silos",
    "values without noise",
    "equal noise",
    "norms after clipping",
    "sums made again",
    "weights of a unit",
    "draws and shares",
)


SURE = 1e-6
"""The level where one run is judged, whose noise must not decide: a false alarm in 10^6 seeds."""


def against(found: tuple[Measurement, ...]) -> set[str]:
    """Return what was contradicted."""
    return {one.what for one in found if one.contradicted}


def noticed(found: tuple[Measurement, ...]) -> set[str]:
    """Return what was contradicted, or unusual."""
    return {one.what for one in found if one.verdict != "not-contradicted"}


# --- false alarms and power -----------------------------------------------------------------------


def accused(law: Any, seeds: range, **size: int) -> tuple[int, int]:
    """Return how many of so many runs were contradicted, and how many of them or unusual."""
    runs = [judged(in_memory(law, seed, **size), 0.05) for seed in seeds]
    return sum(bool(against(one)) for one in runs), sum(bool(noticed(one)) for one in runs)


@pytest.mark.parametrize(("rounds", "width"), [(6, 31), (2, 300), (1, 12)])
def test_sound_runs_are_hardly_ever_accused(rounds: int, width: int) -> None:
    """At most one in twenty; the test fails for such a tier with probability 10^-4 at most."""
    runs = 150
    most = int(stats.binom.isf(1e-4, runs, 0.05))
    contradicted, unusual = accused(normal, range(runs), rounds=rounds, width=width)
    assert contradicted == 0  # at 1 in 2,500; the seeds are fixed
    assert unusual <= most


@pytest.mark.slow
def test_sound_runs_are_accused_at_most_as_often_as_is_said() -> None:
    runs = 4000
    most = [int(stats.binom.isf(1e-4, runs, level)) for level in (0.0004, 0.05)]
    contradicted, unusual = accused(normal, range(1000, 1000 + runs), rounds=5, width=40)
    assert contradicted <= most[0]
    assert 0 < unusual <= most[1]


@pytest.mark.parametrize(("scale", "width"), [(0.95, 250), (1.06, 250), (0.98, 2500)])
def test_noise_that_is_a_little_too_narrow_is_found(scale: float, width: int) -> None:
    """5,000 values of .95, and 50,000 of .98: 18 of 20 runs are unusual at least.

    Of runs that are found with probability .97, fewer than 18 are found with one of 0.02; the
    seeds are fixed.  Twice as many values contradict the log.
    """
    _, found = accused(
        lambda rng, number, size: scale * normal(rng, number, size),
        range(20),
        rounds=5,
        width=width,
    )
    assert found >= 18
    contradicted, _ = accused(
        lambda rng, number, size: scale * normal(rng, number, size),
        range(20),
        rounds=10,
        width=width,
    )
    assert contradicted >= 18


def once(_: np.random.Generator, number: int, width: int) -> np.ndarray:
    """Return the same noise in every round."""
    return normal(np.random.default_rng(99), number, width)


def partly(rng: np.random.Generator, number: int, width: int) -> np.ndarray:
    """Return noise of which a third of the variance is the same in every round."""
    return (2 / 3) ** 0.5 * normal(rng, number, width) + (1 / 3) ** 0.5 * once(rng, number, width)


def shared(rng: np.random.Generator, number: int, width: int) -> np.ndarray:
    """Return noise of which silos 1 and 3 have the same."""
    found = normal(rng, number, width)
    found[3] = found[1]
    return found


def against_each_other(rng: np.random.Generator, number: int, width: int) -> np.ndarray:
    """Return noise of which silo 0 takes off what the others add."""
    found = normal(rng, number, width)
    found[0] = -found[1:].sum(axis=0) / (SILOS - 1) ** 0.5
    return found


def one_silo(rng: np.random.Generator, number: int, width: int) -> np.ndarray:
    """Return noise that is too narrow in one silo only."""
    found = normal(rng, number, width)
    found[2] *= 0.8
    return found


def laplace(rng: np.random.Generator, _: int, width: int) -> np.ndarray:
    """Return Laplace noise of the right variance."""
    return rng.laplace(scale=0.5**0.5, size=(SILOS, width))


def one_value(rng: np.random.Generator, number: int, width: int) -> np.ndarray:
    """Return noise that one value of one round lacks."""
    found = normal(rng, number, width)
    found[1, 7] *= number != 3
    return found


def nothing(rng: np.random.Generator, number: int, width: int) -> np.ndarray:
    """Return no noise."""
    return 0.0 * normal(rng, number, width)


@pytest.mark.parametrize(
    ("law", "where"),
    [
        (lambda *own: 0.5 * normal(*own), "variance of the noise"),
        (one_silo, "variance of the noise"),
        (against_each_other, "variance of the noise"),
        (nothing, "variance of the noise"),
        (nothing, "values without noise"),
        (laplace, "shape of the noise"),
        (once, "noise over time"),
        (once, "equal noise"),
        (partly, "noise over time"),
        (shared, "noise across silos"),
        (shared, "equal noise"),
    ],
)
def test_broken_noise_is_found(law: Any, where: str) -> None:
    assert where in against(judged(in_memory(law, 1, rounds=10, width=100), 0.05))


def test_one_value_without_noise_is_unusual_and_no_accusation() -> None:
    """Of 8,000 values on a grid one is 0 by chance once in 330 runs."""
    found = judged(in_memory(one_value, 1, rounds=10, width=100), 0.05)
    assert (against(found), noticed(found)) == (set(), {"values without noise"})
    own = next(one for one in found if one.unusual)
    assert 0.0004 < own.value <= 0.05
    assert "At most one honest run in 20" in own.proves
    assert "accusation" not in own.proves  # which another question may make
    assert "here" in next(one for one in found if not one.unusual).proves


@pytest.mark.parametrize(
    ("limits", "where"),
    [
        ({"sum_off": 1.01}, "sums made again"),
        ({"sum_off": float("inf")}, "sums made again"),
        ({"term_largest": 1.0001}, "norms after clipping"),
        ({"weight_largest": 1.25}, "weights of a unit"),
    ],
)
def test_a_limit_that_is_passed_is_found(limits: dict[str, float], where: str) -> None:
    assert against(judged(in_memory(normal, 1, rounds=3, width=50, **limits), SURE)) == {where}


# --- what is read ---------------------------------------------------------------------------------


def test_every_question_is_answered(tmp_path: Path) -> None:
    found = residual_tier(on_disk(tmp_path / "run"))
    assert tuple(one.what for one in found) == WHAT
    assert {one.tier for one in found} == {"residual"}
    assert {(one.kind, one.quantity) for one in found} == {("test", "p-value")}
    assert {(one.unit, one.neighbours) for one in found} == {("user", "add-remove")}
    assert all(one.contradicted == (one.value <= 0.0004) for one in found)
    assert all(one.unusual == (0.0004 < one.value <= 0.05) for one in found)
    assert {(one.level, one.confidence) for one in found} == {(0.0004, 0.95)}
    assert all(one.value > SURE for one in found)


def test_the_disk_says_what_memory_does(tmp_path: Path) -> None:
    folder = on_disk(tmp_path / "run", seed=5, rounds=4, width=50)
    kept = judged(in_memory(normal, 5, rounds=4, width=50), 0.05)
    for one, other in zip(residual_tier(folder), kept, strict=True):
        assert one.value == pytest.approx(other.value)


def written(folder: Path, change: Any) -> Path:
    """Write a run of one round; `change` gets its intent's, its release's and the sealed facts."""
    from privplan.fl.aggregation.residuals import Residuals

    facts: dict[str, dict[str, Any]] = {"intent": {}, "release": {}}
    found = items(Residuals(), normal(np.random.default_rng(1), 0, 50))
    change(facts, found)
    with LogWriter.create(folder, fsync="never") as writer:
        writer.append(opening(1))
        seq = writer.append(intent(1, **facts["intent"]))
        sealed = writer.seal(found)
        own = release(1, seq, 50, sealed)
        changed = {**{name: getattr(own, name) for name in vars(own)}, **facts["release"]}
        writer.append(type(own)(**changed))
    return folder


@pytest.mark.parametrize(
    "change",
    [
        lambda facts, _: facts["intent"].update(share_std=2.4),
        lambda facts, _: facts["intent"].update(shares=SILOS + 1),
        lambda facts, _: facts["release"].update(shares=SILOS - 1),
        lambda facts, _: facts["release"].update(values=49),
        lambda _, found: found["residuals"].update(silos=[0, 1, 2, 2]),
        lambda _, found: found["residuals"].update(sums=2),
        lambda _, found: found["residuals"].update(std=2.4),
        lambda _, found: found["residuals"]["whole"].update(silos=[0, 1, 2]),
    ],
)
def test_draws_that_the_log_does_not_speak_of_are_found(tmp_path: Path, change: Any) -> None:
    assert against(residual_tier(written(tmp_path / "run", lambda *_: None), alpha=SURE)) == set()
    assert "draws and shares" in against(
        residual_tier(written(tmp_path / "other", change), alpha=SURE)
    )


def test_a_log_that_states_more_noise_than_was_drawn_is_found(tmp_path: Path) -> None:
    """The stated variance is the log's, whatever the run scaled its statistics by."""

    def change(facts: dict[str, Any], found: dict[str, Any]) -> None:
        facts["intent"].update(share_std=5.0)
        found["residuals"].update(std=5.0)

    found = against(residual_tier(written(tmp_path / "run", change), alpha=SURE))
    assert found == {"variance of the noise"}


# --- bad input ------------------------------------------------------------------------------------


def test_without_a_log(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="no folder"):
        residual_tier(tmp_path / "nowhere")


def test_without_a_sidecar(tmp_path: Path) -> None:
    folder = on_disk(tmp_path / "run")
    (folder / SEALED).unlink()
    with pytest.raises(InvalidInput, match="cannot be read"):
        residual_tier(folder)


def test_a_sidecar_that_lacks_items(tmp_path: Path) -> None:
    folder = on_disk(tmp_path / "run")
    lines = (folder / SEALED).read_text().splitlines(keepends=True)
    (folder / SEALED).write_text("".join(lines[1:]))
    with pytest.raises(InvalidInput, match=r"does not open 1 commitments.*`residuals` in line 3"):
        residual_tier(folder)


def test_a_sidecar_of_another_run(tmp_path: Path) -> None:
    folder, other = on_disk(tmp_path / "run"), on_disk(tmp_path / "other")
    (folder / SEALED).write_bytes((other / SEALED).read_bytes())
    with pytest.raises(InvalidInput, match="does not open 8 commitments"):
        residual_tier(folder)


def test_an_edited_item(tmp_path: Path) -> None:
    folder = on_disk(tmp_path / "run")
    text = (folder / SEALED).read_text()
    (folder / SEALED).write_text(text.replace('"n":50', '"n":51', 1))
    with pytest.raises(InvalidInput, match="does not fit its commitment"):
        residual_tier(folder)


def test_a_broken_chain(tmp_path: Path) -> None:
    folder = on_disk(tmp_path / "run")
    text = (folder / LOG).read_text()
    (folder / LOG).write_text(text.replace('"share_std":"2.5"', '"share_std":"2.4"', 1))
    with pytest.raises(BadLine):
        residual_tier(folder)


def test_an_older_run(tmp_path: Path) -> None:
    folder = logs.small_log(tmp_path / "run")
    with pytest.raises(InvalidInput, match=r"3 of 3 releases .* sealed no statistics") as caught:
        residual_tier(folder)
    assert "earlier version" in str(caught.value)


def test_a_run_without_a_release(tmp_path: Path) -> None:
    with LogWriter.create(tmp_path / "run", fsync="never") as writer:
        writer.append(opening(1))
        writer.append(intent(1))
    with pytest.raises(InvalidInput, match="No release"):
        residual_tier(tmp_path / "run")


@pytest.mark.parametrize(
    "change",
    [
        lambda found: found["residuals"].pop("std"),
        lambda found: found["residuals"].update(squares=["nan"] * SILOS),
        lambda found: found["residuals"].update(zeros=[0]),
        lambda found: found["residuals"].update(silos=None),
        lambda found: found.update(residuals="a text"),
        lambda found: found["recomputed"].pop("term_largest"),
    ],
)
def test_items_that_are_not_understood(tmp_path: Path, change: Any) -> None:
    folder = written(tmp_path / "run", lambda _, found: change(found))
    with pytest.raises(InvalidInput, match=r"line 3 .* not understood"):
        residual_tier(folder)


def test_too_few_values_for_a_statistic() -> None:
    with pytest.raises(InvalidInput, match="as many values"):
        judged(in_memory(normal, 1, rounds=3, width=5), 0.05)


@pytest.mark.parametrize("alpha", [0.0, 1.0, -0.1, float("nan")])
def test_a_level_out_of_range(tmp_path: Path, alpha: float) -> None:
    with pytest.raises(InvalidInput, match="alpha"):
        residual_tier(on_disk(tmp_path / "run"), alpha=alpha)


# --- the sealed report ----------------------------------------------------------------------------


def test_the_report_is_for_its_owner_and_says_so(tmp_path: Path) -> None:
    folder = on_disk(tmp_path / "run")
    before = (folder / LOG).read_bytes(), (folder / SEALED).read_bytes()
    path = write_sealed_report(folder, residual_tier(folder))
    assert path == folder / SEALED_REPORT
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    found = json.loads(path.read_text())
    assert found["note"].startswith("Not to be published")
    assert found["run_id"] == "run-1"
    assert [one["what"] for one in found["measurements"]] == list(WHAT)
    assert ((folder / LOG).read_bytes(), (folder / SEALED).read_bytes()) == before


def test_the_report_keeps_other_tiers_and_replaces_its_own(tmp_path: Path) -> None:
    folder = on_disk(tmp_path / "run")
    one = residual_tier(folder)
    member = Measurement(
        "membership", "loss", 0.6, "estimate", False, "p", "model", "user", "add-remove"
    )
    write_sealed_report(folder, [member])
    write_sealed_report(folder, one)
    write_sealed_report(folder, one)
    found = json.loads((folder / SEALED_REPORT).read_text())["measurements"]
    assert [own["tier"] for own in found] == ["membership"] + ["residual"] * len(one)
    assert stat.S_IMODE((folder / SEALED_REPORT).stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"\xff\xfe", "cannot be read as one"),
        (b"[]", "cannot be read as one"),
        (b'{"run_id": "other", "measurements": []}', "is that of another run"),
    ],
)
def test_a_report_that_is_not_this_runs_stays(tmp_path: Path, content: bytes, why: str) -> None:
    folder = on_disk(tmp_path / "run")
    (folder / SEALED_REPORT).write_bytes(content)
    with pytest.raises(InvalidInput, match=why):
        write_sealed_report(folder, residual_tier(folder))
    assert (folder / SEALED_REPORT).read_bytes() == content


def test_a_report_of_nothing(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="needs a measurement"):
        write_sealed_report(on_disk(tmp_path / "run"), [])


def test_a_full_disk_leaves_the_old_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = on_disk(tmp_path / "run")
    found = residual_tier(folder)
    before = write_sealed_report(folder, found).read_bytes()

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(atomic.os, "fsync", full)
    with pytest.raises(InvalidInput, match="No space left"):
        write_sealed_report(folder, found)
    assert (folder / SEALED_REPORT).read_bytes() == before
    assert [one.name for one in folder.iterdir() if "part" in one.name] == []


# --- runs of the systems --------------------------------------------------------------------------

needs_runs = pytest.mark.skipif(
    any(find_spec(name) is None for name in ("torch", "sklearn", "cryptography", "msgpack")),
    reason="runs need the extra `fl`",
)


def made(folder: Path, system: str = "uldp-avg", aggregation: str = "plain", rounds: int = 6):
    """Make a small run, and return its folder."""
    from privplan.fl.running.preparation import prepare
    from privplan.fl.running.session import execute
    from privplan.fl.settings.schema import (
        DataSettings,
        PrivacySettings,
        RunSettings,
        SecuritySettings,
        Settings,
        TrainingSettings,
    )

    settings = Settings(
        run=RunSettings(system=system, rounds=rounds, seed=11),
        data=DataSettings(name="breast-cancer", users=9, silos=3),
        privacy=PrivacySettings(noise_multiplier=5.0, group=4 if system == "uldp-group" else 1),
        training=TrainingSettings(
            clip=0.1, local_rate=0.1, global_rate=2.0, local_epochs=1, batch=64, model="logistic"
        ),
        security=SecuritySettings(aggregation=aggregation),  # type: ignore[arg-type]
    )
    folder.mkdir()
    with LogWriter.create(folder, fsync="never") as writer:
        execute(prepare(settings), folder, writer)
    return folder


SYSTEMS = ["uldp-avg", "uldp-sgd", "uldp-naive", "uldp-group"]


@needs_runs
@pytest.mark.parametrize("system", SYSTEMS)
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
@pytest.mark.parametrize(
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
