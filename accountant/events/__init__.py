"""The vocabulary of releases: events, and their exchange as JSON and with dp_accounting.

`definitions` holds the closed list of events, each of which is in the module of its kind.
`json_decoding` reads them from JSON, `dp_accounting_exchange` converts them to and from those of
dp_accounting, and `dp_event_tuples` from those as data.  Nothing here imports numpy.

- `base`, `definitions`: what every event is, and the closed list of them.
- `mechanisms`, `samplers`, `matrices`: single releases; samples of units; correlated noise.
- `contributions`, `run_counts`: random contributions; random numbers of runs.
- `json_decoding`: from JSON, with unknown types and fields refused.
- `dp_accounting_exchange`, `dp_event_converters`, `dp_event_tuples`: to and from dp_accounting, as
  objects and as data.
"""

from . import definitions
from .definitions import *  # noqa: F403  (all that it lists, said once)
from .dp_accounting_exchange import from_dp_event, to_dp_event
from .dp_event_tuples import EventLike, as_event, from_named_tuple, known_event
from .json_decoding import from_json
from .run_counts import negative_binomial_mean

__all__ = [
    "EventLike",
    "as_event",
    "from_dp_event",
    "from_json",
    "from_named_tuple",
    "known_event",
    "negative_binomial_mean",
    "to_dp_event",
]
__all__ += definitions.__all__
