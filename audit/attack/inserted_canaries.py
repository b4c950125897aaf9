"""The attack on a training of another library that had canaries put into it.

Nothing is rehearsed: what was seen of the canaries in the one training is judged by the tests that
judge rehearsals, `claim` and `robust`.  The claim is the plan of the first line, of as many steps
as were made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from ...accountant.account import account
from ...accountant.errors import InvalidInput, Unsupported
from ...accountant.guarantee import as_neighbours
from ...accountant.records import RunOpen
from ...fl.settings.logged_tables import LOOP_TABLE, is_of_loop
from ..adapters.canary_files import CANARIES, CanaryCoins, observations
from ..adapters.training_plan import OBSERVER, StepFacts, TrainingPlan
from ..canaries.rehearsal import CanaryRehearsal
from ..ledger import Ledger
from ..measurement import Measurement, Tier
from ..results import append_results
from ..verify import Verification, verify
from .attacked_log import warnings_of
from .report import AttackReport, AttackRequest, SkippedTier
from .tiers import TierFunctions

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

CANARY_TIERS: Final[tuple[Tier, ...]] = ("claim", "robust")
"""The tiers that canaries in a training answer."""

_IN_LOOP: Final = (
    "canaries were gradients in the one training: ten times as long as the clip, drawn without "
    "the loop's own sampler, which is not tested, clipped by the loop, and seen in its noisy sums"
)
_BY_OPTIMIZER: Final = (
    "canaries were gradients in the one training: ten times as long as the clip, drawn by the "
    "loader, clipped by the optimizer, and seen in the sums that it stepped with"
)
_IN_PROCESSES: Final = (
    "canaries were gradients in one of several processes: ten times as long as the clip, drawn by "
    "the rate of its sampler, which is not tested, clipped by its optimizer, and seen in the sum "
    "of all processes"
)
NOTES: Final = (
    "one fair coin for each, from the operating system, committed to in the first line",
    "the sensitivity and epsilon are those of the plan, since coins and not data decide who is in; "
    "the divisor is the plan's, so that canaries add to the mean",
)


def has_canaries(opened: RunOpen) -> bool:
    """Return whether a log is of a training of another library with canaries in it."""
    table = opened.configuration.get(LOOP_TABLE)
    return is_of_loop(opened) and isinstance(table, dict) and CANARIES in table


def seen_in_training(folder: Path, ledger: Ledger) -> CanaryRehearsal:
    """Return what was seen of the canaries of a training, and what its plan claims.

    Raises `InvalidInput` where the coins or what was seen are not those that the log states, or
    its plan is not what it promises, and `Unsupported` where no step was released.
    """
    opened = ledger.opened
    table = opened.configuration[LOOP_TABLE]
    assert isinstance(table, dict)
    plan = TrainingPlan.from_json(table.get("plan"))
    _require_promised(plan, opened)
    coins = CanaryCoins.read(folder, table[CANARIES])
    stated = [release.aggregate for _, _, release in ledger.releases]
    seen = observations(folder, len(coins), [digest for digest in stated if digest is not None])
    if not len(seen):
        raise Unsupported(
            "No step of the training was released, so nothing was seen of its canaries.",
            "What is seen is written down with each release.",
            "Attack the folder once the training has ended.",
        )
    event = StepFacts.of(plan).event(plan, len(seen))
    return CanaryRehearsal(
        system=opened.system,
        observer=OBSERVER,
        unit=plan.unit,
        neighbours=as_neighbours(plan.neighbours),
        delta=plan.delta,
        event=event,
        claimed=account(event, delta=plan.delta, neighbours=plan.neighbours).epsilon.upper,
        coins=coins.into,
        observations=seen,
        shift=1.0 / plan.noise_multiplier,
        rate=plan.sampling_rate,
        groups=np.full(len(coins), -1),
        note=(_drawn(opened.system, table), *NOTES),
    )


def _drawn(system: str, table: Mapping[str, object]) -> str:
    """Return by what canaries were drawn and clipped, as the first line has it."""
    if system != "opacus":
        return _IN_LOOP
    return _BY_OPTIMIZER if table.get("world_size", 1) == 1 else _IN_PROCESSES


def _require_promised(plan: TrainingPlan, opened: RunOpen) -> None:
    """Raise `InvalidInput` where the plan of a log is not what its first line promises."""
    claim = opened.claim
    promised = (claim.unit, claim.neighbours, claim.delta, opened.plan.events.get(OBSERVER))
    if promised != (plan.unit, plan.neighbours, plan.delta, plan.event):
        raise InvalidInput(
            "The log plans one training, and promises another.",
            "A test of one says nothing about the other.",
            "Give the folder of a training as it was logged.",
        )


def attack_training(
    folder: Path,
    request: AttackRequest,
    ledger: Ledger,
    verified: Verification,
    *,
    append: bool,
    key: Ed25519PrivateKey | None,
    progress: Callable[[str], None] | None,
    tier_functions: TierFunctions | None,
) -> AttackReport:
    """Judge the canaries of a training; what is measured joins its log, as `attack` says.

    Raises as `seen_in_training`, `Unsupported` for a tier that canaries do not answer, and
    `InvalidInput` for a request that only a rehearsal can follow.
    """
    _require_answerable(request)
    training = seen_in_training(folder, ledger)
    if progress is not None:
        progress(f"judging {training.canaries:,} canaries in {training.rounds:,} steps")
    functions = tier_functions or TierFunctions.default()
    measurements: list[Measurement] = []
    skipped: list[SkippedTier] = []
    failures: list[InvalidInput] = []
    for tier in request.tiers or CANARY_TIERS:
        test = functions.claim if tier == "claim" else functions.robust
        try:
            measurements.append(test(training, alpha=request.alpha))
        except InvalidInput as error:  # too few canaries for this claim
            failures.append(error)
            skipped.append(SkippedTier(tier, f"{error.what} {error.why}"))
            if request.tiers:
                raise
    if not measurements:
        raise failures[0]
    warnings = warnings_of(folder, ledger.opened)
    appended = append_results(folder, measurements, key=key).lines if append else ()
    return AttackReport(
        run_id=ledger.opened.run_id,
        system=ledger.opened.system,
        claim=ledger.opened.claim,
        observer=OBSERVER,
        request=request,
        measurements=tuple(measurements),
        skipped=tuple(skipped),
        appended=appended,
        head=verify(folder).head,
        sealed_tiers=(),
        sealed_report=None,
        warnings=tuple(warnings),
        checked=verified.checked,
        signature=verified.signature,
        up_to=verified.up_to,
        rehearsed=False,
    )


def _require_answerable(request: AttackRequest) -> None:
    other: Sequence[str] = [tier for tier in request.tiers if tier not in CANARY_TIERS]
    if other:
        raise Unsupported(
            f"The tier {other[0]} has nothing to go by in a training of another library.",
            "Its sidecar holds no statistics of the noise, and its model is trained elsewhere.",
            f"Ask for {' or '.join(CANARY_TIERS)}.",
        )
    if request.observer not in (None, OBSERVER):
        raise InvalidInput(
            f"`observer` is {request.observer!r}, and the training has one: {OBSERVER}.",
            "A loop in one process has no server and no silos.",
            "Leave it out.",
        )
    for name in ("canaries", "rounds", "seed"):
        if getattr(request, name) is not None:
            raise InvalidInput(
                f"`{name}` has no effect: the canaries were in the training, and it was made.",
                "Nothing is rehearsed.",
                "Leave it out.",
            )
