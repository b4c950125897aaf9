"""Guards and servers that are killed in any phase: what was given out is spent, and runs go on."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from privplan.accountant.errors import MissingParty, ProtocolFault
from privplan.accountant.records import RoundIntent, RoundRelease
from privplan.audit.verify import verify
from privplan.fl.network.wire import (
    CONFIRM,
    FINISH,
    HELLO,
    KEYS,
    RECOVER,
    SHARES,
    VECTOR,
    WORDS,
    Request,
    opened,
)

from ..cases import for_each
from ..sweeps import sweep
from .network_logs import records_of, require_sound_logs
from .network_parties import Loopback, Parties, config

ROUNDS = 3


def require_sound(parties: Parties) -> None:
    """Require what holds of every run over a network, however often somebody was killed."""
    silos = [parties.run_folder(silo) for silo in range(3)]
    require_sound_logs(parties.run_folder(None), silos)


class Killing(Loopback):
    """Kills the guard of a silo when it is asked for a phase of round 2: before, or after it."""

    def kill_at(self, parties: Parties, silo: int, phase: str, *, after: bool) -> None:
        self.parties, self.silo, self.phase, self.after = parties, silo, phase, after
        self.killed = False

    def carry(self, requests: Mapping[int, bytes], seconds: float) -> Mapping[int, bytes]:
        request = opened(self.parties.plan.server, Request, next(iter(requests.values())))
        late = request.round > 1 or request.phase == HELLO
        hit = request.phase == self.phase and late
        if self.killed or not hit:
            return super().carry(requests, seconds)
        self.killed = True
        if not self.after:
            self.parties.kill(self.silo)
            return super().carry(requests, seconds)
        replies = dict(super().carry(requests, seconds))
        self.parties.kill(self.silo)
        del replies[self.silo]  # what it gave out is lost on the way
        return replies


def parties_of(folder: Path, system: str, aggregation: str) -> tuple[Parties, Killing]:
    parties = Parties.of(folder, config(system, aggregation))
    courier = Killing(parties.courier.guards)
    parties.courier = courier
    return parties, courier


PHASES = [
    (phase, after) for phase in (KEYS, SHARES, WORDS, CONFIRM, RECOVER) for after in (False, True)
]


@for_each(("phase", "after"), sweep(PHASES, quick=3))
def test_a_guard_that_is_killed_in_a_phase_is_spent_and_goes_on(
    tmp_path: Path, phase: str, after: bool
) -> None:
    folder = tmp_path / f"{phase}-{after}"
    parties, courier = parties_of(folder, "fedpower-power", "masked")
    courier.kill_at(parties, 1, phase, after=after)
    with pytest.raises(MissingParty):
        parties.hub().run()
    parties.restart(1)
    result = parties.hub().run()
    parties.close()
    assert result.rounds == ROUNDS - 1  # round 2 is spent and lost, and no other
    require_sound(parties)


def test_the_end_of_a_run_is_told_again_to_a_silo_that_missed_it(tmp_path: Path) -> None:
    parties, courier = parties_of(tmp_path, "fedpower-power", "masked")
    courier.kill_at(parties, 1, FINISH, after=False)
    result = parties.hub().run()
    assert result.rounds == ROUNDS
    assert not verify(parties.run_folder(1)).complete
    parties.restart(1)
    hub = parties.hub()
    assert hub.closed
    hub.tell_again()
    parties.close()
    require_sound(parties)


def test_a_silo_that_says_no_hello_keeps_all_from_beginning(tmp_path: Path) -> None:
    parties, courier = parties_of(tmp_path, "fedpower-power", "masked")
    courier.kill_at(parties, 2, HELLO, after=False)
    with pytest.raises(MissingParty, match="east did not say hello"):
        parties.hub().run()
    assert records_of(parties.run_folder(None), RoundIntent) == []
    parties.restart(2)
    assert parties.hub().run().rounds == ROUNDS
    parties.close()
    require_sound(parties)


@for_each("phase", [VECTOR])
def test_in_the_clear_it_is_the_same(tmp_path: Path, phase: str) -> None:
    parties, courier = parties_of(tmp_path, "fedpower-power", "plain")
    courier.kill_at(parties, 0, phase, after=True)
    with pytest.raises(MissingParty, match="silo-0 did not send its vector"):
        parties.hub().run()
    parties.restart(0)
    assert parties.hub().run().rounds == ROUNDS - 1
    parties.close()
    require_sound(parties)


class ServerKilled(BaseException):
    """The server is gone, without any handler that could tidy up."""


@for_each("phase", [KEYS, WORDS, RECOVER, FINISH])
def test_a_server_that_is_killed_goes_on(tmp_path: Path, phase: str) -> None:
    folder = tmp_path / phase
    parties = Parties.of(folder, config("fedpower-power"))
    killed: list[str] = []

    def kill(silo: int, raw: bytes) -> bytes:
        request = opened(parties.plan.server, Request, raw)
        # In the middle of an exchange: one silo has answered, and the others were never asked.
        if silo == 1 and request.phase == phase and request.round in (2, 3) and not killed:
            killed.append(phase)
            raise ServerKilled
        return raw

    parties.courier.meddling = kill
    with pytest.raises(ServerKilled):
        parties.hub().run()
    hub = parties.hub()
    if hub.closed:
        hub.tell_again()
    else:
        assert hub.run().rounds == ROUNDS - 1
    parties.close()
    require_sound(parties)


@for_each("starts", [1, 2])
def test_a_server_that_was_restored_from_a_backup_makes_no_round_again(
    tmp_path: Path, starts: int
) -> None:
    folder = tmp_path / str(starts)
    text = config("fedpower-power").replace("rounds = 3", "rounds = 6")
    parties = Parties.of(folder, text)

    def stop_at(number: int) -> None:
        def stop(_: int, raw: bytes) -> bytes:
            request = opened(parties.plan.server, Request, raw)
            if (request.phase, request.round) == (WORDS, number):
                raise ServerKilled
            return raw

        parties.courier.meddling = stop
        with pytest.raises(ServerKilled):
            parties.hub().run()

    stop_at(2)
    shutil.copytree(folder / "server", folder / "backup")
    for number in range(starts):  # what they release, the copy knows nothing of
        stop_at(4 + number)
    known = {each.round: each for each in records_of(parties.run_folder(None), RoundRelease)}
    shutil.rmtree(folder / "server")
    (folder / "backup").rename(folder / "server")
    parties.courier.meddling = None
    for _ in range(starts):
        with contextlib.suppress(ProtocolFault):  # "a start of the server that has been"
            parties.hub().run()
    hub = parties.hub()
    if not hub.closed:
        hub.run()
    parties.close()
    if starts == 1:  # guards still have what they gave out, and give the same bytes again
        require_sound(parties)
    for each in records_of(parties.run_folder(None), RoundRelease):
        if each.round in known:
            assert each.model_out == known[each.round].model_out
    begun = [
        [each.round for each in records_of(parties.run_folder(silo), RoundIntent)]
        for silo in range(3)
    ]
    assert begun == [[1, 2, 3, 4, 5, 6]] * 3


def test_rounds_may_do_without_as_many_silos_as_was_planned(tmp_path: Path) -> None:
    masked = 'aggregation = "masked"'
    text = config("fedpower-power").replace(masked, f"{masked}\ndropouts = 1")
    parties = Parties.of(tmp_path, text)
    courier = Killing(parties.courier.guards)
    parties.courier = courier
    courier.kill_at(parties, 1, WORDS, after=False)
    result = parties.hub().run()
    assert result.rounds == ROUNDS
    shares = [each.shares for each in records_of(parties.run_folder(None), RoundRelease)]
    assert shares == [3, 2, 2]
    parties.close()


AWAY = [KEYS, SHARES, WORDS, CONFIRM, RECOVER]


@for_each("phase", sweep(AWAY, quick=3))
def test_a_silo_that_was_away_takes_part_in_the_next_round_of_the_same_start(
    tmp_path: Path, phase: str
) -> None:
    masked = 'aggregation = "masked"'
    text = config("fedpower-power").replace(masked, f"{masked}\ndropouts = 1")
    parties = Parties.of(tmp_path / phase, text)

    def lost(silo: int, raw: bytes) -> bytes | None:
        request = opened(parties.plan.server, Request, raw)
        return None if (silo, request.phase, request.round) == (1, phase, 2) else raw

    parties.courier.meddling = lost
    assert parties.hub().run().rounds == ROUNDS
    parties.close()
    require_sound(parties)
    shares = [each.shares for each in records_of(parties.run_folder(None), RoundRelease)]
    assert shares == [3, 3 if phase in (CONFIRM, RECOVER) else 2, 3]
    # What it missed are round 2, and with its first request the end of round 1.
    released = [each.round for each in records_of(parties.run_folder(1), RoundRelease)]
    assert released == ([3] if phase == KEYS else [1, 3]), released


def test_a_hub_that_repeats_or_reorders_learns_nothing_more(tmp_path: Path) -> None:
    parties = Parties.of(tmp_path, config("fedpower-power"))
    seen: list[tuple[int, bytes]] = []

    def twice(silo: int, raw: bytes) -> bytes:
        guard = parties.courier.guards[silo]
        first = guard.handle(raw)
        assert guard.handle(raw) == first
        for other, earlier in seen[-4:]:  # old requests, also those to others
            parties.courier.guards[other].handle(earlier)
            guard.handle(earlier)
        seen.append((silo, raw))
        return raw

    parties.courier.meddling = twice
    assert parties.hub().run().rounds == ROUNDS
    parties.close()
    require_sound(parties)


def test_a_reply_that_was_changed_on_its_way_ends_the_round(tmp_path: Path) -> None:
    parties = Parties.of(tmp_path, config("fedpower-power"))
    carry = parties.courier.carry

    def changed(requests: Mapping[int, bytes], seconds: float) -> Mapping[int, bytes]:
        replies = dict(carry(requests, seconds))
        replies[1] = replies[1][:-1] + bytes([replies[1][-1] ^ 1])
        return replies

    parties.courier.carry = changed  # type: ignore[method-assign]
    with pytest.raises(ProtocolFault, match="signature"):
        parties.hub().run()
    parties.close()
