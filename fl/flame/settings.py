"""The table `[flame]`: how coordinates are chosen, randomised, padded and carried."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from ..declarations.declaration import Complaint, Rule, Table
from ..declarations.given_settings import GivenSettings
from ..declarations.toml_key import at_least, key
from ..observers.stated_assumptions import BLIND_SHUFFLER
from ..settings.declared_rules import no_target, unpaid_votes
from .sealing_cost import MOST_SEALED, sealed_messages, too_many

Protocol = Literal["simple", "double", "topk"]
RandomizerName = Literal["laplace", "responses"]
Granularity = Literal["coordinate", "tuple"]
Overflow = Literal["refuse", "cap"]
Transport = Literal["sealed", "ideal"]

SIMPLE: Final = "simple"
DOUBLE: Final = "double"
TOPK: Final = "topk"

LAPLACE: Final = "laplace"
RESPONSES: Final = "responses"
SEALED: Final = "sealed"


@dataclass(frozen=True, kw_only=True)
class FlameSettings:
    """`[flame]`: how coordinates are chosen, randomised, padded and carried."""

    randomizer: RandomizerName = key(
        "noise of a message: Laplace, or one of the words 0 to `steps` by randomized response",
        default="laplace",
    )
    steps: int = key(
        'randomizer = "responses": steps between the least and the largest word',
        at_least(1),
        default=16,
        why="It is a number of steps, one less than there are words.",
    )
    chosen: int | None = key(
        "flame-double, flame-topk: how many coordinates of its update a user sends",
        at_least(1),
        default=None,
        shown="required there",
        why="It is a number of coordinates, and at most as many as the model has parameters.",
    )
    decoys: int = key(
        "flame-topk: how many other coordinates a user sends with a dummy in each, so that the "
        "shuffler does not know which are its largest",
        at_least(0),
        default=0,
        why="It is a number of coordinates, and with `chosen` at most as many as there are.",
    )
    granularity: Granularity = key(
        "what is mixed: every coordinate by itself, or all that a user sends in a piece, which "
        "local noise alone protects",
        default="coordinate",
    )
    padded_to: int | None = key(
        "messages of each coordinate in the end, dummies among them",
        at_least(2),
        default=None,
        shown="flame-topk: the users; flame-double: twice the fewest that hardly ever overflow",
        why="How many users sent a coordinate would be seen without dummies.",
    )
    overflow: Overflow = key(
        "what becomes of a coordinate with more messages: the round is given up, or as many as "
        "there is room for are kept, at random",
        default="refuse",
    )
    transport: Transport = key(
        "a ciphertext for every message, or arrays between the parties without any, which "
        "supposes a shuffler that cannot read",
        default="sealed",
    )
    as_published: bool = key(
        "run as the paper prints it, without a guarantee: whole tuples are mixed, the largest "
        'coordinates are the most positive ones, and "responses" draw from the words 1 to `steps`',
        default=False,
    )

    @property
    def rests_on(self) -> tuple[str, ...]:
        """What the reach of mixed messages rests on: nothing where they are sealed."""
        return () if self.transport == SEALED else (BLIND_SHUFFLER,)


TABLE: Final = Table(
    name="flame",
    about="how coordinates are chosen, randomised, padded and carried",
    settings=FlameSettings,
)


def chosen_given(given: GivenSettings) -> Complaint | None:
    """Demand how many coordinates a user sends, where it does not send all of them."""
    if given.states(TABLE.name, "chosen") or not _chooses(given):
        return None
    return (
        "lacks `chosen` in [flame]",
        f"A user of {given.system.name} sends so many coordinates of its update.",
        "Write chosen = 65 under [flame], for example.",
    )


def one_silo(given: GivenSettings) -> Complaint | None:
    """Refuse silos that would send for their users."""
    complaint = silos_complaint(given.data.silos)
    if complaint is None or not given.of_table:
        return complaint
    what, why, _ = complaint
    return (
        what,
        why,
        'Write silos = { everywhere = ["north.csv", "south.csv"] }: files of one silo.',
    )


def silos_complaint(silos: int | None) -> Complaint | None:
    """Refuse silos that would send for their users, whoever says how many there are."""
    if silos == 1:
        return None
    return (
        f"has silos = {silos} in [data], and FLAME's users send for themselves",
        "A silo that sends for its users knows all of their messages.",
        "Write silos = 1, or leave it out.",
    )


def words_have_steps(given: GivenSettings) -> Complaint | None:
    """Refuse steps between words where no words are sent."""
    if not given.states(TABLE.name, "steps") or given.of(FlameSettings).randomizer != LAPLACE:
        return None
    return (
        'gives `steps` in [flame] with randomizer = "laplace"',
        "Laplace noise has no words, so there are no steps between them.",
        'Leave `steps` out, or write randomizer = "responses".',
    )


def few_sealed(given: GivenSettings) -> Complaint | None:
    """Refuse more ciphertexts than a round can have, as far as the keys tell how many there are.

    A model has at least as many coordinates as a user sends.
    """
    table, users = given.of(FlameSettings), given.data.users
    if table.transport != SEALED or not _chooses(given):
        return None
    sent = (table.chosen or 0) + table.decoys
    messages = sealed_messages(users, sent, sent, table.padded_to or 0)
    if messages <= MOST_SEALED:
        return None
    return (
        f"seals {messages:,} messages or more a round, by {users:,} users and [flame]",
        *too_many(messages),
    )


def overflow_of_tables(given: GivenSettings) -> Complaint | None:
    """Refuse a round of a table that is given up where many users have the same coordinates."""
    table, users = given.of(FlameSettings), given.data.users
    if not given.of_table or not given.system.has_use_for(TABLE.name, "decoys"):
        return None
    if table.overflow == "cap" or table.padded_to is None or table.padded_to >= users:
        return None
    return (
        f"has padded_to = {table.padded_to:,} in [flame], below users = {users:,} in [data]",
        "Which coordinates are a user's largest depends on its rows, so whether a round overflows "
        "and is given up would tell of them.",
        'Leave `padded_to` out, or write overflow = "cap" with noise_multiplier alone.',
    )


def no_votes(given: GivenSettings) -> Complaint | None:
    """Refuse votes for a method as published, whose number would not cover them."""
    published = given.holds_out and given.of(FlameSettings).as_published
    return unpaid_votes(given.system.name) if published else None


def no_idle_processes(given: GivenSettings) -> Complaint | None:
    """Refuse processes that would share no work."""
    return _without_ciphertexts(
        given, "processes", "They share the work of ciphertexts, and there are none."
    )


def transcripts_of_messages(given: GivenSettings) -> Complaint | None:
    """Refuse to keep transcripts where no message travels."""
    return _without_ciphertexts(
        given, "keep_transcripts", "No message travels between the parties, so there are none."
    )


def _without_ciphertexts(given: GivenSettings, name: str, why: str) -> Complaint | None:
    if given.of(FlameSettings).transport == SEALED or not given.stated("security", name):
        return None
    return (
        f'gives `{name}` in [security] with transport = "ideal" in [flame]',
        why,
        f'Leave `{name}` out, or write transport = "sealed".',
    )


def _chooses(given: GivenSettings) -> bool:
    """Return whether a user sends some of its coordinates, and not all."""
    return given.system.has_use_for(TABLE.name, "chosen")


RULES: Final[tuple[Rule, ...]] = (
    chosen_given,
    one_silo,
    words_have_steps,
    no_target,
    few_sealed,
    overflow_of_tables,
    no_votes,
    no_idle_processes,
    transcripts_of_messages,
)
"""In the order in which they are asked."""
