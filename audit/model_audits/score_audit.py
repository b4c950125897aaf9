"""What membership inference finds in the scores of a model, and what that shows of epsilon.

One attack is primary: it is named before any score is looked at, and so is the number of guesses.
It spends half of the level, all others share the other half (Bonferroni), so that all bounds of one
audit are right together at the stated confidence.  The bound is that of one run: the target is one
model, the trials are the units whose coins were tossed, and delta is stated.

A claim is contradicted where the guesses are so many right that a model under the claim has them
with probability 1/1,000 at most, over all attacks of the audit; at 95 % alone they are `unusual`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from numpy.typing import ArrayLike

from ...accountant import validate
from ...accountant.arrays import FloatArray
from ...accountant.errors import InvalidInput, Unsupported, enumerated
from ..attack_methods.membership.results import REPORTED_FALSE_ALARM_RATES
from ..attack_methods.membership.scores import references, strangers_to
from ..attack_methods.membership.tier import ATTACKS, trials_of
from ..attack_methods.membership.trials import Area, Hits, Trials, area, hits, unsupported
from ..statistics.one_run import steinke, steinke_p_value
from .coins import BlindResult, blind, complaints_of_coins
from .guesses import correct, share_of_members
from .score_tables import Kind, Level, ScoreTables, as_phi, score_tables

ALPHA: Final = 0.05
CONTRADICTED_AT: Final = 1e-3

GUESSES: Final = 100

Coins = Literal["independent"]

OF_SHADOWS: Final = ("lira", "lira-offline", "ratio", "rmia")
OF_POPULATION: Final = ("ratio", "rmia")


@dataclass(frozen=True)
class AttackResult:
    """What one attack finds.

    `tpr` are hits at few false alarms, at the rates that the non-members support.  `epsilon_lower`
    is a lower bound on epsilon for any mechanism, None where no coins carry one; `correct` of the
    guesses were right, of which `share` called members.
    """

    attack: str
    primary: bool
    auc: Area
    tpr: tuple[Hits, ...]
    epsilon_lower: float | None = None
    confidence: float | None = None
    correct: int | None = None
    share: float | None = None


@dataclass(frozen=True)
class ScoreAudit:
    """The audit of one set of scores: attacks, the primary one first, and what they rest on.

    - `conclusion`: `leak` where coins decided and an attack tells members from others, at 95 % over
      all attacks; `groups differ` where it does and no coins decided; `nothing` else, which proves
      nothing.
    - `contradicted`, `unusual`: what the guesses say of the claim; None without claim or coins.
    - `withheld`: what is not printed, and why.
    """

    attacks: tuple[AttackResult, ...]
    blind: BlindResult | None
    unit: Level
    coins: str
    units: int
    guesses: int
    delta: float
    conclusion: Literal["leak", "groups differ", "nothing"]
    withheld: tuple[str, ...] = ()
    claimed: float | None = None
    contradicted: bool | None = None
    unusual: bool | None = None

    neighbours: Literal["add-remove"] = "add-remove"
    observer: Literal["model"] = "model"

    @property
    def primary(self) -> AttackResult:
        """The attack that was named beforehand."""
        return self.attacks[0]

    def to_json(self) -> dict[str, object]:
        """Return it as a JSON object."""
        return {
            "attacks": [_attack_json(each, self.delta) for each in self.attacks],
            "blind": None
            if self.blind is None
            else {**_area_json(self.blind.auc), "above_chance": self.blind.above_chance},
            "withheld": list(self.withheld),
            "unit": self.unit,
            "neighbours": self.neighbours,
            "observer": self.observer,
            "coins": self.coins,
            "users": self.units,
            "guesses": self.guesses,
            "correct": self.primary.correct,
            "conclusion": self.conclusion,
            "claimed": self.claimed,
            "contradicted": self.contradicted,
            "unusual": self.unusual,
        }


def audit_scores(
    target: ArrayLike,
    target_membership: ArrayLike,
    *,
    shadows: ArrayLike | None = None,
    membership: ArrayLike | None = None,
    kind: Kind = "phi",
    labels: ArrayLike | None = None,
    population: tuple[ArrayLike, ArrayLike | None] | None = None,
    population_labels: ArrayLike | None = None,
    user: ArrayLike | None = None,
    group: ArrayLike | None = None,
    records: ArrayLike | None = None,
    attacks: Sequence[str] | None = None,
    guesses: int = GUESSES,
    delta: float,
    coins: Coins | None = None,
    claimed: float | None = None,
) -> ScoreAudit:
    """Return what membership inference finds in the scores of models that anybody trained.

    - `target` (n,) or (T, n): scores of n records under the models that are attacked, the first of
      which gives the bound on epsilon; `target_membership`: who was in their training data.
    - `shadows` (S, n), `membership` (S, n): the same of models that the attacker trains.
    - `kind`: `phi` (log p_y - log(1 - p_y)), `loss`, or `logits` (models, n, classes), `labels`.
    - `population`: scores of records that no model has trained on, of (targets, shadows).
    - `user`: whose record it is; then a user is a unit.  `group`: copies, which count as one, so
      that bounds are of copies together, and no claim for a single record is judged.
    - `records` (n, d): features, for a classifier that never sees the model, and for copies.
    - `attacks`: names in `ATTACKS`, the primary one first; by default all that the scores allow.
    - `coins`: `independent` says that each unit was in the target by a fair coin of its own, which
      no shadow and nothing else tells.  Without it there is no bound on epsilon.
    - `guesses`: fixed before the scores were seen; `delta` in [0, 1) of bound and claim.

    Raises `InvalidInput` for tables that do not fit or that no attack can use.
    Source: Carlini et al. 2022, arXiv 2112.03570 (LiRA); Zarifzadeh, Liu, Shokri 2024, arXiv
    2312.03262 (RMIA); Steinke, Nasr, Jagielski 2023, arXiv 2305.08846, Theorem 5.2 (epsilon).
    """
    validate.probability_below_one(delta=delta)
    validate.count(guesses=guesses)
    if claimed is not None:
        validate.non_negative(claimed=claimed)
    if coins is not None:
        validate.choice(("independent",), coins=coins)
    tables = score_tables(
        target=as_phi(target, kind, labels),
        target_membership=target_membership,
        shadows=None if shadows is None else as_phi(shadows, kind, labels),
        membership=membership,
        population=_population(population, kind, population_labels),
        user=user,
        group=group,
        records=records,
        labels=labels,
    )
    return audit_tables(
        tables, attacks=attacks, guesses=guesses, delta=delta, coins=coins, claimed=claimed
    )


def audit_tables(
    tables: ScoreTables,
    *,
    attacks: Sequence[str] | None = None,
    guesses: int = GUESSES,
    delta: float,
    coins: Coins | None = None,
    claimed: float | None = None,
) -> ScoreAudit:
    """Return what membership inference finds in tables; see `audit_scores`."""
    named, withheld = _attacks(tables, attacks)
    seen = blind(tables)
    against = _complaints(tables, seen, coins, guesses)
    bounded = coins is not None and not against
    withheld = (*tables.withheld, *withheld)
    if coins is None:
        withheld += ("epsilon: nobody said that coins decided who was in (`coins`)",)
    withheld += tuple(f"epsilon: {why}" for why in against)
    trials = {name: trials_of(tables.evidence, name, tables.scored_by) for name in named}
    rows = []
    for index, name in enumerate(named):
        row, left_out = _result(name, trials[name], primary=index == 0)
        withheld += left_out
        if bounded:
            row = _with_guesses(tables, trials[name], row, guesses, delta, len(named))
        rows.append(row)
    tells = any(
        area(trials[row.attack], alpha=_level(ALPHA, row, len(rows))).lower > 0.5 for row in rows
    )
    conclusion: Literal["leak", "groups differ", "nothing"] = "nothing"
    if tells:
        conclusion = "leak" if bounded else "groups differ"
    if bounded and tables.level == "group":
        withheld += ("the claim: bounds are of copies together, and it is about a single record",)
    judged = bounded and claimed is not None and tables.level != "group"
    return ScoreAudit(
        attacks=tuple(rows),
        blind=seen,
        unit=tables.level,
        coins="declared independent" if bounded else ("refuted" if coins else "none"),
        units=len(tables.coins_of_target),
        guesses=guesses,
        delta=delta,
        conclusion=conclusion,
        withheld=tuple(dict.fromkeys(withheld)),
        claimed=claimed,
        contradicted=_rejects(rows, tables, guesses, delta, claimed, CONTRADICTED_AT)
        if judged
        else None,
        unusual=_rejects(rows, tables, guesses, delta, claimed, ALPHA) if judged else None,
    )


def _population(
    given: tuple[ArrayLike, ArrayLike | None] | None, kind: Kind, labels: ArrayLike | None
) -> tuple[FloatArray, FloatArray | None] | None:
    if given is None:
        return None
    of_target, of_shadows = given
    shadows = None if of_shadows is None else as_phi(of_shadows, kind, labels)
    return as_phi(of_target, kind, labels), shadows


def _attacks(
    tables: ScoreTables, asked: Sequence[str] | None
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the attacks that the tables allow, in order, and why others are left out."""
    lacking = _lacking(tables)
    if asked is None:
        usual = ("lira", "ratio", "rmia", "lira-offline", "loss")
        named = tuple(name for name in usual if name not in lacking)
        return named, tuple(f"{name}: {why}" for name, why in lacking.items())
    if isinstance(asked, str) or not asked or len(set(asked)) < len(asked):
        raise InvalidInput(
            "`attacks` must be a list of names, each once, the primary one first.",
            next_step=f"Choose from {enumerated(ATTACKS, 'and')}.",
        )
    for name in asked:
        validate.choice(ATTACKS, attack=name)
        if name in lacking:
            raise InvalidInput(f"The attack {name} is not possible: {lacking[name]}.")
    return tuple(asked), ()


