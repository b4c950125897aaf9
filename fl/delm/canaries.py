"""Canaries for DELM's published schemes: in the PCA, where there is one (`pca_canaries`).

Of the rounds nothing is rehearsed.  Laplace noise on a whole matrix bounds what one record shows by
the sum of all its coordinates, of which no single direction has much; and nothing is claimed of a
model that is not linear.  What was drawn is judged by its residuals instead.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, cast

from ...accountant.errors import Unsupported
from ..canaries import CanaryObservations, RehearsalRequest
from ..frame.system import build
from ..tables.record_shape import required_shape
from ..training.local_training import NoTraining
from .settings import NO_PCA, DelmSettings

if TYPE_CHECKING:
    from ..data.federation import Task
    from .scheme import DelmScheme


def simulate(request: RehearsalRequest) -> CanaryObservations:
    """Return what an observer sees of canaries in the PCA step of a scheme.

    Raises `Unsupported` for a scheme without one, and as `simulate_pca`.
    """
    if request.settings.of(DelmSettings).pca == NO_PCA:
        raise Unsupported(
            f"The rounds of {request.settings.run.system} are not rehearsed with canaries.",
            "Laplace noise on a whole matrix bounds the sum of all that a record moves, and a "
            "canary in one direction shows little of that.",
            "Judge the noise that was drawn (tier residual), or rehearse delm-linear with noise = "
            '"gaussian", which releases the same sums.',
        )
    from .pca_canaries import empty_federation, simulate_pca

    features, classes = required_shape(request.settings.data)
    nobody = empty_federation(features, request.silos, request.settings.data.users)
    task: Task = "multiclass" if classes > 2 else "binary"
    federation = replace(nobody, task=task, classes=classes)
    system = cast(
        "DelmScheme", build(request.settings, federation, NoTraining(), request.streams())
    )
    assert system.pca is not None
    return simulate_pca(request, system.pca, system.plan(), system.opening())
