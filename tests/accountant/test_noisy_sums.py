"""Noise that is drawn some sums ahead: what it is, and that none of it is free or used twice."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from privplan.accountant import events as ev
from privplan.accountant import records
from privplan.accountant.errors import InvalidInput, PrivplanError, Unsupported
from privplan.accountant.mechanisms import Gate, Gaussian, RoundDescription, Ticket, noisy_sums
from privplan.accountant.mechanisms.noisy_sums import NoisySums
from privplan.accountant.randomness import Streams

from ..cases import for_each
from .mechanism_tickets import FALSE_ALARM, Memory

OWN = Gaussian(bound=0.5, std=2.0, unit="record")
NAMES, PARTS = ("noise/0", "noise/1"), ("silo-0", "silo-1")
WIDTH = 3


def opened(draws: int, own: Gaussian = OWN) -> tuple[Ticket, Memory, Streams]:
    memory, streams = Memory(), Streams.seeded(1)
    about = RoundDescription(1, "test", draws=draws, event_override=ev.NoGuarantee("a test"))
    return Gate(None, memory, streams).open(own.intent(about, "add-remove")), memory, streams


def made(ticket: Ticket, count: int, own: Gaussian = OWN, **changes: Any) -> NoisySums:
    return own.steps(
        ticket, **{"names": NAMES, "parts": PARTS, "width": WIDTH, **changes}, count=count
    )


def zeros() -> np.ndarray:
    return np.zeros((2, WIDTH), np.int64)


def test_sums_get_the_noise_that_a_single_draw_makes() -> None:
    """The first sums of a party have the numbers that `noisy` draws at once for all of them."""
    ticket, _, _ = opened(4)
    noise = made(ticket, 4)
    sums = np.arange(4 * 2 * WIDTH).reshape(4, 2, WIDTH) * 10**9
    found = np.array([noise.noisy(one) for one in sums])
    again, _, _ = opened(1)
    flat = sums.transpose(1, 0, 2).reshape(2, -1)
    for party in range(2):
        (expected,) = OWN.noisy(again, [flat[party]], [NAMES[party]], part=PARTS[party])
        assert np.array_equal(found[:, party].ravel(), expected)


@for_each("ahead", [1, 10, 10**6])
def test_the_noise_has_its_law_and_is_never_used_twice(
    ahead: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kolmogorov and Smirnov's test on seeded streams; false alarm on fresh ones: 1e-6."""
    monkeypatch.setattr(noisy_sums, "_PREFETCHED_NUMBERS", ahead)
    ticket, _, _ = opened(400)
    noise = made(ticket, 400)
    found = np.array([noise.noisy(zeros()) for _ in range(400)])
    assert stats.kstest(found.ravel() / OWN.std, "norm").pvalue > FALSE_ALARM / 3
    assert len(np.unique(found.reshape(800, WIDTH), axis=0)) == 800


def test_every_sum_is_counted_before_its_noise_is_drawn() -> None:
    ticket, _, streams = opened(5)
    noise = made(ticket, 6)
    with pytest.raises(Unsupported, match="announces 5 draws"):
        noise.noisy(zeros())
    assert [streams.stream(name).position for name in NAMES] == [0, 0]


def test_a_part_pays_for_its_own_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noisy_sums, "_PREFETCHED_NUMBERS", 2 * WIDTH)
    ticket, _, _ = opened(3)
    OWN.noisy(ticket, [np.zeros(WIDTH, np.int64)], ["other"], part="silo-1")
    noise = made(ticket, 3)
    for _ in range(2):
        noise.noisy(zeros())
    with pytest.raises(Unsupported, match="announces 3 draws"):
        noise.noisy(zeros())  # the third of silo-0, and the fourth of silo-1


def test_no_more_sums_than_were_asked_for() -> None:
    ticket, _, _ = opened(9)
    noise = made(ticket, 2)
    noise.noisy(zeros())
    noise.noisy(zeros())
    with pytest.raises(Unsupported, match="used up"):
        noise.noisy(zeros())


def test_what_was_drawn_and_not_used_is_counted_and_stays_hidden() -> None:
    ticket, memory, streams = opened(8)
    noise = made(ticket, 8)
    noise.noisy(zeros())
    ticket.close()
    release = memory.lines[-1]
    assert isinstance(release, records.RoundRelease)
    assert release.draws == 8
    assert {(one.first, one.last) for one in release.streams} == {
        (0, streams.stream(name).position) for name in NAMES
    }
    with pytest.raises(PrivplanError, match="round is over"):
        noise.noisy(zeros())


def test_it_is_for_the_mechanism_of_the_ticket() -> None:
    ticket, _, _ = opened(2)
    with pytest.raises(Unsupported, match="another mechanism"):
        made(ticket, 2, Gaussian(bound=0.5, std=1.0, unit="record"))
    shared = Gaussian(bound=0.5, std=2.0, shares=3)
    with pytest.raises(Unsupported, match="3 noise shares"):
        made(opened(2, shared)[0], 2, shared).noisy(zeros())


@for_each(
    "totals",
    [
        np.zeros((2, WIDTH)),
        np.zeros((2, WIDTH), np.int32),
        np.zeros((1, WIDTH), np.int64),
        np.zeros((2, WIDTH + 1), np.int64),
        np.full((2, WIDTH), -(2**63)),
        np.full((2, WIDTH), 2**62 + 1),
    ],
)
def test_sums_that_are_no_sums_get_no_noise(totals: np.ndarray) -> None:
    ticket, _, streams = opened(2)
    with pytest.raises(InvalidInput):
        made(ticket, 2).noisy(totals)
    assert streams.stream(NAMES[0]).position == 0


@for_each(
    "wrong",
    [
        {"names": ("one", "one")},
        {"parts": ("one", "one")},
        {"names": ("one",)},
        {"names": (), "parts": ()},
        {"width": 0},
    ],
)
def test_parties_need_streams_and_parts_of_their_own(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        made(opened(2)[0], 2, **wrong)
