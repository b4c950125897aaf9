"""The tier `membership`: how well the users of a run are told from strangers by its last model.

Replicas of the run are trained, with each user in or out by a fair coin: shadows, which the
attacker trains and knows everything about, and targets, of which it sees the model.  It is an
attacker who knows the records of everybody and not who took part.

What is found is a function of private records.  It is for whoever may see them, unless the data set
is public; it belongs in no public log.

The loss threshold: what a model has trained on, it is surer of.

It needs no shadows, and says nothing that is fitted to a record: records that are easy for every
model look like members.  Source: Yeom, Giacomelli, Fredrikson and Jha 2018, *Privacy Risk in
Machine Learning*, arXiv 1709.01604, section 3.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Literal, cast

import numpy as np

from ....accountant import events as ev
from ....accountant import validate
from ....accountant.arrays import FloatArray, IntArray
from ....accountant.errors import InvalidInput, Unsupported
from ....accountant.risk.trade_off import trade_off
from ....fl.data.federation import Federation
from ...measurement import Measurement
from ...shadows import Design, Executor, Replica, all_cores, design, replicas
from ...shadows.replicas import without_cryptography
from .evidence import (
    Evidence,
    confidence,
    log_likelihood,
    per_unit,
    require_likelihood,
    require_same_features,
    shared_records,
    unseen_test_records,
)
from .results import AttackDescription, Sample, measurements
from .scores import lira_offline, lira_online, ratio, rmia
from .trials import Trials, require_both

if TYPE_CHECKING:
    from ....fl.models import Model
    from ....fl.running.prepared_run import PreparedRun
    from ....fl.settings.schema import Settings


def loss(evidence: Evidence) -> FloatArray:
    """Return minus the loss of every record under every target, log p_y: (T, records)."""
    return log_likelihood(evidence.targets)


Level = Literal["user", "record"]
LEVELS: Final[tuple[Level, ...]] = ("user", "record")

Score = Callable[[Evidence, str], FloatArray]

_NAMED_SCORES: Final[Mapping[str, tuple[str, Score]]] = {
    "rmia": ("RMIA, offline", lambda evidence, level: rmia(evidence, level=level)),
    "ratio": (
        "RMIA's log ratio, offline",
        lambda evidence, level: rmia(evidence, level=level, statistic=ratio),
    ),
    "lira": ("LiRA, online", lambda evidence, _: lira_online(evidence)),
    "lira-offline": ("LiRA, offline", lambda evidence, _: lira_offline(evidence)),
    "loss": ("loss threshold", lambda evidence, _: loss(evidence)),
}
ATTACKS: Final = tuple(_NAMED_SCORES)

_ATTACKER: Final = (
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
    named = checked_attacks(attacks)
    rng = np.random.default_rng(seed if seed is None else validate.count_from(0, seed=seed))
    without_cryptography(settings)  # refused before data are read
    design(2, models=models, targets=targets, rng=np.random.default_rng(0))
    from ....fl.running.preparation import prepare

    prepared = prepare(settings)
    require_likelihood(prepared.model)
    federation = prepared.federation
    require_same_features(prepared.model, federation)
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
    evidence = evidence_of(prepared.model, federation, coins, unit, trained)
    description = _description(prepared, evidence, level)
    return tuple(
        measurement
        for name in named
        for measurement in measurements(
            trials_of(evidence, name, level),
            _named(description, name, level),
            confidence=1.0 - alpha,
        )
    )


def checked_attacks(attacks: Sequence[str]) -> tuple[str, ...]:
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
    unit: IntArray,
    trained: Sequence[Replica],
) -> Evidence:
    """Return phi of all records under all models, shadows first; and of unseen test
    records.

    Raises `InvalidInput` where no test record is unseen, or a model diverged.
    """
    population = unseen_test_records(federation)
    if not population.any():
        raise InvalidInput(
            "Every test record is a copy of a training record.",
            "What no model has seen is what likelihoods are compared with.",
        )
    pool_phi: list[FloatArray] = []
    population_phi: list[FloatArray] = []
    for replica in trained:
        normalised = federation if replica.moments is None else replica.moments.applied(federation)
        labels, held_out = cast(IntArray, normalised.labels), cast(IntArray, normalised.test_labels)
        with np.errstate(all="ignore"):  # what diverged is refused below
            pool_phi.append(confidence(model, replica.parameters, normalised.features, labels))
            population_phi.append(
                confidence(model, replica.parameters, normalised.test_features, held_out)
            )
    table, unknown = np.array(pool_phi), np.array(population_phi)[:, population]
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


def trials_of(evidence: Evidence, attack: str, level: str) -> Trials:
    """Return one attack's scores of every unit under every target, and the coins."""
    scores = _NAMED_SCORES[attack][1](evidence, level)
    if level == "record":
        return Trials(scores, evidence.in_target, evidence.user)
    summed = per_unit(scores, evidence.unit, evidence.design.units)
    return Trials(summed, evidence.design.targets, np.arange(evidence.design.units))


def _description(prepared: PreparedRun, evidence: Evidence, level: Level) -> AttackDescription:
    sure = log_likelihood(evidence.targets)
    sample: Sample = {
        "shadows": len(evidence.shadows),
        "records": len(evidence.unit),
        "records of two users": shared_records(prepared.federation),
        "population": evidence.targets_population.shape[1],
        "loss on members": float(-sure[evidence.in_target].mean()),
        "loss on strangers": float(-sure[~evidence.in_target].mean()),
    }
    return AttackDescription(
        what="",
        level=level,
        neighbours="add-remove",
        promised=_claimed_event(prepared, level),
        assumes=(
            f"{len(evidence.targets)} target models and {len(evidence.shadows)} shadows are "
            "replicas "
            "of the run on its own records, each unit in by a fair coin",
            _ATTACKER,
        ),
        sample=sample,
    )


def _claimed_event(prepared: PreparedRun, level: Level) -> ev.Event | None:
    """Return the event that bounds this attack; None where no claim does.

    A user's coin adds or removes all of a user's records: what is claimed for another unit, or for
    replaced users, is another statement.
    """
    claim = prepared.opening.claim
    if (
        not prepared.promises
        or not level == claim.unit == "user"
        or claim.neighbours != "add-remove"
    ):
        return None
    event = prepared.plan.seen_by("model")
    try:
        trade_off(event, "add-remove")
    except Unsupported:  # no engine has its curve
        return None
    return event


def _named(description: AttackDescription, attack: str, level: str) -> AttackDescription:
    each = "all records of a user together" if level == "user" else "single records"
    sample = {"attack": attack, **description.sample}
    return replace(description, what=f"{_NAMED_SCORES[attack][0]}: {each}", sample=sample)
