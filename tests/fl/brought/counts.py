"""A system of somebody else's whose rounds release a noisy count, and beside it a noisy sum."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from means import Means

from privplan.accountant import events as ev
from privplan.accountant.mechanisms import Laplace
from privplan.fl.frame.rounds import Draft, planned_release
from privplan.fl.frame.setup import setup
from privplan.fl.frame.state import State

COUNT = Laplace(bound=1.0, scale=20.0)
COUNTED = "count"


class Counted(Means):
    """Each round divides the noisy sum of the users' first records by how many there are, noisily.

    `between` is called after the count was released.
    """

    between: Any = staticmethod(lambda _: None)
    state = State()

    def views(self, noise_multiplier: float) -> Mapping[str, ev.Event]:
        count = COUNT.event(self.setup.privacy.neighbours)
        seen = super().views(noise_multiplier)
        return {who: ev.Compose((count, total)) for who, total in seen.items()}

    def round(self, number: int, parameters: Any, gate: Any, state: Any) -> Any:
        planned, rows = self.promise.plan.phases[-1], self.rows()

        def counting(ticket: Any) -> Any:
            return COUNT.noisy(ticket, COUNT.total(np.ones((len(rows), 1))), "count")

        counted = planned_release(planned, 0, COUNTED)
        count = self.release_with_model(number, gate, COUNT, counting, phase=counted)
        self.between(number)
        mechanism = self.mechanism(self.promise.noise_multiplier)

        def work(ticket: Any) -> Draft:
            (total,) = mechanism.noisy(ticket, [mechanism.total(rows)], ["noise"])
            return Draft(total / max(float(count[0]), 2.0), aggregate=total)

        return self.make_round(number, parameters, gate, work, phase=planned_release(planned, 1))


def counted(settings: Any, federation: Any, local: Any, _: Any) -> Counted:
    return Counted(setup(settings, federation, local))
