"""What DELM is measured against, in NumPy: rounds of federated training of other makes.

    fedavg      mean of the clients' updates                                     McMahan et al. 2017
    fedprox     the same, with a proximal term in every client's objective       Li et al. 2020
    ldp-fl      mean of clipped gradients, each with Laplace noise               Sun et al. 2021
    secprobe    noisy gradients, of clients that are drawn by their score        Zhao et al. 2020
    stc         mean of sparse ternary updates, with what was left out kept      Sattler et al. 2020

Noise is NumPy's, from a seed, so it protects nobody: the records are anybody's to read.  What noise
of these laws would prove stands in `delm_epsilons`.  A shuffler, layer by layer, stands between the
clients and the server of `ldp-fl`, as in DELM; a mean does not depend on the order, so there is
nothing of it to compute.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from privplan.fl.training.local_training import TorchLocalTraining

Vector = NDArray[np.float64]
Rows = NDArray[np.float64]
Name = Literal["fedavg", "fedprox", "ldp-fl", "secprobe", "stc"]

SCORED: Final = 0.5
"""The share of the clients whose updates `secprobe` takes in a round."""

KEPT: Final = 0.05
"""The share of an update's numbers that `stc` keeps."""


@dataclass(frozen=True)
class Knobs:
    """What is chosen for a baseline: the step of the server, and what only some have.

    `clip` is C of `ldp-fl`, for each number of a gradient; `proximal` is mu of `fedprox`.
    """

    rate: float
    clip: float = 0.0
    proximal: float = 0.0


@dataclass(frozen=True)
class Noise:
    """Epsilons of one round: `training` of the noise on gradients, `selection` of the choice.

    `scale` is that of the Laplace noise of `secprobe`, in units of a gradient's sum over records.
    """

    training: float = 0.0
    selection: float = 0.0
    scale: float = 0.0


Score = Callable[[Vector], float]
"""From a model to its accuracy on public records, in [0, 1]."""


def models(
    name: Name,
    local: TorchLocalTraining,
    knobs: Knobs,
    noise: Noise,
    rounds: int,
    rng: Generator,
    score: Score,
) -> Iterator[Vector]:
    """Yield the model after each round; `score` is what only `secprobe` asks."""
    local.proximal = knobs.proximal
    parameters = local.initial()
    left = np.zeros((local.federation.silos, len(parameters)))
    for number in range(1, rounds + 1):
        if name in ("fedavg", "fedprox"):
            step = local.silo_deltas(parameters, number).mean(axis=0)
        elif name == "stc":
            wanted = local.silo_deltas(parameters, number) + left
            sent = ternary(wanted, KEPT)
            left = wanted - sent
            step = sent.mean(axis=0)
        elif name == "ldp-fl":
            scale = 2.0 * knobs.clip / noise.training
            gradients = np.clip(_gradients(local, parameters, number), -knobs.clip, knobs.clip)
            step = -(gradients + rng.laplace(scale=scale, size=gradients.shape)).mean(axis=0)
        else:
            gradients = _gradients(local, parameters, number)
            # Noise is on the sum over the records of a client, of which this is the mean.
            scales = noise.scale / _sizes(local)[:, None]
            noisy = gradients + rng.laplace(scale=1.0, size=gradients.shape) * scales
            moved = parameters - knobs.rate * noisy
            scores = np.array([score(model) for model in moved])
            step = -noisy[drawn(scores, noise.selection, SCORED, rng)].mean(axis=0)
        parameters = parameters + knobs.rate * step
        yield parameters


def ternary(rows: Rows, share: float) -> Rows:
    """Return each row with its largest numbers replaced by their mean magnitude, signed, and zeros.

    `share` of the numbers of a row stay, at least one.

    >>> ternary(np.array([[3.0, -1.0, 0.5, 0.0]]), 0.5).tolist()
    [[2.0, -2.0, 0.0, 0.0]]
    """
    count = max(1, round(share * rows.shape[1]))
    places = np.argpartition(-np.abs(rows), count - 1, axis=1)[:, :count]
    magnitudes = np.abs(np.take_along_axis(rows, places, axis=1))
    signs = np.sign(np.take_along_axis(rows, places, axis=1))
    sent = np.zeros_like(rows)
    np.put_along_axis(sent, places, signs * magnitudes.mean(axis=1, keepdims=True), axis=1)
    return sent


def drawn(scores: Vector, epsilon: float, share: float, rng: Generator) -> NDArray[np.intp]:
    """Return the clients that are drawn by their scores, a share of them, without replacement.

    P(i) ~ exp(epsilon u_i / (2 k)) for scores u in [0, 1] and k draws: the exponential mechanism
    with its budget divided among the draws.  The k largest of u epsilon / (2 k) + Gumbel noise.
    """
    count = max(1, round(share * len(scores)))
    exponents = epsilon * scores / (2.0 * count)
    return np.argsort(-(exponents + rng.gumbel(size=len(scores))))[:count]


def _gradients(local: TorchLocalTraining, parameters: Vector, number: int) -> Rows:
    """Return the mean gradient of each client's records: (clients, D)."""
    return np.asarray(local.silo_gradients(parameters, number) / _sizes(local)[:, None])


def _sizes(local: TorchLocalTraining) -> Vector:
    federation = local.federation
    return np.maximum(np.bincount(federation.silo, minlength=federation.silos), 1).astype(float)
