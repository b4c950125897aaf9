"""The mechanisms that release most keys of a histogram at a given (epsilon, delta).

**Truncated geometric**: of all mechanisms whose keys are treated alike and independently, none
keeps more at a per-key (epsilon', delta').  For k keys, delta' = 1 - (1 - share delta)^(1/k) is set
aside for new keys, and epsilon' is the largest that the composition of k keys leaves room for; of
some shares, the one by which fewest units make a key likelier released than not.

**Thresholds**: part of delta is for new keys, and decides the threshold at a given noise; the rest
decides the noise.  Of some shares, the one with the least threshold is chosen.  With Laplace noise
k / epsilon and all of delta for new keys this is 1 - k log(2 d) / epsilon with
d = 1 - (1 - delta)^(1/k).

Every event that is returned is certified by `calibrate`.
Source: Desfontaines, Voss and Gipson 2020, arXiv 2006.03684v2; Wilson et al. 2019, arXiv
1909.01917v3 (Laplace thresholds).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from scipy.special import ndtri_exp

from . import events as ev
from . import validate
from .calibrate import calibrate
from .calibration_aims import Calibration
from .errors import TargetTrivial, TargetUnreachable

SHARES: Final = (0.1, 0.3, 0.5, 0.7, 0.9, 0.999999)
"""The shares of delta for new keys that are tried: what comes of them differs little between."""


def keep_probability(event: ev.TruncatedGeometricSelection, count: int) -> float:
    """Return the probability with which a key of `count` units is released.

    p(0) = 0, p(n + 1) = min(e^eps p(n) + delta, 1 - e^-eps (1 - p(n) - delta), 1).
    Range: `count` 0 or above.
    Source: Desfontaines, Voss and Gipson 2020, Theorem 1, arXiv 2006.03684v2.

    >>> keep_probability(ev.TruncatedGeometricSelection(1.0, 1e-5, 1), 1)
    1e-05
    """
    kept = 0.0
    for _ in range(int(validate.non_negative(count=count))):
        grown = math.exp(min(event.epsilon, 700.0)) * kept + event.delta
        kept = min(grown, 1.0 - math.exp(-event.epsilon) * (1.0 - kept - event.delta), 1.0)
        if kept == 1.0:
            break
    return kept


def truncated_geometric_selection(
    *, epsilon: float, delta: float, partitions: int, neighbours: str = "add-remove"
) -> Calibration:
    """Return the truncated geometric selection that keeps most, certified at (epsilon, delta).

    Its `value` is 1 / the epsilon of a key.  Range: as for `calibrate`, `delta` above 0,
    `partitions` 1 or above.

    >>> calibration = truncated_geometric_selection(epsilon=1.0, delta=1e-5, partitions=1)
    >>> round(calibration.value, 3)
    1.0
    """
    keys = validate.count(partitions=partitions)
    total = validate.open_probability(delta=delta)

    def at_share(share: float) -> Callable[[float], ev.Event]:
        each = _of_each(share * total, keys, neighbours)
        return lambda noise: ev.TruncatedGeometricSelection(1.0 / noise, each, keys)

    # A single key of (epsilon, delta) uses all of delta for new keys and for old ones at once.
    shares = SHARES[-1:] if keys == 1 and neighbours != "replace-one" else SHARES
    return _best(at_share, epsilon, total, neighbours, shares, _count_for_half)


def _count_for_half(calibration: Calibration) -> float:
    """Return about how many units a key needs to be kept every other time."""
    event = calibration.event
    assert isinstance(event, ev.TruncatedGeometricSelection)
    growth = math.expm1(event.epsilon)
    return math.log1p(growth / (event.delta * (growth + 2.0))) / event.epsilon


def threshold_selection(
    noise: str,
    *,
    epsilon: float,
    delta: float,
    partitions: int,
    neighbours: str = "add-remove",
) -> Calibration:
    """Return the threshold selection with the least threshold, certified at (epsilon, delta).

    `noise` is `gaussian` or `laplace`; the `value` is its scale.  Range: as for `calibrate`,
    `delta` above 0, `partitions` 1 or above.
    """
    validate.choice(("gaussian", "laplace"), noise=noise)
    keys = validate.count(partitions=partitions)
    total = validate.open_probability(delta=delta)

    def at_share(share: float) -> Callable[[float], ev.Event]:
        each = _of_each(share * total, keys, neighbours)
        return lambda scale: ev.ThresholdSelection(
            noise, scale, least_threshold(noise, scale, each), keys
        )

    def threshold_of(calibration: Calibration) -> float:
        assert isinstance(calibration.event, ev.ThresholdSelection)
        return calibration.event.threshold

    return _best(at_share, epsilon, total, neighbours, SHARES, threshold_of)


def least_threshold(noise: str, noise_scale: float, shown: float) -> float:
    """Return the least threshold that a key of one unit passes with at most probability `shown`.

    1 + scale z, z the upper quantile of the noise, rounded up.  Range: `shown` in (0, 0.5].

    >>> round(least_threshold("laplace", 1.0, 1e-5), 2)
    11.82
    """
    log_shown = math.log(shown)
    quantile = -log_shown - math.log(2.0)
    if noise == "gaussian":
        quantile = -float(ndtri_exp(log_shown))
    return 1.0 + noise_scale * max(quantile, 0.0) * (1.0 + 1e-12)


def _of_each(delta: float, keys: int, neighbours: str) -> float:
    """Return the d with 1 - (1 - d)^n = delta for as many keys as may be new."""
    new = 2 * keys if neighbours == "replace-one" else keys
    return -math.expm1(math.log1p(-delta) / new) * (1.0 - 1e-9)


def _best(
    at_share: Callable[[float], Callable[[float], ev.Event]],
    epsilon: float,
    delta: float,
    neighbours: str,
    shares: tuple[float, ...],
    cost: Callable[[Calibration], float],
) -> Calibration:
    """Return the calibration of least cost among the shares of delta that have one."""
    tried: list[Calibration] = []
    refused: TargetUnreachable | TargetTrivial | None = None
    for share in shares:
        try:
            tried.append(
                calibrate(at_share(share), epsilon=epsilon, delta=delta, neighbours=neighbours)
            )
        except (TargetUnreachable, TargetTrivial) as refusal:
            refused = refusal
    if not tried:
        assert refused is not None
        raise refused
    return min(tried, key=cost)
