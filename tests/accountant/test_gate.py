"""The gate: budget, then intent, then noise, then release; and every way in which that can fail."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from privplan.accountant import events as ev
from privplan.accountant import records
from privplan.accountant.errors import BudgetExceeded, InvalidInput, PrivplanError, Unsupported
from privplan.accountant.mechanisms import Gate, Gaussian, RoundDescription, Ticket
from privplan.accountant.odometer import Odometer
from privplan.accountant.plan import Phase, plan
from privplan.accountant.randomness import Stream, Streams, poisson

MECHANISM = Gaussian(bound=1.0, std=4.0)
SHARED = Gaussian(bound=1.0, std=4.0, shares=3)
TOTAL = np.zeros(5, dtype=np.int64)


class FullDisk(OSError):
    """What a recorder raises when it can write no more."""


class FakeRecorder:
    """Keeps records in memory, notes their order, and fails where it is told to."""

    def __init__(self, order: list[str], failing: str = "", error: BaseException | None = None):
        self.order = order
        self.failing = failing
        self.error = error or FullDisk("no space left")
        self.lines: list[records.Record] = []
        self.sealed: list[Mapping[str, object]] = []

    def append(self, record: records.Record) -> int:
        self.order.append(record.type)
        if record.type == self.failing:
            raise self.error
        self.lines.append(record)
        return len(self.lines) - 1

    def seal(self, items: Mapping[str, object]) -> dict[str, str]:
        self.order.append("seal")
        if self.failing == "seal":
            raise self.error
        self.sealed.append(items)
        return dict.fromkeys(items, "c0")

    @property
    def types(self) -> list[str]:
        return [line.type for line in self.lines]


class FakeOdometer(Odometer):
    """A real odometer that notes when it is asked."""

    order: list[str]

    def spend(self, event: ev.Event, **given: object) -> None:
        self.order.append("spend")
        super().spend(event, **given)  # type: ignore[arg-type]


class NotingStreams(Streams):
    """Streams that note when one is asked for."""

    order: list[str]

    def stream(self, name: str) -> Stream:
        self.order.append("stream")
        return super().stream(name)


class Scene:
    """A gate with everything around it, and the order in which things happened."""

    def __init__(self, failing: str = "", error: BaseException | None = None, **given: object):
        self.order: list[str] = []
        self.odometer = FakeOdometer(10.0, 1e-5, unit="user", **given)  # type: ignore[arg-type]
        self.odometer.order = self.order
        self.recorder = FakeRecorder(self.order, failing, error)
        seeded = Streams.seeded(1)
        self.streams = NotingStreams.__new__(NotingStreams)
        for slot in Streams.__slots__:
            setattr(self.streams, slot, getattr(seeded, slot))
        self.streams.order = self.order
        self.gate = Gate(self.odometer, self.recorder, self.streams)

    @property
    def share(self) -> float:
        return self.odometer.reading().share

    @property
    def cost(self) -> float:
        fresh = Odometer(10.0, 1e-5, unit="user")
        fresh.spend(ev.Gaussian(4.0))
        return fresh.reading().share


def about(number: int = 1, **given: object) -> RoundDescription:
    return RoundDescription(number, "train", **given)  # type: ignore[arg-type]


def intent(mechanism: Gaussian = MECHANISM, **given: object) -> records.RoundIntent:
    return mechanism.intent(about(**given), "add-remove")


# --- the order ------------------------------------------------------------------------------------


def test_the_order_is_budget_intent_noise_release() -> None:
    scene = Scene()
    with scene.gate.open(intent()) as ticket:
        assert scene.order == ["spend", "round.intent"]
        (noisy,) = MECHANISM.noisy(ticket, [TOTAL], ["noise"])
        assert scene.order == ["spend", "round.intent", "stream"]
        seq = ticket.close(values=5, aggregate=noisy.tobytes(), model_out="ab")
    assert scene.order == ["spend", "round.intent", "stream", "round.release"]
    assert (ticket.seq, seq) == (0, 1)
    assert scene.share == scene.cost


def test_the_release_states_what_was_drawn() -> None:
    scene = Scene()
    scene.streams.stream("noise").bytes(24)
    with scene.gate.open(intent()) as ticket:
        (noisy,) = MECHANISM.noisy(ticket, [TOTAL], ["noise"])
        ticket.close(
            normaliser=records.Normaliser("constant", 50.0),
            aggregate=noisy.tobytes(),
            model_out="ab",
            sealed={"norms": [1, 2]},
            values=5,
        )
    stated, release = scene.recorder.lines
    assert stated == intent()
    own = scene.streams.stream("noise")
    assert release == records.RoundRelease(
        round=1,
        intent=0,
        streams=(records.StreamRange(own.id, 24, own.position),),
        shares=1,
        draws=1,
        values=5,
        normaliser=records.Normaliser("constant", 50.0),
        aggregate=hashlib.sha256(noisy.tobytes()).hexdigest(),
        model_out="ab",
        sealed={"norms": "c0"},
    )
    assert own.position > 24
    assert scene.recorder.sealed == [{"norms": [1, 2]}]


def test_stated_bytes_repeat_the_noise_and_no_others_were_used() -> None:
    """Who knows the root can re-draw the noise of a round from the range in the log."""
    scene = Scene()
    with scene.gate.open(intent()) as ticket:
        (noisy,) = MECHANISM.noisy(ticket, [TOTAL], ["noise"])
        ticket.close(values=5)
    again = Scene()
    with again.gate.open(intent()) as ticket:
        (same,) = MECHANISM.noisy(ticket, [TOTAL], ["noise"])
        ticket.close(values=5)
    assert noisy.tolist() == same.tolist()
    assert scene.recorder.lines == again.recorder.lines


def test_rounds_go_on_in_their_streams() -> None:
    scene = Scene()
    ranges = []
    for number in (1, 2, 3):
        with scene.gate.open(intent(number=number)) as ticket:
            MECHANISM.noisy(ticket, [TOTAL], ["noise"])
            release = scene.recorder.lines[ticket.close(values=5)]
        assert isinstance(release, records.RoundRelease)
        ranges.append(release.streams[0])
    assert len({one.stream for one in ranges}) == 1
    assert [one.first for one in ranges] == [0, ranges[0].last, ranges[1].last]


# --- the budget -----------------------------------------------------------------------------------


def test_a_refused_round_records_nothing() -> None:
    scene = Scene()
    weak = Gaussian(bound=1.0, std=0.3)
    assert scene.gate.would_exceed(weak.event("add-remove"))
    assert not scene.gate.would_exceed(MECHANISM.event("add-remove"))
    with pytest.raises(BudgetExceeded):
        scene.gate.open(weak.intent(about(), "add-remove"))
    assert scene.order == ["spend"]
    assert scene.recorder.lines == []
    assert scene.share == 0.0
    with scene.gate.open(intent()) as ticket:  # a refusal shuts nothing
        MECHANISM.noisy(ticket, [TOTAL], ["noise"])
        ticket.close()


def test_a_plan_admits_its_rounds_and_no_more() -> None:
    made = plan(
        [Phase("train", lambda noise: ev.Gaussian(noise), 2)], epsilon=2.0, delta=1e-5, unit="user"
    )
    noise = made.phases[0].noise_multiplier
    assert noise is not None
    own = Gaussian.with_multiplier(noise, bound=0.3, relation="add-remove")
    scene = Scene()
    gate = Gate(Odometer.for_plan(made), scene.recorder, scene.streams)
    for number in (1, 2):
        planned = own.intent(about(number, event_override=made.phases[0].event), "add-remove")
        with gate.open(planned) as ticket:
            own.noisy(ticket, [TOTAL], ["noise"])
            ticket.close()
    with pytest.raises(BudgetExceeded, match="no release is left"):
        gate.open(planned)
    with pytest.raises(BudgetExceeded, match="not the next"):
        Gate(Odometer.for_plan(made), scene.recorder, scene.streams).open(intent())
    assert scene.recorder.types == ["round.intent", "round.release"] * 2


def test_each_observer_pays_for_what_it_sees() -> None:
    scene = Scene(observers=("model", "server"))
    views = {"server": ev.Gaussian(2.0), "silo": ev.Gaussian(1.0)}
    scene.gate.open(intent(views=views))
    shares = [scene.odometer.reading(one).share for one in ("model", "server")]
    assert shares[0] == pytest.approx(scene.cost, rel=1e-9)
    assert shares[1] == pytest.approx(4 * scene.cost, rel=1e-9)


def test_one_observer_that_cannot_pay_stops_all_before_any_is_charged() -> None:
    scene = Scene(observers=("model", "server"))
    with pytest.raises(BudgetExceeded):
        scene.gate.open(intent(views={"server": ev.Gaussian(0.3)}))
    assert scene.odometer.reading("model").share == 0.0
    assert scene.recorder.lines == []


def test_an_observer_with_a_balance_must_have_a_view() -> None:
    scene = Scene(observers=("model", "server"))
    with pytest.raises(InvalidInput, match="server"):
        scene.gate.open(intent())
    assert scene.odometer.reading("model").share == 0.0


def test_an_intent_says_one_thing_about_the_model() -> None:
    scene = Scene()
    scene.gate.open(intent(views={"model": ev.Gaussian(4.0)}))
    with pytest.raises(InvalidInput, match="two things"):
        scene.gate.open(intent(views={"model": ev.Gaussian(5.0)}))


def test_without_odometer_only_what_promises_nothing() -> None:
    scene = Scene()
    gate = Gate(None, scene.recorder, scene.streams)
    assert not gate.would_exceed(ev.Gaussian(0.1))
    with pytest.raises(Unsupported, match="odometer"):
        gate.open(intent())
    assert scene.recorder.lines == []
    published = intent(event_override=ev.NoGuarantee("as published"))
    with gate.open(published) as ticket:
        MECHANISM.noisy(ticket, [TOTAL], ["noise"])
        ticket.close()
    assert scene.recorder.types == ["round.intent", "round.release"]


def test_what_promises_nothing_has_no_place_in_a_budget() -> None:
    with pytest.raises(PrivplanError):
        Scene().gate.open(intent(event_override=ev.NoGuarantee("as published")))


def test_a_promise_needs_noise() -> None:
    scene = Scene()
    bare = replace(intent(), noise=records.Noise("none", 0.0, draws=0))
    with pytest.raises(Unsupported, match="without noise"):
        scene.gate.open(bare)
    assert scene.share == 0.0


def test_noiseless_rounds_that_promise_nothing_close_without_draws() -> None:
    scene = Scene()
    bare = replace(
        intent(), noise=records.Noise("none", 0.0, 0, draws=0), event=ev.NoGuarantee("no noise")
    )
    with Gate(None, scene.recorder, scene.streams).open(bare) as ticket:
        ticket.close(values=5, clip_enforced=False)
    release = scene.recorder.lines[-1]
    assert isinstance(release, records.RoundRelease)
    assert (release.draws, release.shares, release.streams) == (0, 0, ())
    assert not release.clip_enforced


@pytest.mark.parametrize("given", [None, "round", records.RoundAbort(1, None, "error")])
def test_only_intents_open_rounds(given: object) -> None:
    with pytest.raises(InvalidInput, match="RoundIntent"):
        Scene().gate.open(given)  # type: ignore[arg-type]


# --- what goes wrong ------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [FullDisk("full"), KeyboardInterrupt()])
def test_an_intent_that_cannot_be_kept_is_spent_and_draws_nothing(error: BaseException) -> None:
    scene = Scene("round.intent", error)
    with pytest.raises(type(error)):
        scene.gate.open(intent())
    assert scene.order == ["spend", "round.intent"]
    assert scene.share == scene.cost
    assert all(stream == 0 for stream in _positions(scene))


def _positions(scene: Scene) -> list[int]:
    return [one.position for one in scene.streams._streams.values()]


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


@pytest.mark.parametrize("failing", ["seal", "round.release"])
@pytest.mark.parametrize("error", [FullDisk("full"), KeyboardInterrupt()])
def test_a_release_that_cannot_be_kept_is_not_returned(failing: str, error: BaseException) -> None:
    scene = Scene(failing, error)
    with pytest.raises(type(error)) as caught:
        released(scene)
    assert caught.value is error
    assert scene.recorder.types == ["round.intent"]  # it dangles: spent
    assert scene.share == scene.cost
    with pytest.raises(PrivplanError, match="failed"):
        scene.gate.open(intent())


@pytest.mark.parametrize(
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


# --- how much may be drawn ------------------------------------------------------------------------


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


@pytest.mark.parametrize("shares", [0, 2, 4])
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


@pytest.mark.parametrize("tolerated", [0, 1])
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


@pytest.mark.parametrize("dropouts", [0, 1])
@pytest.mark.parametrize("by_share", [False, True])
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


# --- streams and threads --------------------------------------------------------------------------


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
