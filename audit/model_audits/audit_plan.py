"""What an audit of a training fixes beforehand: attacks and guesses in the open, coins sealed.

Shadows come in pairs of opposite halves, the target's coins are independent of them.  Both models
of a pair are trained with the same seed, so that a training which ignores its indices gives the
same model twice.  Coins and seeds come from the operating system's generator.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike

from ...accountant import validate
from ...accountant.arrays import BoolArray, IntArray
from ...accountant.errors import InvalidInput, enumerated
from ..attack_methods.membership.tier import ATTACKS
from ..attack_methods.membership.trials import Area
from ..shadows.design import Design
from .coins import BlindResult
from .score_audit import OF_POPULATION

AUDIT_FORMAT: Final = 1

LEAST_SHADOWS: Final = 6
"""Three pairs: with one left out as the target, likelihoods of the others have a deviation."""

LEAST_AUDITED_UNITS: Final = 20
"""Fewest units: coins of fewer are all alike too often."""

MOST_MODELS: Final = 100_000
TRAINING_SEED_BITS: Final = 31

USUAL_ATTACKS: Final = ("lira", "ratio", "rmia", "lira-offline", "loss")


@dataclass(frozen=True)
class AuditPlan:
    """What is fixed before anything is trained, and stands in the open.

    - `shadows`: an even number; `attacks`: the primary one first; `guesses` about the target.
    - `delta` of every bound; `claimed`: the epsilon that is judged, if any.
    - `unit`: whose coin decides; `queries`: how often a model is asked about one record.
    - `given`: whether a model that was there before is attacked too.
    - `public`: whether the data are public, so that the log may hold the result.

    Raises `InvalidInput` for values out of range.
    """

    shadows: int
    attacks: tuple[str, ...]
    guesses: int
    delta: float
    claimed: float | None
    unit: str
    queries: int
    given: bool
    public: bool

    def __post_init__(self) -> None:
        shadows = validate.count(shadows=self.shadows)
        if shadows < LEAST_SHADOWS or shadows % 2 or shadows >= MOST_MODELS:
            raise InvalidInput(
                f"`shadows` must be an even number, {LEAST_SHADOWS} or more; it is {shadows}.",
                "They come in pairs, each the opposite half of the other.",
                "64 are usual.",
            )
        if isinstance(self.attacks, str) or not self.attacks:
            raise InvalidInput(
                "`attacks` must be a list of names, the primary one first.",
                next_step=f"Choose from {enumerated(ATTACKS, 'and')}.",
            )
        for name in self.attacks:
            validate.choice(ATTACKS, attack=name)
        if len(set(self.attacks)) < len(self.attacks):
            raise InvalidInput("`attacks` names one of them twice.", next_step="Name each once.")
        validate.count(guesses=self.guesses)
        validate.probability_below_one(delta=self.delta)
        if self.claimed is not None:
            validate.non_negative(claimed=self.claimed)
        validate.choice(("record", "user"), unit=self.unit)
        validate.count(queries=self.queries)

    @property
    def models(self) -> int:
        """How many models are trained: the shadows, and the target behind them."""
        return self.shadows + 1

    def to_json(self) -> dict[str, object]:
        """Return it as a JSON object."""
        return {"format": AUDIT_FORMAT, **asdict(self), "attacks": list(self.attacks)}

    @classmethod
    def from_json(cls, source: Mapping[str, Any]) -> AuditPlan:
        """Return the plan of a log's first line; raise `InvalidInput` for what is none."""
        try:
            if source["format"] != AUDIT_FORMAT:
                raise InvalidInput(
                    f"The audit was written in the format {source['format']!r:.20}.",
                    f"This version reads the format {AUDIT_FORMAT}.",
                    "Read it with the version that wrote it.",
                )
            return cls(
                shadows=source["shadows"],
                attacks=tuple(source["attacks"]),
                guesses=source["guesses"],
                delta=source["delta"],
                claimed=source["claimed"],
                unit=source["unit"],
                queries=source["queries"],
                given=bool(source["given"]),
                public=bool(source["public"]),
            )
        except (KeyError, TypeError):
            raise InvalidInput("The first line of the log is no plan of an audit.") from None


def checked_attacks(asked: Sequence[str] | None, *, population: bool) -> tuple[str, ...]:
    """Return the attacks to make, the primary one first; without a population some are none."""
    if asked is None:
        return tuple(name for name in USUAL_ATTACKS if population or name not in OF_POPULATION)
    lacking = [name for name in asked if name in OF_POPULATION and not population]
    if lacking:
        raise InvalidInput(
            f"The attack {lacking[0]} needs `population`.",
            "It compares with records that no model has trained on.",
            "Give population=(features, labels), or leave the attack out.",
        )
    return (asked,) if isinstance(asked, str) else tuple(asked)


