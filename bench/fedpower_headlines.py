"""The headlines of the paper on FedPower, measured again on ratings, each with a verdict.

    PRIVPLAN_RATINGS=ratings.csv python bench/fedpower_headlines.py bench/fedpower_headlines.json

The three algorithms are the project's systems with `as_published = true`: 100 nodes, rank 10, 92
rounds of one product each, every node dividing by its own number of rows.  Sums are plain ones
and Algorithm 2's encryption is a subtraction (`fedpower_systems`).  sigma is the deviation of one
node's noise in Algorithms 1 and 2, and that of the whole sum in Algorithm 3.  It takes some
minutes, and the notebook reads what it wrote.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from fedpower_accuracy import rows_of
from fedpower_systems import Rows, dealt, iterates, leading, settings, system_of
from verdicts import progress

from privplan.accountant.sensitivity.fedpower import element_as_published
from privplan.fl.fedpower.iterate import first_basis, next_iterate
from privplan.fl.fedpower.metrics import (
    frobenius_as_published,
    largest_angle,
    projector_distance,
    variance_share,
)

NODES, RANK, ROUNDS, DRAWS = 100, 10, 92, 3
SIGMAS = (1.0, 5.0, 20.0)
LARGEST_ELEMENT, ENTRY_CLIP = 20.0, 0.2
ROW_NORM = 100.0
"""Longer than any row of ratings up to 5: nothing is clipped, as published."""

ALGORITHMS = {1: "fedpower-original", 2: "fedpower-utility", 3: "fedpower-private"}


@dataclass(frozen=True)
class Setting:
    """One algorithm with one width of noise; `entry_clip` is eta, which Algorithm 3 alone has."""

    algorithm: int
    sigma: float
    rounds: int = ROUNDS
    entry_clip: float = ENTRY_CLIP


def distances(setting: Setting, rows: Rows, exact: Rows, seed: int) -> list[float]:
    """Return the projector distance to the exact directions after each round."""
    federation, rank = dealt(rows, NODES), exact.shape[1]
    bound = element_as_published(rank, LARGEST_ELEMENT, setting.entry_clip)
    chosen = settings(
        ALGORITHMS[setting.algorithm],
        federation,
        privacy={"noise_multiplier": setting.sigma / bound},
        fedpower={
            "rank": rank,
            "row_norm": ROW_NORM,
            "most_rows": 10 * len(rows),
            "divide_by_rows": True,
            "as_published": True,
            "largest_element": LARGEST_ELEMENT,
            "entry_clip": setting.entry_clip,
        },
        rounds=setting.rounds,
    )
    system = system_of(chosen, federation, seed)
    shape = (rows.shape[1], rank)
    return [projector_distance(orthonormal(z), exact) for z in iterates(system, shape, seed)]


def mean_distances(
    setting: Setting, rows: Rows, draws: int = DRAWS, rank: int = RANK
) -> list[float]:
    """Return the mean distance after each round, over the draws."""
    exact = leading(rows, rank)
    every = [distances(setting, rows, exact, seed) for seed in range(draws)]
    progress(f"{setting} ends at {np.mean([each[-1] for each in every]):.3f}")
    return [float(value) for value in np.mean(every, axis=0)]


def orthonormal(iterate: Rows) -> Rows:
    """Return an orthonormal basis of what the columns span."""
    return np.linalg.qr(iterate)[0]


def first_at_most(values: Sequence[float], target: float) -> int | None:
    """Return the first round, from 1, after which a value is at most a target."""
    return next((number for number, value in enumerate(values, 1) if value <= target), None)


def comparison(rows: Rows) -> list[dict[str, Any]]:
    """Compare the three algorithms at each sigma, and Algorithm 3 with as much noise as 1."""
    found = []
    for sigma in SIGMAS:
        curves = {one: mean_distances(Setting(one, sigma), rows) for one in ALGORITHMS}
        final = {one: curve[-1] for one, curve in curves.items()}
        found.append(
            {
                "sigma": sigma,
                "distance": final,
                "times_less_2": final[1] / final[2],
                "less_3": 1.0 - final[3] / final[1],
                "rounds_to_1": {one: first_at_most(curves[one], final[1]) for one in (2, 3)},
                "curves": curves,
            }
        )
    return found


def equal_noise(rows: Rows, compared: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Give Algorithm 3's sum as much noise as Algorithm 1's: sqrt(n + 1) sigma in every round."""
    found = []
    for one in compared:
        wide = float(one["sigma"] * np.sqrt(NODES + 1))
        curve = mean_distances(Setting(3, wide), rows)
        final = one["distance"][1]
        found.append(
            {
                "sigma": one["sigma"],
                "sigma_3": wide,
                "distance_3": curve[-1],
                "less_3": 1.0 - curve[-1] / final,
                "rounds_to_1": first_at_most(curve, final),
            }
        )
    return found


