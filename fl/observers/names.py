"""Observers by their names, and what a number before one of them rests on.

    model                  whoever sees the released models
    server                 the server
    silo                   a silo that holds nothing of the unit
    silo-with-records      a silo that holds some of it
    server+c               the server and c silos that tell it all they know, and hold nothing of
                           the unit
    server+c-with-records  likewise, where one of the silos holds some of it
    peer                   one of those who sum among themselves, without a server
    client                 one of those who send something and get the released models
    coordinator            who passes messages on and decides who takes part, and sums nothing
    shuffler               who takes the senders off messages
    analyzer               who gets the messages without their senders

Nothing heavy is imported here: a run, an audit and the command line say the same words.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ...accountant.errors import InvalidInput

MODEL: Final = "model"
SERVER: Final = "server"
SILO: Final = "silo"
SILO_WITH_RECORDS: Final = "silo-with-records"
PEER: Final = "peer"
CLIENT: Final = "client"
COORDINATOR: Final = "coordinator"
SHUFFLER: Final = "shuffler"
ANALYZER: Final = "analyzer"

NAMED: Final = (MODEL, SERVER, SILO)
"""Those whose numbers a verdict is about, where a configuration names no others."""

AMONG_PEERS: Final = (MODEL, PEER)
"""Likewise, where silos are peers and there is no server; nobody else sees anything there."""

WORDS: Final = (
    *(MODEL, SERVER, SILO, SILO_WITH_RECORDS),
    *(PEER, CLIENT, COORDINATOR, SHUFFLER, ANALYZER),
)

if TYPE_CHECKING:
    from ..settings.schema import Settings

_COALITION: Final = re.compile(r"server\+([1-9][0-9]{0,4})(-with-records)?")

_EXAMPLE: Final = (
    "Known: model, server, silo, silo-with-records, and server+2 for the server with two silos."
)

COUNTS_UNKNOWN: Final = (
    "N_u, a user's number of records, reaches nobody but silos that hold some of them"
)
"""What every number rests on whose weights are n_su / N_u, in the clear where they are applied."""

FOLLOWED: Final = "every silo and the server follow the protocol"
"""What every number of private weighting rests on."""

COUNTS_RELIEF: Final = (
    'weighting = "uniform" needs no N_u, and aggregation = "private-weighting" keeps it from all'
)
MOMENTS_RELIEF: Final = 'weighting = "uniform" needs no N_u'
"""What makes a number rest on less, where it rests on `COUNTS_UNKNOWN`: private moments are summed
under weights in the clear, so private weighting is no choice there."""

HONEST_SERVER: Final = (
    "the server follows the protocol: where so many silos may be missing, one that lies restores "
    "every mask"
)
"""What masked sums rest on, where the server could have two groups of silos believe in two sums."""

_TOLD_NOTHING: Final[Mapping[str, str]] = {
    PEER: "no peer tells it what it knows, beyond those that are counted",
    CLIENT: "neither another client nor who sums tells it what they know",
    COORDINATOR: "nobody who takes part tells the coordinator what they know",
    SHUFFLER: "the analyzer tells the shuffler no more than what is released",
    ANALYZER: "nobody tells the analyzer who sent what",
}
"""What a number before an observer rests on, by whom it is told nothing."""

MIXED: Final = (
    "the shuffler follows the protocol: it mixes all messages, adds every dummy, and tells nobody "
    "who sent what"
)
SENT_ALONE: Final = "no user tells it what it sent, beyond those that are counted"
"""What a number rests on before who sees messages without their senders, or anything made of
them."""

OTHERS_PART: Final = (
    "hidden is what the other silos hold of the unit, and not that it holds some itself"
)
"""What a number is of, before who holds a part of the unit."""


@dataclass(frozen=True)
class Coalition:
    """The server and `colluders` silos, of which one `holds` a part of the unit, or none does."""

    colluders: int
    holds: bool = False

    @property
    def name(self) -> str:
        """Its name in configurations, plans and logs."""
        return f"{SERVER}+{self.colluders}{'-with-records' * self.holds}"


@dataclass(frozen=True)
class Circumstances:
    """What a number's assumptions depend on: how silos' updates are weighted and summed.

    `aggregation` says what the server sees, `rule` is that of the weights (`none`, `uniform`,
    `records`), and the noise of `dropouts` silos may be missing.  `honest_server`: masks are made
    for a server that follows the protocol.  `moments`: features are normalised by private moments.
    `trials` runs on the same records chose the settings.
    """

    aggregation: str
    rule: str
    silos: int
    dropouts: int = 0
    honest_server: bool = False
    moments: bool = False
    trials: int = 1

    @property
    def private(self) -> bool:
        """Whether nobody sees the weights."""
        return self.aggregation == "private-weighting"

    @property
    def clear(self) -> bool:
        """Whether a silo that holds a record of a user learns from its weight how many it has."""
        return self.rule == "records" and not self.private and self.silos > 1


def coalition_of(observer: str) -> Coalition | None:
    """Return the coalition that a name stands for; None for another observer."""
    found = _COALITION.fullmatch(observer)
    return None if found is None else Coalition(int(found[1]), found[2] is not None)


def coalitions_in(observers: Iterable[str]) -> tuple[int, ...]:
    """Return how many colluders the coalitions among some observers have, each number once."""
    found = {one.colluders for name in observers if (one := coalition_of(name)) is not None}
    return tuple(sorted(found))


def rests_on(observer: str, own: Circumstances) -> tuple[str, ...]:
    """Return what the number before an observer rests on, beyond clip, noise and sample.

    >>> rests_on("model", Circumstances("masked", "uniform", 5))
    ()
    >>> rests_on("model", Circumstances("private-weighting", "records", 5))
    ('every silo and the server follow the protocol',)
    """
    return (*_of_weights(own), *_of_view(observer, own), *_of_search(own.trials))


def _of_weights(circumstances: Circumstances) -> tuple[str, ...]:
    if circumstances.private:
        return (FOLLOWED,)
    return (COUNTS_UNKNOWN,) if circumstances.clear else ()


def _of_view(observer: str, circumstances: Circumstances) -> tuple[str, ...]:
    """Return what must be true of who sees, and of whom it is told what they know."""
    coalition, part = coalition_of(observer), (OTHERS_PART,) * holds_part(observer)
    if circumstances.aggregation == "shuffle" and observer not in (SHUFFLER, COORDINATOR):
        alone = () if observer == MODEL else (SENT_ALONE,)
        return () if coalition is not None else (*part, MIXED, *alone)
    if observer in _TOLD_NOTHING:
        return (_TOLD_NOTHING[observer],)
    if circumstances.private or circumstances.silos < 2:
        return part
    honest = (HONEST_SERVER,) * circumstances.honest_server
    if coalition is not None:
        return (*part, _told_by(coalition.colluders), *_missing(circumstances.dropouts), *honest)
    if observer == SERVER and circumstances.aggregation == "masked":
        return ("no silo tells the server what it knows", *honest)
    if observer in (SILO, SILO_WITH_RECORDS):
        return (*part, "neither the server nor another silo tells it what it knows")
    return ()


def _of_search(trials: int) -> tuple[str, ...]:
    if trials < 2:
        return ()
    return (f"the search for the settings, {trials:,} runs on these records, gave nothing away",)


def circumstances_of(settings: Settings, silos: int) -> Circumstances:
    """Return the circumstances of a run of so many silos under these settings."""
    own = settings.security
    masked = own.aggregation == "masked"
    return Circumstances(
        own.aggregation,
        settings.training.weighting,
        silos,
        own.dropouts,
        honest_server=masked and silos <= 2 * own.dropouts + own.colluders,
        moments=settings.data.normalisation == "private",
        trials=settings.run.trials,
    )


def unit_before(observer: str, unit: str) -> str:
    """Return what a promise before an observer is about, to stand after "one".

    >>> unit_before("model", "user"), unit_before("silo-with-records", "user")
    ('user (all records in all silos)', "user's records in the other silos")
    """
    if holds_part(observer):
        return f"{unit}'s records in the other silos"
    if unit != "user":
        return unit
    apart = observer == SILO or coalition_of(observer) is not None
    return f"{unit} (all records in {'other' if apart else 'all'} silos)"


def holds_part(observer: str) -> bool:
    """Return whether an observer holds a part of the unit, and knows that it is there."""
    coalition = coalition_of(observer)
    return observer == SILO_WITH_RECORDS or (coalition is not None and coalition.holds)


def relieved_by(own: Circumstances) -> tuple[str, ...]:
    """Return which settings make the numbers rest on less."""
    if not own.clear:
        return ()
    return (MOMENTS_RELIEF if own.moments else COUNTS_RELIEF,)


def row_of(observer: str, dropouts: int) -> dict[str, object]:
    """Return the fields that name an observer in a row of JSON.

    >>> row_of("server+2", 1)
    {'observer': 'server', 'colluders': 2, 'dropouts': 1, 'holds': False}
    """
    found = coalition_of(observer)
    if found is None:
        return {"observer": observer}
    return {
        "observer": SERVER,
        "colluders": found.colluders,
        "dropouts": dropouts,
        "holds": found.holds,
    }


def phrase(observer: str, dropouts: int = 0, *, whatever: bool = False) -> str:
    """Return an observer in words (`observer_words`), coalitions too.

    `whatever`: a coalition, whether or not one of its silos holds a part of the unit.

    >>> phrase("server+2", 1)
    'the server with 2 silos that hold nothing of the unit, and 1 of the others missing'
    """
    from .words import who  # no help page needs it

    found = coalition_of(observer)
    if found is None:
        return who(observer)
    plural = found.colluders > 1
    silos = f"{found.colluders:,} silos that hold" if plural else "a silo that holds"
    part = "some" if found.holds else "nothing"
    held = f"{silos} {part} of the unit"
    if whatever:
        held = f"{silos.rsplit(' that ', 1)[0]}, whatever {'they hold' if plural else 'it holds'}"
    lost = f", and {dropouts:,} of the others missing" if dropouts else ""
    return f"the server with {held}{lost}"


def observer_name(**field: object) -> str:
    """Return the name of an observer; raise `InvalidInput`, with the nearest one, for no name."""
    ((key, value),) = field.items()
    if isinstance(value, str) and (value in WORDS or coalition_of(value) is not None):
        return value
    close = difflib.get_close_matches(str(value).lower()[:60], (*WORDS, "server+2"), n=1)
    raise InvalidInput(
        f"`{key}` must name an observer; it is {value!r:.60}.",
        "A number is for somebody, who sees some things and not others.",
        f'Did you mean "{close[0]}"?' if close else _EXAMPLE,
    )


def observer_names(**field: object) -> tuple[str, ...]:
    """Return the names of one observer or more, each once; raise `InvalidInput` otherwise."""
    ((key, value),) = field.items()
    if not isinstance(value, (list, tuple)) or not value:
        raise InvalidInput(
            f"`{key}` must be a list of one observer or more; it is {value!r:.60}.",
            "The verdict on a run names the worst of them.",
            f'Write {key} = ["model", "server", "silo"].',
        )
    names = tuple(observer_name(**{key: one}) for one in value)
    if len(set(names)) < len(names):
        raise InvalidInput(
            f"`{key}` names an observer twice: {', '.join(names)[:60]}.",
            "Each has one number.",
            "Name each of them once.",
        )
    return names


def _told_by(colluders: int) -> str:
    if colluders == 1:
        return "no more than 1 silo tells the server what it knows"
    return f"no more than {colluders:,} silos tell the server what they know"


def _missing(dropouts: int) -> tuple[str, ...]:
    if not dropouts:
        return ()
    return (f"the noise of no more than {dropouts:,} of the other silos is missing",)
