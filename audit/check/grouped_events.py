"""Events that count several records together, and facts about how many records a user has.

A group in an event is all records of a user, each drawn and clipped by itself.  A fact that names
as many says the same once more.  Another number leaves open whether it is of the same records: the
upper end has groups of so many, the lower end the least that either shows.
"""

from __future__ import annotations

from typing import Final

from ...accountant import events as ev
from ...accountant.event_tree import events_inside, group_sizes, parts_of, rewritten
from .events import of_unit
from .pinned_run import PinnedRun

EXACT_UNDER_GROUPS: Final = (ev.Compose, ev.Repeat, ev.Group)
"""What steps of single releases on Poisson samples are composed by."""

SINGLE_NOISE: Final = (ev.Gaussian, ev.Laplace)
"""Noise that shows a sum the better, the farther it moves: its likelihood ratio is monotone."""


def largest_group(event: ev.Event) -> int:
    """Return how many records an event counts together at most; 1 where it has no groups.

    >>> largest_group(ev.Compose((ev.Group(3, ev.Gaussian(2.0)), ev.Gaussian(1.0))))
    3
    """
    return max(group_sizes(event), default=1)


def groups_are_users(run: PinnedRun, event: ev.Event) -> bool:
    """Return whether every release of an event counts just the records that a user has."""
    records = run.settings.records_per_user or 1
    return run.settings.unit == "user" and records > 1 and group_sizes(event) == (records,)


def records_are_drawn(run: PinnedRun, event: ev.Event) -> bool:
    """Return whether each record of a user is drawn and clipped by itself, as facts have it.

    Where nobody said it, an event says so whose groups are the users.
    """
    said = (run.settings.clip_bounds, run.settings.sampled)
    if groups_are_users(run, event):
        return said[0] != "unit" and said[1] != "users"
    return said == ("record", "records")


def bounds_users(run: PinnedRun, event: ev.Event) -> bool:
    """Return whether an event, grouped by user, bounds users of several records from above.

    A user that is clipped as a whole moves a step by one norm where it is drawn, or any of its
    records is.  A group moves it by as many norms as records are drawn, each by itself, which is no
    fewer: for noise of a monotone likelihood ratio it shows no less.
    """
    if records_are_drawn(run, event):
        return True
    if run.settings.clip_bounds != "unit" or not groups_are_users(run, event):
        return False
    return all(map(_is_single_step, events_inside(event)))


def _is_single_step(part: ev.Event) -> bool:
    """Return whether a part is a single release, alone or in a Poisson sample, or composes such."""
    if isinstance(part, ev.Poisson):
        return isinstance(part.event, SINGLE_NOISE)
    return isinstance(part, (*EXACT_UNDER_GROUPS, *SINGLE_NOISE))


def upper_of_unit(run: PinnedRun, event: ev.Event, released: tuple[ev.Event, ...]) -> ev.Event:
    """Return an event with releases, all as a unit with all of its records sees them.

    Each record of a group may move a release by one bound.
    """
    size = largest_group(event)
    moved = released if size == 1 else tuple(ev.Group(size, each) for each in released)
    joined = ev.Compose((event, *moved)) if moved else event
    return joined if groups_are_users(run, event) else of_unit(run, joined)


def lower_of_unit(run: PinnedRun, event: ev.Event) -> tuple[ev.Event, ...]:
    """Return what an event shows of a unit at least, in each reading that facts leave open.

    A record may be one of those that a group counts together, and a user of a single record is
    data, too: where users are drawn, or clipped as wholes, no more of them is certain.
    """
    single, settings = without_groups(event), run.settings
    if settings.unit == "record":
        return (single,)
    if settings.unit != "user" or (settings.records_per_user or 1) == 1:
        return (event,)
    if not records_are_drawn(run, event):
        return (single,)
    if groups_are_users(run, event):
        return (event,)
    return (event, of_unit(run, single)) if single != event else (of_unit(run, event),)


def without_groups(event: ev.Event) -> ev.Event:
    """Return an event as a single record of every group sees it.

    >>> without_groups(ev.Group(3, ev.Gaussian(2.0)))
    Gaussian(noise_multiplier=2.0)
    """
    return rewritten(event, lambda each: each.event if isinstance(each, ev.Group) else each)


def of_sampled_clients(event: ev.Event) -> frozenset[float | None]:
    """Return the rates at which an event draws clients; None where a release is in no such draw.

    >>> of_sampled_clients(ev.Repeat(9, ev.ClientSampled(0.1, ev.Gaussian(2.0))))
    frozenset({0.1})
    """
    if isinstance(event, ev.ClientSampled):
        return frozenset({event.clients_rate})
    parts = parts_of(event)
    if not parts:
        return frozenset({None})
    return frozenset().union(*map(of_sampled_clients, parts))