@dataclass(frozen=True, eq=False)
class AuditFacts:
    """What is fixed beforehand and sealed: it comes from coins, or from private records.

    - `design`: who is in which model; `seeds` (models,), one for both models of a pair.
    - `unit` (records,): whose coin decides on a record; `population`: how many records no model
      has trained on; `digest`: of the records.
    - `members` (records,), `blind`: of a model that was there before.
    """

    design: Design
    seeds: tuple[int, ...]
    unit: IntArray
    population: int
    digest: str
    members: BoolArray | None = None
    blind: BlindResult | None = None

    def indices(self, model: int) -> IntArray:
        """Return the records that a model is trained on, in rising order."""
        return np.flatnonzero(self.design.inside[model][self.unit]).astype(np.int64)

    def to_items(self) -> dict[str, object]:
        """Return it as items to seal."""
        inside = self.design.inside
        blind = self.blind
        seen = None
        if blind is not None:
            seen = [blind.auc.value, blind.auc.lower, blind.auc.upper, blind.above_chance]
        return {
            "coins": {"shape": list(inside.shape), "bits": np.packbits(inside).tobytes().hex()},
            "seeds": list(self.seeds),
            "facts": {
                "unit": self.unit.tolist(),
                "population": self.population,
                "digest": self.digest,
                "members": None if self.members is None else self.members.tolist(),
                "blind": seen,
            },
        }

    @classmethod
    def from_items(cls, items: Mapping[str, Any]) -> AuditFacts:
        """Return what was sealed; raise `InvalidInput` for what does not fit."""
        try:
            coins, facts = items["coins"], items["facts"]
            models, units = coins["shape"]
            packed = np.frombuffer(bytes.fromhex(coins["bits"]), np.uint8)
            inside = np.unpackbits(packed)[: models * units].astype(bool).reshape(models, units)
            seen, members = facts["blind"], facts["members"]
            unit = np.array(facts["unit"], np.int64)
            if unit.ndim != 1 or not np.array_equal(np.unique(unit), np.arange(units)):
                raise ValueError
            if members is not None and len(members) != len(unit):
                raise ValueError
            return cls(
                Design(inside[:-1], inside[-1:]),
                tuple(int(seed) for seed in items["seeds"]),
                unit,
                int(facts["population"]),
                str(facts["digest"]),
                None if members is None else np.array(members, bool),
                None if seen is None else BlindResult(Area(*map(float, seen[:3])), bool(seen[3])),
            )
        except (KeyError, TypeError, ValueError, IndexError, OverflowError):
            raise InvalidInput(
                "What the audit sealed does not fit its plan.",
                next_step="Take the folder from a copy that nobody has touched.",
            ) from None


def fair_coins(models: int, units: int) -> BoolArray:
    """Return independent fair coins of the operating system's generator: (models, units)."""
    count = models * units
    drawn = np.frombuffer(os.urandom(-(-count // 8)), np.uint8)
    return np.unpackbits(drawn)[:count].astype(bool).reshape(models, units)


def drawn_design(units: int, shadows: int) -> Design:
    """Return who of `units` is in which shadow, in pairs, and in the target."""
    half = fair_coins(shadows // 2, units)
    paired = np.stack([half, ~half], axis=1).reshape(shadows, units)
    return Design(paired, fair_coins(1, units))


def drawn_seeds(shadows: int) -> tuple[int, ...]:
    """Return a seed for each model, shadows first: the same one for both of a pair."""
    pairs = [secrets.randbits(TRAINING_SEED_BITS) for _ in range(shadows // 2)]
    return (*(pair for pair in pairs for _ in range(2)), secrets.randbits(TRAINING_SEED_BITS))


def units_of(user: ArrayLike | None, records: int, guesses: int) -> IntArray:
    """Return the unit of each record, numbered from 0; raise `InvalidInput` for too few."""
    if user is None:
        unit = np.arange(records)
    else:
        labels = np.asarray(user)
        if labels.shape != (records,) or labels.dtype.kind not in "iuUS":
            raise InvalidInput("`user` must be an integer or a text for each record.")
        unit = np.unique(labels, return_inverse=True)[1]
    units = int(unit.max()) + 1
    if units < LEAST_AUDITED_UNITS:
        raise InvalidInput(
            f"`data` has {units} users or records; {LEAST_AUDITED_UNITS} are the fewest.",
            "Each is in or out by a coin, and of few coins nothing can be shown.",
            "Give more records.",
        )
    if guesses > units:
        raise InvalidInput(
            f"`guesses` must be at most the number of units ({units}); it is {guesses}.",
            next_step="A tenth of the units, or 100, is usual.",
        )
    return np.asarray(unit).astype(np.int64)


def members_of(members: ArrayLike | None, unit: IntArray) -> BoolArray:
    """Return who was in the training data of a model that was there before: (records,).

    `members` are booleans, or numbers of records.  Raises `InvalidInput` for records that are
    listed twice, that are not in `data`, for users of whom only some records are members, and where
    everybody, or nobody, is a member.
    """
    records = len(unit)
    given = np.asarray([] if members is None else members)
    if given.dtype == bool and given.shape == (records,):
        inside = given.copy()
    elif given.ndim == 1 and given.size and given.dtype.kind in "iu":
        if given.min() < 0 or given.max() >= records:
            raise InvalidInput(f"`members` must be in [0, {records - 1}], the records of `data`.")
        if len(np.unique(given)) < len(given):
            raise InvalidInput(
                "`members` lists a record twice.",
                "A record is in the training data or not.",
                "List each once; copies are records of their own in `data`.",
            )
        inside = np.zeros(records, bool)
        inside[given] = True
    else:
        raise InvalidInput(
            f"`members` must be {records} booleans, or numbers of records.",
            "A model that was there before is attacked by whom it was trained on.",
            "Give members=, or model=None to attack a model that is trained here.",
        )
    if inside.all() or not inside.any():
        who = "non-members" if inside.all() else "members"
        raise InvalidInput(
            f"`members` leaves no {who}.",
            "Members are told from others, so both must be there.",
            "Put records into `data` that the model was not trained on.",
        )
    counts = np.bincount(unit, inside)
    if ((counts > 0) & (counts < np.bincount(unit))).any():
        raise InvalidInput(
            "`members` has some records of a user, and not all.",
            "With `user` a person is attacked as a whole.",
            "Leave `user` out to attack single records.",
        )
    return inside
