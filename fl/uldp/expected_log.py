"""What a configuration of Uldp-FL's systems fixes of a run's log: by their terms (`terms`)."""

from __future__ import annotations

from typing import Final

from ..declarations.declaration import TRAIN
from ..frame.expected_log import ExpectedLog
from ..frame.terms import by_terms, sealed_by, typed
from .terms import group_terms, group_votes, naive_terms, weighted_terms

NAIVE: Final = ExpectedLog(by_terms(naive_terms), sealed=sealed_by(TRAIN, naive_terms))

GROUP: Final = ExpectedLog(
    by_terms(group_terms), votes=typed(group_votes), sealed=sealed_by(TRAIN, group_terms)
)

WEIGHTED: Final = ExpectedLog(
    by_terms(weighted_terms),
    typed(lambda given: weighted_terms(given).security),
    sealed=sealed_by(TRAIN, weighted_terms),
)
