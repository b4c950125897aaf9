"""What the facts of one round support, for each observer: an event, whatever the log states.

C is the contribution bound of one unit in one term: under the relation of the promise a term moves
by C (by 2C under replace-one).  A term that is a unit's own clipped vector goes with the unit, so C
is the clip; a silo's whole update, or a part of what is clipped together, moves across the ball, so
C is twice the clip under add-remove and zero-out.  W is the largest sum of a unit's weights, S the
number of silos, k the noise shares that can be relied on, s the deviation of one share:

    model             W C / (s sqrt k)
    server            sees each silo's update: W C / s, or C / (s sqrt S) with weights 1/S
    silo              subtracts its share: W C / (s sqrt(k-1)), or C (S-1)/S / (s sqrt(k-1))
    server+c          subtracts c shares: W C / (s sqrt(k-c)), or C (S-c)/S / (s sqrt(k-c));
                      sees each of the other updates: W C / s, or C sqrt(S-c) / (S s)

for the shift in standard deviations; the formulas of all but the first are those of
`accountant/sensitivity/uldp.py`. Whoever holds a part of a unit that is weighted by its records, in
the clear, knows how many records it has in all, so nothing is supported there.  A server that sees
the sum alone, by a protocol whose facts fit (`protocol`), sees what the model shows.  A unit draws
on a sample only against who does not know it (`samples`), and only where the units of the sample
are those that are clipped.  What nothing here covers supports no guarantee.

Where a promised unit is k records, its records in other silos are at most k, whatever a silo holds
of the unit itself, so the event for k of them covers `silo-with-records` as it covers `silo`: if
which of its records take part says nothing of the others.  Flags that each silo makes of its own
records alone, under public caps, are a function of these records (`chosen_by`).  Flags drawn from
all records of a user are not: whether a silo's single record is flagged depends, without noise, on
how many lie elsewhere, and then nothing is proven before a silo that holds some.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Final

from ...accountant import events as ev
from ...accountant.errors import PrivplanError
from ...accountant.sensitivity import uldp
from ...accountant.sensitivity.release import down, repeated, root_down, up
from ...fl.observers import Coalition, coalition_of
from .facts import (
    LEAST_STEPS,
    MODEL,
    SERVER,
    SILO,
    SILO_WITH_RECORDS,
    SMOOTHING,
    SUMS,
    Facts,
    Setting,
    Unproven,
    is_alone,
    share_of,
    share_variance,
)
from .protocol import is_private, require_strong_key, settled
from .samples import on_sample

_LOCAL: Final[Mapping[str, tuple[type[ev.Event], ...]]] = {
    "randomized-response": (ev.RandomizedResponse, ev.Local, ev.Pure),
    "exponential": (ev.Exponential, ev.Local, ev.Pure),
}
"""Families without common noise: their epsilon stands in the event, which is taken as a fact."""


def supported(facts: Facts, setting: Setting, observer: str, *, sampled: bool = True) -> ev.Event:
    """Return the event of one round that the facts support before an observer.

    `NoGuarantee`, with the reason, where they support none.  The event is valid for the relation
    of the promise, and for one record where the promise is for a group of them.  Without `sampled`
    no sample hides anybody, whatever the facts say of one.
    """
    try:
        facts, setting = settled(facts, setting)
        if facts.voids:
            raise Unproven("; ".join(facts.voids))
        scope = setting.scope(facts.contribution.unit)
        base = _base(facts, setting, observer)
        hides = sampled and scope != "finer"
        event = on_sample(base, facts, setting, observer, amplifies=hides)
        return repeated(facts.draws, event)
    except Unproven as error:
        return ev.NoGuarantee(str(error))
    except PrivplanError as error:
        return ev.NoGuarantee(error.what)


# --- one noisy sum ------------------------------------------------------------------------------


def _base(facts: Facts, setting: Setting, observer: str) -> ev.Event:
    """Return the event of one noisy sum, without its sample."""
    if facts.noise.family not in SUMS:
        return _local(facts)
    if facts.shares < 1:
        raise Unproven("no share of the noise can be relied on")
    coalition = coalition_of(observer)
    if coalition is not None:
        return _seen_by_coalition(facts, setting, coalition)
    view = _VIEWS.get(observer)
    if view is None:
        raise Unproven(f"the log has no facts about what {observer!r} sees")
    return view(facts, setting)


def _local(facts: Facts) -> ev.Event:
    """Return the stated event of a local randomizer, without what stands around it.

    Nothing in the facts shows a shuffler, and whoever sees the messages sees who sent which.
    """
    event = facts.event
    while (inner := getattr(event, "event", None)) is not None:
        event = inner
    if not isinstance(event, _LOCAL[facts.noise.family]):
        raise Unproven(f"`{event.type}` is not an event of {facts.noise.family} noise")
    return event


def _seen_as_sum(facts: Facts, setting: Setting) -> ev.Event:
    """Return what the sum of all terms and all shares reveals."""
    terms = Fraction(1)
    if facts.contribution.terms == "silo-delta":
        terms = Fraction(max(setting.silos, facts.noise.shares, 1))
    return _noisy(facts, setting, _bound(facts, setting) * _weight(facts, setting) * terms)


def _seen_by_server(facts: Facts, setting: Setting) -> ev.Event:
    """Return what the updates of all silos reveal, each with its own share of the noise."""
    if is_alone(facts, setting):
        return _seen_as_sum(facts, setting)
    if setting.aggregation != "plain":
        return _seen_as_sum(facts, setting)  # the protocol's facts fit, so each silo adds a share
    silos = _shared_by_silos(facts, setting)
    if facts.contribution.terms == "silo-delta":
        return _naive(facts, setting, silos, silos)
    if facts.noise.family != "gaussian":
        return _seen_as_sum(facts, setting)  # counts a single share, as each update has
    # Weights w move the updates by sqrt(sum w^2) C: 1/sqrt(S) if uniform, at most the sum of w.
    square = share_variance(facts.noise) / _bound_apart(facts, setting) ** 2
    return ev.Gaussian(root_down(square * (silos if _is_uniform(facts) else 1)))


def _seen_by_silo(facts: Facts, setting: Setting, *, holds: bool) -> ev.Event:
    """Return what the sum reveals to a silo that subtracts what it added itself."""
    if setting.silos < 2:
        raise Unproven("a single silo holds all data itself")
    if holds:
        _require_chosen_apart(facts, setting)
    if is_alone(facts, setting):
        return _seen_as_sum(facts, setting)
    require_strong_key(setting)
    _require_unknown_counts(facts, setting, holds=holds)
    silos = _shared_by_silos(facts, setting)
    if facts.shares < 2:
        raise Unproven("a silo that subtracts its share is left with no noise")
    if facts.contribution.terms == "silo-delta":
        # Dropouts take away noise, as if more of the deviation were missing.
        return _naive(facts, setting, silos, silos - 1, Fraction(facts.shares - 1, silos - 1))
    if facts.noise.family != "gaussian":
        doubled = 2 if holds and setting.neighbours != "replace-one" else 1
        return _noisy(facts, setting, _bound(facts, setting) * _weight(facts, setting) * doubled)
    square = share_variance(facts.noise) / _bound_apart(facts, setting) ** 2
    square *= silos * Fraction(facts.shares - 1, silos - 1)
    return uldp.insider_release(
        root_down(square),
        rounds=1,
        silos=silos,
        weighting="uniform" if _is_uniform(facts) else "records",
        holds_user=holds,
        hidden_weights=True,  # or weights that tell no counts: see above
        neighbours=setting.neighbours,
    ).event


def _seen_by_coalition(facts: Facts, setting: Setting, one: Coalition) -> ev.Event:
    """Return what is revealed to the server and silos that tell it all they know.

    Masks hide the other silos' updates from as many colluders as they are made for.
    """
    if setting.silos <= one.colluders:
        raise Unproven("a coalition of all silos holds all data itself")
    if is_private(setting):
        raise Unproven(uldp.PRIVATE_COALITION.reason)
    if is_alone(facts, setting):
        return (
            _seen_by_silo(facts, setting, holds=True) if one.holds else _seen_as_sum(facts, setting)
        )
    _require_unknown_counts(facts, setting, holds=one.holds)
    silos, own = _shared_by_silos(facts, setting), setting.security
    others, left = silos - one.colluders, facts.shares - one.colluders
    if left < 1:
        raise Unproven("who subtracts the shares of colluding silos is left with no noise")
    borne = 0 if own is None else own.colluders
    together = setting.aggregation == "masked" and one.colluders <= borne
    shares_left = Fraction(left, others) if together else Fraction(1)
    if facts.contribution.terms == "silo-delta":
        return _naive(facts, setting, silos, others, shares_left)
    if facts.noise.family != "gaussian":
        return _seen_as_sum(facts, setting)  # counts a single share
    square = share_variance(facts.noise) / _bound_apart(facts, setting) ** 2
    return uldp.coalition_release(
        root_down(square * silos * shares_left),
        rounds=1,
        silos=silos,
        colluders=one.colluders,
        weighting="uniform" if _is_uniform(facts) else "records",
        holds_user=False,  # counts are told above, and uniform weights leave the same
        neighbours=setting.neighbours,
        together=together,
    ).event


def _require_unknown_counts(facts: Facts, setting: Setting, *, holds: bool) -> None:
    """Raise `Unproven` where who holds a part of a unit learns from its weight what else there is.

    Where the unit is a part of what is weighted together, such as one record of a user, who holds
    nothing of it may still hold others of the same user.
    """
    in_the_clear = facts.weights.rule == "records" and setting.aggregation != "private-weighting"
    if in_the_clear and (holds or setting.scope(facts.contribution.unit) == "finer"):
        raise Unproven(uldp.CLEAR_WEIGHTS.reason)


def _require_chosen_apart(facts: Facts, setting: Setting) -> None:
    """Raise `Unproven` where a silo's records may be chosen by what others hold of the unit."""
    of_many = setting.scope(facts.contribution.unit) == "group"
    if of_many and facts.sampling.chosen_by != "each-silo":
        raise Unproven(
            "which records take part may tell a silo that holds some how many lie elsewhere"
        )


