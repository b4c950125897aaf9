"""What a run writes down: a closed vocabulary of records, and the recorder that takes them.

The code that draws noise states here what it is about to do, and what it did; whoever keeps the
log implements `Recorder`.  Records carry no secret and nothing that was computed before the noise,
except as a commitment.
"""

from .facts import (
    Claim,
    Contribution,
    Fact,
    Gram,
    Noise,
    Normaliser,
    Planned,
    Population,
    Randomness,
    Reach,
    Relation,
    Sampling,
    Security,
    StreamRange,
    Tuning,
    Unit,
    Weights,
)
from .kinds import (
    KINDS,
    SCHEMA,
    AuditResult,
    Evaluation,
    Head,
    PostProcessing,
    Record,
    RoundAbort,
    RoundIntent,
    RoundRelease,
    RunClose,
    RunOpen,
    RunRecover,
)
from .progress import Progress
from .recorder import Recorder

__all__ = [
    "KINDS",
    "SCHEMA",
    "AuditResult",
    "Claim",
    "Contribution",
    "Evaluation",
    "Fact",
    "Gram",
    "Head",
    "Noise",
    "Normaliser",
    "Planned",
    "Population",
    "PostProcessing",
    "Progress",
    "Randomness",
    "Reach",
    "Record",
    "Recorder",
    "Relation",
    "RoundAbort",
    "RoundIntent",
    "RoundRelease",
    "RunClose",
    "RunOpen",
    "RunRecover",
    "Sampling",
    "Security",
    "StreamRange",
    "Tuning",
    "Unit",
    "Weights",
]
