"""What a ticket lets be drawn: as many sums and shares as announced, from streams of its own."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from privplan.accountant import events as ev
from privplan.accountant import records
from privplan.accountant.errors import BudgetExceeded, InvalidInput, Unsupported
from privplan.accountant.mechanisms import Gaussian, Ticket

from ..cases import for_each
from .gates import MECHANISM, TOTAL, Scene, _positions, intent

SHARED = Gaussian(bound=1.0, std=4.0, shares=3)


def test_no_more_is_drawn_than_announced() -> None:
    scene = Scene()
    with scene.gate.open(intent(draws=2)) as ticket:
        for _ in range(2):
            MECHANISM.noisy(ticket, [TOTAL], ["noise"])
        position = ticket.stream("noise").position
        with pytest.raises(Unsupported, match="one more"):
            MECHANISM.noisy(ticket, [TOTAL], ["noise"])
        assert ticket.stream("noise").position == position
        ticket.abort()
    assert scene.recorder.types == ["round.intent", "round.abort"]


def test_fewer_may_be_drawn() -> None:
    scene = Scene()
    with scene.gate.open(intent(draws=3)) as ticket:
        for _ in range(2):
            MECHANISM.noisy(ticket, [TOTAL], ["noise"])
        release = scene.recorder.lines[ticket.close()]
    assert isinstance(release, records.RoundRelease)
    assert release.draws == 2


def test_noise_that_was_announced_must_be_drawn() -> None:
    scene = Scene()
    with scene.gate.open(intent()) as ticket:
        ticket.stream("noise").bytes(8)
        with pytest.raises(Unsupported, match="No noise"):
            ticket.close()
        ticket.abort()
    assert scene.recorder.types == ["round.intent", "round.abort"]


def test_disjoint_parts_have_counts_of_their_own() -> None:
    scene = Scene()
    with scene.gate.open(intent(draws=2)) as ticket:
        for part in ("silo-0", "silo-1"):
            for _ in range(2):
                MECHANISM.noisy(ticket, [TOTAL], [f"noise/{part}"], part=part)
        with pytest.raises(Unsupported, match="one more"):
            ticket.draw(part="silo-1")
        release = scene.recorder.lines[ticket.close()]
    assert isinstance(release, records.RoundRelease)
    assert release.draws == 2


@for_each("shares", [0, 2, 4])
def test_a_sum_has_all_its_shares(shares: int) -> None:
    scene = Scene()
    names = [f"silo-{number}" for number in range(shares)]
    with scene.gate.open(intent(SHARED)) as ticket:
        with pytest.raises((Unsupported, InvalidInput), match=r"share|stream"):
            SHARED.noisy(ticket, [TOTAL] * shares, names)
        ticket.abort()
    assert _positions(scene) == []
    assert scene.recorder.types == ["round.intent", "round.abort"]


def test_tolerated_dropouts_may_be_missing() -> None:
    scene = Scene()
    own = replace(SHARED, tolerated_dropouts=1)
    with scene.gate.open(intent(own, draws=2)) as ticket:
        own.noisy(ticket, [TOTAL] * 3, ["a", "b", "c"])
        own.noisy(ticket, [TOTAL] * 2, ["a", "c"])
        release = scene.recorder.lines[ticket.close()]
    assert isinstance(release, records.RoundRelease)
    assert (release.draws, release.shares) == (2, 2)


def test_parties_may_draw_their_shares_apart() -> None:
    together, apart = Scene(), Scene()
    names = ["a", "b", "c"]
    with together.gate.open(intent(SHARED)) as ticket:
        whole = SHARED.noisy(ticket, [TOTAL] * 3, names)
        ticket.close()
    with apart.gate.open(intent(SHARED)) as ticket:
        shares = [SHARED.share(ticket, TOTAL, name) for name in names]
        with pytest.raises(Unsupported, match="one more"):
            SHARED.share(ticket, TOTAL, "d")
        ticket.close()
    assert [one.tolist() for one in shares] == [one.tolist() for one in whole]
    assert together.recorder.lines == apart.recorder.lines


@for_each("tolerated", [0, 1])
def test_an_unfinished_sum_needs_enough_shares(tolerated: int) -> None:
    scene = Scene()
    own = replace(SHARED, tolerated_dropouts=tolerated)
    with scene.gate.open(intent(own)) as ticket:
        own.share(ticket, TOTAL, "a")
        with pytest.raises(Unsupported, match="shares"):
            ticket.close()
        own.share(ticket, TOTAL, "b")
        if tolerated:
            release = scene.recorder.lines[ticket.close()]
            assert isinstance(release, records.RoundRelease)
            assert release.shares == 2
        else:
            with pytest.raises(Unsupported, match="shares"):
                ticket.close()
            ticket.abort()


def test_shares_of_several_sums_are_counted_only_where_none_may_be_missing() -> None:
    """Of sums with 1, 3 and 2 shares one lacks noise, and the count says two sums of 3."""
    scene = Scene()
    own = replace(SHARED, tolerated_dropouts=1)
    with scene.gate.open(intent(own, draws=3)) as ticket:
        with pytest.raises(Unsupported, match="several sums"):
            own.share(ticket, TOTAL, "a")
        ticket.abort()
    assert _positions(scene) == []


def test_no_more_shares_are_stated_than_were_drawn() -> None:
    scene = Scene()
    own = replace(SHARED, tolerated_dropouts=1)
    with scene.gate.open(intent(own)) as ticket:
        own.noisy(ticket, [TOTAL] * 2, ["a", "b"])
        with pytest.raises(InvalidInput, match="shares"):
            ticket.close(shares=3)
        ticket.close(shares=2)


@for_each("dropouts", [0, 1])
@for_each("by_share", [False, True])
def test_what_arrived_with_fewer_shares_than_promised_is_not_released(
    dropouts: int, by_share: bool
) -> None:
    """All parties drew their noise, and some of it was lost on the way."""
    scene = Scene()
    own = replace(SHARED, tolerated_dropouts=dropouts)
    with scene.gate.open(intent(own)) as ticket:
        if by_share:
            for name in ("a", "b", "c"):
                own.share_steps(ticket, TOTAL, name)
        else:
            own.noisy(ticket, [TOTAL] * 3, ["a", "b", "c"])
        for arrived in range(3 - dropouts):
            with pytest.raises(Unsupported, match=f"a sum has {arrived}"):
                ticket.close(shares=arrived)
        for broken in (-1, True, 2.0, "3"):
            with pytest.raises(InvalidInput, match="shares"):
                ticket.close(shares=broken)  # type: ignore[arg-type]
        assert scene.recorder.types == ["round.intent"]
        ticket.close(shares=3 - dropouts)
    assert scene.recorder.types == ["round.intent", "round.release"]


def test_a_ticket_is_for_one_mechanism() -> None:
    scene = Scene()
    others = [
        Gaussian(bound=1.0, std=3.9),
        Gaussian(bound=1.1, std=4.0),
        Gaussian(bound=1.0, std=4.0, weights=records.Weights("uniform", 0.5)),
        Gaussian(bound=1.0, std=4.0, unit="record"),
        SHARED,
    ]
    with scene.gate.open(intent(draws=9)) as ticket:
        for other in others:
            names = [f"n{number}" for number in range(other.shares)]
            with pytest.raises(Unsupported, match="another mechanism"):
                other.noisy(ticket, [TOTAL] * other.shares, names)
        ticket.abort()
    assert _positions(scene) == []


def test_open_rounds_share_no_stream() -> None:
    scene = Scene()
    one, other = scene.gate.open(intent(number=1)), scene.gate.open(intent(number=2))
    one.stream("noise")
    one.stream("noise")
    with pytest.raises(InvalidInput, match="in use"):
        other.stream("noise")
    other.stream("other")
    one.abort()
    other.stream("noise")


def test_threads_spend_no_more_than_there_is() -> None:
    scene = Scene()
    room = scene.odometer.remaining_rounds(ev.Gaussian(4.0))
    opened: list[Ticket] = []
    refused: list[BudgetExceeded] = []

    def work(number: int) -> None:
        try:
            with scene.gate.open(intent(number=number)) as ticket:
                MECHANISM.noisy(ticket, [TOTAL], [f"noise-{number}"])
                ticket.close()
                opened.append(ticket)
        except BudgetExceeded as error:
            refused.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(room + 5)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert (len(opened), len(refused)) == (room, 5)
    assert sorted(ticket.seq for ticket in opened) == sorted(
        seq for seq, line in enumerate(scene.recorder.lines) if line.type == "round.intent"
    )
