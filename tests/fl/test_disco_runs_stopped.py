"""Whole runs of DISCO's peers that a fault stops: aborted, spent, and gone on with afresh.

The faults are of the coordinator, who names groups, and of messages of the sum; in which step each
is noticed is tested beside the protocol (`test_gathering`, `test_decentralised_faults`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import pytest

from privplan.accountant import records
from privplan.accountant.errors import MissingParty, PrivplanError, ProtocolFault
from privplan.accountant.mechanisms import Gaussian
from privplan.audit.budget import audit_budget
from privplan.fl.frame.model import model_digest
from privplan.fl.log import LogWriter, read
from privplan.fl.parties.network import Message, Network
from privplan.fl.running.checkpoint import CHECKPOINT_FILE, Checkpoint
from privplan.fl.running.preparation import prepare
from privplan.fl.running.session import execute
from privplan.fl.secagg.decentralised import Confirmation, Hello, PartialSum, Share
from privplan.fl.secagg.gathering import GroupNotice
from privplan.fl.settings.schema import Settings

from ..cases import for_each
from .disco_runs import configuration
from .disco_stops import HALVES, MOVING, STEADY, Peers, require_gone_on
from .extras import needs
from .gatherings import renamed
from .meddling import check_silence
from .small_runs import of, resumed

pytestmark = needs("sklearn", "cryptography", "torch")

Change = Callable[[Message], Iterable[Message]]

STOPPED: Final = 2
"""The round in which a fault happens."""


# --- faults -------------------------------------------------------------------------------------

WAY: Final = ("silo-1", "silo-0")


def of_way(message: Message, kind: type[Any]) -> bool:
    """Return whether a message is what silo-1 says to silo-0 in a step."""
    return (message.kind, message.sender, message.receiver) == (kind.kind, *WAY)


def flipped(message: Message) -> tuple[Message, ...]:
    """Change one bit of a share."""
    if not of_way(message, Share):
        return (message,)
    locked = Share.unpack(message.body).locked
    return (replace(message, body=Share(bytes([locked[0] ^ 4]) + locked[1:]).pack()),)


def unconfirmed(message: Message) -> tuple[Message, ...]:
    """Lose a confirmation: by then every peer has the total."""
    return () if of_way(message, Confirmation) else (message,)


class Replayed:
    """Says a partial sum again that was said in the round before, with this round's number."""

    def __init__(self) -> None:
        self.earlier = b""

    def __call__(self, message: Message) -> tuple[Message, ...]:
        if not of_way(message, PartialSum):
            return (message,)
        if message.round != STOPPED:
            self.earlier = message.body
            return (message,)
        assert self.earlier
        return (replace(message, body=self.earlier),)


@dataclass(frozen=True)
class Fault:
    """What happens in which run, what is said of it, and how far the round had come."""

    peers: Peers
    change: Callable[[], Change]
    says: str
    last: type[Any] = GroupNotice
    error: type[PrivplanError] = ProtocolFault


def named(names_for: Callable[[str, tuple[str, ...]], Iterable[str]]) -> Callable[[], Change]:
    """Return a coordinator that names to each peer what `names_for(peer, names)` says."""
    return lambda: renamed(names_for)


def twice(peer: str, names: tuple[str, ...]) -> tuple[str, ...]:
    """The peer a second time, in the place of one of the others."""
    others = [name for name in names if name != peer]
    return (peer, peer, *others[1:])


NOT_SIGNED = "silo-1's '{}' to silo-0 is not signed by it"
SHUT = "share from silo-1 to silo-0 does not open"
TWICE = "silo-0 a group with a name twice"
NO_MESSAGE = "silo-1 did not send"

