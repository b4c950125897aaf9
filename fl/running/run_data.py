"""The federation of a run, and digests of its private records."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Final, TypeAlias, cast

import numpy as np

from ..data.federation import Federation
from ..datasets import federate, load
from ..frame.rounds import system_with_package
from ..frame.system_checks import checked_data
from ..settings.schema import Settings

Source: TypeAlias = Callable[[Settings], tuple[Federation, dict[str, str]]]
"""What a system makes of data: from settings to a federation, and digests of private facts."""

_SPLIT: Final = 1
_DEALING: Final = 2
"""Names of the public streams that `[data] seed` feeds."""


def federation_of(settings: Settings) -> tuple[Federation, dict[str, str]]:
    if settings.system.data is not None:
        source = cast("Source", settings.system.load(settings.system.data))
        return checked_data(
            source(settings), system_with_package(settings.run.system, settings.system)
        )
    data = settings.data
    private = data.normalisation == "private"  # the run does that, once the moments are released
    records = load(
        data.name,
        data.path,
        normalisation="none" if private else data.normalisation,
        rng=np.random.default_rng([data.seed, _SPLIT]),
    )
    federation = federate(
        records,
        data.users,
        data.silos,
        data.allocation,
        np.random.default_rng([data.seed, _DEALING]),
        labels_per_user=data.labels_per_user,
    )
    dealt = hashlib.sha256()
    # Little-endian 64-bit, so that the digest is the same on every machine.
    for index in (federation.user, federation.silo):
        dealt.update(np.ascontiguousarray(index, "<i8").tobytes())
    return federation, {"records": records.digest, "allocation": dealt.hexdigest()}
