"""Who sees something of a run, for which unit their numbers are, and what these rest on.

**For which unit.**  The number before most observers is for the unit that the model's is for: data
that differ in one unit, wherever it lies.  Their views hold what is released, or determine it, so
their numbers are never below the model's; where the formulas for them give less, the model's
counts.

The number before who takes part, and takes off what it added itself, is for data that differ in
what lies *elsewhere*: it knows what lies with itself.  Of a user whose weights are spread evenly
over S silos at most (S-1)/S lie elsewhere, and (S-1)/S of the noise is left when it takes its share
off.  So such a number may be below the model's, by sqrt((S-1)/S): the model's is for more pairs of
data.  It is no less sound: the view that it is derived for is the sum without one's own part, which
is the release and what one knows, and so holds the release already.  The same is true of
coalitions, which know what the silos among them added.

That is so for `sum-less-own`, and for colluders, of terms that are summed.  A message is a whole
unit's, and a client that knows its own is told nothing less of another's.

A shuffler that sees sums alone sees the model, too, and its number is derived for all of that by
another argument than the analyzer's, with the noise of all messages that are summed.  Where few
dummies are added it may be the smaller one.  Then the model's is not as small as it could be.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ...accountant.records import Reach
from ...fl.declarations.own_code import is_own
from ...fl.observers import names
from ...fl.observers.assumptions import Circumstances
from ...fl.observers.reaches import is_mixer_of_sums
from ..derivation.believed_reach import believed_reach
from ..derivation.protocol_consistency import contradictions
from ..derivation.round_facts import noise_is_removed
from ..ledger.phases import NORMALISING, configured_value
from .observed_rounds import Rounds
from .round_kinds import RoundKind

_OBSERVERS_BY_AGGREGATION: Final[Mapping[str, tuple[str, ...]]] = {
    "shares": (names.PEER,),
    "shuffle": (names.ANALYZER, names.SHUFFLER),
}
"""Who sees something of a run without a server, or whose messages are mixed, besides the model."""


def observers_of(rounds: Rounds) -> tuple[str, ...]:
    """Return who sees something of a run: by its structure, and whoever the log names."""
    opened, closed = rounds.ledger.opened, rounds.ledger.closed
    observers = [names.MODEL]
    # Several shares of noise were added by several parties, whatever the log calls them.
    shared = any(kind.facts.noise.shares >= 2 for kind in rounds.kinds)  # by whom, if not silos?
    observers += _OBSERVERS_BY_AGGREGATION.get(rounds.setting.aggregation, ())
    if _has_server(rounds) and (rounds.setting.silos >= 2 or shared):
        observers += _summing(rounds)
        # A record lies in one silo, as a silo does: nobody else holds a part of it.
        in_parts = rounds.setting.unit == "user" or rounds.setting.group > 1
        if in_parts and any(_differs(rounds, kind) for kind in rounds.kinds):
            observers.append(names.SILO_WITH_RECORDS)
        observers += _coalitions(rounds)
    observers += [opened.claim.observer, *opened.plan.events]
    observers += [name for kind in rounds.kinds for name in kind.stated]
    observers += [name for kind in rounds.kinds for name, _ in kind.facts.reaches or ()]
    observers += [] if closed is None else [*closed.epsilon, *closed.events]
    return tuple(dict.fromkeys(observers))


def _summing(rounds: Rounds) -> tuple[str, ...]:
    """Return who sums, and who takes part: among peers a coordinator stands where a server would.

    Peers see what silos do and more, so their rows leave nothing out (`fl.observers.reaches`).
    """
    announced = {rounds.ledger.opened.claim.observer, *rounds.ledger.opened.plan.events}
    among_peers = announced >= {names.PEER, names.COORDINATOR}
    summed = rounds.setting.aggregation in ("plain", "masked")
    if among_peers and (summed or _see_every_message(rounds, names.COORDINATOR, names.PEER)):
        return (names.COORDINATOR, names.PEER)
    return (names.SERVER, names.SILO)


def _see_every_message(rounds: Rounds, *observers: str) -> bool:
    """Return whether each of these counts as seeing every message, of every kind of round."""
    known = (
        believed_reach(kind.facts, rounds.setting, name)
        for kind in rounds.kinds
        for name in observers
    )
    return all(
        seen is not None and any(reach.sees == "each" for reach in seen.reaches) for seen in known
    )


def _has_server(rounds: Rounds) -> bool:
    """Return whether a server may see silos' updates: no other protocol is shown to sum them."""
    if rounds.setting.aggregation not in _OBSERVERS_BY_AGGREGATION:
        return True
    return any(
        contradictions(kind.facts, rounds.setting) and not kind.facts.messages
        for kind in rounds.kinds
    )


