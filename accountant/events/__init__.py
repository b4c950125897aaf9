"""The vocabulary of releases: events, and their exchange as JSON and with dp_accounting.

`definitions` holds the closed list of events, `json_decoding` reads them from JSON, and
`dp_accounting_exchange` converts them to and from those of dp_accounting, `dp_event_tuples` from
those as data.  Nothing here imports numpy.
"""

from .definitions import (
    MAX_DEPTH,
    TYPES,
    ZCDP,
    Approximate,
    BestOf,
    Compose,
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    Exponential,
    FixedSize,
    Gaussian,
    Group,
    Laplace,
    Local,
    NoGuarantee,
    Poisson,
    Pure,
    RandomAllocation,
    RandomizedResponse,
    Repeat,
    SampledShuffle,
    Shuffle,
    ShuffledBatches,
    TruncatedPoisson,
    to_json,
)
from .dp_accounting_exchange import from_dp_event, to_dp_event
from .dp_event_tuples import EventLike, as_event, from_named_tuple
from .json_decoding import from_json

__all__ = [
    "MAX_DEPTH",
    "TYPES",
    "ZCDP",
    "Approximate",
    "BestOf",
    "Compose",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "Event",
    "EventLike",
    "Exponential",
    "FixedSize",
    "Gaussian",
    "Group",
    "Laplace",
    "Local",
    "NoGuarantee",
    "Poisson",
    "Pure",
    "RandomAllocation",
    "RandomizedResponse",
    "Repeat",
    "SampledShuffle",
    "Shuffle",
    "ShuffledBatches",
    "TruncatedPoisson",
    "as_event",
    "from_dp_event",
    "from_json",
    "from_named_tuple",
    "to_dp_event",
    "to_json",
]
