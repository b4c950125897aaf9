"""From numbers to messages with noise of their own, and from sums of messages back to numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...accountant.mechanisms import LaplaceMessages, ResponseMessages
from .terms import FlameTerms, unbiased_sums, words_of

if TYPE_CHECKING:
    from ...accountant.arrays import FloatArray, IntArray
    from ...accountant.mechanisms import Ticket

MESSAGE_STREAM: Final = "messages"
ROUNDING_STREAM: Final = "rounding"


def randomised(
    ticket: Ticket,
    mechanism: LaplaceMessages | ResponseMessages,
    values: FloatArray,
    terms: FlameTerms,
    named: str = "",
) -> IntArray:
    """Return a message for each value, (users, k), each clipped to C.

    `named` begins the names of the random streams.  Raises as the mechanism's `messages`.
    """
    name = f"{named}{MESSAGE_STREAM}"
    if isinstance(mechanism, LaplaceMessages):
        return mechanism.messages(ticket, values, name)
    stream = ticket.stream(f"{named}{ROUNDING_STREAM}")
    words = words_of(stream, values, terms.clip, terms.table.steps)
    return mechanism.messages(ticket, words, name)


def sums_of_values(
    mechanism: LaplaceMessages | ResponseMessages, sums: IntArray, messages: int, terms: FlameTerms
) -> FloatArray:
    """Return unbiased sums of values from `sums` (k,) over so many messages each."""
    if isinstance(mechanism, LaplaceMessages):
        return mechanism.units(sums)
    return unbiased_sums(sums, messages, mechanism.epsilon, terms.clip, terms.table.steps)
