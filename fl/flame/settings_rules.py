"""Rules between the keys of a configuration of FLAME's systems."""

from __future__ import annotations

from typing import Final

from ..declarations.declaration import Complaint, Given, Rule
from ..declarations.registry import declaration_of
from ..settings.declared_rules import no_target
from .sealing_cost import MOST_SEALED, sealed_messages, too_many
from .settings import LAPLACE, SEALED, TABLE


def chosen_given(given: Given) -> Complaint | None:
    """Demand how many coordinates a user sends, where it does not send all of them."""
    if "chosen" in given.get("flame", {}) or not _chooses(given):
        return None
    return (
        "lacks `chosen` in [flame]",
        f"A user of {given['run']['system']} sends so many coordinates of its update.",
        "Write chosen = 65 under [flame], for example.",
    )


def one_silo(given: Given) -> Complaint | None:
    """Refuse silos that would send for their users."""
    return silos_complaint(given["data"].get("silos", 1))


def silos_complaint(silos: int) -> Complaint | None:
    """Refuse silos that would send for their users, whoever says how many there are."""
    if silos == 1:
        return None
    return (
        f"has silos = {silos} in [data], and FLAME's users send for themselves",
        "A silo that sends for its users knows all of their messages.",
        "Write silos = 1, or leave it out.",
    )


def words_have_steps(given: Given) -> Complaint | None:
    """Refuse steps between words where no words are sent."""
    table = given.get("flame", {})
    if "steps" not in table or table.get("randomizer", LAPLACE) != LAPLACE:
        return None
    return (
        'gives `steps` in [flame] beside randomizer = "laplace"',
        "Laplace noise has no words, so there are no steps between them.",
        'Leave `steps` out, or write randomizer = "responses".',
    )


def few_sealed(given: Given) -> Complaint | None:
    """Refuse more ciphertexts than a round can have, as far as the keys tell how many there are.

    A model has at least as many coordinates as a user sends.
    """
    table = given.get("flame", {})
    if table.get("transport", SEALED) != SEALED or not _chooses(given):
        return None
    data, system = given["data"], declaration_of(str(given["run"]["system"]))
    users = system.defaults(data["name"], data.get("users")).users
    users = data.get("users", users)
    sent = table["chosen"] + table.get("decoys", 0)
    messages = sealed_messages(users, sent, sent, table.get("padded_to", 0))
    if messages <= MOST_SEALED:
        return None
    return (
        f"seals {messages:,} messages or more a round, by {users:,} users and [flame]",
        *too_many(messages),
    )


def no_idle_processes(given: Given) -> Complaint | None:
    """Refuse processes that would share no work."""
    return _without_ciphertexts(
        given, "processes", "They share the work of ciphertexts, and there are none."
    )


def transcripts_of_messages(given: Given) -> Complaint | None:
    """Refuse to keep transcripts where no message travels."""
    return _without_ciphertexts(
        given, "keep_transcripts", "No message travels between the parties, so there are none."
    )


def _without_ciphertexts(given: Given, key: str, why: str) -> Complaint | None:
    sealed = given.get("flame", {}).get("transport", SEALED) == SEALED
    if sealed or not given.get("security", {}).get(key):
        return None
    return (
        f'gives `{key}` in [security] beside transport = "ideal" in [flame]',
        why,
        f'Leave `{key}` out, or write transport = "sealed".',
    )


def _chooses(given: Given) -> bool:
    """Return whether a user sends some of its coordinates, and not all."""
    return declaration_of(str(given["run"]["system"])).has_use_for("flame", "chosen")


RULES: Final[tuple[Rule, ...]] = (
    chosen_given,
    one_silo,
    words_have_steps,
    no_target(TABLE.name),
    few_sealed,
    no_idle_processes,
    transcripts_of_messages,
)
"""In the order in which they are asked."""
