"""DELM's private PCA: a released matrix from which a record cannot be subtracted shows it absent.

The mechanism (LDP-FPCA): a client releases O = A + Z Z^T, A = sum of x x^T over its records (of
norm at most 1), Z of d x (d+1) independent N(0, 1/(2 epsilon)); the text says epsilon-DP.

The attack: an adversary who knows all records but x subtracts them, and x x^T.  If x is in A, what
is left is Z Z^T and has no negative eigenvalue, ever.  If x is not, it has one with probability
1 - e^-epsilon.  So delta(epsilon') = 1 - e^-epsilon at *every* epsilon' (the proof is in
`accountant.sensitivity.wishart`).

Source of the mechanism: Cao et al. 2023, *Differentially Private Federated Learning with
Functional Mechanism*, Chinese Journal of Computers, LDP-FPCA.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from ...accountant.arrays import BoolArray, FloatArray
from ...accountant.claims import delm
from ...accountant.sensitivity import wishart
from ..statistics import Counts, epsilon_lower
from .counting import batches, delta_lower
from .demo import Demo, Weakness, shown

WISHART_DIMENSION: Final = 10
RECORDS: Final = delm.RECORDS
WISHART_RUNS: Final = 20_000
"""Releases with the record, and as many without."""

CONFIDENCE: Final = 0.95

NEGATIVE_EIGENVALUE: Final = -1e-9
"""An eigenvalue below this is negative: rounding moves one by some 1e-13."""

RELEASES_AT_ONCE: Final = 4096


def released(gram: FloatArray, epsilon: float, copies: int, rng: np.random.Generator) -> FloatArray:
    """Return `copies` independent releases (copies, d, d) of the Gram matrix (d, d), as published.

    O = A + Z Z^T, Z of shape (d, d+1) with independent N(0, 1/(2 epsilon)) entries.
    """
    d = gram.shape[0]
    z = rng.normal(0.0, math.sqrt(0.5 / epsilon), (copies, d, d + 1))
    return np.asarray(gram + z @ z.transpose(0, 2, 1))


def says_absent(releases: FloatArray, rest: FloatArray, record: FloatArray) -> BoolArray:
    """Return for each release (copies, d, d) whether it shows that `record` (d,) is not in it.

    `rest` is the Gram matrix of all other records, which the adversary knows.  True where
    O - rest - x x^T has a negative eigenvalue; never where the record is in O.
    """
    # Z Z^T is positive semidefinite: a negative eigenvalue shows that x x^T was not in O.
    left = releases - rest - np.outer(record, record)
    return np.asarray(np.linalg.eigvalsh(left)[:, 0] < NEGATIVE_EIGENVALUE)


def counted(epsilon: float, runs: int, dimension: int, rng: np.random.Generator) -> Counts:
    """Return how often the attack says "absent" of data without the record, and with it.

    Positives are releases without the record.  All records are unit vectors, drawn at random.
    """
    records = rng.normal(size=(RECORDS, dimension))
    records /= np.linalg.norm(records, axis=1, keepdims=True)
    record, others = records[0], records[1:]
    rest = others.T @ others
    claims = {
        present: sum(
            int(says_absent(released(gram, epsilon, size, rng), rest, record).sum())
            for size in batches(runs, RELEASES_AT_ONCE)
        )
        for present, gram in ((False, rest), (True, rest + np.outer(record, record)))
    }
    return Counts(
        false_alarms=claims[True], negatives=runs, misses=runs - claims[False], positives=runs
    )


def run(rng: np.random.Generator) -> Weakness:
    """Measure delta and epsilon of the PCA step at the published epsilon 0.6."""
    published = delm.EPSILON_PCA
    counts = counted(published, WISHART_RUNS, WISHART_DIMENSION, rng)
    alpha = 1.0 - CONFIDENCE
    delta = delta_lower(counts, epsilon=published, alpha=alpha)
    epsilon = epsilon_lower(counts, delta=delm.DELTA, alpha=alpha)
    whole = delm.published_total(published, delm.EPSILON_TRAINING, delm.EPSILON_SELECTION)
    hits = counts.hits
    sample: dict[str, float | int | str] = {
        "releases without the record": counts.positives,
        "called absent": hits,
        "releases with the record": counts.negatives,
        "called absent wrongly": counts.false_alarms,
    }
    common = {
        "observer": "server",
        "unit": "record",
        "neighbours": "add-remove",
        "confidence": CONFIDENCE,
        "sample": sample,
        "assumes": (
            "the adversary knows the other records, as differential privacy lets it",
            "the event, a negative eigenvalue, was fixed before anything was drawn",
        ),
    }
    exact = wishart.failure(published)
    measurements = (
        shown(
            f"delta of the Wishart PCA at epsilon {published:g}",
            delta,
            0.0,
            delta=0.0,
            quantity="delta",
            proves=f"No ({published:g}, 0)-DP: delta is at least the value.",
            **common,  # type: ignore[arg-type]
        ),
        shown(
            "epsilon of the Wishart PCA",
            epsilon,
            published,
            delta=delm.DELTA,
            proves="Epsilon is at least the value, and more runs would show more: it is infinite.",
            **common,  # type: ignore[arg-type]
        ),
        shown(
            "epsilon of the whole of DELM, by its PCA alone",
            epsilon,
            whole,
            delta=delm.DELTA,
            proves="Epsilon of all that is released is at least that of one part of it.",
            **common,  # type: ignore[arg-type]
        ),
    )
    story = (
        f"A client's {RECORDS} records were released {WISHART_RUNS:,} times with one record and "
        f"{WISHART_RUNS:,} times without it, with the published noise for epsilon {published:g}.",
        "Whoever knows the other records subtracts them and the record in question: with the "
        "record in the data only noise is left, which has no negative eigenvalue.",
        f"Without it, {hits:,} of {WISHART_RUNS:,} releases had one (in theory {exact:.3f} of "
        "them), and "
        f"with it {counts.false_alarms}: of an absent record the attack says so in nearly half of "
        "all cases, and it is never wrong.",
        "An event that has probability 0 on one side contradicts every finite epsilon: delta is "
        f"1 - e^-{published:g} = {exact:.3f} whatever epsilon one asks about, and 0 was promised.",
    )
    return Weakness(measurements, (exact, math.inf, math.inf), story)


DEMO: Final = Demo(
    name="wishart-support",
    system="delm",
    title="A matrix with Wishart noise shows that a record is absent, and is never wrong.",
    claim="LDP-FPCA: a covariance with Wishart noise of scale 1/(2 epsilon) is epsilon-DP.",
    rows=("PCA with Wishart noise: delta", "PCA with Wishart noise", "the whole"),
    run=run,
)
"""Cao et al. 2023 (DELM), LDP-FPCA."""
