"""Runs whose noise comes from a function, with what a run seals of it: in memory, and on disk."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from privplan.accountant import events as ev
from privplan.accountant import records
from privplan.audit.measurement import Measurement
from privplan.audit.residual.sealed_statistics import Run, _release_from
from privplan.audit.residual.tier import judged
from privplan.fl.aggregation.residuals import Residuals
from privplan.fl.log import LogWriter

STD, SILOS, GRID = 2.5, 4, 2.5 / 2**20
SOUND = {"terms": 9, "sum_off": 0.3, "term_largest": 0.9999, "weight_largest": 1.0}

Law = Callable[[np.random.Generator, int, int], np.ndarray]
"""From a generator, a round (from 0) and a width to noise over `STD`: (silos, width)."""


def normal(rng: np.random.Generator, _: int, width: int) -> np.ndarray:
    """Return the noise that is stated."""
    return rng.normal(size=(SILOS, width))


def steps(values: np.ndarray) -> np.ndarray:
    """Return noise over `STD` on its grid."""
    return np.rint(values * (STD / GRID)).astype(np.int64)


def opening(rounds: int) -> records.RunOpen:
    """Return the opening of a run."""
    return records.RunOpen(
        "run-1",
        "uldp-avg",
        records.Claim("user", "add-remove", 1e-5, 2.0),
        records.Planned(rounds, {"model": ev.Repeat(rounds, ev.Gaussian(5.0))}),
        records.Population(50, SILOS),
        records.Randomness("operating-system"),
    )


def intent(number: int, **changes: Any) -> records.RoundIntent:
    """Return the intent of a round whose silos draw noise of `STD` each."""
    noise = {"shares": SILOS, "share_std": STD, "grid": GRID, **changes}
    return records.RoundIntent(
        number,
        "train",
        ev.Gaussian(5.0),
        records.Contribution(1.0, "l2", "user"),
        records.Noise("gaussian", 5.0, **noise),
        1.0,
    )


def release(number: int, seq: int, width: int, sealed: Mapping[str, str]) -> records.RoundRelease:
    """Return the release of a round."""
    stream = records.StreamRange("ab" * 16, 100 * number, 100 * number + 100)
    return records.RoundRelease(
        number, seq, (stream,), shares=SILOS, values=width, aggregate="c" * 64, sealed=sealed
    )


def items(kept: Residuals, values: np.ndarray, **limits: Any) -> dict[str, Any]:
    """Return what is sealed of a round with this noise over `STD`: (silos, [sums,] width)."""
    own = steps(values)
    monitor = kept.monitor(intent(1).noise)
    for silo, one in enumerate(own):
        monitor.share(silo, one, GRID)
    if own.ndim == 2:
        monitor.whole(own.sum(axis=0), GRID, range(SILOS))
    return {**monitor.items(), "recomputed": {**SOUND, **limits}}


def in_memory(law: Law, seed: int, *, rounds: int, width: int, **limits: Any) -> Run:
    """Return a run as the audit reads it."""
    rng, kept, releases = np.random.default_rng(seed), Residuals(), []
    for number in range(rounds):
        noise = law(rng, number, width)
        found = items(kept, noise, **limits)
        draws = 1 if noise.ndim == 2 else noise.shape[1]
        own, given = intent(number + 1, draws=draws), release(number + 1, 1, width, {})
        releases.append(_release_from(1, own, given, found["residuals"], found["recomputed"]))
    return Run(opening(rounds), tuple(releases))


def on_disk(folder: Path, law: Law = normal, seed: int = 1, *, rounds: int = 4, width: int = 50):
    """Write a run, and return its folder."""
    rng, kept = np.random.default_rng(seed), Residuals()
    with LogWriter.create(folder, fsync="never") as writer:
        writer.append(opening(rounds))
        for number in range(1, rounds + 1):
            seq = writer.append(intent(number))
            sealed = writer.seal(items(kept, law(rng, number - 1, width)))
            writer.append(release(number, seq, width, sealed))
    return folder


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


def accused(law: Any, seeds: range, **size: int) -> tuple[int, int]:
    """Return how many of so many runs were contradicted, and how many of them or unusual."""
    runs = [judged(in_memory(law, seed, **size), 0.05) for seed in seeds]
    return sum(bool(against(one)) for one in runs), sum(bool(noticed(one)) for one in runs)


def written(folder: Path, change: Any) -> Path:
    """Write a run of one round; `change` gets its intent's, its release's and the sealed facts."""
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
