"""What goes wrong in a round: every error leaves the release unmade and the budget spent."""

from __future__ import annotations

import numpy as np
import pytest

from privplan.accountant import records
from privplan.accountant.errors import InvalidInput, PrivplanError
from privplan.accountant.mechanisms import Ticket
from privplan.accountant.randomness import poisson

from ..cases import for_each
from .gates import MECHANISM, TOTAL, FullDisk, Scene, _positions, intent


@for_each("error", [FullDisk("full"), KeyboardInterrupt()])
def test_an_intent_that_cannot_be_kept_is_spent_and_draws_nothing(error: BaseException) -> None:
    scene = Scene("round.intent", error)
    with pytest.raises(type(error)):
        scene.gate.open(intent())
    assert scene.order == ["spend", "round.intent"]
    assert scene.share == scene.cost
    assert all(stream == 0 for stream in _positions(scene))


def test_after_the_log_failed_nothing_opens_draws_or_closes() -> None:
    scene = Scene()
    early = scene.gate.open(intent())
    stream = early.stream("early")
    scene.recorder.failing = "round.intent"
    with pytest.raises(FullDisk):
        scene.gate.open(intent(number=2))
    scene.recorder.failing = ""
    position = stream.position
    for attempt in (
        lambda: scene.gate.open(intent(number=3)),
        lambda: MECHANISM.noisy(early, [TOTAL], ["noise"]),
        lambda: stream.bytes(1),
        lambda: early.stream("early"),
        early.draw,
        lambda: early.draw_share("noise"),
        early.close,
        early.abort,
        early.__enter__,
    ):
        with pytest.raises(PrivplanError, match="log of this run has failed"):
            attempt()
    assert stream.position == position
    assert scene.recorder.types == ["round.intent"]


def released(scene: Scene) -> np.ndarray:
    """Return the result of a round, as a system would."""
    with scene.gate.open(intent()) as ticket:
        (noisy,) = MECHANISM.noisy(ticket, [TOTAL], ["noise"])
        ticket.close(values=5, sealed={"norms": [1]})
    return noisy


@for_each("failing", ["seal", "round.release"])
@for_each("error", [FullDisk("full"), KeyboardInterrupt()])
def test_a_release_that_cannot_be_kept_is_not_returned(failing: str, error: BaseException) -> None:
    scene = Scene(failing, error)
    with pytest.raises(type(error)) as caught:
        released(scene)
    assert caught.value is error
    assert scene.recorder.types == ["round.intent"]  # it dangles: spent
    assert scene.share == scene.cost
    with pytest.raises(PrivplanError, match="failed"):
        scene.gate.open(intent())


@for_each(
    ("error", "reason"),
    [
        (ValueError("bad"), "error"),
        (MemoryError(), "error"),
        (KeyboardInterrupt(), "interrupted"),
        (SystemExit(1), "interrupted"),
        (GeneratorExit(), "interrupted"),
    ],
)
def test_an_error_within_is_an_abort_and_spent(error: BaseException, reason: str) -> None:
    scene = Scene()

    def fail(ticket: Ticket) -> None:
        MECHANISM.noisy(ticket, [TOTAL], ["noise"])
        raise error

    with pytest.raises(type(error)) as caught, scene.gate.open(intent()) as ticket:
        fail(ticket)
    assert caught.value is error
    assert scene.recorder.lines[1:] == [records.RoundAbort(1, 0, reason)]  # type: ignore[arg-type]
    assert scene.share == scene.cost
    assert ticket.seq == 0
    scene.gate.open(intent(number=2))  # the run may go on


def test_an_abort_that_cannot_be_kept_leaves_the_error_as_it_was() -> None:
    scene = Scene("round.abort")
    error = ValueError("bad")
    with pytest.raises(ValueError, match="bad") as caught, scene.gate.open(intent()):
        raise error
    assert caught.value is error
    assert any("could not be recorded" in note for note in error.__notes__)
    with pytest.raises(PrivplanError, match="failed"):
        scene.gate.open(intent())


def test_leaving_without_closing_is_an_abort_and_an_error() -> None:
    scene = Scene()
    with pytest.raises(PrivplanError, match="without a release"), scene.gate.open(intent()):
        pass
    assert scene.recorder.types == ["round.intent", "round.abort"]


def test_a_round_may_be_aborted_with_a_reason() -> None:
    scene = Scene()
    with scene.gate.open(intent()) as ticket:
        ticket.abort("missing-party")
    assert scene.recorder.lines[1] == records.RoundAbort(1, 0, "missing-party")
    with pytest.raises(InvalidInput), scene.gate.open(intent()) as ticket:
        ticket.abort("bored")  # type: ignore[arg-type]


def test_a_round_is_closed_once() -> None:
    scene = Scene()
    with scene.gate.open(intent()) as ticket:
        MECHANISM.noisy(ticket, [TOTAL], ["noise"])
        ticket.close()
        for again in (ticket.close, ticket.abort):
            with pytest.raises(PrivplanError, match="over"):
                again()
    assert scene.recorder.types == ["round.intent", "round.release"]


def test_nothing_is_drawn_after_the_end() -> None:
    scene = Scene()
    with scene.gate.open(intent()) as ticket:
        stream = ticket.stream("noise")
        MECHANISM.noisy(ticket, [TOTAL], ["noise"])
        ticket.close()
    position = scene.streams.stream("noise").position
    for attempt in (
        lambda: MECHANISM.noisy(ticket, [TOTAL], ["noise"]),
        lambda: ticket.stream("noise"),
        lambda: stream.bytes(1),
        lambda: stream.fork(),
        lambda: poisson(stream, 3, 0.5),
        ticket.draw,
        lambda: ticket.draw_share("noise"),
        ticket.__enter__,
    ):
        with pytest.raises(PrivplanError, match="over"):
            attempt()
    assert scene.streams.stream("noise").position == position
