"""How a shuffler mixes messages: the event of a round, and what of it reaches who sees the mix."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from .. import events as ev
from .. import records, validate
from ..errors import InvalidInput


@dataclass(frozen=True)
class ShuffledRound:
    """The messages of `users` units, without their senders and in random order.

    Without `dimensions` each unit sends as many messages as the round has draws, and the first
    messages of all units are mixed by themselves, the second ones, and so on.  With it, a unit
    sends `chosen` of `dimensions` coordinates, and each coordinate is padded to `padded_to`
    messages; see `events.SampledShuffle`.
    `users` counts those who tell the observer nothing, and `padded_to` the places that their
    messages and the dummies have: with c who tell all they know, give c fewer of both (`without`).
    Reveal what those c send: of n_p places they take at most c in a dimension, wherever they like,
    and what is left is a round of the others, padded to n_p - c or more; more dummies than that are
    a post-processing.  Where the others leave c places free, no dimension overflows, whatever the c
    do.
    Where they may not, a cap may keep the message of a user instead of one that the observer knows,
    which no randomizer hides: so with colluders a cap is accounted as a refusal
    (`overflow_with_colluders`).

    Range: `users` 1 or above; `dimensions`, `chosen` and `padded_to` together or not at all.
    Raises `InvalidInput`.

    >>> ShuffledRound(1000).event(ev.Laplace(4.0), 1)
    Shuffle(users=1000, event=Laplace(noise_multiplier=4.0))
    """

    users: int
    dimensions: int | None = None
    chosen: int | None = None
    padded_to: int | None = None
    granularity: Literal["coordinate", "tuple"] = "coordinate"
    selection: Literal["oblivious", "data-dependent"] = "oblivious"
    overflow: Literal["refuse", "cap"] = "refuse"

    def __post_init__(self) -> None:
        validate.count(users=self.users)
        given = [self.dimensions, self.chosen, self.padded_to]
        if any(value is None for value in given) != all(value is None for value in given):
            raise InvalidInput(
                "`dimensions`, `chosen` and `padded_to` go together.",
                "They say which coordinates are sent, and what hides how many.",
                "Give all three, or none.",
            )
        # Any message shows whether the round has an event: refuse now, not in the first round.
        self.event(ev.Local(1.0), self.chosen or 1)

    def event(self, message: ev.Event, draws: int) -> ev.Event:
        """Return the round of messages, each of the event `message`, `draws` from each unit.

        Raises `InvalidInput` where a unit sends another number of coordinates than is `chosen`.
        """
        if self.dimensions is None or self.chosen is None or self.padded_to is None:
            if self.granularity == "tuple" and draws > 1:
                raise InvalidInput(
                    "Several messages that stay together are not mixed one by one.",
                    "Who receives them sees which belong together.",
                    "Give granularity = 'coordinate', or state the local event.",
                )
            shuffle = ev.Shuffle(self.users, message)
            return shuffle if draws == 1 else ev.Repeat(draws, shuffle)
        if draws != self.chosen:
            raise InvalidInput(
                f"Each unit sends {self.chosen} coordinates, so a round has as many draws; it has "
                f"{draws}.",
                next_step="State `chosen` draws.",
            )
        return ev.SampledShuffle(
            self.users,
            self.dimensions,
            self.chosen,
            self.padded_to,
            self.granularity,
            self.selection,
            self.overflow,
            message,
        )

    def without(self, colluders: int) -> ShuffledRound:
        """Return what is left for the others where so many of the users tell all they know.

        A cap that may be needed becomes a refusal (`overflow_with_colluders`).  Raises
        `InvalidInput` where nothing is left.
        """
        colluding = validate.count_from(0, colluders=colluders)
        padding = None if self.padded_to is None else self.padded_to - colluding
        if self.users - colluding < 1 or (padding is not None and padding < 1):
            raise InvalidInput(
                f"Of {self.users:,} users {colluding:,} tell the observer all they know.",
                "Nobody, or no place of a coordinate, is left to hide among.",
                "Have more users, or more places for each coordinate.",
            )
        # The observer takes off what the colluders sent: a round of the others, with fewer places.
        users = self.users - colluding
        overflow = overflow_with_colluders(colluding, users, padding, self.overflow)
        return replace(self, users=users, padded_to=padding, overflow=overflow)

    def reach(self, *rests_on: str, colluders: int = 0) -> records.Reach:
        """Return what reaches who sees the mix of these, which are all who send.

        `colluders` of them tell the observer all they know: `without` so many is what is left.
        """
        sampled = self.dimensions is not None
        return records.Reach(
            "shuffled",
            colluders=colluders,
            rests_on=rests_on,
            users=self.users,
            dimensions=self.dimensions,
            chosen=self.chosen,
            padded_to=self.padded_to,
            granularity=self.granularity,
            selection=self.selection if sampled else None,
            overflow=self.overflow if sampled else None,
        )


def overflow_with_colluders(
    colluders: int, users: int, padded_to: int | None, overflow: Literal["refuse", "cap"]
) -> Literal["refuse", "cap"]:
    """Return the overflow by which a round is accounted with those who tell what they sent.

    `users` and `padded_to` are what is left without these.  It is `refuse` where they tell and a
    dimension may overflow.  Proof.  Outside the event that the users alone have more than
    `padded_to` messages in a dimension, nothing is dropped, whatever the colluders do, so both
    rounds are the same; under add-remove that event is charged in full, and a choice that depends
    on the data then has no guarantee.  With an oblivious choice under replace-one and zero-out, who
    is dropped depends on the sets alone; at most the colluders' places are known, and nothing
    is charged either way.
    A cap would promise too much.  In one dimension padded to 2, one user sends a bit by randomized
    response and another tells that 1 was sent, so nobody sees two messages of 0; if a third user
    sends 0 they are seen with positive probability, at every epsilon, while two users padded to 1
    are promised the local one.

    >>> overflow_with_colluders(1, 2, 1, "cap"), overflow_with_colluders(0, 2, 1, "cap")
    ('refuse', 'cap')
    """
    fits = padded_to is None or users <= padded_to
    return overflow if fits or not colluders else "refuse"