FAULTS: Final[dict[str, Fault]] = {
    "another group for one peer": Fault(
        MOVING,
        named(lambda peer, names: names[:3] if peer == "silo-1" else names),
        NOT_SIGNED.format("peer-hello"),
        Hello,
    ),
    "two groups that never meet": Fault(
        HALVES,
        named(lambda peer, names: names[:3] if peer in names[:3] else names[3:]),
        "different groups|different totals",
        Confirmation,
    ),
    "who is not there": Fault(
        MOVING,
        named(lambda _, names: (*names, "silo-3")),
        "silo-3 did not send",
        Hello,
        MissingParty,
    ),
    "one left out": Fault(
        MOVING, named(lambda _, names: names[:3]), "silo-4 a group without itself"
    ),
    "a peer twice": Fault(STEADY, named(twice), TWICE),
    "a peer twice, of those there": Fault(MOVING, named(twice), TWICE),
    "too few": Fault(STEADY, named(lambda _, names: names[:3]), "group of 3; at least 4"),
    "too few, of those there": Fault(
        MOVING, named(lambda _, names: names[:2]), "group of 2; at least 3"
    ),
    "a flipped share": Fault(STEADY, lambda: flipped, SHUT, Share),
    "a flipped share, of those there": Fault(MOVING, lambda: flipped, SHUT, Share),
    "a replayed partial sum": Fault(
        STEADY, Replayed, NOT_SIGNED.format("peer-partial"), PartialSum
    ),
    "a replayed partial sum, of another group": Fault(MOVING, Replayed, "silo-1", PartialSum),
    "a lost confirmation": Fault(
        STEADY, lambda: unconfirmed, NO_MESSAGE, Confirmation, MissingParty
    ),
    "a lost confirmation, of those there": Fault(
        MOVING, lambda: unconfirmed, NO_MESSAGE, Confirmation, MissingParty
    ),
}


class Meddler:
    """A change in one sum of one round, the first or the second; remembers the round's messages."""

    def __init__(self, change: Change, *, number: int = STOPPED, sum: int = 1) -> None:
        self.change, self.number, self.sum = change, number, sum
        self.sent: list[Message] = []

    def __call__(self, message: Message) -> Iterable[Message]:
        if message.round == self.number:
            self.sent.append(message)
            if len({one.session for one in self.sent}) < self.sum:
                return (message,)
        elif not isinstance(self.change, Replayed):  # which remembers what was said before
            return (message,)
        return self.change(message)


# --- what must hold -----------------------------------------------------------------------------


def stopped(own: Settings, folder: Path, meddler: Meddler, fault: Fault) -> Network:
    """Begin a run that the fault stops; return its network."""
    prepared = prepare(own)
    network: Network = prepared.system.aggregator.network  # type: ignore[attr-defined]
    network._meddling = meddler
    with LogWriter.create(folder) as writer, pytest.raises(fault.error, match=fault.says) as caught:
        execute(prepared, folder, writer)
    check_silence(caught.value)
    assert meddler.sent[-1].kind == fault.last.kind
    return network


def require_spent(folder: Path, number: int, error: type[PrivplanError]) -> str:
    """Require an abort, paid for, after which nothing of the round is kept.

    Return the digest of the model before that round.
    """
    *_, last = lines = list(read(folder))
    begun = [line for line in lines if isinstance(line.record, records.RoundIntent)]
    reason = "missing-party" if error is MissingParty else "error"
    assert last.record == records.RoundAbort(number, begun[-1].seq, reason)
    models = [one for one in of(folder, records.RoundRelease) if one.model_out is not None]
    assert [one.round for one in models] == list(range(1, number))
    kept = Checkpoint.read(folder / CHECKPOINT_FILE)
    assert (kept.round, model_digest(kept.parameters)) == (number - 1, models[-1].model_out)
    assert audit_budget(folder).spent == number
    digest = models[-1].model_out
    assert digest is not None
    return digest


# --- tests --------------------------------------------------------------------------------------


AGAIN: Final = ("a peer twice", "too few", "a flipped share", "a lost confirmation")
"""Faults of steady peers that the tests below make; the first one makes them of moving ones."""


