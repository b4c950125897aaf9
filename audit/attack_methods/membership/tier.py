"""The tier `membership`: how well the users of a run are told from strangers by its last model.

Replicas of the run are trained, with each user in or out by a fair coin: shadows, which the
attacker trains and knows everything about, and targets, of which it sees the model.  It is an
attacker who knows the records of everybody and not who took part.

What is found is a function of private records.  It is for whoever may see them, unless the data set
is public; it belongs in no public log.

**The loss threshold**: what a model has trained on, it is surer of.  It needs no shadows, and says
nothing that is fitted to a record: records that are easy for every model look like members.
Source: Yeom, Giacomelli, Fredrikson and Jha 2018, *Privacy Risk in Machine Learning*, arXiv
1709.01604, section 3.

**The model that a run released**: is its loss lower on its users than on held-out records?  There
is one model, and nobody tossed a coin: members are the run's users, and strangers are made of
held-out test records, dealt at random into pseudo-users of the same sizes.  What sets test records
apart for other reasons (another year, another hospital, how records were dealt to users) counts
here as well, so this is no membership inference; it is what anybody who has both kinds of records
sees first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Literal, cast

import numpy as np

from ....accountant import events as ev
from ....accountant import validate
from ....accountant.arrays import FloatArray, IntArray
from ....accountant.errors import InvalidInput, Unsupported, enumerated
from ....accountant.risk.trade_off import trade_off
from ....fl.data.federation import Federation
from ....fl.running.rows_from_program import holding
from ...measurement import Measurement
from ...shadows import Design, Executor, Replica, all_cores, design, replicas
from ...shadows.replicas import without_cryptography
from .evidence import (
    Evidence,
    confidence,
    log_likelihood,
    matched,
    per_unit,
    population_of,
    require_likelihood,
    require_same_features,
    shared_records,
    unseen_records,
    unseen_test_records,
)
from .results import AttackDescription, Sample, measurements
from .scores import lira_offline, lira_online, ratio, rmia
from .trials import Trials, require_both

if TYPE_CHECKING:
    from ....fl.models import Model
    from ....fl.running.checkpoint import Checkpoint
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

_COMPARING: Final = ("rmia", "ratio")
"""Those that compare a record with records of a population outside of the run."""

LEAST_UNITS: Final = 2
"""Fewest users or records whose coins can be guessed."""

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
    more.  Records for tests are the population that scores compare with; where there are none, the
    users who were held out are, and without these the attacks that need no population are made.
    `level` is whose coin is tossed: `user`, all records of a user in all silos together,
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
    if not len(population_of(federation)[1]):
        named = _without_population(named)
    # Who is on a public list of users and has no row is in no model, and out of none.
    unit = np.arange(federation.records)
    if level == "user":
        unit = np.unique(federation.user, return_inverse=True)[1].astype(np.int64)
    units = int(unit.max()) + 1 if len(unit) else 0
    require_units(units)
    coins = design(units, models=models, targets=targets, rng=rng)
    require_both(coins.targets)  # refused before anything is trained
    trained = replicas(
        holding(settings, None),  # jobs carry the rows as numbers, and no frame with them
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


def _without_population(attacks: Sequence[str]) -> tuple[str, ...]:
    """Return the attacks that compare with nobody outside of the run; `InvalidInput` for none."""
    alone = tuple(name for name in attacks if name not in _COMPARING)
    if not alone:
        raise InvalidInput(
            f"There is no record besides the run's own, with which {enumerated(attacks, 'and')} "
            "compare.",
            "What no model has seen is what likelihoods are compared with.",
            f"Choose from {', '.join(name for name in ATTACKS if name not in _COMPARING)}.",
        )
    return alone


def require_units(units: int) -> None:
    """Raise `InvalidInput` where there are too few units for any of them to be told apart."""
    if units < LEAST_UNITS:
        raise InvalidInput(
            f"Fewer than {LEAST_UNITS} users or records are too few for membership.",
            "Each is in or out by a coin, and both must occur.",
            "Take another tier: claim and robust need no records.",
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

    Raises `InvalidInput` where there are records for tests and none is unseen, or a model diverged.
    """
    rows, answers = population_of(federation)
    population = unseen_records(federation, rows, answers)
    if len(answers) and not population.any():
        raise InvalidInput(
            "Every test record is a copy of a training record.",
            "What no model has seen is what likelihoods are compared with.",
        )
    pool_phi: list[FloatArray] = []
    population_phi: list[FloatArray] = []
    for replica in trained:
        normalised = federation if replica.moments is None else replica.moments.applied(federation)
        labels = cast(IntArray, normalised.labels)
        strangers, held_out = population_of(normalised)
        with np.errstate(all="ignore"):  # what diverged is refused below
            pool_phi.append(confidence(model, replica.parameters, normalised.features, labels))
            population_phi.append(
                confidence(model, replica.parameters, strangers, cast(IntArray, held_out))
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


_ABOUT: Final = AttackDescription(
    what="released model, loss threshold",
    level="user",
    neighbours="add-remove",
    assumes=(
        "members are the run's own users and strangers are pseudo-users of held-out records: no "
        "coin decided who is which, so other differences between them count as well",
    ),
)


def released_tier(
    settings: Settings, checkpoint: Checkpoint, *, level: Level = "user", seed: int = 0
) -> tuple[Measurement, ...]:
    """Return how a released model's loss tells training users from held-out records.

    `settings` are the run's, `checkpoint` is its `model.npz`.  At level `user` the score is the sum
    over a user's records; as many users are compared as test records give pseudo-users of their
    sizes.  `seed` deals the test records.

    Raises `InvalidInput` for a model that does not fit the settings, or too few test records, and
    `Unsupported` where a record by itself has no likelihood (`cox`).
    """
    validate.choice(LEVELS, level=level)
    rng = np.random.default_rng(validate.count_from(0, seed=seed))
    from ....fl.running.preparation import prepare

    prepared = prepare(settings)
    require_likelihood(prepared.model)
    _require_same_model(checkpoint, prepared.model.name)
    federation = prepared.federation
    require_same_features(prepared.model, federation)
    kept = unseen_test_records(federation)
    if checkpoint.moments is not None:
        federation = checkpoint.moments.applied(federation)
    labels, held_out = cast(IntArray, federation.labels), cast(IntArray, federation.test_labels)
    model, parameters = prepared.model, checkpoint.parameters
    with np.errstate(all="ignore"):  # what diverged is refused below
        sure = log_likelihood(confidence(model, parameters, federation.features, labels))
        strange = log_likelihood(
            confidence(model, parameters, federation.test_features[kept], held_out[kept])
        )
    about = replace(
        _ABOUT,
        level=level,
        sample={
            "attack": "loss",
            "loss on members": float(-sure.mean()),
            "loss on strangers": float(-strange.mean()) if len(strange) else "none",
        },
    )
    if level == "record":
        scores = np.concatenate([sure, strange])
        # A test record is somebody's of whom nothing else is known.
        people = np.concatenate([federation.user, federation.users + np.arange(len(strange))])
        members = np.arange(len(scores)) < len(sure)
        return measurements(Trials(scores[None], members[None], people), about)
    sizes = np.bincount(federation.user, minlength=federation.users)
    taken, pseudo = matched(sizes, len(strange), rng)
    if not len(taken):
        raise InvalidInput(
            f"There are too few test records ({len(strange)}) for a pseudo-user.",
            "A pseudo-user has as many records as a user.",
            "Choose the level 'record'.",
        )
    inside = per_unit(sure[None], federation.user, federation.users)[:, taken]
    dealt = pseudo >= 0
    outside = per_unit(strange[None, dealt], pseudo[dealt], len(taken))
    scores = np.concatenate([inside, outside], axis=1)
    about = replace(about, sample={**about.sample, "pseudo-users": len(taken)})
    members = np.arange(2 * len(taken)) < len(taken)
    return measurements(Trials(scores, members[None], np.arange(2 * len(taken))), about)


def _require_same_model(checkpoint: Checkpoint, name: str) -> None:
    """Raise `InvalidInput` for a model of another kind, though it may have as many parameters."""
    if checkpoint.model != name:
        raise InvalidInput(
            f"The released model is of the kind {checkpoint.model!r:.60}; the settings say {name}.",
            next_step="Give the settings and the model of one run.",
        )