def _coalitions(rounds: Rounds) -> list[str]:
    """Return the coalitions that the protocol is stated for; private weighting admits none."""
    security = rounds.setting.security
    if security is None or security.protocol not in ("pairwise-masks", "private-weighting"):
        return []
    colluders = 1 if security.protocol == "private-weighting" else security.colluders
    return [names.Coalition(colluders, holds).name for holds in (False, True)] if colluders else []


def _differs(rounds: Rounds, kind: RoundKind) -> bool:
    return (
        rounds.seen(kind, names.SILO).supported
        != rounds.seen(kind, names.SILO_WITH_RECORDS).supported
    )


def sees_released(rounds: Rounds, observer: str) -> bool:
    """Return whether an observer's number is for the same unit as the model's, and so not below it.

    A server's always was.  Others' is where the log states what reaches them, and what is counted
    of that is not only about what lies elsewhere, nor of who mixes; see the module.
    """
    if observer in (names.MODEL, names.SERVER):
        return observer == names.SERVER
    for kind in rounds.kinds:
        if kind.facts.reach_to(observer) is None and observer not in kind.facts.missing:
            continue
        known = believed_reach(kind.facts, rounds.setting, observer)
        if known is None or any(not _is_apart(kind, observer, reach) for reach in known.reaches):
            return True
    return False


def _is_apart(kind: RoundKind, observer: str, reach: Reach) -> bool:
    """Return whether the number of a reach may be below the model's; see the module.

    It is about what lies with others than the observer, or derived by another argument.
    """
    if is_mixer_of_sums(observer, reach):
        return True
    # See the module: only sums that one's own term was taken off are about others' data.
    if kind.facts.messages or reach.sees not in ("sum", "each", "sum-less-own"):
        return False
    return reach.sees == "sum-less-own" or reach.colluders > 0


def circumstances_of(rounds: Rounds) -> Circumstances:
    """Return what the numbers' assumptions depend on, as the log states it."""
    kinds = [kind.facts for kind in rounds.kinds]
    named = {name for facts in kinds for name, _ in facts.reaches or ()}
    each = (
        name
        for name in named
        if all((reach := facts.reach_to(name)) and reach.sees == "each" for facts in kinds)
    )
    records = any(facts.weights.rule == "records" for facts in kinds)
    return Circumstances(
        rounds.setting.aggregation,
        "records" if records else "uniform",
        rounds.setting.silos,
        dropouts_of(rounds),
        honest_server=_trusts_server(rounds),
        moments=any(spent.intent.phase == NORMALISING for spent in rounds.ledger.spent),
        each=frozenset(each),
        owners_code=is_own(configured_value(rounds.ledger, "training", "model")),
    )


def _trusts_server(rounds: Rounds) -> bool:
    """Return whether masks are made for a server that follows the protocol, as silos may miss."""
    security = rounds.setting.security
    if security is None or security.protocol != "pairwise-masks":
        return False
    # Where noise is taken off, every silo is there, and what is supposed of the server is said by
    # the reaches: it could leave no noise.
    removed = any(noise_is_removed(kind.facts, rounds.setting) for kind in rounds.kinds)
    all_there = security.fewest == security.parties
    return security.server == "honest-but-curious" and not (removed and all_there)


def dropouts_of(rounds: Rounds) -> int:
    """Return how many silos' noise may be missing from a round."""
    return max((kind.facts.noise.tolerated_dropouts for kind in rounds.kinds), default=0)


def assumed(rounds: Rounds, observer: str) -> tuple[str, ...]:
    """Return what is supposed of what reaches an observer, as no protocol can carry it."""
    seen = [believed_reach(kind.facts, rounds.setting, observer) for kind in rounds.kinds]
    reaches_seen = list(seen)
    for kind, reached in zip(rounds.kinds, seen, strict=True):
        if reached is not None and any(reach.sees == "nothing" for reach in reached.reaches):
            # What they see is what is released, and what that rests on.
            reaches_seen.append(believed_reach(kind.facts, rounds.setting, names.MODEL))
    return tuple(
        dict.fromkeys(
            text for reached in reaches_seen if reached is not None for text in reached.assumed
        )
    )
