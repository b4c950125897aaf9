"""Bad labels: some silos, a share of whose training records have labels drawn at random.

For studies of how learning bears bad data, never for data that matter: it changes what the records
say, by public draws.  Test records keep their labels.

Source: the bad clients of Cao et al. 2023, *Differentially Private Federated Learning with
Functional Mechanism* (DELM), a share of the clients with a share of bad records.
"""

from __future__ import annotations

from dataclasses import replace

from numpy.random import Generator

from ...accountant import validate
from ...accountant.errors import InvalidInput
from .federation import Federation


def with_bad_labels(
    federation: Federation, silos: float, records: float, rng: Generator
) -> Federation:
    """Return a federation in which some silos have bad labels.

    `silos` is their share, rounded to whole silos, and `records` the share of the records of each
    whose labels are drawn anew: uniform over all classes, the true one among them.  Both are in
    [0, 1].  `rng`: its draws are public, as all of this is part of the experiment.

    Raises `InvalidInput` for a share out of range, and for a task without class labels.
    """
    bad = validate.probability(bad_silos=silos)
    changed = validate.probability(bad_labels=records)
    if federation.task not in ("binary", "multiclass"):
        raise InvalidInput(
            f"The data set {federation.name} has no class labels that could be bad.",
            "Its labels are times or numbers.",
            "Leave `bad_silos` and `bad_labels` out.",
        )
    labels = federation.labels.copy()
    groups = federation.by_silo()
    for silo in rng.permutation(federation.silos)[: round(bad * federation.silos)]:
        places = rng.permutation(groups.records(int(silo)))
        places = places[: round(changed * len(places))]
        labels[places] = rng.integers(federation.classes, size=len(places))
    return replace(federation, labels=labels)
