"""What a run writes down: a closed vocabulary of records, and the recorder that takes them.

The code that draws noise states here what it is about to do, and what it did; whoever keeps the
log implements `Recorder`.  Records carry no secret and nothing that was computed before the noise,
except as a commitment.

- `log_records`: the lines of a log, from `run.open` to `run.close`, and the recorder that takes
  them.
- `facts`: the parts of lines: claim, noise, sampling, reach.
- `field_codec`: values by the types of their fields, to JSON and back; refusals of what is not
  canonical.
- `participation`: silos that take part in some rounds only.
- `release_binding`: which release a sealed item belongs to.
"""

from .facts import (
    Block,
    Claim,
    Contribution,
    Gram,
    Noise,
    Normaliser,
    Planned,
    Population,
    Product,
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
from .field_codec import Fact
from .log_records import (
    KINDS,
    SCHEMA,
    AuditResult,
    Evaluation,
    Head,
    Party,
    PostProcessing,
    Progress,
    Record,
    Recorder,
    RoundAbort,
    RoundIntent,
    RoundRelease,
    RunClose,
    RunOpen,
    RunRecover,
)

__all__ = [
    "KINDS",
    "SCHEMA",
    "AuditResult",
    "Block",
    "Claim",
    "Contribution",
    "Evaluation",
    "Fact",
    "Gram",
    "Head",
    "Noise",
    "Normaliser",
    "Party",
    "Planned",
    "Population",
    "PostProcessing",
    "Product",
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
