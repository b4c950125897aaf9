"""One epoch of shuffled batches under add-remove: what one record more or less changes.

Take a uniformly random order of n records, remove the target from its position, and move the record
at the last position into the hole.  Given that position, which is uniform, the others still stand
in a uniformly random order: so this is a uniformly random order of the n - 1 others.  Given the
position and the order,

    the batch of the target   holds another record in its place    (one record replaced)
    the last batch            holds one record less                (one record removed)
    all other batches         are the same;

where the target itself stands in the last batch, that one holds one record less and nothing else
changes.  Hockey sticks and Renyi moments are jointly convex, so the epoch is dominated by the
composition of the release's pair for a replaced record and its pair for a removed one; for Gaussian
noise z, which moves by 2 and by 1 bounds, by one Gaussian of noise z / sqrt(5).  A later batch may
depend on what was released before: given position and order, each release is dominated whatever
came earlier.

Conditions.  The order is uniform and **secret** (who sees the order sees who is in it; under
zero-out and replace-one it may be known).  Both data sets are cut into the same number of batches,
of sizes that differ in one batch by one record: so it is for a fixed batch size, where the last
batch is smaller (a batch that holds nobody must still be released), and for batches as even as
possible, where the record that moves is the last of the batch that shrinks.  Were a last batch of
one record to vanish with it, the number of releases would tell the data sets apart, and nothing
would be proven.  A last batch that is dropped when it is not full only helps, as long as the number
of full batches is the same.  Sums are not divided by a batch's realised size.

Derived here.
"""

from __future__ import annotations

import math
from typing import Final

from .. import events as ev
from ..composition import release_of_group
from ..errors import Unsupported
from ..event_tree import events_inside
from ..neighbours import Neighbours
from .base import sized_release

EPOCH_CONDITIONS: Final = (
    "the order is uniformly random and secret",
    "both data sets are cut into the same number of batches, an empty one is released too, and "
    "sums are not divided by the realised batch size",
)
"""What the bound under add-remove rests on."""

EPOCH_SOURCE: Final = "derived in engines/shuffled_epochs.py"

_STATED: Final = (
    ev.RandomizedResponse,
    ev.Pure,
    ev.Local,
    ev.Exponential,
    ev.Approximate,
    ev.ZCDP,
    ev.Renyi,
    ev.NoGuarantee,
)
"""Events whose number holds for the relation that is asked about, here add-remove."""

_LESS_NOISE: Final = 1.0 - 1e-15
"""Relative rounding of a noise multiplier, towards less noise."""


def joint_release(event: ev.Event) -> ev.Event | None:
    """Return one release, under add-remove, that is a replaced and a removed record together.

    None where there is no such event.

    >>> joint_release(ev.Gaussian(5.0**0.5)).noise_multiplier < 1.0
    True
    """
    if not isinstance(event, ev.Gaussian):
        return None
    return ev.Gaussian(event.noise_multiplier / math.sqrt(5.0) * _LESS_NOISE)


def replaced_release(event: ev.Event) -> tuple[ev.Event, Neighbours]:
    """Return an event and a relation whose guarantee holds for a batch with one record replaced.

    A stated number that holds for a record that comes or goes is taken in two steps.  Raises
    `Unsupported` where nothing is known of a replaced record.

    >>> replaced_release(ev.Laplace(2.0))
    (Laplace(noise_multiplier=2.0), 'replace-one')
    >>> replaced_release(ev.Pure(1.0))
    (Pure(epsilon=2.0), 'add-remove')
    """
    if isinstance(event, _STATED):
        return release_of_group(2, event), "add-remove"
    stated = next((each for each in events_inside(event) if isinstance(each, _STATED)), None)
    if stated is not None:
        raise Unsupported(
            f"Shuffled batches of `{event.type}` of `{stated.type}` cannot be accounted under "
            "add-remove.",
            "In one batch another record takes the place of the one that goes, and a stated "
            "number that holds for a record that comes or goes does not say what that costs "
            "in a sample.",
            "Account them under zero-out or replace-one, or draw batches by Poisson sampling.",
        )
    sized = sized_release(event)
    if sized is not None:
        raise Unsupported(
            f"Shuffled batches of `{sized.type}` cannot be accounted under add-remove.",
            "That release fixes how many units take part in it, and the last batch holds one "
            "unit less where one is removed.",
            "Account them under zero-out or replace-one, or draw batches by Poisson sampling.",
        )
    return event, "replace-one"
