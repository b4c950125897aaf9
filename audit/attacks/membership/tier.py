"""The tier `membership`: how well the users of a run are told from strangers by its last model.

Replicas of the run are trained, with each user in or out by a fair coin: shadows, which the
attacker trains and knows everything about, and targets, of which it sees the model.  It is an
attacker who knows the records of everybody and not who took part.

What is found is a function of private records.  It is for whoever may see them, unless the data set
is public; it belongs in no public log.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Literal, cast

import numpy as np

from ....accountant import events as ev
from ....accountant import validate
from ....accountant.errors import InvalidInput, Unsupported
from ....fl.data.federation import Federation
from ...measurement import Measurement
from ...shadows import Design, Executor, Replica, all_cores, design, replicas
from ...shadows.replicas import in_the_clear
from ...statistics.tradeoff import trade_off
from . import lira
from .evidence import (
    Evidence,
    Floats,
    Indices,
    confidence,
    log_likelihood,
    require_likelihood,
    shared,
    unseen,
)
from .loss import loss
from .results import About, Sample, measurements
from .rmia import ratio, rmia
from .sets import per_unit
from .trials import Trials, require_both

if TYPE_CHECKING:
    from ....fl.models import Model
    from ....fl.running.prepared_run import PreparedRun
    from ....fl.settings.schema import Settings

Level = Literal["user", "record"]
LEVELS: Final[tuple[Level, ...]] = ("user", "record")

Score = Callable[[Evidence, str], Floats]

_ATTACKS: Final[Mapping[str, tuple[str, Score]]] = {
    "rmia": ("RMIA, offline", lambda own, level: rmia(own, level=level)),
    "ratio": (
        "RMIA's log ratio, offline",
        lambda own, level: rmia(own, level=level, statistic=ratio),
    ),
    "lira": ("LiRA, online", lambda own, _: lira.online(own)),
    "lira-offline": ("LiRA, offline", lambda own, _: lira.offline(own)),
    "loss": ("loss threshold", lambda own, _: loss(own)),
}
ATTACKS: Final = tuple(_ATTACKS)

_GAME: Final = (
    "the attacker knows all records, the settings and everybody's coins in the shadows, and sees "
    "one last model"
)


def membership_tier(
    settings: Settings,
    *,
    models: int = 64,
    targets: int = 16,
    level: Level = "user",
    attacks: Sequence[str] = ("rmia", "ratio", "lira", "loss"),
    executor: Executor | None = None,
    seed: int | None = None,
    alpha: float = 0.05,
) -> tuple[Measurement, ...]:
    """Return what membership inference finds in a run of these settings, on its own data.

    Of `models` replicas, `targets` are attacked, and the others are shadows: an even number, 4 or
    more.  `level` is whose coin is tossed: `user`, all records of a user in all silos together,
    scored by the sum over them; or `record`.  `attacks` are names in `ATTACKS`.  `executor` trains
    side by side, on all cores if None.  With `seed`, coins and noise can be repeated.  Intervals
    have confidence 1 - `alpha`, about.

    For a promise to users under add-remove, `claimed` holds the most that it allows any attack.

    Raises `InvalidInput` for numbers and names that do not fit and where a replica diverged,
    `Unsupported` where a record by itself has no likelihood (`cox`) and for private weighting,
    `MissingExtra`, and what preparing a run raises.
    """
    validate.choice(LEVELS, level=level)
    validate.open_probability(alpha=alpha)
    named = known(attacks)
    rng = np.random.default_rng(seed if seed is None else validate.count_from(0, seed=seed))
    in_the_clear(settings)  # refused before data are read
    design(2, models=models, targets=targets, rng=np.random.default_rng(0))
    from ....fl.running.preparation import prepare

    own = prepare(settings)
    require_likelihood(own.model)
    federation = own.federation
    unit = federation.user if level == "user" else np.arange(federation.records)
    units = federation.users if level == "user" else federation.records
    coins = design(units, models=models, targets=targets, rng=rng)
    require_both(coins.targets)  # refused before anything is trained
    trained = replicas(
        settings,
        federation,
        coins.inside_records(unit),
        seed=seed,
        executor=all_cores() if executor is None else executor,
    )
    seen = evidence_of(own.model, federation, coins, unit, trained)
    about = _about(own, seen, level)
    return tuple(
        one
        for name in named
        for one in measurements(
            trials_of(seen, name, level), _named(about, name, level), confidence=1.0 - alpha
        )
    )


def known(attacks: Sequence[str]) -> tuple[str, ...]:
    """Return the names of attacks; raise `InvalidInput` for one that is not known, or none."""
    if isinstance(attacks, str) or not attacks:
        raise InvalidInput(
            "`attacks` must be a list of at least one name.",
            next_step=f"Choose from {', '.join(ATTACKS)}.",
        )
    return tuple(validate.choice(ATTACKS, attack=name) for name in attacks)


def evidence_of(
    model: Model,
    federation: Federation,
    coins: Design,
    unit: Indices,
    trained: Sequence[Replica],
) -> Evidence:
    """Return phi of all records under all models, shadows first; and of unseen test records.

    Raises `InvalidInput` where no test record is unseen, or a model diverged.
    """
    population = unseen(federation)
    if not population.any():
        raise InvalidInput(
            "Every test record is a copy of a training record.",
            "What no model has seen is what likelihoods are compared with.",
        )
    pool: list[Floats] = []
    others: list[Floats] = []
    for one in trained:
        own = federation if one.moments is None else one.moments.applied(federation)
        labels, held_out = cast(Indices, own.labels), cast(Indices, own.test_labels)
        with np.errstate(all="ignore"):  # what diverged is refused below
            pool.append(confidence(model, one.parameters, own.features, labels))
            others.append(confidence(model, one.parameters, own.test_features, held_out))
    table, unknown = np.array(pool), np.array(others)[:, population]
    first = len(coins.shadows)
    return Evidence(
        coins,
        unit,
        federation.user,
        table[:first],
        table[first:],
        unknown[:first],
        unknown[first:],
    )


def trials_of(seen: Evidence, attack: str, level: str) -> Trials:
    """Return one attack's scores of every unit under every target, and the coins."""
    made = _ATTACKS[attack][1](seen, level)
    if level == "record":
        return Trials(made, seen.in_target, seen.user)
    summed = per_unit(made, seen.unit, seen.design.units)
    return Trials(summed, seen.design.targets, np.arange(seen.design.units))


