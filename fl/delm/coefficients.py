"""DELM's rounds on a linear model: the coefficients of every client's objective, with its noise.

    client i   G_i and S_i of its rows, exactly, with Laplace noise of its own     (m = 1 layer)
    server     the clients' messages, shuffled; those that are chosen are summed
    step       x - rate / k  gradient of the sum, at x

`fresh`: noise is drawn anew in every round, as published, and paid for in every round.  `once`: the
coefficients are released once, in the phase `coefficients`, and all steps are functions of that
release.  Either way the release is a noisy Gram matrix, whose event follows from how far one record
moves it: the noise may be made for the printed sensitivity or for the proven one.

Every client adds all of the noise, and the server sees each message, shuffled or not.  So an
observer sees what one message has, and what is averaged hides no more.

The system `delm-linear`: the basic scheme in a form that holds.

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

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np

from ...accountant.arrays import FloatArray, IntArray
from ...accountant.errors import InvalidInput
from ...accountant.mechanisms import Gate, NoisyGram, Ticket
from ..aggregation.residuals import Residuals
from ..frame.model import KeepModel, Parameters, Round
from ..frame.opening import Design
from ..frame.phases import Phase
from ..frame.promise import TRAINING_PHASE
from ..frame.rounds import Draft
from ..frame.setup import Setup, setup
from ..frame.state import Arrays, State
from ..parties.network import silo_name
from ..statistics.exact_sums import ExactSums, exact_sums
from ..statistics.noise_shown import NoiseShown, gram_parts
from ..statistics.system import Statistics
from .layers import orders
from .objective import LinearObjective
from .pieces import Scheme
from .scheme import DelmScheme
from .settings import LOGISTIC, ONCE, DelmSettings

if TYPE_CHECKING:
    from ...accountant.randomness import Streams
    from ..data.federation import Federation
    from ..frame.setup import Setup
    from ..settings.schema import Settings
    from ..training.local_training import LocalTraining
    from .pca import PcaRelease


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


class CoefficientRounds(DelmScheme):
    """DELM on a linear model; see the module.

    Raises `InvalidInput` as `DelmScheme` and `RunTerms`.
    """

    def __init__(self, setup: Setup, scheme: Scheme, pca: PcaRelease | None) -> None:
        self.once = scheme.table.objective == ONCE
        super().__init__(replace(setup, rounds=1) if self.once else setup, scheme, pca)
        self.phase = COEFFICIENTS if self.once else TRAINING_PHASE  # type: ignore[misc]
        if self.once:
            reason = f"{scheme.steps:,} steps are read off one release, and cost nothing more"
            self.design = Design("once", (reason,))
        self.residuals = Residuals()

    @cached_property
    def state(self) -> State:
        """The last mean gradient, where the next round's messages are compared with it."""
        return State() if self.once else self.stated()

    def mechanism(self, noise_multiplier: float) -> NoisyGram:
        """Return the noise of every client's message."""
        return self.terms.coefficients.mechanism(noise_multiplier)

    @property
    def rounds(self) -> Phase:
        """The rounds; a release that all steps are read off is on disk when it is in the log."""
        return Phase(
            self.promise.training, 1, self.round, make_kept=self.round if self.once else None
        )

    def round(
        self,
        number: int,
        parameters: Parameters,
        gate: Gate,
        state: Arrays | None = None,
        keep: KeepModel | None = None,
    ) -> Round:
        """Make one round: exact sums first, then the intent, noise under it, and the steps."""
        mechanism = self.mechanism(self.promise.noise_multiplier)
        exact, objective = self._exact, self.objective(mechanism)

        def work(ticket: Ticket) -> Draft:
            monitor = self.residuals.monitor(ticket.intent.noise, gram_parts(mechanism))
            shown = NoiseShown(monitor, mechanism)
            messages = np.array(
                [
                    shown.sent(ticket, silo, f"noise/{silo_name(silo)}", total)
                    for silo, total in enumerate(exact.totals)
                ]
            )
            every = messages.sum(axis=0)  # modulo 2^64, as each of them is
            shown.whole(every, exact.totals, range(len(messages)))
            moved, gradient = self._stepped(ticket, objective, messages, parameters, state)
            return Draft(
                moved,
                {} if self.once else self.after(gradient),
                aggregate=mechanism.units(every),
                normaliser=self.terms.normaliser,
                sealed={**shown.items(), **exact.sealed(self.terms.coefficients.most_rows)},
                shares=len(messages),
                values=mechanism.gram.values,
            )

        return self.make_round(number, parameters, gate, work, keep=keep)

    def objective(self, mechanism: NoisyGram) -> LinearObjective:
        """Return how gradients are read off released coefficients."""
        return LinearObjective(self.model.name, mechanism, self.table.intercept)

    def _stepped(
        self,
        ticket: Ticket,
        objective: LinearObjective,
        messages: IntArray,
        parameters: Parameters,
        state: Arrays | None,
    ) -> tuple[Parameters, FloatArray]:
        """Return the next model, and the last mean gradient, after one step or all of them."""
        steps = self.scheme.steps if self.once else 1
        last, moved = self.last(state), parameters
        (order,) = orders(ticket, self.layers, len(messages), shuffled=self.terms.shuffled)
        seen = messages[order]
        total = seen.sum(axis=0) if self.choice is None else None
        for step in range(steps):
            if total is None:
                chosen = self._chosen(ticket, objective, seen, moved, last, step)
                last = objective.gradient(seen[chosen].sum(axis=0), moved) / self.terms.divisor
            else:
                last = objective.gradient(total, moved) / self.terms.divisor
            moved = moved - self.setup.training.global_rate * last
        return moved, last

    def _chosen(
        self,
        ticket: Ticket,
        objective: LinearObjective,
        seen: IntArray,
        parameters: Parameters,
        last: FloatArray,
        step: int,
    ) -> IntArray:
        """Return which messages are averaged in one step: by the gradients that they give."""
        assert self.choice is not None
        gradients = np.zeros((len(seen), parameters.size))
        if self.choice.compares:
            gradients = np.array([objective.gradient(each, parameters) for each in seen])
        (layer,) = self.layers
        return self.chosen(ticket, layer, gradients, last, f"/{step}" if self.once else "")

    @cached_property
    def _exact(self) -> ExactSums:
        """The exact sums of all clients, the same in every round; private."""
        mechanism = self.mechanism(self.promise.noise_multiplier)
        return exact_sums(self.terms.coefficients, self.federation, mechanism)
