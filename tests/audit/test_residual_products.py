"""The residual tier on runs of FedPower, sound and broken, and on noise of products in memory.

Faults in runs are far from sound ones (half the noise is 1,000 values at half their width), so each
is found with probability above 1 - 1e-6 at the level where a sound run is accused once in 10^6.
"""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from privplan.accountant.mechanisms import NoisyProduct, noisy_product, product_rows
from privplan.accountant.mechanisms.discrete_sampler import discrete_gaussian
from privplan.accountant.mechanisms.gram_row_grid import GridScale
from privplan.accountant.randomness import Streams
from privplan.accountant.records import RoundIntent, RoundRelease, RunOpen
from privplan.audit.residual import residual_tier
from privplan.audit.residual.sealed_statistics import Run, _release_from
from privplan.audit.residual.tier import judged
from privplan.fl.aggregation.residuals import Residuals
from privplan.fl.log import LogWriter

from ..cases import for_each
from .products import noisy, product_log
from .residual_runs import SOUND, SURE, WHAT, against, noticed

needs_runs = pytest.mark.skipif(
    any(find_spec(name) is None for name in ("torch", "sklearn", "cryptography", "msgpack")),
    reason="runs need the extra `fl`",
)

SYSTEMS = ("power", "original", "private")


def made(folder: Path, algorithm: str = "power", rounds: int = 3, **table: Any) -> Path:
    """Make a small run, and return its folder."""
    from privplan.fl.fedpower.settings import FedPowerSettings
    from privplan.fl.running.preparation import prepare
    from privplan.fl.running.session import execute
    from privplan.fl.settings import schema

    masked = algorithm in ("private", "utility")
    settings = schema.Settings(
        run=schema.RunSettings(system=f"fedpower-{algorithm}", rounds=rounds, seed=11),
        data=schema.DataSettings(name="digits", users=100, silos=4),
        privacy=schema.PrivacySettings(
            unit="record", noise_multiplier=5.0, observers=("model", "server", "client")
        ),
        training=schema.NO_TRAINING,
        security=schema.SecuritySettings(aggregation="masked" if masked else "plain"),
        table=FedPowerSettings(**{"rank": 4, "row_norm": 4.0, **table}),
    )
    folder.mkdir()
    with LogWriter.create(folder, fsync="never") as writer:
        execute(prepare(settings), folder, writer)
    return folder


@needs_runs
@for_each("algorithm", SYSTEMS)
def test_sound_systems_pass(tmp_path: Path, algorithm: str) -> None:
    found = residual_tier(made(tmp_path / "run", algorithm), alpha=SURE)
    assert against(found) == set()
    assert {one.what for one in found} >= {*WHAT} - {"weights of a unit"}


@needs_runs
@pytest.mark.slow
def test_a_sum_in_which_one_share_stays_passes(tmp_path: Path) -> None:
    """With keys of 3,072 bits, which take a while."""
    found = residual_tier(made(tmp_path / "run", "utility"), alpha=SURE)
    assert against(found) == set()


@needs_runs
def test_a_run_as_published_passes_as_its_noise_is_what_is_stated(tmp_path: Path) -> None:
    table = {"as_published": True, "largest_element": 1.0, "entry_clip": 0.3}
    found = residual_tier(made(tmp_path / "run", "private", **table), alpha=SURE)
    assert against(found) == set()


