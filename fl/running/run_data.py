"""Loads the records of a run, with the digests (fingerprints) that a resumed run compares."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Final, TypeAlias, cast

import numpy as np

from ..data.bad_labels import with_bad_labels
from ..data.federation import Federation
from ..datasets import federate, load
from ..declarations.toml_key import TABLE
from ..frame.rounds import system_with_package
from ..frame.system_checks import checked_data
from ..settings.schema import Settings
from ..tables.federated_table import (
    digest_of,
    federation_of_table,
    parted,
    read_test_table,
    rows_of_listed,
    table_of,
)
from ..tables.user_list import public_users

DataSource: TypeAlias = Callable[[Settings], tuple[Federation, dict[str, str]]]
"""A system's own source of data: from settings to a federation and its digests by name."""

_SPLIT_STREAM: Final = 1
_ALLOCATION_STREAM: Final = 2
_LABEL_STREAM: Final = 3
"""Public random streams under `[data] seed`: the test split, records to users and silos, and bad
labels."""


def federation_of(settings: Settings) -> tuple[Federation, dict[str, str]]:
    """Return the federation that `[data]` describes, and SHA-256 digests of its data by name.

    The digests are of private records, so they are for the sealed sidecar only.  A system with
    data of its own is asked for them instead.  Raises `InvalidInput` for data that cannot be read,
    and for what is no federation.
    """
    if settings.system.data is not None:
        source = cast("DataSource", settings.system.load(settings.system.data))
        return checked_data(
            source(settings), system_with_package(settings.run.system, settings.system)
        )
    return usual_data(settings)


def usual_data(settings: Settings) -> tuple[Federation, dict[str, str]]:
    """Return the usual data of a run: a table's rows, or a data set's, dealt to users and silos.

    Raises `InvalidInput` for data that cannot be read.
    """
    if settings.data.name == TABLE:
        file = settings.evaluation.test_file
        test = None if file is None else read_test_table(settings.data, file)
        listed = public_users(settings.data)
        table, held_out = table_of(settings.data), None
        if listed is not None:
            table = rows_of_listed(table, listed)
        if settings.evaluation.held_out is not None:
            table, held_out = parted(
                table,
                share=settings.evaluation.held_out,
                seed=settings.data.seed,
                named=settings.data.user is not None,
            )
        federation = federation_of_table(table, test, held_out, listed)
        return federation, {"records": digest_of(federation)}
    return _dealt(settings)


def _dealt(settings: Settings) -> tuple[Federation, dict[str, str]]:
    data = settings.data
    # Private normalisation comes later: it uses the noisy moments that the run releases first.
    private = data.normalisation == "private"
    records = load(
        data.name,
        data.path,
        normalisation="none" if private else data.normalisation,
        rng=np.random.default_rng([data.seed, _SPLIT_STREAM]),
    )
    federation = federate(
        records,
        data.users,
        data.silos,
        data.allocation,
        np.random.default_rng([data.seed, _ALLOCATION_STREAM]),
        labels_per_user=data.labels_per_user,
    )
    if data.bad_silos is not None and data.bad_labels is not None:
        labels = np.random.default_rng([data.seed, _LABEL_STREAM])
        federation = with_bad_labels(federation, data.bad_silos, data.bad_labels, labels)
    allocation = hashlib.sha256()
    # Little-endian int64, so that the digest is the same on every machine.
    for index in (federation.user, federation.silo):
        allocation.update(np.ascontiguousarray(index, "<i8").tobytes())
    return federation, {"records": records.digest, "allocation": allocation.hexdigest()}
