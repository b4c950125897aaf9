"""What a guard refuses: everything but the next step of the plan that its silo has signed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from privplan.accountant.errors import InvalidInput, PrivplanError, ProtocolFault, Unsupported
from privplan.accountant.records import RoundIntent
from privplan.fl.crypto.keys import Identity
from privplan.fl.log import read
from privplan.fl.network import guard_log
from privplan.fl.network.guard import Guard
from privplan.fl.network.guard_log import FILE
from privplan.fl.network.journal import KEY_FILE, identity_in
from privplan.fl.network.plan import NetworkPlan
from privplan.fl.network.silo_run import sentence_of
from privplan.fl.network.supported import require_supported
from privplan.fl.network.wire import (
    FINISH,
    HELLO,
    KEYS,
    SHARES,
    Reply,
    Request,
    digest_of,
    opened,
    signed,
)
from privplan.fl.settings.toml_file import parse

from ..cases import for_each
from .network_parties import Parties, config, planned

RunRequest = tuple[Parties, list[tuple[int, Request]]]


class Stopped(Exception):
    """The courier was stopped by a test."""


def until_phase(parties: Parties, phase: str, number: int) -> Callable[[int, bytes], bytes]:
    """Return what stops the server before it asks for a phase of a round."""

    def stop(_: int, raw: bytes) -> bytes:
        request = opened(parties.plan.server, Request, raw)
        if (request.phase, request.round) == (phase, number):
            raise Stopped
        return raw

    return stop


def until(tmp_path: Path, phase: str, number: int = 1, *, rounds: int = 3) -> Parties:
    """Return parties of whom the server stopped before it asked for a phase of a round."""
    text = config("fedpower-power").replace("rounds = 3", f"rounds = {rounds}")
    parties = Parties.of(tmp_path, text)
    parties.courier.meddling = until_phase(parties, phase, number)
    with pytest.raises(Stopped):
        parties.hub().run()
    return parties


def asked(parties: Parties, silo: int, request: Request, by: Identity | None = None) -> Reply:
    """Return what a guard answers to a request that the server has signed, or somebody else."""
    identity = identity_in(parties.folder / "server") if by is None else by
    guard = parties.courier.guards[silo]
    return opened(guard.identity.public, Reply, guard.handle(signed(identity, request)))


def last_to(parties: Parties, silo: int) -> tuple[bytes, bytes, Request]:
    """Return the last request to a silo, as bytes and read, with what it answered."""
    raw, answer = next((r, a) for s, r, a in reversed(parties.courier.carried) if s == silo)
    return raw, answer, opened(parties.plan.server, Request, raw)


def intents(parties: Parties, silo: int) -> int:
    folder = parties.run_folder(silo)
    if not folder.exists():
        return 0
    return sum(isinstance(line.record, RoundIntent) for line in read(folder))


def test_the_same_request_again_has_the_same_bytes_and_spends_nothing(tmp_path: Path) -> None:
    parties = until(tmp_path, SHARES, 2)
    raw, answer, _ = last_to(parties, 0)
    before = intents(parties, 0)
    for _ in range(2):
        assert parties.courier.guards[0].handle(raw) == answer
    parties.restart(0)
    assert parties.courier.guards[0].handle(raw) == answer
    assert intents(parties, 0) == before == 2
    parties.close()


Change = Callable[[Request], Request]

OTHER: dict[str, tuple[Change, str]] = {
    "another plan": (lambda r: replace(r, plan=bytes(32)), "another plan"),
    "another version": (lambda r: replace(r, version="9.9"), "runs privplan"),
    "another run": (lambda r: replace(r, run="0" * 32), "another run needs another plan"),
    "an earlier start": (lambda r: replace(r, segment=0), "another start"),
    "a later start": (lambda r: replace(r, segment=9), "another start"),
    "a hello again": (lambda r: replace(r, phase=HELLO, messages=()), "has been"),
    "a spent round": (lambda r: replace(r, round=1, messages=(b"x",)), "spent"),
    "the next round": (lambda r: replace(r, round=3), "under way"),
    "a phase out of turn": (lambda r: replace(r, phase="recover"), "Next is shares of round 2"),
    "an unknown phase": (lambda r: replace(r, phase="vector"), "Next is shares"),
    "the end": (lambda r: replace(r, phase=FINISH), "Next is shares"),
    "more than a plan can hold": (lambda r: replace(r, messages=(bytes(2**22),)), "longer than"),
    "hellos once more": (
        lambda r: replace(r, phase=SHARES, hellos=(b"", b"", b"")),
        "have come before",
    ),
}


def test_any_other_request_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    parties = until(tmp_path, SHARES, 2)
    _, _, request = last_to(parties, 0)
    before = intents(parties, 0)
    for name, (change, why) in OTHER.items():
        reply = asked(parties, 0, change(request))
        assert why in reply.refused, (name, reply.refused)
        assert reply.refused.endswith(".")
        assert (reply.messages, reply.hello) == ((), b"")
    assert intents(parties, 0) == before
    lines = [json.loads(line) for line in (tmp_path / "north" / FILE).read_text().splitlines()]
    assert sum(line["what"] == "refused" for line in lines) == len(OTHER)
    parties.courier.meddling = None  # and the run goes on as if nothing had been
    parties.hub().run()
    parties.close()


def test_what_the_server_of_the_plan_did_not_sign_is_no_request(tmp_path: Path) -> None:
    parties = until(tmp_path, SHARES, 2)
    raw, _, request = last_to(parties, 0)
    assert "not signed by the server" in asked(parties, 0, request, Identity.new()).refused
    changed = raw[:-1] + bytes([raw[-1] ^ 1])
    guard = parties.courier.guards[0]
    for wrong in (changed, raw[:-1], b"", b"\xc1" * 40, bytes(2**22)):
        reply = opened(guard.identity.public, Reply, guard.handle(wrong))
        assert reply.refused
    parties.close()


def test_a_silo_that_has_another_plan_is_noticed_before_any_noise(tmp_path: Path) -> None:
    parties = Parties.of(tmp_path, config("fedpower-power"))
    text = config("fedpower-power").replace("5.0", "4.0")
    other = planned(tmp_path, text)
    parties.kill(1)
    parties.courier.guards[1] = Guard(other, tmp_path / "south")
    with pytest.raises(ProtocolFault, match=r"south refused: .*another plan"):
        parties.hub().run()
    assert [intents(parties, silo) for silo in range(3)] == [0, 0, 0]
    parties.close()


def test_hellos_of_all_silos_are_needed(tmp_path: Path) -> None:
    parties = until(tmp_path, KEYS)
    hellos = [
        opened(guard.identity.public, Reply, answer).hello
        for silo, _, answer in parties.courier.carried
        for guard in [parties.courier.guards[silo]]
    ]
    _, _, hello = last_to(parties, 0)
    first = replace(hello, phase=KEYS)
    forged = signed(Identity.new(), opened_hello(parties, hellos[1], 1))
    for wrong in (
        (),
        tuple(hellos[:2]),
        (hellos[0], hellos[2], hellos[1]),
        (hellos[0], forged, hellos[2]),
        (hellos[0], hellos[1], hellos[1]),
    ):
        assert asked(parties, 0, replace(first, hellos=wrong)).refused
    assert intents(parties, 0) == 0
    parties.close()


def opened_hello(parties: Parties, raw: bytes, silo: int):  # type: ignore[no-untyped-def]
    from privplan.fl.network.wire import Hello

    return opened(parties.plan.silos[silo].key, Hello, raw)


def test_a_restored_backup_of_a_silo_is_noticed(tmp_path: Path) -> None:
    parties = until(tmp_path, KEYS, 2)
    parties.close()
    shutil.copytree(tmp_path / "north", tmp_path / "backup")
    for silo in range(3):
        parties.restart(silo)
    parties.courier.meddling = None
    parties.hub().run()
    parties.close()
    shutil.rmtree(tmp_path / "north")
    shutil.copytree(tmp_path / "backup", tmp_path / "north")
    for silo in range(3):
        parties.restart(silo)
    with pytest.raises(ProtocolFault, match="silo-0 has forgotten what it spent"):
        parties.hub().tell_again()
    parties.close()


def test_the_other_silos_notice_a_restored_backup_as_well(tmp_path: Path) -> None:
    parties = until(tmp_path, KEYS, 2, rounds=6)
    parties.close()
    shutil.copytree(tmp_path / "north", tmp_path / "backup")
    for silo in range(3):
        parties.restart(silo)
    parties.courier.meddling = until_phase(parties, KEYS, 5)
    with pytest.raises(Stopped):
        parties.hub().run()
    parties.close()
    shutil.rmtree(tmp_path / "north")
    shutil.copytree(tmp_path / "backup", tmp_path / "north")
    (tmp_path / "server" / "peers.json").unlink()  # of a server that looks away
    for silo in range(3):
        parties.restart(silo)
    parties.courier.meddling = None
    with pytest.raises(ProtocolFault, match="refused: silo-0 has forgotten"):
        parties.hub().run()
    parties.close()


def test_a_plan_that_is_not_signed_or_was_changed_is_not_run(tmp_path: Path) -> None:
    plan = planned(tmp_path, config("statistics"))
    folder = tmp_path / "north"
    for other in (
        replace(plan, signatures={}),
        replace(plan, config=plan.config.replace("5.0", "1.0")),
        replace(plan, seconds=plan.seconds + 1),
        replace(plan, silos=plan.silos[::-1]),
    ):
        with pytest.raises(InvalidInput, match="not signed by"):
            Guard(other, folder)
    promised = replace(plan, promise={**plan.promise, "rounds": "2"})
    with pytest.raises(InvalidInput, match="promises something else"):
        Guard(promised.signed_by(identity_in(folder)), folder)
    unseeded = replace(plan, insecure=False)
    with pytest.raises(InvalidInput, match="seed"):
        Guard(unseeded.signed_by(identity_in(folder)), folder)
    with pytest.raises(InvalidInput, match="not in the plan"):
        Guard(plan, tmp_path / "server")


def test_a_plan_reads_back_from_its_file(tmp_path: Path) -> None:
    plan = planned(tmp_path, config("statistics"))
    plan.write(tmp_path / "plan.toml")
    again = NetworkPlan.read(tmp_path / "plan.toml")
    assert again == plan
    assert again.digest == plan.digest
    text = (tmp_path / "plan.toml").read_text()
    for broken in ("", "x", text.replace("[server]", "[other]"), text.replace("key", "keys")):
        (tmp_path / "broken.toml").write_text(broken)
        with pytest.raises(InvalidInput, match="no plan"):
            NetworkPlan.read(tmp_path / "broken.toml")


def test_a_key_that_others_can_read_is_refused(tmp_path: Path) -> None:
    plan = planned(tmp_path, config("statistics"))
    key = tmp_path / "north" / KEY_FILE
    assert key.stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "north").stat().st_mode & 0o777 == 0o700
    key.chmod(0o644)
    with pytest.raises(InvalidInput, match="read by others"):
        Guard(plan, tmp_path / "north")


UNSUPPORTED = [
    ('system = "uldp-avg"', 'system = "uldp-group"', "messages"),
    ('weighting = "uniform"', 'weighting = "records"', "how many records"),
    ('aggregation = "masked"', 'aggregation = "shares"', "no guard carries"),
    ("noise_multiplier = 5.0", "noise_multiplier = 5.0\nsampling_rate = 0.5", "common secret"),
    ('aggregation = "masked"', 'aggregation = "masked"\nkeep_transcripts = true', "transcripts"),
]


@for_each(("old", "new", "missing"), UNSUPPORTED)
def test_other_runs_are_refused_with_what_is_missing(old: str, new: str, missing: str) -> None:
    text = config("uldp-avg")
    assert old in text
    changed = text.replace(old, new)
    if "uldp-group" in new:
        changed = changed.replace(
            '[training]\nweighting = "uniform"', "[uldp]\ngroup_records = 2\n[training]"
        )
    with pytest.raises(Unsupported, match=missing):
        require_supported(parse(changed.encode(), "a configuration"))


def test_a_silo_that_cannot_write_gives_nothing_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parties = Parties.of(tmp_path, config("statistics"))
    guard = parties.courier.guards[1]

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(guard._journal, "keep", full)
    with pytest.raises(PrivplanError, match="The silo cannot write: No space left"):
        parties.hub().run()
    parties.close()


def test_a_server_is_told_no_sentence_about_records() -> None:
    private = InvalidInput("`features` has a value that is NaN, first in row 7, column 2.")
    for error in (private, ValueError("row 7"), PrivplanError("row 7")):
        assert "7" not in sentence_of(error)
    assert sentence_of(ProtocolFault("silo-1 is late.")) == "silo-1 is late."


def test_what_a_hostile_silo_says_is_one_short_line_on_the_servers_screen(tmp_path: Path) -> None:
    parties = Parties.of(tmp_path, config("statistics"))
    guard = parties.courier.guards[1]
    nasty = "no\x1b[2J\nRound 3 of 3 is released" + "!" * 10_000

    def says(raw: bytes) -> bytes:
        return signed(guard.identity, Reply(digest_of(raw), nasty))

    guard.handle = says  # type: ignore[method-assign]
    with pytest.raises(ProtocolFault) as error:
        parties.hub().run()
    assert error.value.what.isprintable()
    assert len(error.value.what) < 400
    parties.close()


def test_a_silo_that_forgot_a_round_that_was_never_released_is_noticed(tmp_path: Path) -> None:
    parties = until(tmp_path, KEYS, 2)
    parties.close()
    shutil.copytree(tmp_path / "north", tmp_path / "backup")
    for silo in range(3):
        parties.restart(silo)
    parties.courier.meddling = until_phase(parties, SHARES, 3)  # begun by all, and given up
    with pytest.raises(Stopped):
        parties.hub().run()
    parties.close()
    assert intents(parties, 0) == 3
    shutil.rmtree(tmp_path / "north")
    shutil.copytree(tmp_path / "backup", tmp_path / "north")
    for silo in range(3):
        parties.restart(silo)
    assert intents(parties, 0) == 1
    parties.courier.meddling = None
    with pytest.raises(ProtocolFault, match="silo-0 has forgotten"):
        parties.hub().run()
    parties.close()


def test_requests_without_end_do_not_fill_the_disk_of_a_silo(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard_log, "MAX_BYTES", 2000)
    parties = Parties.of(tmp_path, config("statistics"))
    guard = parties.courier.guards[0]
    for number in range(200):
        guard.handle(number.to_bytes(2, "big"))
    parties.close()
    files = {path.name: path.stat().st_size for path in (tmp_path / "north").glob(f"{FILE}*")}
    assert files.keys() <= {FILE, FILE + guard_log.EARLIER}
    assert sum(files.values()) < 3 * 2000
    assert sum(1 for _ in (tmp_path / "north").rglob("*")) < 10
