"""What is refused of a strategy, and of its JSON: in words, and without warnings of numpy."""

from __future__ import annotations

import warnings

import pytest

from privplan.accountant import events as ev
from privplan.accountant.errors import InvalidInput, Unsupported
from privplan.accountant.sensitivity.matrix import sensitivity_bounds

from ..cases import for_each

STRATEGY = {"type": "toeplitz", "steps": 3, "coefficients": [1.0]}


@for_each(
    "participation",
    [
        ev.SingleParticipation(),
        ev.SeparatedParticipation(2, 1),
        ev.EpochParticipation(1),
        ev.BallsInBins(2),
    ],
)
@for_each(
    "strategy",
    [
        ev.ToeplitzStrategy(3, (1e200, 1e200)),
        ev.ToeplitzStrategy(3, (1e153, 1e153)),
        ev.ToeplitzStrategy(3, (1e200, -1e200)),
        ev.DenseStrategy([[1e200, 0.0], [1e200, 1e200]]),
        ev.DenseStrategy([[1e200, 1.0], [1e200, 1e200]]),
        ev.BandedStrategy([[1e200, 1e200], [1e200]]),
        ev.BufferedToeplitzStrategy(3, (0.5,), (1e200,)),
    ],
)
def test_entries_whose_squares_overflow_are_refused_without_warnings(
    strategy: ev.Strategy, participation: ev.Participation
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(Unsupported, match="too extreme"):
            sensitivity_bounds(strategy, participation)


def test_a_strategy_that_is_singular_up_to_rounding_is_said_to_be_that() -> None:
    nearly = ev.DenseStrategy([[1.0, 1.0], [0.0, 1e-16]])
    with pytest.raises(InvalidInput, match="Up to rounding the strategy is singular") as caught:
        sensitivity_bounds(nearly, ev.SingleParticipation())
    assert "column 1 is not, up to rounding" in caught.value.what
    fewer = ev.DenseStrategy([[1.0, 2.0, 3.0], [0.0, 1.0, 1.0]])
    with pytest.raises(InvalidInput, match="rows are fewer") as caught:
        sensitivity_bounds(fewer, ev.SingleParticipation())
    assert "ounding" not in str(caught.value)


def test_json_without_fields_and_null_are_refused_in_words() -> None:
    run = {"type": "matrix-gaussian", "noise_multiplier": 1.0, "strategy": STRATEGY}
    with pytest.raises(InvalidInput, match="`single` has no fields"):
        ev.from_json({**run, "participation": {"type": "single", "x": 1}})
    for given in (None, 3, []):
        with pytest.raises(InvalidInput, match=r"`event\.participation` must be") as caught:
            ev.from_json({**run, "participation": given})
        assert "balls-in-bins" in caught.value.next_step
        assert "NoneType" not in str(caught.value)
