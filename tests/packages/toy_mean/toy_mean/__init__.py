"""Noisy means of what users hold, smoothed over the rounds: a system for privplan."""

from dataclasses import dataclass

from privplan.accountant import validate
from privplan.fl.declarations.declaration import Declaration, Key, Table
from privplan.fl.declarations.sealed_items import of_user_sum


@dataclass(frozen=True, kw_only=True)
class ToySettings:
    clip: float = 4.0


KEYS = (Key("clip", validate.positive, "how far a user moves the sum", "4.0"),)
TABLE = Table(name="toy", about="what only toys have", settings=ToySettings, keys=KEYS)

SYSTEMS = Declaration(
    name="toy-mean",
    summary="noisy means of features and labels, smoothed over the rounds",
    make="toy_mean.system:ToyMean",
    table=TABLE,
    rounds=5,
    trains=False,
    phases=("release",),
    measure="toy_mean.system:measure",
    determines="toy_mean.system:DETERMINES",
    carrier="privplan.fl.canaries:canary_sum",
    sealed=of_user_sum(),
)
