"""What the tests of peer sums have in common."""

from __future__ import annotations

import numpy as np

from privplan.fl.crypto import keys
from privplan.fl.crypto.fixed_point_sums import FixedPoint
from privplan.fl.parties.network import Network
from privplan.fl.secagg.decentralised import (
    Confirmation,
    Group,
    Hello,
    PartialSum,
    Share,
    TotalSlice,
    decentralised_sum,
)

SESSION = b"a session of its own"
KINDS = {one.kind: one for one in (Hello, Share, PartialSum, TotalSlice, Confirmation)}

FAULTS = ("twice", "round", "session", "kind", "empty", "longer", "bit")
WRONG = [(kind, fault) for kind in KINDS for fault in FAULTS]
SIGNED = [one.kind for one in (Hello, PartialSum, TotalSlice, Confirmation)]


class Peers:
    """Some peers on a network, with their identities."""

    def __init__(self, count=4, length=11, *, bound=1000.0, step=1.0, fewest=3, meddling=None):
        self.names = [f"silo-{index}" for index in range(count)]
        self.identities = {name: keys.Identity.new() for name in self.names}
        self.grid = FixedPoint(step=step, bound=bound, terms=count, modulus=2**64)
        roster = {name: one.public for name, one in self.identities.items()}
        self.group = Group(roster, fewest, self.grid, length)
        self.network = Network(self.names, keep=True, meddling=meddling)
        self.posts = {name: self.network.post(name) for name in self.names}

    def inputs(self, seed=0):
        rng = np.random.default_rng(seed)
        most = self.grid.largest
        return {
            name: rng.integers(-most, most, self.group.length, endpoint=True) for name in self.names
        }

    def sum(self, inputs, round=1, session=SESSION):
        return decentralised_sum(self.posts, self.group, self.identities, session, round, inputs)
