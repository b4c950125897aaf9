"""Messages without their senders: the event of a shuffle, built from facts.

The randomizer is that of the noise facts, the number of messages that of the reach, less those who
tell what they sent and those who may be missing, and at most what the protocol lets through.  What
the log concludes (`Shuffle` in an event) is not looked at.  Where mixing is not proven, what each
message reveals by itself holds all the same: who sees them without their senders sees no more.
Several messages of a unit are mixed one by one only where `granularity` says so.

**Coordinates that are sampled and padded.**  How many users send is known from above only, and so
is how many of them collude.  The worst case is the most of both: N users, c colluders, and the
event of N - c users padded to n_p - c, whatever may be missing.

Proof.  Let n <= N users send, of whom c' <= c tell what they sent.  Reveal that: in a dimension
they take a <= c' of the n_p places, as each user has a coordinate once.  Of the n - c' - 1 others
let R be those whose messages are revealed (all, or those told from dummies: see
`amplification/shuffling/double`), a sum of so many independent Bernoulli variables.  What is left
to hide in are D = n_p - a - R places.  Let R* be the same sum over N - c - 1 users.  As
n - c' - 1 <= (N - c - 1) + (c - c'), and each variable is at most 1, R <= R* + (c - c') for a
common draw of both, so D >= n_p - c' - R* - (c - c') = (n_p - c) - R*, the places of the event that
is returned.  A dimension is full without the user where a and the others come to n_p or more; then
in the same draw the others of the event come to n_p - c or more.  So both events that are charged
are within those of the event, and on the rest there are at least as many places, of which more are
a post-processing.  Missing users are smaller n.  Under add-remove a round is given up where all
messages overflow, which is covered by the same comparison; so is a round that is cut, where c
is not 0: a user's message may be kept instead of one that is known
(`overflow_with_colluders`).  Where c leaves no place, colluders may fill a dimension: then the
local event counts, and none under add-remove.

Nothing of this takes another user who does not collude: alone, a unit hides among the dummies of
the places that are left, and by the choice of its coordinates (N - c = 1, R = 0).

A plain shuffle has no dummies, so there fewer users are the worst case.

Who sees which coordinates each unit sends (`index-sets`) has more than the messages: the bound for
a secret choice is no bound then, and that of one dimension is taken for each message.

**Who mixes** them knows all senders, and its dummies.  A shuffler that holds ciphertexts, or is
supposed to read none, and that is said to see sums alone (`sum`, and `dummies` with it) knows
which coordinates each unit sent, and whatever it added itself.  Its number rests on the noise of
the other units who sent the same coordinates:  `accountant.amplification.shuffling.mixer`.  Of how
messages are mixed counts what is stated to reach others, the smallest where other facts say less;
colluders tell it, too.

Where all units send everything and nothing is added, what it knows besides the sums is an order,
which was drawn apart, and ciphertexts: its view is made of what the analyzer sees, and the number
before that holds.

Where anything is not said, or depends on data, it counts as who sees each message.  A statement of
`sum` without `dummies`, and of `nothing`, counts as that as well (`counted_reaches`): then no fact
says that it gets nothing but sums, and it knows whose message each is.
"""

from __future__ import annotations

from dataclasses import replace

from ...accountant import events as ev
from ...accountant.amplification.shuffling.mixer import mixer_event
from ...accountant.mechanisms.shuffled_round import overflow_with_colluders
from ...accountant.records import Reach
from ...accountant.sensitivity.release import repeated
from ...fl.observers.names import ANALYZER
from .believed_reach import believed_reach
from .counted_reaches import RoundCase
from .messages import (
    is_oblivious,
    is_one_each,
    local_event,
    messages_per_unit,
    mixable,
    randomizer_event,
    round_repetitions,
    see_all_messages,
)
from .round_facts import RoundFacts
from .run_setting import NoProof, RunSetting
from .sampling import require_population


def see_shuffled(facts: RoundFacts, setting: RunSetting, reach: Reach, *, hidden: bool) -> ev.Event:
    """Return what all messages of a round reveal without senders; already on their sample.

    `hidden`: the observer does not know the sample.
    """
    users = _messages(facts, setting, reach)
    if facts.weights.rule == "records":
        return see_all_messages(facts, setting, reach)  # a light message is none of the others'
    if reach.dimensions is not None:
        return _coordinates(facts, setting, reach, users)
    apart = reach.granularity == "coordinate" or facts.draws == 1
    inner = mixable(facts, local_event(facts, setting), each_coordinate=False)
    if users < 2 or inner is None or not apart or not is_one_each(facts):
        return see_all_messages(facts, setting, reach)
    shuffle = ev.Shuffle(users, inner)
    return repeated(facts.draws, _on_sample(facts, setting, shuffle, hidden=hidden))


