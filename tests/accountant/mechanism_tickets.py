"""Tickets and laws that the tests of mechanisms share."""

from __future__ import annotations

from collections.abc import Mapping

from scipy import stats

from privplan.accountant import events as ev
from privplan.accountant import records
from privplan.accountant.mechanisms import Gate, RoundDescription, Ticket
from privplan.accountant.mechanisms.base import Mechanism
from privplan.accountant.neighbours import NEIGHBOURS
from privplan.accountant.randomness import Streams
from privplan.fl.statistics.release_plan import MemoryRecords

from ..chance import limits

FALSE_ALARM = 1e-6
LEAST_P, _ = limits(stats.uniform(), looks=100)
"""The p-value that none of up to 100 looks of a test undercuts, but with chance 1e-6 over seeds."""

RELATIONS = NEIGHBOURS


class Memory(MemoryRecords):
    """A recorder that only remembers, sealed items by a name alone."""

    def seal(self, items: Mapping[str, object]) -> dict[str, str]:
        return dict.fromkeys(items, "c0")


def ticket_for(
    mechanism: Mechanism, draws: int = 1, seed: int = 1, memory: Memory | None = None
) -> Ticket:
    """Return an open round of a mechanism, without a budget."""
    gate = Gate(None, memory or Memory(), Streams.seeded(seed))
    about = RoundDescription(1, "test", draws=draws, event_override=ev.NoGuarantee("a test"))
    relation = getattr(mechanism, "relation", "replace-one")
    return gate.open(mechanism.intent(about, relation))


USERS = records.Sampling("poisson", "user", 0.25, "server")
