"""The residual tier against what is meant to deceive it, or was not thought of."""

from __future__ import annotations

import json
import multiprocessing
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from privplan.accountant import records
from privplan.accountant.errors import InvalidInput
from privplan.accountant.mechanisms import Gaussian, RoundDescription
from privplan.audit.residual import SEALED_REPORT, residual_tier, write_sealed_report
from privplan.audit.residual.sealed_statistics import Run
from privplan.audit.residual.tier import judged
from privplan.fl.aggregation.clip_check import ClipCheck, norms_of
from privplan.fl.log import LogWriter

from ..cases import for_each
from . import residual_runs
from .residual_runs import in_memory, intent, items, normal, on_disk, opening, release

Change = Callable[[dict[str, Any], dict[str, Any]], object]


def test_the_noise_of_one_silo_is_not_counted_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its sum is its share: what is without noise by chance in one is so in the other.

    One value without noise among 10^5 is a matter of 4 in 100; counted twice it was of 3 in 1,000.
    """
    monkeypatch.setattr(residual_runs, "SILOS", 1)

    def once(rng: np.random.Generator, number: int, width: int) -> np.ndarray:
        found = rng.normal(size=(1, width))
        found[np.abs(found) < 1e-6] = 1.0  # nothing else is 0 by chance, whatever the seed
        found[0, :1] *= float(number > 0)
        return found

    run = in_memory(once, 1, rounds=10, width=10_000)
    own = next(one for one in judged(run, 0.05) if one.what == "values without noise")
    chance = stats.binom.sf(0, 10**5, 2.0**-20 / np.sqrt(2 * np.pi))
    assert own.sample["without noise"] == 2  # of twice as many
    assert float(own.sample["p before correction"]) == pytest.approx(2 * chance, rel=0.01)
    assert not own.contradicted


def written(folder: Path, change: Change) -> Path:
    """Write a run of one round whose sidecar says something else, and was committed to."""
    with LogWriter.create(folder, fsync="never") as writer:
        writer.append(opening(1))
        seq = writer.append(intent(1))
        found = items(residual_runs.Residuals(), normal(np.random.default_rng(1), 0, 50))
        change(found["residuals"], found["recomputed"])
        writer.append(release(1, seq, 50, writer.seal(found)))
    return folder


def noise(**fields: Any) -> Change:
    return lambda own, _: own.update(fields)


def limits(**fields: Any) -> Change:
    return lambda _, own: own.update(fields)


def lacks(*names: str) -> Change:
    return lambda own, _: [own.pop(name) for name in names]


@for_each(
    "change",
    [
        *(noise(n=n) for n in (0, -1, 1, 51, 10**400, 50.0, True)),
        *(noise(sums=sums) for sums in (0, -5, 51)),
        *(noise(squares_n=[n] * 4) for n in (0, -3, 49, 51, 10**400)),
        *(noise(ks_n=[n] * 4) for n in (0, -(10**9), 10**400)),
        *(noise(zeros=[zeros] * 4) for zeros in (-1, 51, 10**18)),
        *(noise(values=values) for values in (0, 49, 10**400)),
        *(noise(**{name: [-1.0] * 4}) for name in ("squares", "ks")),
        *(noise(lag=[one] * 4) for one in (1.1, -1.1, float("inf"), float("nan"))),
        noise(std=float("nan")),
        noise(alike={"silos": [], "cosine": 0.1}),
        noise(alike={"silos": [0, 1], "cosine": 2.0}),
        noise(equal_sums=[-1] * 4),
        noise(silos=[float("inf"), 1, 2, 3]),
        noise(silos=[-1, -2, -3, -4]),
        noise(whole={"silos": [0, 1, 2, 3], "values": 50, "n": 50}),
        *(lacks(name) for name in ("squares", "squares_n", "zeros", "ks", "ks_n", "lag", "alike")),
        lacks("zeros", "squares", "squares_n", "ks", "ks_n", "lag", "within", "alike"),
        *(limits(**{name: -1.0}) for name in ("sum_off", "term_largest", "weight_largest")),
    ],
)
def test_absurd_statistics_are_refused_and_not_skipped(tmp_path: Path, change: Change) -> None:
    folder = written(tmp_path / "run", change)
    with pytest.raises(InvalidInput, match="line 3 of the log sealed of its noise is not underst"):
        residual_tier(folder)


def test_what_the_law_of_the_statistics_allows_is_read(tmp_path: Path) -> None:
    folder = written(tmp_path / "run", noise(lag=[1.0 + 1e-12] * 4))
    assert residual_tier(folder)


def write(folder: Path, kind: Any, times: int) -> None:
    """Write a report of many measurements of one tier, again and again."""
    found = [replace(one, tier=kind) for one in residual_tier(folder)] * 20
    for _ in range(times):
        write_sealed_report(folder, found)


def test_two_audits_at_once_lose_nothing(tmp_path: Path) -> None:
    folder, fork = on_disk(tmp_path / "run"), multiprocessing.get_context("fork")
    own = [
        fork.Process(target=write, args=(folder, kind, 20)) for kind in ("residual", "membership")
    ]
    for one in own:
        one.start()
    for one in own:
        one.join()
    assert [one.exitcode for one in own] == [0, 0]
    report = json.loads((folder / SEALED_REPORT).read_bytes())
    assert {one["tier"] for one in report["measurements"]} == {"residual", "membership"}


def test_it_is_said_that_of_many_sums_some_were_looked_at() -> None:
    run = in_memory(normal, 1, rounds=2, width=60)
    said = [" ".join(one.assumes) for one in judged(run, 0.05)]
    assert not any("evenly spaced, for all" in one for one in said)
    many = tuple(
        replace(
            one,
            intent=replace(one.intent, noise=replace(one.intent.noise, draws=400)),
        )
        for one in run.releases
    )
    said = [" ".join(one.assumes) for one in judged(Run(run.opened, many), 0.05)]
    assert all("Of the 400 sums of a round 1 were looked at" in one for one in said)


def test_a_weight_that_is_lost_in_rounding_has_no_norm() -> None:
    mechanism = Gaussian(
        bound=0.25, std=3.0, shares=1, weights=records.Weights("records", 1.0), unit="user"
    )
    again = ClipCheck(mechanism.intent(RoundDescription(1, "train"), "add-remove"), mechanism, 1, 3)
    rows, weights = np.ones((1, 3)), np.array([5e-324])
    again.add(rows, np.zeros(1, np.int64), norms_of(rows), weights)
    found: Any = again.items(np.zeros((1, 3), np.int64))["recomputed"]
    assert (found["term_largest"], found["sum_off"]) == (0.0, 0.0)
