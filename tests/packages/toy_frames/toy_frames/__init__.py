"""Sums of what silos hold, of a few silos in each round by a public schedule."""

from dataclasses import dataclass

from privplan.accountant import validate
from privplan.fl.declarations.declaration import Declaration, Key, Table


@dataclass(frozen=True, kw_only=True)
class FrameSettings:
    clip: float = 2.0


KEYS = (Key("clip", validate.positive, "how long the vector of a silo is at most", "2.0"),)

SYSTEMS = Declaration(
    name="toy-frames",
    summary="noisy sums of three silos each, which come and go",
    make="toy_frames.system:frames",
    table=Table(name="frames", about="what only frames have", settings=FrameSettings, keys=KEYS),
    rounds=5,
    trains=False,
    units=("silo",),
    aggregations=("plain",),
    phases=("frame",),
    measure="toy_frames.system:measure",
    determines="toy_frames.system:DETERMINES",
)
