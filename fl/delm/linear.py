"""The system `delm-linear`: the basic scheme in a form that holds.

    silo s      the coefficients of its objective, sum_i x_i x_i^T and sum_i x_i y_i^T, exactly
    released    their sum, with noise that is drawn once, in the phase `coefficients`
    anybody     principal components of it, and the least point of the objective: no cost

Where the published scheme draws its noise again in every round, this one draws it once: all rounds
of training, and any number of components, are functions of what was released.  One release stands
for PCA and training, so nothing is split between them.

Source: Cao et al. 2023, *Differentially Private Federated Learning with Functional Mechanism*
(DELM), Algorithm 1, with the sensitivity of `accountant.sensitivity.gram`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...accountant.errors import InvalidInput
from ..frame.setup import Setup, setup
from ..frame.state import State
from ..statistics.system import Statistics
from .settings import LOGISTIC, DelmSettings

if TYPE_CHECKING:
    from ...accountant.randomness import Streams
    from ..data.federation import Federation
    from ..settings.schema import Settings
    from ..training.local_training import LocalTraining

COEFFICIENTS: Final = "coefficients"
"""The phase in which coefficients are released, of a system that makes no other release."""


class Linear(Statistics):
    """One release of the coefficients of an objective; see the module.

    Raises `InvalidInput` as `Statistics`, and for a logistic loss of more classes than two.
    """

    phase = COEFFICIENTS
    state = State()

    def __init__(self, setup: Setup, table: DelmSettings) -> None:
        super().__init__(setup, table)
        classes = setup.federation.classes
        if table.loss == LOGISTIC and classes != 2:
            raise InvalidInput(
                f'`loss` is "{LOGISTIC}" in [delm], and {setup.federation.name} has '
                f"{classes} classes.",
                "The logistic loss tells two classes apart; that of several is called softmax.",
                'Write loss = "softmax".',
            )


def linear(settings: Settings, federation: Federation, local: LocalTraining, _: Streams) -> Linear:
    """Return the system `delm-linear`."""
    parts = setup(settings, federation, local, whole_ring=True)
    return Linear(parts, settings.of(DelmSettings))