def _messages(facts: RoundFacts, setting: RunSetting, reach: Reach) -> int:
    """Return among how many messages a unit's own surely lies, that one counted."""
    if reach.users is None:
        raise NoProof("the log does not say how many messages are mixed")
    # Amplification grows with the number of messages, so the smallest bound counts, less all who
    # may tell or be missing.
    bounds = [reach.users]
    if setting.security is not None:
        bounds.append(setting.security.fewest)
    there = setting.size(facts.contribution.unit)
    if there is not None:
        bounds.append(there)
    if facts.noise.shares > 1:
        bounds.append(facts.shares)
    drawn = facts.sampling
    if drawn.method == "fixed-size" and drawn.batch:
        bounds.append(drawn.batch)  # of which all who tell may be
    return max(min(bounds) - reach.colluders - reach.dropouts, 0)


def _coordinates(facts: RoundFacts, setting: RunSetting, reach: Reach, users: int) -> ev.Event:
    """Return the event of users who send some coordinates, each mixed with its own kind."""
    dimensions, chosen = reach.dimensions or 0, messages_per_unit(facts)
    # Of padded coordinates dummies hide who is left alone; else it takes another user.
    fewest = 2 if reach.padded_to is None else 1
    by_itself = facts.sampling.method != "none" or users < fewest or chosen > dimensions
    if by_itself or reach.granularity != "coordinate":
        return see_all_messages(facts, setting, reach)  # users who join by chance: no bound known
    # Every user is in every dimension: `dimensions` plain shuffles of one message each.
    if reach.padded_to is None and chosen == dimensions:
        inner = mixable(facts, local_event(facts, setting), each_coordinate=True)
        assert inner is not None
        return repeated(dimensions * round_repetitions(facts), ev.Shuffle(users, inner))
    if reach.padded_to is None or reach.overflow is None or reach.selection is None:
        raise NoProof("the log does not say to how many messages a dimension is padded")
    left = reach.padded_to - reach.colluders
    # Colluders may fill every place of a dimension, so the unit's message stands alone.
    if left < 1:
        return see_all_messages(facts, setting, reach)  # colluders fill every place
    if "index-sets" in reach.also:
        return _known_sets(facts, setting, reach, left)
    # Dummies stand in for who is absent, so only the value is hidden.
    inner = mixable(facts, randomizer_event(facts, setting), each_coordinate=True)
    assert inner is not None
    selection = reach.selection if is_oblivious(facts) else "data-dependent"
    # The most users and the most colluders are the worst case of a padded dimension: see the
    # module.
    senders = _senders(facts, setting, reach)
    round_ = ev.SampledShuffle(
        *(senders, dimensions, chosen, left),
        "coordinate",
        selection,
        overflow_with_colluders(reach.colluders, senders, left, reach.overflow),
        inner,
    )
    return repeated(round_repetitions(facts), round_)


def _known_sets(facts: RoundFacts, setting: RunSetting, reach: Reach, left: int) -> ev.Event:
    """Return the event of coordinates that were chosen whatever the data, before who sees the sets.

    Nothing is gained from the choice: each message hides in its own dimension, among `left` places
    at least, of other users or dummies, and whether a dimension overflows depends on the sets.
    """
    inner = mixable(facts, local_event(facts, setting), each_coordinate=True)
    assert inner is not None
    if left < 2:
        return see_all_messages(facts, setting, reach)
    return repeated(messages_per_unit(facts) * round_repetitions(facts), ev.Shuffle(left, inner))


def _senders(facts: RoundFacts, setting: RunSetting, reach: Reach) -> int:
    """Return how many users may send who do not collude, at most; see the module."""
    known = [reach.users or 0]
    if setting.security is not None:
        known.append(setting.security.parties)
    else:
        known.append(setting.size(facts.contribution.unit) or 0)
    return max(max(known) - reach.colluders, 1)


