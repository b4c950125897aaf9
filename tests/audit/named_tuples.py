"""Events of dp_accounting as files hold them, and the events here that mean the same."""

from __future__ import annotations

import json
from typing import Any, Final

from dp_accounting import dp_event

from privplan.accountant import events as ev

POISSON: Final = dp_event.PoissonSampledDpEvent(0.1, dp_event.GaussianDpEvent(3.0))
DP_SGD: Final = dp_event.SelfComposedDpEvent(POISSON, 512)
ALL_IN_TURNS: Final = dp_event.ComposedDpEvent(
    [
        dp_event.SelfComposedDpEvent(POISSON, 10),
        dp_event.SelfComposedDpEvent(
            dp_event.PoissonSampledDpEvent(0.2, dp_event.GaussianDpEvent(2.0)), 20
        ),
        dp_event.GaussianDpEvent(5.0),
    ]
)

PAIRS: Final[list[tuple[Any, ev.Event]]] = [
    (dp_event.GaussianDpEvent(1.5), ev.Gaussian(1.5)),
    (dp_event.LaplaceDpEvent(2.0), ev.Laplace(2.0)),
    (dp_event.NonPrivateDpEvent(), ev.from_dp_event(dp_event.NonPrivateDpEvent())),
    (dp_event.ZCDpEvent(0.5), ev.ZCDP(0.5)),
    (DP_SGD, ev.Repeat(512, ev.Poisson(0.1, ev.Gaussian(3.0)))),
    (ALL_IN_TURNS, ev.from_dp_event(ALL_IN_TURNS)),
    (
        dp_event.TruncatedSubsampledGaussianDpEvent(1000, 0.1, 120, 1.0),
        ev.TruncatedPoisson(0.1, 120, 1000, ev.Gaussian(1.0)),
    ),
    (
        dp_event.RepeatAndSelectDpEvent(dp_event.GaussianDpEvent(1.0), 4.0, float("inf")),
        ev.BestOf("poisson", 4.0, ev.Gaussian(1.0)),
    ),
]
"""Events of dp_accounting beside ours."""


def by_position(event: Any) -> bytes:
    """Return `json.dumps(event.to_named_tuple())`."""
    return json.dumps(event.to_named_tuple()).encode()


def by_name(event: Any) -> bytes:
    """Return the same tuple as an object with the names of its fields."""
    return json.dumps(_named(event.to_named_tuple())).encode()


def printed(event: Any) -> bytes:
    """Return what `print(event)` prints."""
    return f"{event!r}\n".encode()


FORMS: Final = {"positions": by_position, "names": by_name, "printed": printed}


def _named(value: Any) -> Any:
    if hasattr(value, "_asdict"):
        return {key: _named(part) for key, part in value._asdict().items()}
    return [_named(part) for part in value] if isinstance(value, list) else value
