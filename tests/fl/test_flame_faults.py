"""Whole runs of FLAME in which something goes wrong: the round ends for all, logged and spent.

Whoever sends what it may not is found before the shuffle where anybody can see it, and else when
the analyzer opens what it gets.  No smaller group goes on.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privplan.accountant import records
from privplan.accountant.errors import InvalidInput, MissingParty, ProtocolFault
from privplan.audit.budget import audit_budget
from privplan.audit.verify import verify
from privplan.fl.crypto.sealed_box import sealed
from privplan.fl.flame import selection
from privplan.fl.log import LogWriter
from privplan.fl.parties.network import Message
from privplan.fl.running.preparation import prepare, randomness
from privplan.fl.running.session import execute
from privplan.fl.shuffling import Shuffling
from privplan.fl.shuffling.terms import Bundle, MixedBoxes

from ..cases import for_each
from .extras import needs
from .flame_faulty_runs import (
    ROUNDS,
    faulty,
    released,
    require_hidden,
    require_spent,
    run_to_fault,
    travelled,
)
from .flame_meddling import BOX, CLIENT, SHUFFLER, Meddler, bundles, coordinates
from .meddling import check_silence
from .small_runs import of, require_whole, resumed, started

pytestmark = needs("sklearn", "nacl", "torch")

SYSTEMS = ("flame-simple", "flame-double", "flame-topk")
FAULTS = {f"client: {name}": fault for name, fault in CLIENT.items()} | {
    f"shuffler: {name}": fault for name, fault in SHUFFLER.items()
}


@pytest.fixture(scope="module", autouse=True)
def _calibrated() -> None:
    """Account for each system once, which its later runs need not do again."""
    for system in SYSTEMS:
        prepare(faulty(system))


def in_turn(first: int, *, slow: bool = False) -> list[Any]:
    """Return each fault with one system: the next one for the next fault, from `first` on."""
    marks = [pytest.mark.slow] if slow else []
    return [
        pytest.param(name, SYSTEMS[(first + number) % len(SYSTEMS)], marks=marks)
        for number, name in enumerate(FAULTS)
    ]


@for_each("name, system", in_turn(0) + in_turn(1, slow=True), items=2)
def test_a_fault_ends_the_round_for_all(
    name: str, system: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    meddling, raised, said = FAULTS[name]
    meddler = meddling()
    ended = run_to_fault(prepare(faulty(system)), tmp_path, raised, monkeypatch, meddler)
    assert meddler.hits
    assert re.search(said, str(ended.error)), str(ended.error)
    check_silence(ended.error)
    require_spent(tmp_path, ended.error)
    require_hidden(tmp_path, ended)


@pytest.mark.quick(3)
@for_each("name, system", in_turn(2))
def test_a_run_goes_on_after_a_fault_and_pays_for_it(
    name: str, system: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    meddling, raised, _ = FAULTS[name]
    own = faulty(system)
    run_to_fault(prepare(own), tmp_path, raised, monkeypatch, meddling())
    cut_off = audit_budget(tmp_path)
    assert (cut_off.spent, cut_off.released, len(cut_off.dangling)) == (2, 1, 1)
    resumed(own, tmp_path)
    require_whole(tmp_path, ROUNDS)
    assert released(tmp_path) == [1, 3]
    audited = audit_budget(tmp_path)
    assert (audited.spent, audited.released, len(audited.dangling)) == (3, 2, 1)
    assert {one.id for one in audited.hazards if one.severity == "error"} == {"seeded"}
    (close,) = of(tmp_path, records.RunClose)
    # What two rounds cost is more than what one costs, and the third costs more again.
    assert 0.0 < cut_off.total.upper < audited.total.upper
    assert audited.total.upper == pytest.approx(close.epsilon["analyzer"], rel=1e-6)


@for_each("system", SYSTEMS)
def test_what_is_looked_for_is_in_the_boxes(
    system: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control: the analyzer's key finds the users' messages, and no value before the noise."""
    meddling, raised, _ = FAULTS["client: late"]
    ended = run_to_fault(prepare(faulty(system)), tmp_path, raised, monkeypatch, meddling())
    sent = [one for one in travelled(tmp_path) if one.kind == Bundle.kind]
    rows = [Bundle.unpack(one.body).boxes for one in sent]
    boxes = [row[at : at + BOX] for row in rows for at in range(0, len(row), BOX)]
    key = ended.prepared.system.shuffling._key  # type: ignore[attr-defined]
    inside = {bytes(content[-8:]) for content in key.opened(boxes) if content is not None}
    assert ended.after_noise() <= inside
    assert not ended.before_noise() & inside


FORGED = {
    "of another session": ({"session": b"another"}, 1, "belongs to another round"),
    "of the next round": ({"round": 3}, 1, "belongs to another round"),
    "for another key": ({"public": bytes(32)}, 1, "belongs to another round"),
    "too large for a sum": ({}, 2**62, "is too large to be summed"),
    "too small for a sum": ({}, -(2**63), "is too large to be summed"),
}


def forging(shuffling: Shuffling, value: int, **binding: Any) -> Meddler:
    """Let client-1 lock a message of its own choice, with such a binding, as its first one."""
    terms, public = shuffling.terms, shuffling._key.public

    def change(message: Message) -> tuple[Message, ...]:
        body = Bundle.unpack(message.body)
        right = {"session": message.session, "round": message.round, "public": public}
        coordinate = np.array(coordinates(body.places)[:1])
        numbers = np.array([[value]], np.int64)
        contents = terms.packed(terms.tag(**(right | binding)), coordinate, numbers)
        boxes = sealed(public, contents) + body.boxes[BOX:]
        return (replace(message, body=replace(body, boxes=boxes).pack()),)

    return bundles(change)


