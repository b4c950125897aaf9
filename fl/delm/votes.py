"""How records that are held out vote on DELM's last model: in one sum more, with Laplace noise.

    client i sends   sum of (v_r, 1 - v_r) over its records + Laplace noise of its own in each value

v_r says whether record r is answered right, so every vote has L1 norm 1: a record that comes or
goes moves the sum by 1, and one that is replaced by 2 at most.  As in the rounds, every client adds
all of the noise and sends in the clear, so each observer sees what one message has.

The model answers records as it is trained on them: on the components of the PCA, where there is
one.  Where a piece of the run proves nothing, votes state what they are by themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from ...accountant.mechanisms import Laplace
from ..frame.held_out_votes import VOTE_BOUND, votes_of_records

if TYPE_CHECKING:
    from ...accountant import events as ev
    from ...accountant.arrays import BoolArray
    from ..frame.held_out_release import HeldOutRelease
    from ..frame.model import Parameters

_VALUES: Final = 2
"""Right and wrong."""


def votes_mechanism(noise_multiplier: float, *, silos: int) -> Laplace:
    """Return the noise of the votes of records of so many clients, each of which adds all of it."""
    return Laplace(
        bound=VOTE_BOUND,
        scale=noise_multiplier,
        dimensions=_VALUES,
        unit="record",
        shares=silos,
    )


def votes_of_clients(
    votes: HeldOutRelease,
    views: Mapping[str, ev.Event],
    right: Callable[[Parameters], BoolArray],
    *,
    silos: int,
) -> HeldOutRelease:
    """Return the release of votes of records, with its event for each observer.

    `right` is asked after the last round which of the records a model answers right.
    """
    mechanism = votes_mechanism(votes.noise_multiplier, silos=silos)
    cast = votes_of_records(1, None)
    return replace(votes.of_votes(mechanism, views, cast), right=right)
