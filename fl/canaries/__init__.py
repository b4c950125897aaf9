"""Canaries: units with a secret coin each, sent through a rehearsal of a run's own settings.

A canary is one claimed unit whose data are as bad as the claim allows, and worse: its row is ten
times as long as the clip.  It goes through the project's own weights, clip, sample and noise, and
what an observer sees of it is handed to an audit.  Each system brings its own carrier (`Carrier`),
of these parts; a package of its own may import all names here.
"""

from .carriers import carrier
from .coins import Coins, Flags, Floats, Indices, flip
from .federation import canary_federation
from .injection import MOST_ROWS, Viewing, canary_rows, canary_training
from .local import NORM, Beside, CanaryLocal
from .memory_log import Memory, Watching
from .rehearsal_rounds import by_phase, conduct, rounds_made, training_noise, training_of
from .rehearsal_settings import PUBLIC, settled, silos_of
from .request import OWN, REHEARSED, Asked, Carrier, Seen, nobody_beside, require_observer
from .sums import canary_sum
from .view import Look, View, watched
from .work import Work, meetings, usual_work

__all__ = [
    "MOST_ROWS",
    "NORM",
    "OWN",
    "PUBLIC",
    "REHEARSED",
    "Asked",
    "Beside",
    "CanaryLocal",
    "Carrier",
    "Coins",
    "Flags",
    "Floats",
    "Indices",
    "Look",
    "Memory",
    "Seen",
    "View",
    "Viewing",
    "Watching",
    "Work",
    "by_phase",
    "canary_federation",
    "canary_rows",
    "canary_sum",
    "canary_training",
    "carrier",
    "conduct",
    "flip",
    "meetings",
    "nobody_beside",
    "require_observer",
    "rounds_made",
    "settled",
    "silos_of",
    "training_noise",
    "training_of",
    "usual_work",
    "watched",
]