def _about(own: PreparedRun, seen: Evidence, level: Level) -> About:
    sure = log_likelihood(seen.targets)
    sample: Sample = {
        "shadows": len(seen.shadows),
        "records": len(seen.unit),
        "records of two users": shared(own.federation),
        "population": seen.targets_population.shape[1],
        "loss on members": float(-sure[seen.in_target].mean()),
        "loss on strangers": float(-sure[~seen.in_target].mean()),
    }
    return About(
        what="",
        level=level,
        neighbours="add-remove",
        promised=_promised(own, level),
        assumes=(
            f"{len(seen.targets)} target models and {len(seen.shadows)} shadows are replicas of "
            "the run on its own records, each unit in by a fair coin",
            _GAME,
        ),
        sample=sample,
    )


def _promised(own: PreparedRun, level: Level) -> ev.Event | None:
    """Return the event that bounds this attack; None where no claim does.

    A user's coin adds or removes all of a user's records: what is claimed for another unit, or for
    replaced users, is another statement.
    """
    claim = own.opening.claim
    if not own.promises or not level == claim.unit == "user" or claim.neighbours != "add-remove":
        return None
    event = own.plan.seen_by("model")
    try:
        trade_off(event, "add-remove")
    except Unsupported:  # no engine has its curve
        return None
    return event


def _named(about: About, attack: str, level: str) -> About:
    each = "all records of a user together" if level == "user" else "single records"
    sample = {"attack": attack, **about.sample}
    return replace(about, what=f"{_ATTACKS[attack][0]}: {each}", sample=sample)