def _lacking(tables: ScoreTables) -> dict[str, str]:
    """Return which attacks the tables do not allow, and why."""
    coins = tables.evidence.design.shadows
    counts, shadows, units = coins.sum(0), len(coins), coins.shape[1]
    lacking: dict[str, str] = {}
    if shadows < 2 or counts.max() == shadows:
        why = "each record must be out of a shadow, of two or more"
        lacking = dict.fromkeys(OF_SHADOWS, why)
    elif (shadows * units - counts.sum()) <= units:
        why = "records must be out of more than one shadow each, in the mean"
        lacking = dict.fromkeys(("lira", "lira-offline"), why)
    if shadows and counts.min() == 0:
        lacking["lira"] = "each record must be in a shadow"
    elif shadows and counts.sum() <= units:
        lacking["lira"] = "records must be in more than one shadow each, in the mean"
    if not tables.has_population:
        why = "there are no scores of a population that no model has trained on"
        lacking |= dict.fromkeys(OF_POPULATION, why)
    elif not all(
        (~coins[strangers_to(tables.evidence, row)]).any(0).all()
        for row in references(tables.evidence)
    ):
        why = "too few shadows are left where one of them plays the target"
        lacking |= dict.fromkeys(OF_POPULATION, why)
    return lacking


def _complaints(
    tables: ScoreTables, seen: BlindResult | None, coins: Coins | None, guesses: int
) -> tuple[str, ...]:
    """Return why declared coins carry no bound, if anything shows that."""
    if coins is None:
        return ()
    against = complaints_of_coins(tables)
    if seen is not None and seen.above_chance:
        against += (
            "a classifier that never saw the model tells members from others (AUC "
            f"{seen.auc.value:.3f}): coins alone did not decide",
        )
    units = len(tables.coins_of_target)
    if guesses > units:
        raise InvalidInput(
            f"`guesses` must be at most the number of units ({units}); it is {guesses}.",
            next_step="A tenth of the units, or 100, is usual.",
        )
    return against


