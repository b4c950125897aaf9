"""What the tests of shuffled rounds have in common."""

from __future__ import annotations

from collections import Counter
from typing import Any

from privplan.accountant import events as ev
from privplan.accountant.mechanisms import (
    Gate,
    LaplaceMessages,
    RoundDescription,
    Ticket,
)
from privplan.accountant.randomness import Streams
from privplan.fl.shuffling import ReceivedMessages, Shuffling, Terms

from ..accountant.mechanism_tickets import Memory

FALSE_ALARM = 1e-9
OWN = LaplaceMessages(1.0, 4.0)


def opened(mechanism: Any = OWN, draws: int = 1, seed: int = 1, memory: Any = None) -> Ticket:
    gate = Gate(None, memory or Memory(), Streams.seeded(seed))
    about = RoundDescription(1, "test", draws=draws, event_override=ev.NoGuarantee("a test"))
    return gate.open(mechanism.intent(about, "replace-one"))


def carried(terms: Terms, messages: Any, **more: Any) -> tuple[Shuffling, ReceivedMessages]:
    own = Shuffling(terms, keep=True)
    return own, own.round(1, opened(), messages, **more)


def multisets(received: ReceivedMessages) -> list[Counter[tuple[int, ...]]]:
    return [Counter(map(tuple, one.tolist())) for one in received.messages]