def halved(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw half the noise, and state all of it."""

    def draw(stream: Any, count: int, scale: float) -> Any:
        return discrete_gaussian(stream, count, scale / 2.0)

    monkeypatch.setattr(noisy_product, "discrete_gaussian", draw)


def again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw the same noise in every round."""
    kept: dict[Any, Any] = {}

    def draw(stream: Any, count: int, scale: float) -> Any:
        return kept.setdefault((stream.id, count), discrete_gaussian(stream, count, scale)).copy()

    monkeypatch.setattr(noisy_product, "discrete_gaussian", draw)


def silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let one node add nothing."""
    honest = NoisyProduct.share_steps

    def share(self: NoisyProduct, ticket: Any, total: Any, name: str, part: str = "") -> Any:
        found = honest(self, ticket, total, name, part)
        return total if name == "noise/silo-1" else found

    monkeypatch.setattr(NoisyProduct, "share_steps", share)


def unclipped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let rows of any norm pass."""
    most = GridScale.most.func  # type: ignore[attr-defined]
    monkeypatch.setattr(GridScale, "most", property(lambda scale: 1_000_000 * most(scale)))


def orthonormal_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Orthonormalise each node's exact product, and add the noise to that."""
    honest = NoisyProduct.share_steps

    def share(self: NoisyProduct, ticket: Any, total: Any, name: str, part: str = "") -> Any:
        shape = self.product.dimension, self.product.rank
        basis = np.linalg.qr(total.reshape(shape).astype(float))[0]
        even = np.rint(basis * 2.0**self.grid_bits.product_bits).astype(np.int64)
        return honest(self, ticket, even.reshape(-1), name, part)

    monkeypatch.setattr(NoisyProduct, "share_steps", share)


def multiplied_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Add every row twice."""
    honest = product_rows.ProductRows.total
    monkeypatch.setattr(
        product_rows.ProductRows, "total", lambda self, basis: 2 * honest(self, basis)
    )


@needs_runs
@for_each("algorithm", SYSTEMS)
@for_each(
    ("fault", "where"),
    [
        (halved, "variance of the noise"),
        (again, "equal noise"),
        (silent, "variance of the noise"),
        (silent, "values without noise"),
        (unclipped, "norms after clipping"),
        (orthonormal_first, "variance of the noise"),
        (multiplied_twice, "sums made again"),
    ],
)
def test_broken_systems_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: Any, algorithm: str, where: str
) -> None:
    # Of digits all rows are longer than 1.
    fault(monkeypatch)
    folder = made(tmp_path / "run", algorithm, row_norm=1.0, rounds=2)
    assert where in against(residual_tier(folder, alpha=SURE))


@needs_runs
def test_an_iterate_of_exact_products_is_no_matter_of_the_noise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What this tier cannot find: the noise is right, and what is released is made without it."""
    from privplan.fl.fedpower.power import PowerIteration

    exact: list[Any] = []
    honest_share, honest_iterate = NoisyProduct.share_steps, PowerIteration.iterate

    def share(self: NoisyProduct, ticket: Any, total: Any, name: str, part: str = "") -> Any:
        exact.append(total)
        return honest_share(self, ticket, total, name, part)

    def iterate(self: PowerIteration, product: Any) -> Any:
        summed = np.sum(exact[-4:], axis=0).reshape(product.shape)
        return honest_iterate(self, summed.astype(float))

    monkeypatch.setattr(NoisyProduct, "share_steps", share)
    monkeypatch.setattr(PowerIteration, "iterate", iterate)
    assert against(residual_tier(made(tmp_path / "run"), alpha=SURE)) == set()


# --- noise in memory ------------------------------------------------------------------------------

MECHANISM = noisy(dimension=12, rank=4, shares=4)
RECORDS = product_log(MECHANISM, rounds=3)


def in_memory(seed: int, wider: float = 1.0) -> Run:
    """Return a run of three rounds with noise that many times as wide as is stated."""
    opened = RECORDS[0]
    assert isinstance(opened, RunOpen)
    streams, kept, releases = Streams.seeded(seed), Residuals(), []
    intents = [each for each in RECORDS if isinstance(each, RoundIntent)]
    released = [each for each in RECORDS if isinstance(each, RoundRelease)]
    deviation = MECHANISM.share_std / MECHANISM.grid * wider
    for number, (intent, release) in enumerate(zip(intents, released, strict=True)):
        monitor = kept.monitor(intent.noise)
        noises = []
        for silo in range(4):
            stream = streams.stream(f"noise/silo-{silo}")
            noises.append(discrete_gaussian(stream, MECHANISM.product.values, deviation))
            monitor.share(silo, noises[-1], MECHANISM.grid)
        monitor.whole(np.sum(noises, axis=0), MECHANISM.grid, range(4))
        items = {**monitor.items(), "recomputed": {**SOUND, "weight_largest": None}}
        releases.append(
            _release_from(
                number + 2,
                intent,
                replace(release, shares=4),
                items["residuals"],
                items["recomputed"],
            )
        )
    return Run(opened, tuple(releases))


def test_sound_noise_is_seldom_accused() -> None:
    """At most 5 % of runs are unusual, and 1 in 2,500 is contradicted: 150 runs, up to 1e-4."""
    runs = 150
    answers = [judged(in_memory(seed), 0.05) for seed in range(runs)]
    for count, level in ((against, 0.0004), (noticed, 0.05)):
        assert sum(bool(count(answer)) for answer in answers) <= stats.binom.isf(1e-4, runs, level)


@for_each(("wider", "power"), [(0.5, 1.0), (0.85, 0.9), (1.2, 0.9)])
def test_wrong_noise_is_found(wider: float, power: float) -> None:
    """Of 576 values in shares: a width that is off by 15 % is 5 standard errors off."""
    found = [bool(noticed(judged(in_memory(seed, wider), 0.05))) for seed in range(30)]
    assert np.mean(found) >= power
