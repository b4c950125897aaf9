"""Canaries in one run of a system, which enter by training or by rows of data.

A system's own carrier then only says what its observer sees of a round (`View`), in units of the
noise; the rest is done here.

Of a `UserSum` the sum is read where it arrives rather than off a model, which is a function of it:

    (sum - what the observer takes off)_j / the noise that is left in it

In the clear the server sees every silo's part of the sum; as every unit is in all parts alike,
their sum tells as much.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Final, TypeAlias, cast

import numpy as np

from ...accountant import validate
from ...accountant.arrays import FloatArray, IntArray
from ...accountant.errors import InvalidInput, Unsupported
from ..data.federation import Federation
from ..declarations.registry import declaration_or_none, declared
from ..frame.model import Parameters
from ..frame.system import System, SystemFactory, build
from ..frame.user_sum import UserRecords, UserSum, clip_of
from ..observers.names import SILO
from ..settings.schema import Settings
from .federation import Coins, canary_federation, flip_coins
from .harness import View, observe_rounds
from .local import CANARY_NORM_IN_CLIPS, CanaryLocalTraining, RealUsers
from .memory_log import RecordingAggregator
from .request import (
    OBSERVER_SILO,
    CanaryObservations,
    Carrier,
    RehearsalRequest,
    refuse_real_users,
    require_observer,
)


def carrier_of(settings: Settings) -> Carrier:
    """Return the carrier of the system of these settings.

    Raises `Unsupported` for a system without one, and `InvalidInput` for what is no carrier: one
    such as `canary_training` takes more than `RehearsalRequest`.
    """
    system = settings.run.system
    declaration = declaration_or_none(system)
    if declaration is None or declaration.carrier is None:
        carried = ", ".join(sorted(other.name for other in declared().values() if other.carrier))
        raise Unsupported(
            f"{system} cannot be rehearsed with canaries.",
            "Its declaration names no carrier, so nothing says how one of its units is put in and "
            "seen.",
            f"Rehearse one of {carried}, or give its declaration a `carrier`.",
        )
    carrier = declaration.load(declaration.carrier)
    try:
        inspect.signature(carrier).bind(None)
    except (TypeError, ValueError) as error:
        reason = TypeError(f"a carrier takes one argument, `RehearsalRequest`; {error}")
        raise declaration.failed(declaration.carrier, reason) from error
    return cast("Carrier", carrier)


MAX_CANARY_ROWS: Final = 10_000
"""The most canaries that enter by rows: m of them with a column each take m^2 numbers."""

MakeView: TypeAlias = "Callable[[System, IntArray], View]"
"""From the system and the column of each unit (m,) to the view of the observer.

