"""A hostile server and a hostile silo, each with its own key: nonsense ends a round, no more."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from privplan.accountant.errors import PrivplanError
from privplan.accountant.records import RoundIntent
from privplan.fl.network.journal import identity_in
from privplan.fl.network.wire import (
    CONFIRM,
    FINISH,
    HELLO,
    KEYS,
    RECOVER,
    SHARES,
    VECTOR,
    WORDS,
    Hello,
    ReleasedModel,
    Reply,
    Request,
    Result,
    opened,
    signed,
)

from ..cases import for_each
from ..sweeps import sweep
from .network_logs import records_of
from .network_parties import Parties, config
from .test_network_stops import require_sound

PHASES = (KEYS, SHARES, WORDS, CONFIRM, RECOVER, FINISH)


def junk(dice: random.Random, genuine: bytes) -> bytes:
    """Return bytes that are near what belongs there, or are not."""
    if not genuine or dice.random() < 0.3:
        return dice.randbytes(dice.choice((0, 1, 40, 5000)))
    where = dice.randrange(len(genuine))
    flipped = bytes([genuine[where] ^ (1 << dice.randrange(8))])
    return dice.choice(
        (
            genuine[:where],
            genuine[:where] + flipped + genuine[where + 1 :],
            genuine + genuine[:where],
        )
    )


def wild(dice: random.Random, request: Request) -> Request:
    """Return a request of the plan's server with something in it that does not belong there."""
    changes: list[Callable[[], dict[str, Any]]] = [
        lambda: {"messages": tuple(junk(dice, raw) for raw in request.messages) or (b"x",)},
        lambda: {"messages": request.messages * 2},
        lambda: {"messages": tuple(reversed(request.messages))[:-1]},
        lambda: {"result": junk(dice, request.result)},
        lambda: {"result": Result(request.round - 1, dice.randbytes(480), (0, 1, 2)).pack()},
        lambda: {"result": Result(10**30, b"", (7, 7, -1)).pack()},
        lambda: {"model": junk(dice, request.model)},
        lambda: {"model": ReleasedModel(-1, dice.randbytes(480), {"x": b"y"}).pack()},
        lambda: {"hellos": tuple(junk(dice, raw) for raw in request.hellos) or (b"",)},
        lambda: {"round": dice.choice((-1, 0, 2**70, request.round + 1))},
        lambda: {"phase": dice.choice((*PHASES, VECTOR, "", "x" * 1000, "../../x"))},
        lambda: {"segment": dice.choice((-1, 0, 2**70))},
        lambda: {"run": dice.choice(("", "x" * 1000, "../../x"))},
    ]
    return replace(request, **dice.choice(changes)())


@for_each("seed", sweep(list(range(12)), quick=2))
def test_a_hostile_server_spends_rounds_and_breaks_no_guard(tmp_path: Path, seed: int) -> None:
    text = config("fedpower-power").replace("rounds = 3", "rounds = 6")
    parties = Parties.of(tmp_path / str(seed), text)
    dice, server = random.Random(seed), identity_in(parties.folder / "server")
    odd = 0

    def meddle(silo: int, raw: bytes) -> bytes:
        nonlocal odd
        request = opened(parties.plan.server, Request, raw)
        if request.phase == "hello" or dice.random() < 0.8:
            return raw
        odd += 1
        if dice.random() < 0.5:  # besides the right one
            guard = parties.courier.guards[silo]
            opened(guard.identity.public, Reply, guard.handle(signed(server, wild(dice, request))))
            return raw
        return signed(server, wild(dice, request))

    parties.courier.meddling = meddle
    for _ in range(3):
        hub = parties.hub()
        if hub.closed:
            break
        try:
            hub.run()
        except PrivplanError:
            continue
    assert odd
    parties.courier.meddling = None
    hub = parties.hub()  # and the run goes on as if nothing had been, but for what is spent
    if hub.closed:
        hub.tell_again()
    else:
        hub.run()
    parties.close()
    for silo in range(3):
        rounds = [each.round for each in records_of(parties.run_folder(silo), RoundIntent)]
        assert len(rounds) == len(set(rounds)) <= 6
        assert not list(parties.folder.rglob("x"))


@for_each("phase", [KEYS, SHARES, WORDS, CONFIRM, RECOVER])
@pytest.mark.parametrize("seed", sweep(list(range(4)), quick=1))
def test_a_hostile_silo_ends_a_round_and_no_more(tmp_path: Path, seed: int, phase: str) -> None:
    parties = Parties.of(tmp_path / phase, config("fedpower-power"))
    dice, south = random.Random(seed), parties.courier.guards[1]
    carry = parties.courier.carry
    hostile = True

    def junk_of_south(requests: Mapping[int, bytes], seconds: float) -> Mapping[int, bytes]:
        replies = dict(carry(requests, seconds))
        asked = opened(parties.plan.server, Request, requests[1])
        if hostile and asked.phase == phase and asked.round > 1:
            reply = opened(south.identity.public, Reply, replies[1])
            messages = tuple(junk(dice, raw) for raw in reply.messages)
            replies[1] = signed(south.identity, replace(reply, messages=messages))
        return replies

    parties.courier.carry = junk_of_south  # type: ignore[method-assign]
    with contextlib.suppress(PrivplanError):  # another vector is a vector, too
        parties.hub().run()
    hostile = False
    if not parties.hub().closed:
        parties.hub().run()
    parties.close()
    require_sound(parties)


def test_a_silo_that_claims_later_rounds_spends_one_at_each_start(tmp_path: Path) -> None:
    text = config("fedpower-power").replace("rounds = 3", "rounds = 4")
    parties = Parties.of(tmp_path, text)
    south = parties.courier.guards[1].identity
    carry = parties.courier.carry

    def claims(requests: Mapping[int, bytes], seconds: float) -> Mapping[int, bytes]:
        replies = dict(carry(requests, seconds))
        if opened(parties.plan.server, Request, requests[1]).phase == HELLO:
            reply = opened(south.public, Reply, replies[1])
            hello = replace(opened(south.public, Hello, reply.hello), round=2**60)
            replies[1] = signed(south, replace(reply, hello=signed(south, hello)))
        return replies

    parties.courier.carry = claims  # type: ignore[method-assign]
    with pytest.raises(PrivplanError):  # south itself does not know the hello that it has said
        parties.hub().run()
    assert len(records_of(parties.run_folder(None), RoundIntent)) <= 2
    parties.close()
