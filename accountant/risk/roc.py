"""`roc`: the power of the best test at every false positive rate, from both sides."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from .. import events as ev
from .. import validate
from ..arrays import FloatArray
from ..errors import InvalidInput, kind_of
from ..guarantee import Bounds, Neighbours, as_neighbours
from .attack_power import attack_power


@dataclass(frozen=True, eq=False)
class RocCurve:
    """Bounds on the largest TPR of a test at each FPR: float64 arrays of one length.

    The upper end holds for all neighbouring data sets and all tests; the lower end is attained by
    two of them, or by guessing where none are known.
    """

    fprs: FloatArray
    lower: FloatArray
    upper: FloatArray
    neighbours: Neighbours

    @property
    def tprs(self) -> tuple[Bounds, ...]:
        """The bounds at each false positive rate."""
        return tuple(map(Bounds, self.lower.tolist(), self.upper.tolist()))


def roc(event: ev.EventLike, fprs: Iterable[float], *, neighbours: str = "add-remove") -> RocCurve:
    """Return bounds on the largest true positive rate of a test at each of `fprs`.

    With the trade-off function f (smallest miss rate at an FPR) of both orders of two data sets,

        TPR(fpr) = 1 - f(fpr).

    Range: rates strictly between 0 and 1, in any sequence.  `neighbours` is `add-remove`,
    `replace-one` or `zero-out` of one unit, and either data set may be the innocent one.  Raises
    `InvalidInput` for values out of range, `Unsupported` where no engine has an answer.
    Source: Dong, Roth and Su 2022, arXiv 1905.02383v3, Definition 2.1 and Proposition 2.12.

    >>> curve = roc(ev.Gaussian(1.0), [0.01, 0.1, 0.5])
    >>> curve.upper.round(4).tolist()
    [0.0924, 0.3891, 0.8413]
    """
    relation = as_neighbours(neighbours)
    known = ev.known_event(event)
    if isinstance(fprs, (str, bytes, Mapping)) or not isinstance(fprs, Iterable):
        raise InvalidInput(
            f"`fprs` must be a list of rates; it is {kind_of(fprs)}.",
            next_step="Give a list such as [0.001, 0.01].",
        )
    rates = [
        validate.open_probability(**{f"fprs[{index}]": rate}) for index, rate in enumerate(fprs)
    ]
    if not rates:
        raise InvalidInput(
            "`fprs` holds no rates.",
            "A curve has at least one point.",
            "Give a list such as [0.001, 0.01].",
        )
    power = attack_power(known, relation)
    ends = [power.tpr(rate) for rate in rates]
    return RocCurve(
        np.array(rates, np.float64),
        np.array([each.lower for each in ends], np.float64),
        np.array([each.upper for each in ends], np.float64),
        relation,
    )
