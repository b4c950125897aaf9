"""What a guarantee against an observer assumes beyond clipping, noise and sampling.

The sentences are the same in a forecast, in the report of a run and in the audit of its log.
Nothing heavy is imported here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from . import names

COUNTS_UNKNOWN: Final = (
    "N_u, a user's number of records, reaches nobody but silos that hold some of them"
)
"""What every number rests on whose weights are n_su / N_u, in the clear where they are applied."""

PROTOCOL_FOLLOWED: Final = "every silo and the server follow the protocol"
"""What every number of private weighting rests on."""

COUNTS_REMEDY: Final = (
    'weighting = "uniform" needs no N_u, and aggregation = "private-weighting" keeps it from all'
)
MOMENTS_REMEDY: Final = 'weighting = "uniform" needs no N_u'
"""What makes a number rest on less, where it rests on `COUNTS_UNKNOWN`: private moments are summed
under weights in the clear, so private weighting is no choice there."""

HONEST_SERVER: Final = (
    "the server follows the protocol: where so many silos may be missing, one that lies restores "
    "every mask"
)
"""What masked sums rest on, where the server could have two groups of silos believe in two sums."""

_NO_COLLUSION: Final[Mapping[str, str]] = {
    names.PEER: "no peer tells it what it knows, beyond those that are counted",
    names.CLIENT: "neither another client nor who sums tells it what they know",
    names.COORDINATOR: "nobody who takes part tells the coordinator what they know",
    names.SHUFFLER: "the analyzer tells the shuffler no more than what is released",
    names.ANALYZER: "nobody tells the analyzer who sent what",
}
"""What a number before an observer rests on, by whom it is told nothing."""

CODE_OF_OWNER: Final = (
    "the code of the model makes what a unit sends of that unit's records alone, as it did on "
    "random public records before the run"
)
"""What every number rests on where a model of one's own is trained."""

HONEST_SHUFFLER: Final = (
    "the shuffler follows the protocol: it mixes all messages, adds every dummy, and tells nobody "
    "who sent what"
)
SENDERS_SILENT: Final = "no user tells it what it sent, beyond those that are counted"
"""What a number rests on before who sees messages without their senders, or anything made of
them."""

OTHER_SILOS_RECORDS: Final = (
    "hidden is what the other silos hold of the unit, and not that it holds some itself"
)
"""What a number is of, before who holds a part of the unit."""


@dataclass(frozen=True)
class Circumstances:
    """What a number's assumptions depend on: how silos' updates are weighted and summed.

    `aggregation` says what the server sees, `rule` is that of the weights (`none`, `uniform`,
    `records`), and the noise of `dropouts` silos may be missing.  `honest_server`: masks are made
    for a server that follows the protocol.  `moments`: features are normalised by private moments.
    `trials` runs on the same records chose the settings.  `each` are the observers that are counted
    as if every message reached them.  `owners_code`: what is trained is code of the run's owner.
    """

    aggregation: str
    rule: str
    silos: int
    dropouts: int = 0
    honest_server: bool = False
    moments: bool = False
    trials: int = 1
    each: frozenset[str] = frozenset()
    owners_code: bool = False

    @property
    def private(self) -> bool:
        """Whether nobody sees the weights."""
        return self.aggregation == "private-weighting"

    @property
    def clear(self) -> bool:
        """Whether a silo that holds a record of a user learns from its weight how many it has."""
        return self.rule == "records" and not self.private and self.silos > 1


def assumptions_of(observer: str, circumstances: Circumstances) -> tuple[str, ...]:
    """Return what the number before an observer rests on, beyond clip, noise and sample.

    >>> assumptions_of("model", Circumstances("masked", "uniform", 5))
    ()
    >>> assumptions_of("model", Circumstances("private-weighting", "records", 5))
    ('every silo and the server follow the protocol',)
    """
    return (
        *(CODE_OF_OWNER,) * circumstances.owners_code,
        *_of_weights(circumstances),
        *_of_view(observer, circumstances),
        *_of_search(circumstances.trials),
    )


def _of_weights(circumstances: Circumstances) -> tuple[str, ...]:
    if circumstances.private:
        return (PROTOCOL_FOLLOWED,)
    return (COUNTS_UNKNOWN,) if circumstances.clear else ()


def _of_view(observer: str, circumstances: Circumstances) -> tuple[str, ...]:
    """Return what must be true of who sees, and of whom it is told what they know."""
    coalition, part = (
        names.coalition_of(observer),
        (OTHER_SILOS_RECORDS,) * names.holds_part(observer),
    )
    if circumstances.aggregation == "shuffle" and observer not in (
        names.SHUFFLER,
        names.COORDINATOR,
        names.COLLUDING,
    ):
        alone: tuple[str, ...] = () if observer == names.MODEL else (SENDERS_SILENT,)
        return () if coalition is not None else (*part, HONEST_SHUFFLER, *alone)
    every = circumstances.aggregation == "plain" or observer in circumstances.each
    if every and observer in (names.PEER, names.COORDINATOR):
        return ()  # they see every message, which hides by itself or not at all
    if observer in _NO_COLLUSION:
        mixes = observer == names.SHUFFLER and circumstances.aggregation == "shuffle"
        return (_NO_COLLUSION[observer], *(SENDERS_SILENT,) * mixes)
    if circumstances.private or circumstances.silos < 2:
        return part
    # From here on silos send updates that a server sums, in the clear or masked.
    honest = (HONEST_SERVER,) * circumstances.honest_server
    if coalition is not None:
        return (*part, _told_by(coalition.colluders), *_missing(circumstances.dropouts), *honest)
    if observer == names.SERVER and circumstances.aggregation == "masked":
        return ("no silo tells the server what it knows", *honest)
    if observer in (names.SILO, names.SILO_WITH_RECORDS):
        return (*part, "neither the server nor another silo tells it what it knows")
    return ()


def _of_search(trials: int) -> tuple[str, ...]:
    if trials < 2:
        return ()
    return (f"the search for the settings, {trials:,} runs on these records, gave nothing away",)


def remedies(circumstances: Circumstances) -> tuple[str, ...]:
    """Return which settings make the numbers rest on less."""
    if not circumstances.clear:
        return ()
    return (MOMENTS_REMEDY if circumstances.moments else COUNTS_REMEDY,)


def _told_by(colluders: int) -> str:
    if colluders == 1:
        return "no more than 1 silo tells the server what it knows"
    return f"no more than {colluders:,} silos tell the server what they know"


def _missing(dropouts: int) -> tuple[str, ...]:
    if not dropouts:
        return ()
    return (f"the noise of no more than {dropouts:,} of the other silos is missing",)
