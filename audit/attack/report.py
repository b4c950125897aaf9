"""The request for an attack on a run, and the report of its results."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ...accountant import validate
from ...accountant.errors import InvalidInput
from ...accountant.records import Claim
from ...fl.tables.table import Table
from ..measurement import NOT_PROOF, Measurement, Tier, Verdict
from ..verify import Checked, Signature

ATTACK_TIERS: Final[tuple[Tier, ...]] = ("claim", "robust", "membership", "residual")
"""The tiers of an attack, in the order in which they are taken."""


@dataclass(frozen=True, kw_only=True)
class AttackRequest:
    """What an attack is asked to do.

    `tiers` are those that must be taken (none: `audit.attack.log_attack.DEFAULT_TIERS`, as far as
    they can be), `observer` whose view it takes (None: that of the claim).  `rounds` makes fewer
    rounds than the run's plan.  `seed` makes the rehearsal reproducible.  `data` is where the run's
    records are, which only membership reads, and which never comes out of the folder: a path, of a
    run on a table that of the configuration which names its files, or the table itself.  `code` are
    the files of a model and a loss of one's own: they are executed, if their digests are the log's.

    Range: `confidence` in (0, 1), the counts 1 or above, `seed` 0 or above.  Raises `InvalidInput`.
    """

    tiers: tuple[Tier, ...] = ()
    observer: str | None = None
    canaries: int | None = None
    rounds: int | None = None
    seed: int | None = None
    confidence: float = 0.95
    data: Path | Table | None = None
    code: tuple[Path, ...] = ()

    def __post_init__(self) -> None:
        for tier in self.tiers:
            validate.choice(ATTACK_TIERS, tier=tier)
        validate.open_probability(confidence=self.confidence)
        for name in ("canaries", "rounds"):
            if getattr(self, name) is not None:
                validate.count(**{name: getattr(self, name)})
        if self.seed is not None:
            validate.count_from(0, seed=self.seed)
        if self.data is not None and "membership" not in self.tiers:
            raise InvalidInput(
                "`data` has no effect: no tier that was asked for reads records.",
                "Canaries stand in for users; only membership needs the records themselves.",
                "Leave it out, or ask for the tier membership.",
            )

    @property
    def alpha(self) -> float:
        """How often each tier's number may err, and how often it may say anything of a sound run.

        How often it may contradict one does not depend on it: see `audit.measurement`.
        """
        return 1.0 - self.confidence


@dataclass(frozen=True)
class SkippedTier:
    """A tier that was not taken, and the reason."""

    tier: str
    reason: str


@dataclass(frozen=True)
class AttackReport:
    """What an attack measured, what it left out, and where its results stand now.

    `appended` are the numbers of the lines that were added to the log, `head` its last hash.
    `sealed_tiers` are those whose results are not to be published, `sealed_report` the file that
    keeps them; None where nothing was kept.  `checked`, `signature` and `up_to` are those of the
    log before the attack (`audit.verify.Verification`).  `rehearsed` is False where canaries were
    in the run itself.
    """

    run_id: str
    system: str
    claim: Claim
    observer: str
    request: AttackRequest
    measurements: tuple[Measurement, ...]
    skipped: tuple[SkippedTier, ...]
    appended: tuple[int, ...]
    head: str | None
    sealed_tiers: tuple[str, ...]
    sealed_report: Path | None
    warnings: tuple[str, ...]
    checked: Checked = "chain only"
    signature: Signature | None = None
    up_to: int | None = None
    rehearsed: bool = True

    @property
    def contradicted(self) -> bool:
        """Whether any tier contradicts what is claimed."""
        return any(result.contradicted for result in self.measurements)

    @property
    def unusual(self) -> bool:
        """Whether any tier's result is one that few sound runs have."""
        return any(result.unusual for result in self.measurements)

    @property
    def verdict(self) -> Verdict:
        """The worst that any tier says."""
        if self.contradicted:
            return "contradicted"
        return "unusual" if self.unusual else "not-contradicted"

    def to_json(self) -> dict[str, object]:
        """Return the report as a JSON object; infinite numbers are floats still."""
        claim = self.claim
        return {
            "tiers": [result.to_json() for result in self.measurements],
            "contradicted": self.contradicted,
            "verdict": self.verdict,
            "skipped": [{"tier": skip.tier, "reason": skip.reason} for skip in self.skipped],
            "run_id": self.run_id,
            "system": self.system,
            "claim": {
                "epsilon": claim.epsilon,
                "delta": claim.delta,
                "unit": claim.unit,
                "neighbours": claim.neighbours,
                "observer": claim.observer,
                "group": claim.group,
            },
            "observer": self.observer,
            "confidence": self.request.confidence,
            "seed": self.request.seed,
            "appended": list(self.appended),
            "head": self.head,
            "checked": self.checked,
            "up_to": self.up_to,
            "signature": None if self.signature is None else self.signature.to_json(),
            "sealed": list(self.sealed_tiers),
            "sealed_report": None if self.sealed_report is None else str(self.sealed_report),
            "note": NOT_PROOF,
        }
