"""The residual tier on Gram matrices: noise that the mechanism draws, and noise that it should."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats
from scipy.special import ndtri_exp

from privplan.accountant.errors import InvalidInput
from privplan.accountant.mechanisms import Gate, RoundDescription
from privplan.accountant.mechanisms.gram_noise import NoisyGram
from privplan.accountant.odometer import Odometer
from privplan.accountant.randomness import Streams
from privplan.accountant.records import RoundIntent, RoundRelease, RunOpen
from privplan.audit.residual import p_values, residual_tier
from privplan.audit.residual.sealed_statistics import Run, _release_from
from privplan.audit.residual.tier import judged
from privplan.fl.aggregation.residuals import MIN_VALUES, Residuals
from privplan.fl.log import LogWriter
from privplan.fl.statistics.noise_shown import gram_parts

from ..cases import for_each
from ..chance import FALSE_ALARM
from .grams import Kept, gram_log, noisy
from .residual_runs import SOUND, against, noticed

Noise = np.ndarray
"""Each silo's residual, in steps: (silos, values)."""

Fault = Callable[[NoisyGram, Noise], Noise]

SMALL = noisy(dimension=12, bits=16)
COARSE = noisy(sigma=5.0, dimension=12, bits=10)
MANY_BITS = noisy(sigma=0.5, dimension=12, bits=19)
EACH_CLASS = noisy(dimension=9, by_class=True, label_weight=0.5, bits=16)
UNLABELLED = noisy(dimension=15, classes=0, bits=16)
LAPLACE = noisy(family="laplace", dimension=12, bits=13)
COARSE_LAPLACE = noisy(family="laplace", dimension=12, bits=8)


@functools.cache
def opening() -> RunOpen:
    first = gram_log(noisy())[0]
    assert isinstance(first, RunOpen)
    return first


def drawn(mechanism: NoisyGram, seed: int) -> tuple[RoundIntent, RoundRelease, Noise]:
    """Return a round of the mechanism, and the noise of each silo's share of it."""
    kept = Kept(opening())
    event = mechanism.event("add-remove")
    odometer = Odometer(1e6, 1e-5, "add-remove", unit="record", currency="rdp", like=event)
    gate = Gate(odometer, kept, Streams.seeded(seed))
    nothing = np.zeros(mechanism.gram.values, np.int64)
    intent = mechanism.intent(RoundDescription(1, "release"), "add-remove")
    with gate.open(intent) as ticket:
        noise = np.array(
            [
                mechanism.share_steps(ticket, nothing, f"noise/{silo}")
                for silo in range(mechanism.shares)
            ]
        )
        ticket.close(values=nothing.size)
    release = kept.records[-1]
    assert isinstance(release, RoundRelease)
    return intent, release, noise


def normal(mechanism: NoisyGram, steps: np.ndarray) -> np.ndarray:
    """Return a share in even coordinates; Laplace noise as the normal numbers of its quantiles."""
    even = mechanism.white(steps)
    if mechanism.family == "gaussian":
        return even
    scaled = even / mechanism.share_std
    tail = ndtri_exp(np.log(0.5) - np.abs(scaled))
    return -np.sign(scaled) * tail * mechanism.share_std


def sealed(mechanism: NoisyGram, intent: RoundIntent, noise: Noise) -> dict[str, Any]:
    """Return what is sealed of each silo's residual and of their sum, in even coordinates."""
    monitor = Residuals().monitor(intent.noise, gram_parts(mechanism))
    shown = np.array([normal(mechanism, steps) for steps in noise])
    for silo, values in enumerate(shown):
        monitor.share(silo, values, 1.0)
    monitor.whole(shown.sum(axis=0), 1.0, range(len(noise)))
    return {**monitor.items(), "recomputed": {**SOUND, "weight_largest": None}}


def run_of(mechanism: NoisyGram, seed: int, fault: Fault | None = None) -> Run:
    """Return a run of one round as the audit reads it."""
    intent, release, noise = drawn(mechanism, seed)
    wrong = noise if fault is None else fault(mechanism, noise.copy())
    items = sealed(mechanism, intent, wrong)
    read = _release_from(2, intent, release, items["residuals"], items["recomputed"])
    return Run(opening(), (read,))


def halved(_: NoisyGram, noise: Noise) -> Noise:
    return noise // 2


def missing(part: str) -> Fault:
    def fault(mechanism: NoisyGram, noise: Noise) -> Noise:
        noise[:, gram_parts(mechanism)[part]] = 0
        return noise

    return fault


def scaled(part: str, factor: float) -> Fault:
    def fault(mechanism: NoisyGram, noise: Noise) -> Noise:
        mask = gram_parts(mechanism)[part]
        noise[:, mask] = np.rint(noise[:, mask] * factor)
        return noise

    return fault


