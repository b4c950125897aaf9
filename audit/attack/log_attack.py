"""The attack on a run: what was demonstrably lost, tier by tier, and where each result is kept.

    claim, robust   the run is rehearsed from its settings, with canaries for users: no record of
                    the run is read, so the results join its log
    residual        reads the sealed sidecar, which holds what was seen before the noise: its
                    results stand in the sealed report, and nowhere else
    membership      trains on the records of the run without its promise: public where the data
                    are, and else sealed, with a commitment in the log

What is rehearsed is the mechanism, under the settings of the log.  That the rounds of the log were
made under them is the question of `audit.budget`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ...accountant.errors import InvalidInput, PrivplanError, Unsupported
from ...accountant.records import RunOpen
from ...fl.declarations.registry import exactly_named
from ...fl.declarations.toml_key import TABLE
from ...fl.log import Sidecar
from ...fl.log.hash_chain import SEALED
from ...fl.tables.table import Table
from ..configuration.comparison import require_as_configured
from ..configuration.logged_settings import (
    announced_in_full,
    require_same_epsilon,
    require_same_event,
    require_same_file,
    settings_in,
)
from ..edits import require_unedited
from ..hazards.sidecar import require_fitting
from ..ledger import Ledger
from ..ledger.entries import require_commitments
from ..measurement import Measurement, Tier
from ..results import append_results, sealed_whatever_is_found
from ..verify import Verification, verify
from .attacked_log import ledger_of, verified_log, warnings_of, with_code_of
from .attacked_table import PUBLIC_DATASETS, place_of, require_place, with_own_table
from .inserted_canaries import attack_training, has_canaries
from .report import ATTACK_TIERS, AttackReport, AttackRequest, SkippedTier
from .tiers import TierFunctions, canary_count, require_feasible

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )

    from ...fl.settings.schema import Settings

DEFAULT_TIERS: Final[tuple[Tier, ...]] = ("claim", "robust", "residual")
"""The tiers that are taken unless others are requested: they read no private record."""

_PROGRESS_TEXTS: Final[Mapping[str, str]] = {
    "claim": "testing the claim",
    "robust": "bounding epsilon from below",
}

ProgressReporter = Callable[[str], None]
"""Called with a few words on what is done next."""


@exactly_named()
def attack(
    folder: str | Path,
    request: AttackRequest | None = None,
    *,
    append: bool = True,
    key: Ed25519PrivateKey | None = None,
    progress: ProgressReporter | None = None,
    tier_functions: TierFunctions | None = None,
    public_key: Ed25519PublicKey | None = None,
    expected_head: str | None = None,
) -> AttackReport:
    """Attack the run in a folder, and write each result where it may be kept.

    Without tiers in `request`, those of `DEFAULT_TIERS` are taken, and one that cannot be is
    skipped, with its reason; a tier that was named must work.  With `append`, what may be
    published joins the log, signed by `key` if it is, and the rest the sidecar and the sealed
    report; without, nothing is written.  `public_key` and `expected_head` are what the log must
    fit.  All tiers together contradict a sound run once in 1,000 calls at most: see
    `audit.measurement`.

    Raises `InvalidInput` where there is no log, its chain is broken (`BadLine`), it is still being
    written, its settings do not belong to its promise, its sidecar does
    not belong to it, or a test has too little to go by;
    `Unsupported` where nothing can be attacked; `MissingExtra`; `LogBroken`.
    """
    path, wanted = Path(folder), request or AttackRequest()
    verified = verified_log(path, public_key, expected_head)
    ledger = ledger_of(path, append, key)
    opened = ledger.opened
    require_unedited(path)
    if has_canaries(opened):
        return attack_training(
            path,
            wanted,
            ledger,
            verified,
            append=append,
            key=key,
            progress=progress,
            tier_functions=tier_functions,
        )
    settings = with_code_of(settings_in(opened), wanted.code)
    require_as_configured(ledger)
    require_commitments(ledger)
    require_same_file(path, opened)
    attack_run = _Attack(
        folder=path,
        request=wanted,
        ledger=ledger,
        opened=opened,
        settings=settings,
        observer=wanted.observer or opened.claim.observer,
        append=append,
        key=key,
        progress=progress or _silent,
        tier_functions=tier_functions or TierFunctions.default(),
        verified=verified,
    )
    attack_run.warnings += warnings_of(path, opened)
    return attack_run.run()


@dataclass
class _Attack:
    """An attack under way."""

    folder: Path
    request: AttackRequest
    ledger: Ledger
    opened: RunOpen
    settings: Settings
    observer: str
    append: bool
    key: Ed25519PrivateKey | None
    progress: ProgressReporter
    tier_functions: TierFunctions
    verified: Verification
    measurements: list[Measurement] = field(default_factory=list)
    skipped: list[SkippedTier] = field(default_factory=list)
    failures: list[PrivplanError] = field(default_factory=list)
    appended: list[int] = field(default_factory=list)
    sealed_tiers: list[str] = field(default_factory=list)
    sealed_report: Path | None = None
    warnings: list[str] = field(default_factory=list)

    def run(self) -> AttackReport:
        """Run the tiers, and return the report of their results.

        Those whose results join the log come first and are kept at once: what joins it, and
        whether it does, must not depend on what was seen before the noise.
        """
        requested = set(self.request.tiers)
        wanted = [tier for tier in ATTACK_TIERS if tier in (requested or DEFAULT_TIERS)]
        if "membership" in wanted:  # before any work
            require_place(self.settings, self.opened, self.folder, self.request.data)
            require_feasible(self.settings, self.opened.population.silos)
        if "residual" in wanted and (self.folder / SEALED).exists():
            # Evidence that belongs elsewhere is no reason to leave a tier out.  Whether it does
            # is public: it depends on commitments, and on nothing that was there before the noise.
            require_fitting(self.ledger, self.folder)
        self._rehearse([tier for tier in wanted if tier in ("claim", "robust")])
        if "membership" in wanted:
            self._membership()
        if "residual" in wanted:
            self._residual()
        # Every tier was skipped: the first reason is the answer.
        if not self.measurements:
            raise self.failures[0]
        return AttackReport(
            run_id=self.opened.run_id,
            system=self.opened.system,
            claim=self.opened.claim,
            observer=self.observer,
            request=self.request,
            measurements=tuple(self.measurements),
            skipped=tuple(self.skipped),
            appended=tuple(self.appended),
            head=verify(self.folder).head,
            sealed_tiers=tuple(self.sealed_tiers),
            sealed_report=self.sealed_report,
            warnings=tuple(self.warnings),
            checked=self.verified.checked,
            signature=self.verified.signature,
            up_to=self.verified.up_to,
        )

    def _rehearse(self, tiers: Sequence[Tier]) -> None:
        if not tiers:
            return
        silos, planned = self.opened.population.silos, self.settings.run.rounds
        if self.request.rounds is not None and self.request.rounds > planned:
            raise InvalidInput(
                f"`rounds` is {self.request.rounds:,}, and the run has {planned:,}.",
                "More rounds than were planned show more than was promised.",
                "Give fewer, or leave it out.",
            )
        canaries = canary_count(
            self.settings, silos, rounds=self.request.rounds, requested=self.request.canaries
        )
        self.progress(f"rehearsing with {canaries:,} canaries")
        try:
            rehearsal = self.tier_functions.rehearse(
                self.settings,
                canaries=canaries,
                observer=self.observer,
                rounds=self.request.rounds,
                seed=self.request.seed,
                silos=silos,
            )
        except Unsupported as error:
            self._skip(tiers, error)
            return
        self._require_same(rehearsal)
        if rehearsal.share < 1.0 and rehearsal.claimed is not None:
            self.warnings.append(
                "The claim is above what any unit shows: canaries are told apart by "
                f"{rehearsal.share:.3g} times what it allows."
            )
        measurements: list[Measurement] = []
        for tier in tiers:
            self.progress(_PROGRESS_TEXTS[tier])
            test = self.tier_functions.claim if tier == "claim" else self.tier_functions.robust
            try:
                measurements.append(test(rehearsal, alpha=self.request.alpha))
            except InvalidInput as error:
                # Of a number of canaries that a person chose, it is for the person to hear.
                if self.request.canaries is not None:
                    raise
                self._skip([tier], error)
        self._publish(measurements)

    def _require_same(self, rehearsal: Any) -> None:
        """Raise `InvalidInput` where what was rehearsed is not what the log promises."""
        # A NaN would drop out of every comparison, and bias the test in silence.
        if np.isnan(rehearsal.observations).any():
            raise InvalidInput(
                "What was seen of some canaries is no number.",
                "A unit that was not seen was neither told from the others nor not.",
                "Find out what became of it; leaving units out would bias the test.",
            )
        claim, settings = self.opened.claim, self.settings
        pairs = {
            "unit": (rehearsal.unit, claim.unit),
            "neighbours": (rehearsal.neighbours, claim.neighbours),
            "delta": (rehearsal.delta, claim.delta),
        }
        differing = [name for name, (rehearsed, logged) in pairs.items() if rehearsed != logged]
        if differing and rehearsal.event is not None:
            raise InvalidInput(
                f"What was rehearsed and what the log claims differ in: {', '.join(differing)}.",
                "A test of another claim says nothing about this one.",
                "Give the folder of a run as privplan left it.",
            )
        private = settings.data.normalisation == "private"
        votes = settings.evaluation.held_out_noise is not None
        cut = self.request.rounds is not None or private or votes or rehearsal.partial
        if not self.opened.as_published:  # that log announces no guarantee before anybody
            require_same_event(rehearsal.event, self.opened, self.observer, cut=cut)
        if self.observer == claim.observer:
            require_same_epsilon(rehearsal.claimed, self.opened, cut=cut)
        if not cut or rehearsal.claimed is None:
            return
        if not announced_in_full(rehearsal.event, self.opened, self.observer):
            self.warnings.append(
                "A part of the run is rehearsed (fewer rounds, or one phase of several), and is "
                "held against what is claimed of that part, not against all that the log promises."
            )
        elif self.request.rounds is not None and self.request.rounds < settings.run.rounds:
            self.warnings.append(
                "Fewer rounds than planned are rehearsed, and are held against all that the log "
                "promises: what they begin is paid whole."
            )

    def _residual(self) -> None:
        self.progress("judging the noise that was drawn")
        try:
            measurements = self.tier_functions.residual(self.folder, alpha=self.request.alpha)
        except PrivplanError as error:
            self._skip(["residual"], error)
            return
        self._seal("residual", measurements)

    def _membership(self) -> None:
        settings = self._with_records()
        self.progress("training models with and without the run's users")

        def found() -> Sequence[Measurement]:
            return self.tier_functions.membership(
                settings, seed=self.request.seed, alpha=self.request.alpha
            )

        if settings.data.name in PUBLIC_DATASETS:
            self._publish(tuple(found()))
            return
        measurements, lines = sealed_whatever_is_found(
            "membership", found, self.folder, append=self.append, key=self.key
        )
        self.appended += lines
        given = self.request.data
        assert given is not None
        read = f"the records in {given}" if settings.data.name != TABLE else place_of(given)
        self.warnings.append(f"Membership read {read}.")
        self._seal("membership", measurements)

    def _with_records(self) -> Settings:
        """Return the settings with the place of the records: the one that was given, or none."""
        given = self.request.data
        if self.settings.data.name == TABLE:
            settings = with_own_table(self.settings, self.opened, self.folder, given)
        else:
            assert not isinstance(given, Table)  # which was refused
            settings = replace(self.settings, data=replace(self.settings.data, path=given))
        self._require_same_records(settings)
        return settings

    def _require_same_records(self, settings: Settings) -> None:
        """Raise `InvalidInput` for other records than those of the run, if that can be told."""
        item = None
        if self.opened.dataset is not None and (self.folder / SEALED).is_file():
            item = Sidecar.read(self.folder).opening(self.opened.dataset)
        if item is None:
            self.warnings.append(
                "It could not be checked that these are the records of the run: the sealed sidecar "
                "does not say."
            )
            return
        from ...fl.running.preparation import prepare

        if prepare(settings).dataset != item.value:
            raise InvalidInput(
                "The records are not those that the run was made on.",
                "What is found out about other records says nothing about it.",
                "Give the place of the run's own records.",
            )

    def _publish(self, measurements: Sequence[Measurement]) -> None:
        """Report measurements that touched no record, and append them to the log."""
        self.measurements += measurements
        if measurements and self.append:
            self.appended += append_results(self.folder, measurements, key=self.key).lines

    def _seal(self, tier: str, measurements: Sequence[Measurement]) -> None:
        """Report measurements that rest on private values, and write them to the sealed report."""
        self.measurements += measurements
        self.sealed_tiers.append(tier)
        if self.append:
            self.sealed_report = self.tier_functions.seal(self.folder, measurements)

    def _skip(self, tiers: Sequence[str], error: PrivplanError) -> None:
        """Leave out tiers that were not requested by name; raise the error for those that were."""
        if self.request.tiers:
            raise error
        self.failures.append(error)
        why = " ".join(part for part in (error.what, error.why) if part)
        self.skipped += [SkippedTier(tier, why) for tier in tiers]


def _silent(_: str) -> None:
    """Report no progress."""
