"""What the tests of gathered sums have in common."""

from __future__ import annotations

from dataclasses import replace

from privplan.fl.observers.names import COORDINATOR
from privplan.fl.parties.network import Network
from privplan.fl.secagg.gathering import GroupNotice, gathered_sum

from .peer_sums import SESSION, Peers


class Gathered(Peers):
    """Peers with a coordinator, all on one network."""

    def __init__(self, count=5, length=11, *, meddling=None, **options):
        super().__init__(count, length, **options)
        self.network = Network([*self.names, COORDINATOR], keep=True, meddling=meddling)
        self.posts = {name: self.network.post(name) for name in self.network.names}

    def gathered(self, inputs, round=1, session=SESSION):
        return gathered_sum(self.posts, self.group, self.identities, session, round, inputs)


def renamed(names_for):
    """Return a meddling by which the coordinator names to each peer what `names_for` says.

    `names_for(receiver, names)` returns names, or None for no notice at all.
    """

    def meddling(message):
        if message.kind != GroupNotice.kind:
            return (message,)
        body = GroupNotice.unpack(message.body)
        names = names_for(message.receiver, body.names)
        if names is None:
            return ()
        return (replace(message, body=replace(body, names=tuple(names)).pack()),)

    return meddling