def _result(name: str, trials: Trials, *, primary: bool) -> tuple[AttackResult, tuple[str, ...]]:
    reasons = {rate: unsupported(trials, rate) for rate in REPORTED_FALSE_ALARM_RATES}
    rates = tuple(
        hits(trials, rate) for rate in REPORTED_FALSE_ALARM_RATES if reasons[rate] is None
    )
    withheld = tuple(
        f"TPR at {rate:.1%} FPR: {why.removeprefix('not printed: ')}"
        for rate, why in reasons.items()
        if why
    )
    return AttackResult(name, primary, area(trials), rates), withheld


def _with_guesses(
    tables: ScoreTables, trials: Trials, row: AttackResult, guesses: int, delta: float, tried: int
) -> AttackResult:
    share = share_of_members(tables.evidence, row.attack, tables.scored_by, guesses)
    right = correct(trials.scores[0], trials.members[0], guesses, share)
    alpha = _level(ALPHA, row, tried)
    units = len(tables.coins_of_target)
    return AttackResult(
        row.attack,
        row.primary,
        row.auc,
        row.tpr,
        steinke(units, guesses, right, delta=delta, alpha=alpha),
        1.0 - alpha,
        right,
        share,
    )


def _level(total: float, row: AttackResult, tried: int) -> float:
    """Return an attack's part of the level: half for the primary one, the rest in equal parts."""
    if tried == 1:
        return total
    return 0.5 * total if row.primary else 0.5 * total / (tried - 1)


def _rejects(
    rows: Sequence[AttackResult],
    tables: ScoreTables,
    guesses: int,
    delta: float,
    claimed: float | None,
    total: float,
) -> bool:
    """Return whether any attack's guesses reject the claim, at a level for all of them together."""
    if claimed is None:
        raise Unsupported("There is no claim to judge.")
    units = len(tables.coins_of_target)
    return any(
        steinke_p_value(units, guesses, row.correct or 0, epsilon=claimed, delta=delta)
        <= _level(total, row, len(rows))
        for row in rows
    )


def _area_json(auc: Area) -> dict[str, float]:
    return {"value": auc.value, "lower": auc.lower, "upper": auc.upper}


def _attack_json(row: AttackResult, delta: float) -> dict[str, object]:
    bound = None
    if row.epsilon_lower is not None:
        bound = {"lower": row.epsilon_lower, "confidence": row.confidence, "delta": delta}
    return {
        "attack": row.attack,
        "primary": row.primary,
        "auc": _area_json(row.auc),
        "tpr": [
            {"fpr": hit.fpr, "value": hit.value, "lower": hit.lower, "upper": hit.upper}
            for hit in row.tpr
        ],
        "epsilon": bound,
        "correct": row.correct,
    }