def rounds_by_start(rows: Rows, target: float, starts: int = 20) -> list[int | None]:
    """Return in which round Algorithm 2 or 3 reaches a distance at the least sigma, by its start.

    A sketch: one product of all rows, with noise added to it.
    """
    parts = np.array_split(rows, NODES)
    scaled = np.vstack([part / np.sqrt(len(part)) for part in parts])
    exact, found = leading(rows, RANK), []
    for seed in range(starts):
        random = np.random.default_rng(seed)
        now, curve = first_basis(rows.shape[1], RANK, seed), []
        for _ in range(ROUNDS):
            noise = SIGMAS[0] * random.normal(size=now.shape)
            now = next_iterate(scaled.T @ (scaled @ now) + noise).basis
            curve.append(projector_distance(now, exact))
        found.append(first_at_most(curve, target))
    return found


def figure_4(rows: Rows) -> list[dict[str, Any]]:
    """Vary eta and sigma in Algorithm 3, over 60 rounds."""
    return [
        {
            "entry_clip": eta,
            "sigma": sigma,
            "distance": mean_distances(Setting(3, sigma, 60, eta), rows, draws=2)[-1],
        }
        for eta in (0.05, 0.1, 0.2, 0.5)
        for sigma in SIGMAS
    ]


def convergence(count: int = 1_000, columns: int = 500) -> dict[str, float]:
    """Iterate without noise on whole numbers from 0 to 5: the change, and what is still missing."""
    rows = np.random.default_rng(1).integers(0, 6, (count, columns)).astype(np.float64)
    found, exact = noise_free(rows, ROUNDS), leading(rows, RANK)
    before, after = (projector_distance(each, exact) for each in found[-2:])
    return {
        "change_in_last_round": projector_distance(found[-1], found[-2]),
        "root_mean_square_change_of_an_entry": float(np.std(found[-1] - found[-2])),
        "change_of_distance_to_exact": before - after,
        "distance_to_exact": after,
    }


def noise_free(rows: Rows, rounds: int, rank: int = RANK, *, signed: bool = True) -> list[Rows]:
    """Return the iterates of nodes' products without any noise.

    With `signed` they are as the project has them; without, Q of a QR decomposition, whose signs
    follow from nothing.
    """
    random = np.random.default_rng(2)
    parts = np.array_split(rows, NODES)
    scaled = np.vstack([part / np.sqrt(len(part)) for part in parts])
    now = orthonormal(random.normal(size=(rows.shape[1], rank)))
    found = []
    for _ in range(rounds):
        product = scaled.T @ (scaled @ now)
        now = next_iterate(product).basis if signed else orthonormal(product)
        found.append(now)
    return found


def metrics(rows: Rows, rank: int = RANK) -> dict[str, float]:
    """Return the metrics of an iteration without noise, the published one among them."""
    exact = leading(rows, rank)
    found = noise_free(rows, ROUNDS, rank, signed=False)[-1]
    signs = np.where(np.sum(found * exact, axis=0) < 0.0, -1.0, 1.0)
    return {
        "frobenius_as_published": frobenius_as_published(found, exact),
        "columns_of_other_sign": int(np.sum(signs < 0.0)),
        "frobenius_with_signs_of_exact": frobenius_as_published(found * signs, exact),
        "projector_distance": projector_distance(found, exact),
        "largest_angle": largest_angle(found, exact),
        "variance_share": variance_share(found, rows, rank),
    }


def headlines(rows: Rows) -> dict[str, Any]:
    """Return every number of this file."""
    compared = comparison(rows)
    return {
        "nodes": NODES,
        "rank": RANK,
        "rounds": ROUNDS,
        "draws": DRAWS,
        "shape": list(rows.shape),
        "setting": asdict(Setting(1, SIGMAS[0])),
        "comparison": compared,
        "equal_noise": equal_noise(rows, compared),
        "rounds_by_start": rounds_by_start(rows, compared[0]["distance"][1]),
        "figure_4": figure_4(rows),
        "convergence": convergence(),
        "metrics_without_noise": metrics(rows),
    }


def main(target: Path) -> None:
    """Measure everything on the ratings and write it."""
    rows = rows_of("ratings")
    if rows is None:
        raise SystemExit("PRIVPLAN_RATINGS names no file of ratings.")
    target.write_text(json.dumps(headlines(rows), indent=1) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