def _on_sample(
    facts: RoundFacts, setting: RunSetting, event: ev.Shuffle, *, hidden: bool
) -> ev.Event:
    """Return a shuffle of those who were drawn; without one where their number is not known."""
    drawn = facts.sampling
    require_population(facts, setting)
    if drawn.method == "none" or (drawn.method == "poisson" and facts.rate == 1.0):
        return event
    # Poisson sampling before a shuffle of those drawn: amplified only where the draw is secret.
    if drawn.method == "poisson" and hidden:
        return ev.Poisson(facts.rate, event)
    apart = drawn.of != facts.contribution.unit and setting.security is None
    if apart:
        return event.event  # of so many others, nobody knows how many messages
    # A batch of fixed size is a subset of all; the shuffle is of exactly its messages.
    if drawn.method == "fixed-size" and drawn.batch and drawn.population:
        if hidden and event.users == drawn.batch < drawn.population:
            return ev.FixedSize(drawn.batch, drawn.population, event)
        return event
    security = setting.security
    if drawn.method == "poisson" and security is not None:
        # At least `fewest` of those who were drawn send, if so many are drawn: rounds went on.
        return event if security.fewest <= facts.rate * security.parties else event.event
    return event.event


def see_as_mixer(case: RoundCase, reach: Reach) -> ev.Event:
    """Return what the sums of a round reveal to who mixed it, or each message."""
    facts, setting = case.facts, case.setting
    event = None if _is_doubted(case) else _from_sums(facts, setting, reach)
    return see_all_messages(facts, setting, reach) if event is None else event


def _is_doubted(case: RoundCase) -> bool:
    """Return whether what is stated of the mixed messages is contradicted, or not stated here."""
    seen = believed_reach(*case.stated, ANALYZER)
    return seen is None or bool(seen.contradicted) or seen.missing


def _from_sums(facts: RoundFacts, setting: RunSetting, reach: Reach) -> ev.Event | None:
    """Return the event of the sums; None where the facts do not say enough."""
    stated = [other for _, other in facts.reaches or ()]
    mixed = [other for other in stated if other.sees == "shuffled"]
    security, there = setting.security, setting.size(facts.contribution.unit)
    if setting.aggregation != "shuffle" or setting.neighbours != "replace-one":
        return None
    if security is None or there is None or not mixed or not facts.messages:
        return None
    apart = facts.sampling.method != "none" or facts.weights.rule != "none" or setting.group > 1
    if apart or any(other.granularity != "coordinate" for other in mixed):
        return None
    # Who tells what it sent tells the shuffler, too, whatever is stated of it.
    told = max(reach.colluders, security.colluders)
    users = min(security.fewest, there, *(other.users or 0 for other in mixed))
    known = replace(reach, colluders=told)
    if all(other.chosen is None and other.padded_to is None for other in stated):
        if facts.width not in (None, facts.noise.draws):
            return None
        everybody = replace(mixed[0], users=users, colluders=told, dropouts=reach.dropouts)
        return see_shuffled(facts, setting, everybody, hidden=False)
    return _of_coordinates(facts, setting, known, users, mixed)


def _of_coordinates(
    facts: RoundFacts, setting: RunSetting, reach: Reach, users: int, mixed: list[Reach]
) -> ev.Event | None:
    """Return the event of coordinates that were chosen whatever the data are."""
    said = (*mixed, reach) if reach.dimensions is not None else mixed
    sizes = {(other.dimensions, other.chosen) for other in said}
    (dimensions, chosen), *others = sizes
    if others or dimensions is None or chosen is None or not 1 <= chosen <= dimensions:
        return None
    # As many values as coordinates, and as many draws as messages of a unit.
    if facts.width not in (None, dimensions) or facts.noise.draws != chosen:
        return None
    selections = {other.selection for other in mixed}
    if selections != {"oblivious"} or not is_oblivious(facts):
        return None
    if facts.noise.family != "laplace" or messages_per_unit(facts) != chosen:
        return None
    left = users - reach.colluders - reach.dropouts
    padded_to = min(other.padded_to or 0 for other in mixed) - reach.colluders
    round_ = mixer_event(
        randomizer_event(facts, setting),
        users=left,
        dimensions=dimensions,
        chosen=chosen,
        padded_to=padded_to,
        coarseness=facts.noise.grid / facts.contribution.bound,
    )
    return None if round_ is None else repeated(round_repetitions(facts), round_)
