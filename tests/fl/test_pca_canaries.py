"""Canaries of the PCA step: the support test fires on Wishart noise, and on no other."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from privplan.accountant import events as ev
from privplan.accountant.errors import InvalidInput, Unsupported
from privplan.accountant.plan import plan_given_noise
from privplan.accountant.sensitivity.wishart import failure
from privplan.fl.canaries import RehearsalRequest
from privplan.fl.delm.pca import pca_release
from privplan.fl.delm.pca_canaries import (
    SURELY_OUT,
    PcaCanaries,
    empty_federation,
    largest_removable,
    simulate_pca,
)

from ..cases import for_each
from ..chance import limits
from .pca_releases import setup_of


def runs(
    kind: str, canaries: int, observer: str = "server", relation: str = "add-remove", **given: Any
) -> PcaCanaries:
    asked, release, _ = rehearsed(kind, canaries, observer, relation, **given)
    return PcaCanaries(asked, release)


def statistics_of(own: PcaCanaries, seen: Any) -> Any:
    """Return the statistics that Wishart noise was observed by, in units of |x|^2."""
    standard = seen + (own.shift if own.replaced else 0.0)
    return np.where(
        own.absent,
        seen - SURELY_OUT,
        standard * own.deviation + own.terms.mechanism.std**2 * own.freedom,
    )


def rehearsed(
    kind: str, canaries: int, observer: str, relation: str = "add-remove", **given: Any
) -> tuple[RehearsalRequest, Any, Any]:
    usual = {} if "noise_multiplier" in given else {"epsilon": 0.6}
    facts = {**usual, "silos": 5, "row_norm": 2.0, **given}
    silos = facts.pop("silos")
    own = setup_of(empty_federation(30, silos), neighbours=relation)
    release = pca_release(own, kind=kind, components=2, **facts)  # type: ignore[arg-type]
    plan = plan_given_noise([release.planned], delta=1e-5, neighbours=relation, unit="record")
    privacy = SimpleNamespace(neighbours=relation, delta=1e-5)
    settings: Any = SimpleNamespace(privacy=privacy, run=SimpleNamespace(system="toy"))
    return RehearsalRequest(settings, observer, canaries, silos, seed=4), release, plan


def test_what_can_be_removed_is_what_leaves_no_negative_eigenvalue() -> None:
    rng = np.random.default_rng(0)
    z = rng.normal(size=(50, 4, 5))
    matrices, unit = z @ z.transpose(0, 2, 1), np.array([0.6, 0.0, 0.8, 0.0])
    most = largest_removable(matrices, unit)
    for share, negative in ((0.999, False), (1.001, True)):
        left = matrices - share * most[:, None, None] * np.outer(unit, unit)
        assert ((np.linalg.eigvalsh(left)[:, 0] < 0.0) == negative).all()
    assert largest_removable(-matrices, unit).tolist() == [0.0] * 50


@for_each("relation", ["add-remove", "replace-one"])
def test_absence_is_proven_as_often_as_in_theory_and_never_wrongly(relation: str) -> None:
    """1 - e^-.6 of the canaries that are out, within binomial limits; false alarm 1e-6."""
    own = runs("wishart", 300, relation=relation)
    (seen,) = own.seen()
    absent, out = statistics_of(own, seen) < own.shortest, int((~own.coins.into).sum())
    assert not (absent & own.coins.into).any()
    low, high = limits(stats.binom(out, failure(0.6)), looks=2)
    assert low <= int((absent & ~own.coins.into).sum()) <= high
    assert ((seen < SURELY_OUT / 2.0) == absent).all()
    assert own.event == ev.RandomizedResponse(0.6, 2)
    assert "and says so of 0 of" in own.notes()[-1]


def test_a_clip_that_is_missing_would_show_and_of_a_sum_hardly_anything_is_proven() -> None:
    """A canary is ten row norms long, and is in the release with norm 1."""
    own = runs("wishart", 150, epsilon=50.0)
    statistics = statistics_of(own, own.seen()[0])
    assert statistics[own.coins.into] == pytest.approx(1.02, abs=0.15)
    assert statistics[~own.coins.into].max() < 0.3
    # Fifty degrees of freedom and more: what Wishart noise gives away is one client's release.
    own = runs("wishart", 60, "model")
    (seen,) = own.seen()
    assert not own.absent.any()
    assert abs(seen[~own.coins.into].mean()) < 1.2  # of thirty, six deviations


@for_each(("observer", "canaries"), [("server", 200), ("model", 80)])
def test_gaussian_noise_shows_what_is_claimed_and_is_never_proven_anything(
    observer: str, canaries: int
) -> None:
    """Its law, and its variance: of half the noise a quarter would be left.  False alarm 1e-6."""
    own = runs("gaussian", canaries, observer, noise_multiplier=2.0)
    (seen,) = own.seen()
    due = 0.5 if observer == "server" else 0.5 / 5**0.5
    assert own.shift == pytest.approx(due, rel=1e-3)
    assert seen.min() > -7.0
    apart = np.where(own.coins.into, seen - own.shift, seen)
    assert stats.kstest(apart, "norm").pvalue > limits(stats.uniform(), looks=4)[0]
    low, high = limits(stats.chi2(canaries), looks=4)
    assert low <= (apart**2).sum() <= high
    assert own.event == own.release.views[observer]


@for_each("kind", ["wishart", "gaussian"])
def test_a_rehearsal_repeats_and_returns_what_an_audit_needs(kind: str) -> None:
    asked, release, plan = rehearsed(kind, 30, "server")
    first, again = (
        simulate_pca(asked, release, plan, SimpleNamespace())  # type: ignore[arg-type]
        for _ in range(2)
    )
    assert (first.observations == again.observations).all()
    assert (first.coins == again.coins).all()
    assert first.partial
    assert first.observations.shape == (1, 30)


def test_what_is_not_rehearsed_is_refused(tmp_path: Path) -> None:
    del tmp_path
    asked, release, plan = rehearsed("gaussian", 30, "silo")
    with pytest.raises(Unsupported, match="not rehearsed"):
        simulate_pca(asked, release, plan, SimpleNamespace())  # type: ignore[arg-type]
    asked, release, plan = rehearsed("gaussian", 30, "bystander")
    with pytest.raises(InvalidInput, match="observer"):
        simulate_pca(asked, release, plan, SimpleNamespace())  # type: ignore[arg-type]
