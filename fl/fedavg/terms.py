"""What a round of FedAvg is, for its runs and for their audits: a mean without clip and noise."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ...accountant import events as ev
from ...accountant.records import Contribution, Noise, RoundIntent, Weights
from ..declarations.shared_tables import PrivacySettings
from ..frame.expected_log import ExpectedLog, ExpectedPhase
from ..frame.terms import SetupTerms, by_terms
from ..observers.names import MODEL

NO_NOISE: Final = ev.NoGuarantee("no noise")


@dataclass(frozen=True)
class FedAvgTerms(SetupTerms):
    """One round of FedAvg, which promises nothing to anybody."""

    clip_enforced = False

    def views(self, noise_multiplier: float = 0.0) -> Mapping[str, ev.Event]:
        """Return that the model, which everybody sees, has no guarantee."""
        del noise_multiplier
        return {MODEL: NO_NOISE}

    @property
    def divisor(self) -> float:
        """The number of silos."""
        return float(self.setup.silos)

    @property
    def round(self) -> ExpectedPhase:
        """What every round states: the mean of updates as they are."""
        return ExpectedPhase(
            Contribution(math.inf, "l2", "user", "whole"),
            Noise("none", 0.0, shares=0, draws=0),
            math.inf,
            Weights(),
            normaliser=self.normaliser,
            clip_enforced=self.clip_enforced,
        )

    def expected(self, privacy: PrivacySettings, intent: RoundIntent) -> ExpectedPhase:
        """Return what every round states."""
        del privacy, intent
        return self.round


EXPECTED: Final = ExpectedLog(by_terms(lambda given, *_: FedAvgTerms(given)))
