"""Settings to rehearse, small and quick, for the tests of canaries."""

from __future__ import annotations

import math
from dataclasses import replace

from privplan.fl.fedpower.settings import FedPowerSettings
from privplan.fl.settings import schema
from privplan.fl.statistics.settings import StatisticsSettings
from privplan.fl.uldp.settings import UldpSettings

TRAINING = schema.TrainingSettings(
    clip=0.25, local_rate=0.5, global_rate=3.0, local_epochs=1, batch=4, model="logistic"
)

VIEWS = [
    # observer, aggregation, rule, relation, shift times noise with three silos
    ("model", "plain", "records", "add-remove", 1.0),
    ("model", "masked", "uniform", "replace-one", 1.0),
    ("server", "masked", "records", "add-remove", 1.0),
    ("server", "plain", "records", "add-remove", math.sqrt(3.0)),
    ("server", "plain", "uniform", "add-remove", 1.0),
    ("silo", "plain", "uniform", "add-remove", math.sqrt(2.0 / 3.0)),
    ("silo", "masked", "records", "replace-one", math.sqrt(3.0 / 2.0)),
]


def settings(
    system="uldp-avg",
    *,
    rounds=4,
    silos=4,
    users=50,
    data="breast-cancer",
    training=None,
    security=None,
    uldp=None,
    **privacy,
):
    """Return settings; `privacy` as for `PrivacySettings`, with noise 2 if nothing is said."""
    if "epsilon" not in privacy:
        privacy = {"noise_multiplier": 2.0, **privacy}
    return schema.Settings(
        run=schema.RunSettings(system=system, rounds=rounds),
        data=schema.DataSettings(name=data, users=users, silos=silos),
        privacy=schema.PrivacySettings(**privacy),
        training=replace(TRAINING, **(training or {})),
        security=schema.SecuritySettings(**(security or {})),
        table=UldpSettings(**uldp) if uldp else None,
    )


def statistics(
    *, silos=2, data="breast-cancer", rounds=1, seed=None, security=None, table=None, **privacy
):
    """Return settings of private statistics of records; else as `settings`."""
    if "epsilon" not in privacy:
        privacy = {"noise_multiplier": 2.0, **privacy}
    return schema.Settings(
        run=schema.RunSettings(system="statistics", rounds=rounds, seed=seed),
        data=schema.DataSettings(name=data, users=50, silos=silos),
        privacy=schema.PrivacySettings(**{"unit": "record", **privacy}),
        training=schema.NO_TRAINING,
        security=schema.SecuritySettings(**(security or {})),
        table=StatisticsSettings(**{"row_norm": 6.0, **(table or {})}),
    )


def fedpower(
    system="fedpower-power",
    *,
    rounds=1,
    silos=2,
    data="digits",
    seed=None,
    security=None,
    table=None,
    **privacy,
):
    """Return settings of a power iteration over records; else as `settings`."""
    if "epsilon" not in privacy:
        privacy = {"noise_multiplier": 2.0, **privacy}
    return schema.Settings(
        run=schema.RunSettings(system=system, rounds=rounds, seed=seed),
        data=schema.DataSettings(name=data, users=50, silos=silos),
        privacy=schema.PrivacySettings(**{"unit": "record", **privacy}),
        training=schema.NO_TRAINING,
        security=schema.SecuritySettings(**(security or {})),
        table=FedPowerSettings(**{"rank": 5, "row_norm": 4.0, **(table or {})}),
    )


def standard(values, mean, std=1.0):
    """Say whether numbers are N(mean, std^2) by their mean and spread, each up to 5 errors."""
    count = values.size
    assert abs(values.mean() - mean) < 5.0 * std / math.sqrt(count)
    assert abs(values.std() / std - 1.0) < 5.0 / math.sqrt(2.0 * count)


def sides(found):
    """Return what was seen of units that were in, and of those that were out, less its mean."""
    out = -found.shift if found.opposite else 0.0
    seen = found.observations
    return seen[:, found.coins] - found.shift, seen[:, ~found.coins] - out


def require_as_claimed(found):
    """Require noise of deviation 1 around what a unit that is in, or out, moves it to."""
    for side in sides(found):
        standard(side, 0.0)
