"""What federated systems ask of masked sums: silos' integers in, their sum out, or nothing."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from privplan.accountant.errors import InvalidInput, MissingParty, ProtocolFault
from privplan.fl.aggregation.masked_sums import MaskedAggregator
from privplan.fl.secagg.terms import choose

from ..cases import for_each


def sends(value: int, length: int) -> Callable[[], Any]:
    return lambda: np.full(length, value, np.int64)


def gone() -> Any:
    raise MissingParty("gone")


def test_sums_of_several_lengths_with_another_silo_missing_and_extremes_wrap_around() -> None:
    own = MaskedAggregator(3, dropouts=1)
    for number, length in enumerate((5, 8, 5, 1, 8)):
        silos = [sends(10**place, length) for place in range(3)]
        missing = number % 3
        found = own.total(number, [*silos[:missing], gone, *silos[missing + 1 :]], length)
        assert found.silos == tuple({0, 1, 2} - {missing})
        assert found.total.tolist() == [111 - 10**missing] * length
        everybody = [sends(1, length + 2)] * 3
        after = own.total(number + 10, everybody, length + 2)
        assert after.silos == (0, 1, 2)
        assert after.total.tolist() == [3] * (length + 2)
    found = MaskedAggregator(3).total(1, [sends(v, 2) for v in (2**63 - 1, -(2**63), -1)], 2)
    assert found.total.tolist() == [-2, -2]


@for_each(
    ("silos", "raised"),
    [
        ([gone, gone, sends(1, 5)], MissingParty),
        ([sends(1, 5), lambda: 1 // 0, sends(1, 5)], ZeroDivisionError),
        ([sends(1, 5), sends(1, 4), sends(1, 5)], InvalidInput),
    ],
)
def test_after_a_fault_nothing_is_summed_of_any_length(silos: Any, raised: Any) -> None:
    own = MaskedAggregator(3, dropouts=1)
    assert own.total(1, [sends(1, 7)] * 3, 7).silos == (0, 1, 2)
    with pytest.raises(raised):
        own.total(2, silos, 5)
    for length in (5, 7, 9):
        with pytest.raises(InvalidInput, match="stopped by an earlier fault"):
            own.total(3, [sends(1, length)] * 3, length)


@for_each("kind", [np.float64, np.float32, np.int32, np.uint64])
def test_what_is_not_integers_of_64_bits_is_refused_and_not_cut_off(kind: Any) -> None:
    own = MaskedAggregator(3)
    with pytest.raises(ProtocolFault, match="did not make integers"):
        own.total(1, [sends(1, 2), lambda: np.full(2, 1.5, kind), sends(1, 2)], 2)


@for_each(("silos", "dropouts"), [(2, 1), (3, 2), (3, 3)])
def test_one_silo_left_is_refused_in_words_about_silos(silos: int, dropouts: int) -> None:
    with pytest.raises(InvalidInput, match="fewer than two honest ones"):
        MaskedAggregator(silos, dropouts=dropouts).total(1, [sends(1, 2)] * silos, 2)


def test_colluders_are_as_many_as_can_be_and_the_server_lies_where_that_is_possible() -> None:
    for silos, dropouts in itertools.product(range(2, 12), range(10)):
        if silos - dropouts < 2:
            continue
        masks = MaskedAggregator(silos, dropouts=dropouts)
        own = masks.security
        assert own.colluders == 0  # who is accounted for
        possible = {
            (kind, told)
            for kind in ("malicious", "honest-but-curious")
            for told in range(silos)
            if _can_be(silos, dropouts, told, kind)
        }
        kinds = {kind for kind, _ in possible}
        assert own.server == ("malicious" if "malicious" in kinds else "honest-but-curious")
        most = max(told for kind, told in possible if kind == own.server)
        assert (
            own.threshold
            == choose(
                silos, length=1, dropouts=dropouts, colluders=most, server=own.server
            ).threshold
        )
        for told in range(silos):
            if any(count == told for _, count in possible):
                stated = MaskedAggregator(silos, dropouts=dropouts, colluders=told).security
                assert stated.colluders == told < stated.threshold
                lies = ("malicious", told) in possible
                assert stated.server == ("malicious" if lies else "honest-but-curious")
            else:
                with pytest.raises(InvalidInput):
                    MaskedAggregator(silos, dropouts=dropouts, colluders=told)


def _can_be(silos: int, dropouts: int, told: int, kind: Any) -> bool:
    try:
        choose(silos, length=1, dropouts=dropouts, colluders=told, server=kind)
    except InvalidInput:
        return False
    return True