@for_each("name", FORGED)
def test_a_box_that_was_locked_rightly_is_still_looked_into(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    binding, value, said = FORGED[name]
    prepared = prepare(faulty("flame-double"))
    meddler = forging(prepared.system.shuffling, value, **binding)  # type: ignore[attr-defined]
    ended = run_to_fault(prepared, tmp_path, ProtocolFault, monkeypatch, meddler)
    assert said in str(ended.error)
    check_silence(ended.error)
    require_spent(tmp_path, ended.error)


def test_a_client_may_send_any_message(tmp_path: Path) -> None:
    """The control of the above: with the right binding it is a message, and the run goes on."""
    prepared = prepare(faulty("flame-double"))
    meddler = forging(prepared.system.shuffling, 2**40)  # type: ignore[attr-defined]
    prepared.system.network._meddling = meddler  # type: ignore[union-attr]
    with LogWriter.create(tmp_path) as writer:
        execute(prepared, tmp_path, writer)
    assert meddler.hits == 1
    require_whole(tmp_path, ROUNDS)
    assert released(tmp_path) == [1, 2, 3]


@for_each("transport", ["sealed", "ideal"])
def test_a_coordinate_that_overflows_ends_the_round(
    transport: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All users choose the same coordinates in round 2, which hardly ever happens by chance."""
    honest, drawn = selection.random_coordinates, []

    def chosen(*given: Any) -> Any:
        sets = honest(*given)
        drawn.append(sets)
        return np.tile(sets[0], (len(sets), 1)) if len(drawn) == 2 else sets

    monkeypatch.setattr(selection, "random_coordinates", chosen)
    table = {"transport": f'"{transport}"', "padded_to": "11"}
    keep = {"keep_transcripts": "true" if transport == "sealed" else "false"}
    own = faulty("flame-double", flame=table, security=keep)
    ended = run_to_fault(prepare(own), tmp_path, ProtocolFault, monkeypatch)
    assert "A coordinate has more messages than it is padded to." in str(ended.error)
    check_silence(ended.error)
    require_spent(tmp_path, ended.error)
    if transport == "sealed":
        require_hidden(tmp_path, ended)
        # The shuffler counts before it hands anything on.
        assert not [m for m in travelled(tmp_path) if (m.kind, m.round) == (MixedBoxes.kind, 2)]
    resumed(own, tmp_path)
    require_whole(tmp_path, ROUNDS)
    assert released(tmp_path) == [1, 3]
    assert audit_budget(tmp_path).spent == ROUNDS


@for_each("transport", ["sealed", "ideal"])
def test_a_run_whose_every_round_overflows_ends_with_its_first_model(
    transport: str, tmp_path: Path
) -> None:
    """Users whose largest coordinates are alike: refused, or kept in part under a cap."""
    table = {"transport": f'"{transport}"', "padded_to": "2"}
    unkept = {"keep_transcripts": "false"}
    own = faulty("flame-topk", flame=table, security=unkept)
    refused = tmp_path / "refused"
    with pytest.raises(ProtocolFault, match="more messages than it is padded to"):
        started(own, refused)
    for _ in range(ROUNDS - 1):
        with pytest.raises(ProtocolFault, match="more messages than it is padded to"):
            resumed(own, refused)
    resumed(own, refused)
    require_whole(refused, ROUNDS)
    assert released(refused) == []
    capped = faulty("flame-topk", flame={**table, "overflow": '"cap"'}, security=unkept)
    started(capped, tmp_path / "capped")
    assert released(tmp_path / "capped") == [1, 2, 3]


def test_after_a_fault_no_round_begins_in_the_same_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    meddling, raised, _ = FAULTS["client: twice"]
    ended = run_to_fault(prepare(faulty("flame-double")), tmp_path, raised, monkeypatch, meddling())
    shuffling: Any = ended.prepared.system.shuffling  # type: ignore[attr-defined]
    terms = shuffling.terms
    sent = np.zeros((terms.clients, terms.chosen), np.int64)
    with pytest.raises(InvalidInput, match="stopped by an earlier fault"):
        shuffling.round(3, None, sent, places=sent)


def test_what_comes_late_from_a_run_that_was_cut_off_ends_the_next_round(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bundle that missed its time arrives after the run was taken up: of another session."""
    held: list[Message] = []

    def holding(message: Message) -> tuple[Message, ...]:
        held.append(message)
        return ()

    own = faulty("flame-double")
    run_to_fault(prepare(own), tmp_path, MissingParty, monkeypatch, bundles(holding))
    prepared = prepare(own, segment=verify(tmp_path).recoveries + 1)

    def arriving(message: Message) -> tuple[Message, ...]:
        return (*held, message) if message.sender == "client-1" else (message,)

    prepared.system.network._meddling = arriving  # type: ignore[union-attr]
    writer, progress = LogWriter.resume(tmp_path, randomness=randomness(own))
    with writer, pytest.raises(ProtocolFault, match="client-1 to shuffler belongs to another"):
        execute(prepared, tmp_path, writer, progress=progress)
    assert released(tmp_path) == [1]
    resumed(own, tmp_path)  # nothing is left to be made
    require_whole(tmp_path, ROUNDS)
