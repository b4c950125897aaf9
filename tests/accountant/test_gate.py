"""The gate: budget, then intent, then noise, then release; and every way in which that can fail."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import pytest

from privplan.accountant import events as ev
from privplan.accountant import records
from privplan.accountant.errors import BudgetExceeded, InvalidInput, PrivplanError, Unsupported
from privplan.accountant.mechanisms import Gate, Gaussian
from privplan.accountant.odometer import Odometer
from privplan.accountant.plan import Phase, plan

from ..cases import for_each
from .gates import MECHANISM, TOTAL, Scene, about, intent


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


def test_one_observer_that_cannot_pay_or_has_no_view_stops_all_before_any_is_charged() -> None:
    scene = Scene(observers=("model", "server"))
    with pytest.raises(BudgetExceeded):
        scene.gate.open(intent(views={"server": ev.Gaussian(0.3)}))
    with pytest.raises(InvalidInput, match="server"):
        scene.gate.open(intent())
    assert scene.odometer.reading("model").share == 0.0
    assert scene.recorder.lines == []


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


def test_a_promise_needs_noise_and_what_promises_nothing_no_budget() -> None:
    scene = Scene()
    with pytest.raises(PrivplanError):
        scene.gate.open(intent(event_override=ev.NoGuarantee("as published")))
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


@for_each("given", [None, "round", records.RoundAbort(1, None, "error")])
def test_only_intents_open_rounds(given: object) -> None:
    with pytest.raises(InvalidInput, match="RoundIntent"):
        Scene().gate.open(given)  # type: ignore[arg-type]


def test_sound_pieces_of_a_method_as_published_state_what_they_are() -> None:
    """Where nothing is promised an odometer is not asked; elsewhere an event needs one."""
    scene = Scene()
    with pytest.raises(Unsupported, match="odometer"):
        Gate(None, scene.recorder, scene.streams).open(intent())
    gate = Gate(None, scene.recorder, scene.streams, unpromised=True)
    with gate.open(intent()) as ticket:
        MECHANISM.noisy(ticket, [TOTAL], ["noise"])
        ticket.close()
    stated = scene.recorder.lines[0]
    assert isinstance(stated, records.RoundIntent)
    assert stated.event == intent().event
    # A plan is kept to where there is one, whatever is promised.
    kept = Gate(scene.odometer, scene.recorder, scene.streams, unpromised=True)
    with pytest.raises(PrivplanError):
        kept.open(intent(event_override=ev.NoGuarantee("as published")))