A unit moves its column of the sum by at most one bound; `View.look` reads that column off what
reaches the observer, in units of its noise, and `View.shift` is the bound in that unit.
"""

_OUT: Final = {"add-remove": None, "replace-one": -1.0, "zero-out": 0.0}
"""The row of a unit that is out, as a multiple of one that is in; None: it has no record."""


def canary_training(
    request: RehearsalRequest,
    *,
    clip: float,
    view: MakeView,
    present: IntArray | None = None,
    coins: Coins | None = None,
    users: IntArray | None = None,
    real_users: RealUsers | None = None,
    training: type[CanaryLocalTraining] = CanaryLocalTraining,
    make: SystemFactory = build,
) -> CanaryObservations:
    """Rehearse a system that clips what training gives for each user.

    Such training is a `fl.training.local_training.LocalTraining`.  `clip` is the bound on a user's
    contribution, above 0 and finite; a canary's row is `CANARY_NORM_IN_CLIPS` clips long.  All else
    is as usual unless it is given:

    - `present`: how many records each unit has in each silo (m, silos); one in every silo but that
      of the observer.
    - `coins`, and which `users` the units are, ascending: (m,).
    - `real_users`: real ones, who come first.
    - `training` of the canaries, and what makes the system of it.

    Raises as `observe_rounds`, and `InvalidInput` where real users are requested and not given.
    """
    if real_users is None:
        refuse_real_users(request, "Its carrier puts in canaries alone.")
    validate.positive(clip=clip)
    coins = flip_coins(request.canaries, request.rng()) if coins is None else coins
    opposite = request.settings.privacy.neighbours == "replace-one"
    if present is None:
        present = np.ones((request.canaries, request.silos), np.int64)
        # A silo that observes holds no canary: it would know of its own whether it is in.
        present[:, OBSERVER_SILO] = request.observer != SILO
    first = 0 if real_users is None else real_users.federation.users
    users = first + np.arange(len(coins)) if users is None else users
    table = np.zeros((users[-1] - first + 1, request.silos), np.int64)
    table[users - first] = present if opposite else np.where(coins.into[:, None], present, 0)
    federation = canary_federation(
        table, real=None if real_users is None else real_users.federation
    )
    local = training(
        coins, federation, clip=clip, opposite=opposite, real_users=real_users, users=users
    )
    streams = request.streams()
    system = make(request.settings, federation, local, streams)
    require_observer(system.plan(), request.observer)
    return observe_rounds(request, system, coins, view(system, local.columns), streams)


def canary_models(request: RehearsalRequest) -> CanaryObservations:
    """Rehearse a system that releases models, and neither clips nor adds noise.

    An observation is the change of the model in the canary's coordinate, divided by the global rate
    and the length of the canary's row.  The claimed shift is 0, as no privacy is claimed.  A
    carrier, named in a declaration as it is.
    """
    training = request.settings.training
    # Nothing is clipped, so the length of a canary's row may be any.
    clip = training.clip if math.isfinite(training.clip) else 1.0
    length = training.global_rate * CANARY_NORM_IN_CLIPS * clip

    def view(_: System, columns: IntArray) -> View:
        return View(0.0, lambda before, after: (after[columns] - before[columns]) / length)

    return canary_training(request, clip=clip, view=view)


def canary_rows(
    request: RehearsalRequest, *, clip: float, view: MakeView, everywhere: bool = False
) -> CanaryObservations:
    """Rehearse a system that clips the rows of its users, and sums them: nothing is trained.

    Each of m units has one record, in one silo that it is dealt to (never the observer's), or with
    `everywhere` one in each of these silos: a row of m numbers, `CANARY_NORM_IN_CLIPS` times `clip`
    in the unit's own column, with the unit's own sign.  A unit that is out has no record
    (`add-remove`), the opposite row (`replace-one`) or a row of zeros (`zero-out`).  Rows are the
    same in all rounds, so signs do not alternate.  `clip` is above 0 and finite.  Raises
    `InvalidInput` for more than `MAX_CANARY_ROWS` canaries and where real users are to be with
    them, and as `observe_rounds`.
    """
    refuse_real_users(request, "Its carrier puts in canaries alone.")
    validate.positive(clip=clip)
    if request.canaries > MAX_CANARY_ROWS:
        raise InvalidInput(
            f"{request.canaries:,} canaries are too many rows.",
            "Each has a column of its own, so memory grows with their square.",
            f"Give at most {MAX_CANARY_ROWS:,}, and declare as many as `canaries` of the system.",
        )
    coins, streams = flip_coins(request.canaries, request.rng()), request.streams()
    federation = _of_rows(request, coins, CANARY_NORM_IN_CLIPS * clip, everywhere)
    local = CanaryLocalTraining(coins, federation, clip=clip)
    system = build(request.settings, federation, local, streams)
    # A record is the same in all rounds, so its sign cannot alternate.
    seen = replace(view(system, coins.columns), alternates=False)
    return observe_rounds(request, system, coins, seen, streams)


def _of_rows(
    request: RehearsalRequest, coins: Coins, length: float, everywhere: bool
) -> Federation:
    """Return a federation in which the features of each unit's record are its row."""
    units, silos = np.arange(request.canaries), request.silos
    # The first silo that may hold a unit: not that of the observer.
    first = OBSERVER_SILO + 1 if request.observer == SILO and silos > 1 else 0
    out = _OUT[request.settings.privacy.neighbours]
    there = coins.into if out is None else np.ones(len(coins), bool)
    table = np.zeros((request.canaries, silos), np.int64)
    if everywhere:
        table[there, first:] = 1
    else:
        table[units[there], first + units[there] % (silos - first)] = 1
    federation = canary_federation(table, features=request.canaries)
    unit = federation.user
    # In: +-length; out under `replace-one`: the opposite, under `zero-out`: zeros.
    towards = np.where(coins.into, 1.0, out or 0.0) * coins.signs * length
    rows = np.zeros((len(unit), request.canaries), np.float32)
    rows[np.arange(len(unit)), coins.columns[unit]] = towards[unit]
    return replace(federation, features=rows)


MIN_ROW_SHARE_IN_COLUMN: Final = 0.9
"""The least share of a canary's row, scaled to norm 1, that lies in its own column."""


def canary_sum(request: RehearsalRequest) -> CanaryObservations:
    """Rehearse a `fl.frame.user_sum.UserSum`: units enter by equal directions in all silos.

    A canary is a record with one feature that is ten clips long, all others and its label 0.  The
    `row` of it must have nearly all of its length in the number at the place of that feature, as
    the mean of records has: a square of the feature with it would be longer, and the clip would
    cut away what is looked for.  A carrier, named in a declaration as it is; raises as
    `canary_rows`, and `Unsupported` for a system with another `row`.
    """

    def view(made: System, columns: IntArray) -> View:
        system = cast("UserSum", made)
        _require_direction(system)
        mechanism = system.mechanism(system.promise.noise_multiplier)
        alone = request.observer == SILO and request.silos > 1
        # A silo takes off what it sent, with its 1 / |S| of the noise and of each unit's row.
        left = (request.silos - 1) / request.silos if alone else 1.0
        std = mechanism.std * math.sqrt(left)
        recorder = system.aggregator = RecordingAggregator(system.aggregator)

        def look(_: Parameters, __: Parameters) -> FloatArray:
            assert recorder.sum is not None
            steps = recorder.sum.total - (recorder.sent[OBSERVER_SILO] if alone else 0)
            return np.asarray(mechanism.units(steps)[columns] / std)

        return View(system.clip * left / std, look)

    return canary_rows(request, clip=clip_of(request.settings), view=view, everywhere=True)


def _require_direction(system: UserSum) -> None:
    """Raise `Unsupported` where a canary's row does not keep the direction of its record."""
    federation = system.setup.federation
    if not len(federation.features):  # no unit is in
        return
    # A canary's own record shows how much of its length the system's `row` keeps.
    features = federation.features[:1].astype(np.float64)
    row = system.row(UserRecords(features, federation.labels[:1]))
    column, length = int(np.abs(features[0]).argmax()), float(np.linalg.norm(row))
    share = abs(float(row[column])) / length if length > 0.0 else 0.0
    if not share >= MIN_ROW_SHARE_IN_COLUMN:
        raise Unsupported(
            f"`canary_sum` cannot rehearse {system.name}: {share:.2g} of a canary's row lies in "
            f"the direction of its record, and {MIN_ROW_SHARE_IN_COLUMN} is needed.",
            "A canary has one large feature, and is looked for at its place in the row: what else "
            "the row has is noise to it, or takes its place under the clip.",
            "Bound the rest of what `row` returns, or give the system a carrier of its own: "
            "docs/how-to/add-attack.md.",
        )
