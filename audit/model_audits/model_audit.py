"""An audit of a training that somebody else wrote: coins, shadows, attacks, and a folder of proof.

    def train(indices, seed):
        return RandomForestClassifier(random_state=seed).fit(x[indices], y[indices])

    audit = pp.audit_model(None, train, (x, y), folder="audit", delta=1e-5)
    audit.results.target.primary.epsilon_lower

**Epsilon** is of a training, and rests on coins: a target is trained on whom coins of the operating
system draw, after a commitment to them stands in the log.  A model that was there before was
trained on whom nobody's coins drew: it has areas and hits, next to what a classifier tells that
never sees it, and no bound.

**The folder** holds a hash chain (`audit.jsonl`): the plan before the training, the result behind
it.  Coins, scores and, unless the data are public, the result are sealed: the chain has commitments
to them.  No record is in it.  Nobody but its owner may read it.  A chain alone binds nobody who can
write all of it anew; a plan's head that was kept elsewhere before the training does.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike

from ...accountant import validate
from ...accountant.arrays import BoolArray, FloatArray, IntArray
from ...accountant.errors import InvalidInput, MissingExtra
from ...fl.log.append_file import new_folder
from ..shadows.replicas import Executor, JoblibExecutor, SerialExecutor
from .audit_chain import (
    AUDIT_LOG,
    FAILURE,
    MODEL,
    PLAN,
    RESULT,
    RESUME,
    AuditChain,
    opened_items,
)
from .audit_plan import (
    AuditFacts,
    AuditPlan,
    checked_attacks,
    drawn_design,
    drawn_seeds,
    members_of,
    units_of,
)
from .audit_results import TrainingResults, derive_results
from .coins import BlindResult, blind
from .model_scores import AuditedRecords, Query, refuse_constant, refuse_shared_records
from .score_audit import GUESSES
from .score_tables import score_tables
from .shadow_training import (
    GIVEN,
    SCORES,
    Train,
    TrainingProgress,
    finished_models,
    new_scores_folder,
    read_scores_of,
    score_file,
    train_models,
    watched,
    write_scores,
)

PACKAGES: Final = ("privplan", "numpy", "scipy")


@dataclass(frozen=True)
class ModelAudit:
    """An audit that is finished: its plan, its results, and the heads of its log.

    `plan_head` is the hash of the plan's line, `head` that of the last one.
    """

    folder: Path
    plan: AuditPlan
    results: TrainingResults
    plan_head: str
    head: str

    def to_json(self) -> dict[str, object]:
        """Return it as a JSON object."""
        return {
            **self.results.to_json(),
            "plan": self.plan.to_json(),
            "plan_head": self.plan_head,
            "head": self.head,
        }


def audit_model(
    model: object | None,
    train: Train,
    data: tuple[Any, ArrayLike],
    shadows: int = 64,
    *,
    folder: str | Path,
    delta: float,
    members: ArrayLike | None = None,
    user: ArrayLike | None = None,
    population: tuple[Any, ArrayLike] | None = None,
    augmentations: Sequence[Query] = (),
    attacks: Sequence[str] | None = None,
    guesses: int = GUESSES,
    claimed: float | None = None,
    public: bool = False,
    processes: int = 1,
    executor: Executor | None = None,
    progress: Callable[[TrainingProgress], object] | None = None,
) -> ModelAudit:
    """Return what membership inference finds in the models of a training, and in one of them.

    - `model`: one that was there before, trained on `members` (booleans, or numbers of records of
      `data`); None where there is none.  It has `predict_proba`, or is a network of torch, or a
      function of (features, labels) that returns a score a record, the higher the surer.
    - `train(indices, seed)` returns such a model, trained on these records of `data` alone.
    - `data`: features, as models take them, and labels.  `user` (n,): whose record it is; then a
      user is a unit.  `population`: the same of records that no model is trained on.
    - `shadows`: how many besides the target, even, 6 or more.  Each model has half of the units:
      a claim must be that of a training on so many records.
    - `augmentations`: functions from features to further features of the same records.
    - `folder`: a new one, or that of an audit that was cut off, which goes on with its coins.
    - `attacks`, `guesses`, `delta`, `claimed`: fixed before anything is trained; see
      `audit_scores`.  `public` says that the data are, so that the log may hold the result.
    - `processes`, or an `executor`, train side by side; `progress` is told of each model.

    Raises `InvalidInput` for data, members and scores that no attack can use, for a training that
    ignores its indices, and for a folder of another audit; `PrivplanError` where a training fails.
    """
    records = AuditedRecords(data[0], data[1], tuple(augmentations))
    outside = None
    if population is not None:
        outside = AuditedRecords(population[0], population[1], tuple(augmentations))
        refuse_shared_records(records, outside)
    plan = AuditPlan(
        shadows=validate.count(shadows=shadows),
        attacks=checked_attacks(attacks, population=outside is not None),
        guesses=validate.count(guesses=guesses),
        delta=validate.probability_below_one(delta=delta),
        claimed=None if claimed is None else validate.non_negative(claimed=claimed),
        unit="record" if user is None else "user",
        queries=1 + len(augmentations),
        given=model is not None,
        public=public,
    )
    scored = (records,) if outside is None else (records, outside)
    unit = units_of(user, records.count, guesses)
    inside = None if model is None else members_of(members, unit)
    if model is None and members is not None:
        raise InvalidInput(
            "`members` is given, and no model.",
            "Coins draw who is in the models that are trained here.",
            "Give the model that was trained on them, or leave `members` out.",
        )
    scores = None if model is None else _scores_of_given(model, scored)
    path = Path(folder)
    if not (path / AUDIT_LOG).exists():
        seen = None
        if scores is not None and inside is not None:
            seen = _blind(records, inside, scores[: records.count], user)
        _begin(path, plan, scored, unit, inside, seen, scores)
    runs = executor
    if runs is None:
        count = validate.count(processes=processes)
        runs = SerialExecutor() if count == 1 else JoblibExecutor(count)
    with AuditChain.open(path) as chain:
        facts = _require_same(path, chain, plan, scored, unit, inside, scores)
        if chain.lines[-1].kind != RESULT:
            _train(path, chain, plan, facts, train, scored, runs, progress)
        table = [
            read_scores_of(score_file(path, number), sum(each.count for each in scored))[0]
            for number in range(plan.models)
        ]
        results = derive_results(plan, facts, np.array(table), scores)
        if chain.lines[-1].kind != RESULT:
            told = results.to_json()
            if plan.public:
                chain.append({"type": RESULT, "result": told}, {})
            else:
                chain.append({"type": RESULT}, {"result": told})
        return ModelAudit(path, plan, results, chain.lines[0].hash, chain.head)


def _begin(
    path: Path,
    plan: AuditPlan,
    scored: tuple[AuditedRecords, ...],
    unit: Any,
    members: BoolArray | None,
    seen: BlindResult | None,
    scores: FloatArray | None,
) -> None:
    """Draw coins and seeds, and write the plan with commitments to them."""
    new_folder(path)
    new_scores_folder(path)
    path.chmod(0o700)
    facts = AuditFacts(
        drawn_design(int(unit.max()) + 1, plan.shadows),
        drawn_seeds(plan.shadows),
        unit,
        sum(each.count for each in scored[1:]),
        " ".join(each.digest() for each in scored),
        members,
        seen,
    )
    items = facts.to_items()
    if scores is not None:
        write_scores(score_file(path, GIVEN), scores)
        items[GIVEN] = read_scores_of(score_file(path, GIVEN), len(scores))[1]
    versions = {name: metadata.version(name) for name in PACKAGES}
    with AuditChain.create(path) as chain:
        chain.append(
            {
                "type": PLAN,
                **plan.to_json(),
                "randomness": "operating-system",
                "versions": {**versions, "python": platform.python_version()},
            },
            items,
        )


def _scores_of_given(model: object, scored: tuple[AuditedRecords, ...]) -> FloatArray:
    parts = [records.phi(model, "`model`") for records in scored]
    refuse_constant(parts[0], "`model`")
    return np.concatenate(parts)


def _blind(
    records: AuditedRecords, members: BoolArray, scores: FloatArray, user: ArrayLike | None
) -> BlindResult | None:
    """Return what features alone tell of the members of a model that was there before.

    None for features that are no numbers, without scikit-learn, and where nothing is left because
    every record has a copy on the other side.
    """
    try:
        table = np.asarray(records.features)
        if table.dtype.kind not in "biuf":
            return None
        features = table.reshape(records.count, -1).astype(np.float64)
        tables = score_tables(
            target=scores[None], target_membership=members[None], user=user, records=features
        )
        return blind(tables)
    except (InvalidInput, MissingExtra, TypeError, ValueError):
        return None


def _require_same(
    path: Path,
    chain: AuditChain,
    plan: AuditPlan,
    scored: tuple[AuditedRecords, ...],
    unit: IntArray,
    members: BoolArray | None,
    scores: FloatArray | None,
) -> AuditFacts:
    """Return what was fixed beforehand; raise `InvalidInput` for an audit of something else."""
    if (path / SCORES).is_symlink():
        raise InvalidInput(
            f"{path / SCORES} is a link.",
            "What models say is kept inside of the folder of their audit, for its owner alone.",
            "Take the folder from a copy that nobody has touched.",
        )
    if not chain.lines:
        raise InvalidInput(
            f"{path} holds an audit that was cut off before its plan was written.",
            "Nothing was trained under it.",
            "Begin it in a new folder.",
        )
    kept = AuditPlan.from_json(chain.lines[0].record)
    items = opened_items(path, tuple(chain.lines))
    count = sum(each.count for each in scored)
    for line in chain.lines:
        if line.kind == MODEL:
            file = score_file(path, line.record["model"])
            if read_scores_of(file, count)[1] != items[f"model.{line.record['model']}"]:
                raise _another(path, f"{file.name} was changed since the log committed to it")
    facts = AuditFacts.from_items(items)
    for name, value in plan.to_json().items():
        if kept.to_json()[name] != value:
            raise _another(path, f"its plan says another `{name}`")
    if facts.digest != " ".join(each.digest() for each in scored):
        raise _another(path, "it is of other data")
    if not np.array_equal(facts.unit, unit):
        raise _another(path, "it is of other `user`")
    same = (facts.members is None) == (members is None)
    if facts.members is not None and members is not None:
        same = np.array_equal(facts.members, members)
    if not same:
        raise _another(path, "it is of other `members`")
    if scores is not None:
        before, digest = read_scores_of(score_file(path, GIVEN), len(scores))
        if items.get(GIVEN) != digest or not np.allclose(before, scores, rtol=1e-6, atol=1e-6):
            raise _another(path, "`model` says other things than the one that it began with")
        scores[:] = before
    return facts


def _another(path: Path, why: str) -> InvalidInput:
    return InvalidInput(
        f"{path} holds another audit: {why}.",
        "An audit that goes on keeps what it fixed beforehand.",
        "Give what it began with, or a new folder.",
    )


def _train(
    path: Path,
    chain: AuditChain,
    plan: AuditPlan,
    facts: AuditFacts,
    train: Train,
    scored: tuple[AuditedRecords, ...],
    executor: Executor,
    progress: Callable[[TrainingProgress], object] | None,
) -> None:
    """Train what is missing, and write down each finished model."""
    finished = finished_models(path, plan.models)
    if finished or len(chain.lines) > 1:
        chain.append({"type": RESUME, "finished": len(finished)}, {})
    try:
        with watched(path, plan.models, chain.lines[0].hash, progress):
            train_models(path, train, facts, scored, executor)
    except Exception:
        done = len(finished_models(path, plan.models))
        chain.append({"type": FAILURE, "finished": done}, {})
        raise
    told = {line.record["model"] for line in chain.lines if line.kind == MODEL}
    count = sum(each.count for each in scored)
    for number in range(plan.models):
        if number not in told:
            digest = read_scores_of(score_file(path, number), count)[1]
            chain.append({"type": MODEL, "model": number}, {f"model.{number}": digest})
