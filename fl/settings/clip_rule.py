"""Which clips a run may have: those by which floats can move the parameters of a model.

A round moves parameters by the clip at most, and by the noise, which is made for the clip.  Models
are floats of 53 bits and begin near 1, where their steps are 2^-52.  Within the range seven digits
are left at either end: for an update that is divided by the number of contributions, and for a
model that has moved away and is to be moved by less.  Far below it noise is rounded off and models
repeat, far above it what was learnt is rounded off the noise.

Logs of earlier versions may have other clips, and are judged by what they released.
"""

from __future__ import annotations

from typing import Final

from ..declarations.declaration import Complaint, Given

LEAST_CLIP: Final = 1e-9
MOST_CLIP: Final = 1e9


def clip_in_floats(given: Given) -> Complaint | None:
    """Refuse a clip beside which parameters, or beside parameters which, are rounded off."""
    clip = given.get("training", {}).get("clip")
    if clip is None or LEAST_CLIP <= clip <= MOST_CLIP:
        return None
    lost = "a far smaller update is rounded off it"
    if clip > MOST_CLIP:
        lost = "beside a far larger update it is rounded off, and with it what was learnt"
    return (
        f"has clip = {clip:g} in [training], which must be from {LEAST_CLIP:g} to {MOST_CLIP:g}",
        f"A parameter near 1 is a float with steps of 2e-16: {lost}.",
        "Give a clip within the range, about as long as an update is; data may be in other units.",
    )