_VIEWS: Final[Mapping[str, Callable[[Facts, Setting], ev.Event]]] = {
    MODEL: _seen_as_sum,
    SERVER: _seen_by_server,
    SILO: lambda facts, setting: _seen_by_silo(facts, setting, holds=False),
    SILO_WITH_RECORDS: lambda facts, setting: _seen_by_silo(facts, setting, holds=True),
}


def _naive(
    facts: Facts, setting: Setting, silos: int, seen: int, left: Fraction = Fraction(1)
) -> ev.Event:
    """Return what whole silos' updates reveal to who sees `seen` of them; `left` of the noise."""
    if facts.noise.family != "gaussian":
        return _seen_as_sum(facts, setting)
    per_silo = _bound(facts, setting) * setting.reach / 2 * _weight(facts, setting)
    sigma = root_down(share_variance(facts.noise) / per_silo**2 * left / silos)
    return uldp.naive_release(
        sigma, rounds=1, silos=silos, seen=seen, neighbours=setting.neighbours
    ).event


def _noisy(facts: Facts, setting: Setting, bound: Fraction) -> ev.Event:
    """Return the event of a sum with all reliable noise, for a contribution bound."""
    noise, norm = facts.noise, facts.contribution.norm
    if noise.family == "gaussian":
        return ev.Gaussian(root_down(share_variance(noise) * facts.shares / bound**2))
    # A sum of several shares is one share and something independent of the data.
    scale, grid = Fraction(share_of(noise)), Fraction(noise.grid)
    if noise.family == "laplace":
        _need_l1(norm)
        return ev.Laplace(down(scale / bound))
    if not grid:
        raise Unproven(f"{noise.family} noise has no grid that it stands on")
    steps = -(-bound // grid)
    if noise.family == "discrete-laplace":
        _need_l1(norm)
        return ev.DiscreteLaplace(down(scale / grid / steps), int(steps))
    if facts.single:
        return ev.DiscreteGaussian(down(scale / grid / steps), int(steps))
    if scale >= LEAST_STEPS * grid:
        return ev.Gaussian(root_down(((scale / grid) ** 2 - SMOOTHING) / steps**2))
    return ev.ZCDP(up((steps * setting.reach * grid / scale) ** 2 / 2))


def _need_l1(norm: str) -> None:
    if norm != "l1":
        raise Unproven(f"Laplace noise needs an l1 bound, and the clip is {norm}")


# --- bounds, weights, shares --------------------------------------------------------------------


def moves(facts: Facts, setting: Setting) -> Fraction:
    """Return how far one unit moves the noisy sum, from the facts: the sensitivity."""
    own = facts.contribution
    silos = max(setting.silos, facts.noise.shares, 1) if own.terms == "silo-delta" else 1
    return _crossing(facts, setting) * Fraction(own.bound) * _weight(facts, setting) * silos


def _bound(facts: Facts, setting: Setting) -> Fraction:
    """Return the contribution bound C; a stated sensitivity that is larger makes it larger."""
    own = moves(facts, setting)
    excess = max(Fraction(1), Fraction(facts.sensitivity) / own)
    return Fraction(facts.contribution.bound) * _crossing(facts, setting) * excess / setting.reach


def _bound_apart(facts: Facts, setting: Setting) -> Fraction:
    """Return C times the sum of weights for formulas that know a uniform weight to be 1/S."""
    weight = (
        max(_weight(facts, setting), Fraction(1)) if _is_uniform(facts) else _weight(facts, setting)
    )
    return _bound(facts, setting) * weight


def _crossing(facts: Facts, setting: Setting) -> int:
    """Return by how many clips one term moves: 1 where it goes, 2 where it may point elsewhere."""
    stays = setting.scope(facts.contribution.unit) == "finer"
    if facts.contribution.terms != "unit" or stays:
        return 2
    return setting.reach


def _weight(facts: Facts, setting: Setting) -> Fraction:
    """Return the largest sum of a unit's weights; at least 1 where terms are not a unit's own."""
    weight = Fraction(facts.weights.largest_sum)
    if is_unweighted(facts, setting):
        return max(weight, Fraction(setting.silos))
    return weight if facts.contribution.terms == "unit" else max(weight, Fraction(1))


def is_unweighted(facts: Facts, setting: Setting) -> bool:
    """Return whether every silo counts a user's term once, so that its weights sum to S."""
    own = facts.contribution
    apart = setting.silos >= 2 and facts.noise.shares >= 2
    return apart and facts.weights.rule == "none" and own.terms == "unit" and own.unit == "user"


def _is_uniform(facts: Facts) -> bool:
    """Return whether a user's weights, which sum to 1, are spread evenly over the silos."""
    uniform = facts.weights.rule == "uniform" and facts.weights.largest_sum <= 1.0 + 1e-9
    return uniform and facts.contribution.unit == "user"


def _shared_by_silos(facts: Facts, setting: Setting) -> int:
    """Return the number of silos, each of which added one share of the noise."""
    if setting.silos < 1 or facts.noise.shares != setting.silos:
        raise Unproven(
            f"{facts.noise.shares} noise shares for {setting.silos} silos leave updates without "
            "known noise"
        )
    if facts.contribution.terms == "whole":
        raise Unproven("the log does not say what the parts of the release are")
    return setting.silos
