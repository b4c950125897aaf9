"""A network that loses, doubles, delays and reorders; guards and servers that are killed at random.

Whatever happens, logs agree, nothing is drawn twice, and the run comes to its end once the network
is quiet.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path

import pytest

from privplan.accountant.errors import PrivplanError

from ..cases import for_each
from .network_parties import Loopback, Parties, config
from .test_network_stops import ServerKilled, require_sound

STARTS = 6


class Chaos(Loopback):
    """Carries as it likes."""

    def begin(self, parties: Parties, seed: int) -> None:
        self.parties, self.dice, self.wild = parties, random.Random(seed), True
        self.seen: list[tuple[int, bytes]] = []

    def carry(self, requests: Mapping[int, bytes], seconds: float) -> Mapping[int, bytes]:
        if not self.wild:
            return super().carry(requests, seconds)
        order = list(requests)
        self.dice.shuffle(order)
        replies: dict[int, bytes] = {}
        for silo in order:
            fate = self.dice.random()
            if fate < 0.04:
                continue  # the request is lost
            if fate < 0.07:
                self.parties.restart(silo)
            if fate < 0.09:
                raise ServerKilled
            for other, old in self.dice.sample(self.seen, min(len(self.seen), 2)):
                self.guards[other].handle(old)  # again, late
                self.guards[silo].handle(old)  # or to somebody else
            for _ in range(self.dice.randint(1, 2)):
                answer = self.guards[silo].handle(requests[silo])
            self.seen.append((silo, requests[silo]))
            self.carried.append((silo, requests[silo], answer))
            if fate > 0.96:
                continue  # the reply is lost
            replies[silo] = answer
        return replies


@pytest.mark.slow
@for_each(("seed", "dropouts"), [(0, 0), (1, 1), (2, 0), (3, 1)])
def test_whatever_the_network_does_the_logs_agree(tmp_path: Path, seed: int, dropouts: int) -> None:
    masked = 'aggregation = "masked"'
    text = config("fedpower-power").replace("rounds = 3", "rounds = 8")
    text = text.replace(masked, f"{masked}\ndropouts = {dropouts}")
    parties = Parties.of(tmp_path / f"{seed}-{dropouts}", text)
    courier = Chaos(parties.courier.guards)
    courier.begin(parties, seed)
    parties.courier = courier
    for start in range(STARTS):
        courier.wild = start < STARTS - 1
        hub = parties.hub()
        try:
            if hub.closed:
                hub.tell_again()
            else:
                hub.run()
        except (ServerKilled, PrivplanError):
            assert courier.wild  # on a quiet network nothing fails
    parties.close()
    require_sound(parties)
