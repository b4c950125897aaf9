"""Wall-clock medians, with the peer's runs in between ours so that load hits both alike."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")
U = TypeVar("U")

SINGLE_RUN_SECONDS = 5.0
"""A peer that takes longer than this, in seconds, runs once."""


@dataclass(frozen=True)
class Timing(Generic[T]):
    """What a call returned, the median of its times in seconds, and how often it ran."""

    result: T
    seconds: float
    runs: int


def timed(
    call: Callable[[], T], runs: int, clock: Callable[[], float] = time.perf_counter
) -> Timing[T]:
    """Return the median of `runs` calls, or one call that took over `SINGLE_RUN_SECONDS`.

    With the clock `time.process_time` it is the time of all cores together.
    """
    times, result = [], call_once(call, clock)
    times.append(result.seconds)
    while len(times) < runs and times[0] <= SINGLE_RUN_SECONDS:
        result = call_once(call, clock)
        times.append(result.seconds)
    return Timing(result.result, statistics.median(times), len(times))


def call_once(call: Callable[[], T], clock: Callable[[], float] = time.perf_counter) -> Timing[T]:
    """Return one timed call."""
    start = clock()
    result = call()
    return Timing(result, clock() - start, 1)


def race(
    ours: Callable[[], T], peer: Callable[[], U], *, ours_runs: int, peer_runs: int
) -> tuple[Timing[T], Timing[U]]:
    """Return both medians; half of our calls come before the peer's and half after."""
    ours()  # warm-up: the peers were warmed up by `peers.warm_up`
    times = [call_once(ours).seconds for _ in range(ours_runs // 2)]
    theirs = timed(peer, peer_runs)
    last = call_once(ours)
    times.append(last.seconds)
    times += [call_once(ours).seconds for _ in range(ours_runs - len(times))]
    return Timing(last.result, statistics.median(times), len(times)), theirs