@for_each("name", [name for name in FAULTS if name not in AGAIN])
def test_a_fault_ends_the_round_for_all_and_the_run_goes_on(
    name: str, whole: Any, tmp_path: Path
) -> None:
    fault = FAULTS[name]
    own = configuration("seed", **fault.peers.tables)
    folder = tmp_path / "run"
    network = stopped(own, folder, Meddler(fault.change()), fault)
    for party in network.names:  # nobody is left with a message that it could go on with
        assert not any(network.box(party).values()), party
    before = require_spent(folder, STOPPED, fault.error)
    done = resumed(own, folder)
    assert (done.rounds, done.planned) == (fault.peers.rounds - 1, fault.peers.rounds)
    intents = of(folder, records.RoundIntent)
    # The next round starts from the model before the fault: nothing of that round is in it.
    assert [one.model_in for one in intents[STOPPED - 1 : STOPPED + 1]] == [before, before]
    assert [one.silos for one in intents] == fault.peers.rosters
    spent, uncut = require_gone_on(folder, whole(own)[0], "fixed", fault.peers)
    assert (spent.spent, spent.released) == (uncut.spent, uncut.released - 1)


@for_each("name", ["too few", "a flipped share", "a lost confirmation"])
def test_a_fault_of_the_last_round_leaves_the_model_before_it(
    name: str, whole: Any, tmp_path: Path
) -> None:
    fault, folder, rounds = FAULTS[name], tmp_path / "run", STEADY.rounds
    own = configuration("seed", **fault.peers.tables)
    stopped(own, folder, Meddler(fault.change(), number=rounds), fault)
    before = require_spent(folder, rounds, fault.error)
    done = resumed(own, folder)
    assert (done.rounds, done.model) == (rounds - 1, before)
    require_gone_on(folder, whole(own)[0], "fixed", STEADY)


@for_each("sum", [1, 2], ids=["count", "update"])
@for_each(
    "name",
    ["a peer twice, of those there", "a flipped share", "a lost confirmation, of those there"],
)
def test_a_fault_in_either_release_of_a_round_loses_the_model(
    name: str, sum: int, whole: Any, tmp_path: Path
) -> None:
    """The count that was released before the fault is spent, and moves no clip.

    Where the count itself is lost, the update of the round is not begun.  It counts all the same:
    who stops a round may do so for what came before it.
    """
    fault, folder = FAULTS[name], tmp_path / "run"
    disco = {**fault.peers.tables.get("disco", {}), "clip": '"quantile"'}
    own = configuration("seed", **{**fault.peers.tables, "disco": disco})
    stopped(own, folder, Meddler(fault.change(), sum=sum), fault)
    before = require_spent(folder, STOPPED, fault.error)
    counts = [one for one in of(folder, records.RoundRelease) if one.model_out is None]
    assert [one.round for one in counts] == list(range(1, STOPPED + sum - 1))
    done = resumed(own, folder)
    assert done.rounds == fault.peers.rounds - 1
    begun = [one for one in of(folder, records.RoundIntent) if one.phase == "train"]
    (after,) = (one for one in begun if one.round == STOPPED + 1)
    assert after.model_in == before
    if sum == 2:
        (lost,) = (one for one in begun if one.round == STOPPED)
        assert lost.contribution.bound == after.contribution.bound
    report, _ = require_gone_on(folder, whole(own)[0], "quantile", fault.peers)
    said = [one.says for one in report.hazards if one.id == "stopped-early"]
    begun_all = f"with {fault.peers.rounds} rounds begun, and not all of their releases"
    assert len(said) == 2 - sum
    assert all(begun_all in one for one in said)


@for_each(
    "name",
    [
        "two groups that never meet",
        "a flipped share",
        "a replayed partial sum, of another group",
        "a lost confirmation",
    ],
)
def test_no_noise_is_drawn_a_second_time(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """With one seed for both starts: the noise of the lost round is that of no other."""
    fault, folder = FAULTS[name], tmp_path / "run"
    own = configuration(**fault.peers.tables)
    honest, drawn = Gaussian.share_steps, []

    def share(self: Any, ticket: Any, total: Any, name: str, part: str = "") -> Any:
        sent = honest(self, ticket, total, name, part)
        drawn.append((sent - total).tobytes())
        return sent

    monkeypatch.setattr(Gaussian, "share_steps", share)
    stopped(own, folder, Meddler(fault.change()), fault)
    resumed(own, folder)
    assert len(drawn) == sum(len(roster or range(4)) for roster in fault.peers.rosters)
    assert len(set(drawn)) == len(drawn)
