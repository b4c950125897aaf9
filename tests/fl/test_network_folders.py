"""A silo's folder: of one plan and one guard, whole, and no longer than what was given out."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from privplan.accountant.errors import InvalidInput, MissingParty
from privplan.fl.network.guard import Guard
from privplan.fl.network.journal import REPLIES_FOLDER
from privplan.fl.network.wire import HELLO, KEYS, SHARES, VECTOR, Reply, Request, opened

from ..cases import for_each
from .network_parties import Parties, config, planned
from .test_network_refusals import Stopped, asked, last_to, until


def replies_of(parties: Parties, name: str = "north") -> set[str]:
    return {path.name for path in (parties.folder / name / REPLIES_FOLDER).iterdir()}


def test_a_log_that_was_lost_without_the_rest_is_noticed_by_the_silo_itself(tmp_path: Path) -> None:
    parties = Parties.of(tmp_path, config("fedpower-power", "plain"))
    given: list[bytes] = []

    def keep_back(silo: int, raw: bytes) -> bytes | None:
        if opened(parties.plan.server, Request, raw).phase != VECTOR:
            return raw
        given.append(parties.courier.guards[silo].handle(raw))
        if silo == 2:
            raise Stopped
        return None

    parties.courier.meddling = keep_back  # vectors reach the server, and no result anybody
    with pytest.raises(Stopped):
        parties.hub().run()
    north = parties.courier.guards[0]
    assert opened(north.identity.public, Reply, given[0]).messages
    shutil.rmtree(tmp_path / "north" / "run")
    (tmp_path / "server" / "peers.json").unlink()  # of a server that looks away
    lost = r"ends with round 0, and it took part in round 1: a part of its folder was lost"
    *_, request = last_to(parties, 0)
    hello = replace(request, phase=HELLO, segment=request.segment + 1, messages=())
    for again in (asked(parties, 0, hello), asked(parties, 0, replace(hello, segment=9))):
        assert "a part of its folder was lost" in again.refused
    ahead = replace(request, phase=VECTOR, round=1, hellos=())
    assert "started anew" in asked(parties, 0, ahead).refused  # nothing is given out after it
    parties.kill(0)
    with pytest.raises(InvalidInput, match=lost):
        parties.restart(0)
    parties.close()


def test_a_silo_has_one_guard_at_a_time(tmp_path: Path) -> None:
    parties = Parties.of(tmp_path, config("fedpower-power"))
    with pytest.raises(InvalidInput, match="Another guard is running with"):
        Guard(parties.plan, tmp_path / "north")
    parties.kill(0)
    with pytest.raises(InvalidInput, match="not signed"):
        Guard(replace(parties.plan, signatures={}), tmp_path / "north")
    parties.restart(0)  # one that could not begin keeps nobody out
    parties.close()


def test_a_folder_is_of_one_plan(tmp_path: Path) -> None:
    parties = until(tmp_path, KEYS)
    parties.close()
    other = planned(tmp_path, config("fedpower-power").replace("5.0", "4.0"))
    with pytest.raises(InvalidInput, match="is of another plan"):
        Guard(other, tmp_path / "north")
    parties.restart(0)
    parties.close()


def test_a_guard_that_is_killed_while_it_reads_its_data_is_asked_again(tmp_path: Path) -> None:
    parties = Parties.of(tmp_path, config("fedpower-power"))
    hellos: list[bytes] = []

    def kill(silo: int, raw: bytes) -> bytes:
        if silo == 0 and not hellos:
            hellos.append(raw)
            guard = parties.courier.guards[0]

            def killed(_: str) -> None:
                raise Stopped

            guard._run.start = killed  # type: ignore[method-assign,assignment]
            with pytest.raises(Stopped):
                guard.handle(raw)
            parties.restart(0)
        return raw

    parties.courier.meddling = kill
    assert parties.hub().run().rounds == 3
    parties.close()


def test_a_guard_that_is_back_in_the_middle_of_a_round_is_no_fault(tmp_path: Path) -> None:
    parties = Parties.of(tmp_path, config("fedpower-power"))

    def restart(silo: int, raw: bytes) -> bytes:
        request = opened(parties.plan.server, Request, raw)
        if (silo, request.phase, request.round) == (0, SHARES, 2):
            parties.restart(0)
        return raw

    parties.courier.meddling = restart
    with pytest.raises(
        MissingParty, match=r"guard of north was started anew .* of round 2"
    ) as said:
        parties.hub().run()
    assert "goes on by itself" in str(said.value)
    parties.courier.meddling = None
    assert parties.hub().run().rounds == 2
    parties.close()


def test_of_hellos_the_last_one_is_kept_and_replies_to_rounds_stay(tmp_path: Path) -> None:
    parties = until(tmp_path, KEYS, 2)
    before = {name for name in replies_of(parties) if not name.startswith("000000000-")}
    assert before
    *_, request = last_to(parties, 0)
    for start in range(1, 6):
        hello = replace(request, phase=HELLO, segment=request.segment + start, messages=())
        assert asked(parties, 0, hello).hello
    after = replies_of(parties)
    assert before < after
    assert len(after) == len(before) + 1
    parties.close()


@for_each("number", [-1, 4, 10**12])
def test_a_request_is_of_a_round_of_the_plan(tmp_path: Path, number: int) -> None:
    parties = until(tmp_path / str(number), KEYS, 2)
    *_, request = last_to(parties, 0)
    hello = replace(request, phase=HELLO, segment=9, messages=(), round=number)
    before = replies_of(parties)
    assert "none of the 3 rounds" in asked(parties, 0, hello).refused
    assert replies_of(parties) == before
    parties.close()


def test_the_end_of_a_run_is_said_again_and_again_and_fills_no_disk(tmp_path: Path) -> None:
    parties = Parties.of(tmp_path, config("fedpower-power"))
    parties.hub().run()
    before = replies_of(parties)
    *_, request = last_to(parties, 0)
    for word in (b"a", b"b", b"c"):
        assert asked(parties, 0, replace(request, messages=(word,))).refused == ""
    assert replies_of(parties) == before
    parties.close()