def shared(_: NoisyGram, noise: Noise) -> Noise:
    noise[3] = noise[1]
    return noise


def partly_shared(mechanism: NoisyGram, noise: Noise) -> Noise:
    noise[3, : mechanism.gram.values // 2] = noise[1, : mechanism.gram.values // 2]
    return noise


def of_one_silo_missing(_: NoisyGram, noise: Noise) -> Noise:
    noise[2] = 0
    return noise


def uniform(mechanism: NoisyGram, noise: Noise) -> Noise:
    widths = np.abs(mechanism.white(np.ones(noise.shape[1], np.int64)))
    rng = np.random.default_rng(3)
    even = rng.uniform(-1, 1, noise.shape) * np.sqrt(3.0) * mechanism.share_std
    return np.rint(even / widths).astype(np.int64)


FAULTS: dict[str, tuple[Fault, str]] = {
    "half of the noise": (halved, "variance of the noise"),
    "none on the diagonal": (missing("diagonal"), "values without noise"),
    "none above it": (missing("above"), "values without noise"),
    "none on the labels": (missing("labels"), "values without noise"),
    "half on the diagonal": (scaled("diagonal", 0.5), "variance of parts of the noise"),
    "half on the labels": (scaled("labels", 0.5), "variance of parts of the noise"),
    "double on the labels": (scaled("labels", 2.0), "variance of parts of the noise"),
    "half above": (scaled("above", 0.5), "variance of parts of the noise"),
    "the square root of 2 forgotten": (
        scaled("diagonal", np.sqrt(0.5)),
        "variance of parts of the noise",
    ),
    "two silos alike": (shared, "equal noise"),
    "two silos alike, in half": (partly_shared, "noise across silos"),
    "one silo without any": (of_one_silo_missing, "values without noise"),
    "even noise": (uniform, "shape of the noise"),
}

WIDE = noisy(dimension=40, bits=15)
WIDE_LAPLACE = noisy(family="laplace", dimension=40, bits=12)
"""Both have 940 values, of which 40 are on the diagonal, and 120 are label sums."""


@for_each("name", list(FAULTS))
def test_broken_noise_is_contradicted(name: str) -> None:
    fault, what = FAULTS[name]
    assert what in against(judged(run_of(WIDE, 11, fault), 0.05))


@for_each("name", list(FAULTS))
def test_broken_laplace_noise_is_contradicted(name: str) -> None:
    fault, what = FAULTS[name]
    answers = judged(run_of(WIDE_LAPLACE, 11, fault), 0.05)
    assert what in against(answers)


@pytest.mark.parametrize(
    "mechanism",
    [SMALL, COARSE, MANY_BITS, EACH_CLASS, UNLABELLED, LAPLACE, COARSE_LAPLACE],
    ids=str,
)
def test_sound_noise_is_hardly_ever_accused(mechanism: NoisyGram) -> None:
    """At most one run in twenty; the test fails for such a tier with probability 10^-6 at most."""
    runs = 60
    answers = [judged(run_of(mechanism, seed), 0.05) for seed in range(runs)]
    assert sum(bool(against(answer)) for answer in answers) == 0  # 1 in 2,500; fixed seeds
    assert sum(bool(noticed(answer)) for answer in answers) <= stats.binom.isf(
        FALSE_ALARM, runs, 0.05
    )


@pytest.mark.slow
def test_sound_noise_is_accused_at_most_as_often_as_is_said() -> None:
    """Levels .0004 and .05 over 1,500 runs; a false alarm of this test in 10^6 for each."""
    runs = 1500
    answers = [judged(run_of(SMALL, seed), 0.05) for seed in range(1000, 1000 + runs)]
    for count, level in ((against, 0.0004), (noticed, 0.05)):
        assert sum(bool(count(answer)) for answer in answers) <= stats.binom.isf(
            FALSE_ALARM, runs, level
        )


def test_values_are_even_in_the_coordinates_that_are_handed_on() -> None:
    """Deviations of each kind are those of a share, up to 4 standard errors."""
    for mechanism in (WIDE, EACH_CLASS):
        _, _, noise = drawn(mechanism, 5)
        even = np.array([mechanism.white(steps) for steps in noise])
        for mask in gram_parts(mechanism).values():
            size = even[:, mask].size
            ratio = np.sqrt(np.mean(np.square(even[:, mask]))) / mechanism.share_std
            assert abs(ratio - 1.0) < 4.0 / np.sqrt(2.0 * size)


def test_parts_are_all_values_once() -> None:
    for mechanism in (SMALL, EACH_CLASS, UNLABELLED):
        parts = gram_parts(mechanism)
        assert (sum(mask.astype(int) for mask in parts.values()) == 1).all()
        matrices = mechanism.gram.classes if mechanism.gram.by_class else 1
        assert parts["diagonal"].sum() == matrices * mechanism.gram.dimension
        assert parts["labels"].sum() == mechanism.gram.dimension * mechanism.gram.classes


def test_kinds_of_few_values_are_not_sealed() -> None:
    """The square of a single value would give it away."""
    mechanism = noisy(dimension=MIN_VALUES - 1, classes=2, bits=14)
    intent, _, noise = drawn(mechanism, 1)
    parts = sealed(mechanism, intent, noise)["residuals"]["parts"]
    assert set(parts) == {"above", "labels"}
    intent, _, noise = drawn(UNLABELLED, 1)
    assert set(sealed(UNLABELLED, intent, noise)["residuals"]["parts"]) == {"diagonal", "above"}


def test_runs_without_kinds_are_asked_no_such_question() -> None:
    intent, release, noise = drawn(SMALL, 1)
    monitor = Residuals().monitor(intent.noise)
    for silo, steps in enumerate(noise):
        monitor.share(silo, SMALL.white(steps), 1.0)
    items = {**monitor.items(), "recomputed": SOUND}
    read = _release_from(2, intent, release, items["residuals"], items["recomputed"])
    answers = judged(Run(opening(), (read,)), 0.05)
    assert "variance of parts of the noise" not in {answer.what for answer in answers}


@for_each(
    "change",
    [
        {"diagonal": {"n": 7, "squares": ["1.0"] * 5}},
        {"diagonal": {"n": 10**6, "squares": ["1.0"] * 5}},
        {"diagonal": {"n": 12, "squares": ["1.0"] * 4}},
        {"diagonal": {"n": 12, "squares": ["-1.0"] * 5}},
        {"diagonal": {"n": 12, "squares": ["nan"] * 5}},
        {"diagonal": {"n": 12}},
        {"diagonal": 3},
        [],
    ],
)
def test_strange_statistics_of_parts_are_refused(tmp_path: Path, change: Any) -> None:
    intent, release, noise = drawn(SMALL, 1)
    items = sealed(SMALL, intent, noise)
    items["residuals"]["parts"] = change
    with LogWriter.create(tmp_path / "run", fsync="never") as writer:
        writer.append(opening())
        writer.append(intent)
        writer.append(replace(release, sealed=writer.seal(items)))
    with pytest.raises(InvalidInput, match="not understood"):
        residual_tier(tmp_path / "run")


def test_a_run_on_disk_is_judged_as_in_memory(tmp_path: Path) -> None:
    for name, fault in (("sound", None), ("broken", missing("diagonal"))):
        intent, release, noise = drawn(WIDE, 4)
        wrong = noise if fault is None else fault(WIDE, noise)
        with LogWriter.create(tmp_path / name, fsync="never") as writer:
            writer.append(opening())
            writer.append(intent)
            writer.append(replace(release, sealed=writer.seal(sealed(WIDE, intent, wrong))))
        assert bool(against(residual_tier(tmp_path / name))) == (fault is not None)


def test_laplace_noise_of_other_terms_has_no_residual_test(tmp_path: Path) -> None:
    """Only of Gram matrices it is sealed as normal numbers."""
    intent, release, noise = drawn(LAPLACE, 1)
    other = replace(intent, contribution=replace(intent.contribution, terms="unit", gram=None))
    with LogWriter.create(tmp_path / "run", fsync="never") as writer:
        writer.append(opening())
        writer.append(other)
        writer.append(replace(release, sealed=writer.seal(sealed(LAPLACE, intent, noise))))
    with pytest.raises(InvalidInput, match="no residual test"):
        residual_tier(tmp_path / "run")


def test_laplace_noise_is_seldom_zero_as_bounded() -> None:
    for steps in (2.0, 100.0, 4096.0):
        assert -np.expm1(-0.5 / steps) <= p_values.zero_probability(steps, 1.0, "laplace")
        assert p_values.zero_probability(steps, 1.0) < -np.expm1(-0.5 / steps)


def test_a_coarser_grid_takes_more_off_the_distance() -> None:
    assert p_values.grid_distance(2.5, 2.5 / 2**20) == p_values.GRID_DISTANCE
    for steps in (2.0**12, 5000.0):
        lattice = np.arange(-8 * steps, 8 * steps + 1)
        masses = np.exp(-0.5 * (lattice / steps) ** 2)
        law = np.cumsum(masses) / masses.sum()
        normal = stats.norm.cdf(lattice / steps)
        below = np.concatenate([[0.0], law[:-1]])
        off = max(np.abs(law - normal).max(), np.abs(below - normal).max())
        assert off <= p_values.grid_distance(steps, 1.0) <= 3.0 * off
