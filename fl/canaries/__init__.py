"""Canaries: units that are in or out by a secret coin, in a rehearsal of a run's settings.

A canary is one unit of the claim whose data are worse than the claim allows: its row is ten times
as long as the clip.  It goes through the system's own weights, clip, sampling and noise, and what
an observer sees of it is handed to an audit.  A system says how canaries enter, what is seen of
them and what that scores (`CanaryHarness`); other packages may import all of these names.

- `harness`: the rehearsal: how canaries enter, what is observed, what that scores.
- `request`: what a carrier is asked, and its observations, which are checked.
- `federation`, `injection`, `local`: canary users, their rows, their training.
- `memory_log`, `rehearsal_settings`: a log in memory; settings of a rehearsal.
"""

from .federation import Coins, canary_federation, flip_coins, records_federation
from .harness import (
    AfterRound,
    CanaryHarness,
    MakeRounds,
    ObserveUnits,
    View,
    by_phase,
    equal_shifts,
    observe_rounds,
    rounds_to_simulate,
    simulate_rounds,
    training_noise,
    training_phase,
)
from .injection import (
    MAX_CANARY_ROWS,
    MakeView,
    canary_models,
    canary_rows,
    canary_sum,
    canary_training,
    carrier_of,
)
from .local import CANARY_NORM_IN_CLIPS, CanaryLocalTraining, RealUsers
from .memory_log import MemoryLog, RecordingAggregator
from .rehearsal_settings import (
    PUBLIC_DATASETS,
    Work,
    mask_pairs,
    model_size,
    rehearsal_settings,
    silos_of,
    usual_work,
)
from .request import (
    OBSERVER_SILO,
    REHEARSABLE_OBSERVERS,
    CanaryObservations,
    Carrier,
    RehearsalRequest,
    refuse_real_users,
    require_observer,
)

__all__ = [
    "CANARY_NORM_IN_CLIPS",
    "MAX_CANARY_ROWS",
    "OBSERVER_SILO",
    "PUBLIC_DATASETS",
    "REHEARSABLE_OBSERVERS",
    "AfterRound",
    "CanaryHarness",
    "CanaryLocalTraining",
    "CanaryObservations",
    "Carrier",
    "Coins",
    "MakeRounds",
    "MakeView",
    "MemoryLog",
    "ObserveUnits",
    "RealUsers",
    "RecordingAggregator",
    "RehearsalRequest",
    "View",
    "Work",
    "by_phase",
    "canary_federation",
    "canary_models",
    "canary_rows",
    "canary_sum",
    "canary_training",
    "carrier_of",
    "equal_shifts",
    "flip_coins",
    "mask_pairs",
    "model_size",
    "observe_rounds",
    "records_federation",
    "refuse_real_users",
    "rehearsal_settings",
    "require_observer",
    "rounds_to_simulate",
    "silos_of",
    "simulate_rounds",
    "training_noise",
    "training_phase",
    "usual_work",
]
