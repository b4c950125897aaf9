"""A gate of one party among several: it draws its own shares, and others draw the rest."""

from __future__ import annotations

import numpy as np
import pytest

from privplan.accountant import records
from privplan.accountant.errors import InvalidInput, Unsupported
from privplan.accountant.mechanisms import Gate, Gaussian

from ..cases import for_each
from .gates import TOTAL, Scene, intent

SHARED = Gaussian(bound=1.0, std=4.0, shares=3, tolerated_dropouts=1)


def gate_of(scene: Scene, drawn_here: int) -> Gate:
    return Gate(scene.odometer, scene.recorder, scene.streams, drawn_here=drawn_here)


def opened(scene: Scene, drawn_here: int):  # type: ignore[no-untyped-def]
    return gate_of(scene, drawn_here).open(intent(SHARED))


def released(scene: Scene) -> records.RoundRelease:
    release = scene.recorder.lines[-1]
    assert isinstance(release, records.RoundRelease)
    return release


@for_each("arrived", [2, 3])
def test_a_silo_draws_one_share_and_says_so(arrived: int) -> None:
    scene = Scene()
    with opened(scene, 1) as ticket:
        SHARED.share_steps(ticket, TOTAL, "noise/silo-1")
        ticket.close(shares=arrived)
    release = released(scene)
    assert (release.drawn_here, release.shares, release.draws) == (1, arrived, 1)
    assert len(release.streams) == 1


def test_a_server_draws_none_and_says_so() -> None:
    scene = Scene()
    with opened(scene, 0) as ticket:
        with pytest.raises(Unsupported, match="draws no noise"):
            SHARED.share_steps(ticket, TOTAL, "noise/silo-0")
        ticket.close(shares=3)
    release = released(scene)
    assert (release.drawn_here, release.shares, release.streams) == (0, 3, ())


@for_each("drawn_here", [0, 1])
def test_nobody_draws_a_sum_whole_for_others(drawn_here: int) -> None:
    scene = Scene()
    with opened(scene, drawn_here) as ticket:
        with pytest.raises(Unsupported, match="not drawn whole"):
            SHARED.noisy(ticket, [TOTAL] * 3, ["a", "b", "c"])
        ticket.abort()


def test_a_silo_draws_its_share_once() -> None:
    scene = Scene()
    with opened(scene, 1) as ticket:
        SHARED.share_steps(ticket, TOTAL, "noise/silo-1")
        with pytest.raises((Unsupported, InvalidInput)):
            SHARED.share_steps(ticket, TOTAL, "noise/silo-2")
        ticket.abort()


@for_each(
    ("drawn_here", "draws", "arrived"),
    [
        (1, False, 3),  # its noise is not in the sum
        (1, True, None),  # nobody says how many shares are
        (1, True, 1),  # fewer than the promise needs
        (1, True, 4),  # more than there are
        (0, False, None),
        (0, False, 1),
    ],
)
def test_what_lacks_noise_is_not_released(
    drawn_here: int, draws: bool, arrived: int | None
) -> None:
    scene = Scene()
    with opened(scene, drawn_here) as ticket:
        if draws:
            SHARED.share_steps(ticket, TOTAL, "noise/silo-1")
        with pytest.raises(Unsupported):
            ticket.close(shares=arrived)
        ticket.abort()
    assert scene.recorder.types == ["round.intent", "round.abort"]


def test_alone_a_party_states_nothing_of_it() -> None:
    scene = Scene()
    with scene.gate.open(intent(SHARED)) as ticket:
        for silo in range(3):
            SHARED.share_steps(ticket, np.zeros(5, np.int64), f"noise/silo-{silo}")
        ticket.close()
    assert released(scene).drawn_here is None
