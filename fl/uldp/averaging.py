"""ULDP-AVG and ULDP-SGD: every user's update is clipped in every silo, weighted, summed, noised.

    silo s:  D_s = sum_u w_su clip_C(d_su) + N(0, sigma^2 C^2 / |S|)
    server:  x + eta_g / (q |U| |S|) sum_s D_s

where d_su is how local training on user u's records in silo s moves the model (AVG), or the
negative of their mean gradient (SGD), and sum_s w_su <= 1, so that a user moves the sum by C.
A user joins a round with probability q, by one draw for all silos.  The lists of users and of
silos and the rate are public constants, as the accounting assumes: the sum is divided by them.

What silos start from, how far they are pulled back to it, and what the server makes of the noisy
sum are hooks of `UldpAvg`: other systems override them, and keep the rest.

Source: Kato, Xiong, Takagi, Cao and Yoshikawa 2024, *Uldp-FL*, arXiv 2308.12210, Algorithms 3
(AVG, SGD, weights by records) and 4 (sampled users).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ...accountant import events as ev
from ...accountant import records, validate
from ...accountant.errors import InvalidInput, Unsupported
from ...accountant.mechanisms import Gate, Gaussian, Ticket
from ...accountant.mechanisms.clip import Sparse
from ...accountant.randomness import poisson
from ..aggregation.residuals import Residuals
from ..aggregation.term_norms import about_norms
from ..aggregation.weighted_sum import weighted_sum, weighted_views
from ..data.federation import Indices
from ..frame.model import Parameters, Round, require_model
from ..frame.private_system import PrivateSystem
from ..frame.requirements import require_user_unit
from ..frame.rounds import Draft, NoisySum
from ..frame.setup import Setup
from ..frame.state import Arrays
from ..training.local_training import ProximalTraining, Rows, UpdateBlock

if TYPE_CHECKING:
    pass

UserUpdates: TypeAlias = Callable[[Parameters, Sequence[Indices], int], Iterator[UpdateBlock]]
"""From a model, users of each silo and a round, to one update for each user in each silo."""

DrawnBy: TypeAlias = Literal["server", "oblivious-transfer", "shared-secret"]

USER_SAMPLING_STREAM: Final = "sampling/users"
"""The stream that draws who joins."""


@dataclass(frozen=True, eq=False)
class RoundSum:
    """The noisy sum of one round: `total` (D,) in units, and how many silos' noise is in it.

    `norms` are those of the updates before they were clipped, by silo, and `sealed` what else may
    only be sealed.
    """

    total: NDArray[np.float64]
    shares: int
    norms: Sequence[NDArray[np.float64]]
    sealed: Mapping[str, object]


class UldpAvg(PrivateSystem):
    """What ULDP-AVG (`step` is `average`) and ULDP-SGD (`gradient`) do, whoever knows the weights.

    `start`, `proximal` and `server_step` are hooks.  They see public values only, so whatever they
    do is post-processing, and each user's update is clipped after the first two.

    Raises `InvalidInput` for a unit or a relation that they do not protect.
    """

    proximal: ClassVar[float] = 0.0
    """mu in (mu / 2) |x - start|^2, which is added to every local objective; FedProx.

    Range: 0 or above.  A single gradient (`uldp-sgd`) is taken where that is flat.
    Source: Li, Sahu, Zaheer, Sanjabi, Talwalkar and Smith 2020, *Federated optimization in
    heterogeneous networks*, MLSys, arXiv 1812.06127, Algorithm 2.
    """

    hidden: ClassVar[bool] = False
    """Whether it sums under weights that nobody sees; each way of summing says so."""

    def __init__(self, setup: Setup, *, step: str) -> None:
        super().__init__(setup)
        require_user_unit(setup)
        if (setup.aggregation == "private-weighting") != self.hidden:
            raise Unsupported(
                f"{type(self).__name__} of {setup.name} has no aggregation {setup.aggregation!r}.",
                "What the server sees decides what it learns, so none is taken for another.",
                "Have the system made by its name, which chooses by the aggregation.",
            )
        if setup.aggregation == "private-weighting" and setup.normalisation is not None:
            raise InvalidInput(
                f"{setup.name} under private weighting does not normalise by private moments.",
                "The moments would be summed under weights in the clear, which tell the counts.",
                "Give normalisation = 'public', or aggregation = 'masked'.",
            )
        if setup.aggregation == "private-weighting" and setup.training.weighting != "records":
            raise InvalidInput(
                "Private weighting hides weights by records; uniform weights are public.",
                next_step="Give weighting = 'records', or aggregation = 'masked'.",
            )
        if setup.aggregation == "shares" and setup.training.weighting != "uniform":
            raise InvalidInput(
                f"{setup.name} among peers has uniform weights; they are by records.",
                "A peer that holds a record of a user would learn from its weight how many it has.",
                "Give weighting = 'uniform', or aggregation = 'masked'.",
            )
        validate.non_negative(proximal=self.proximal)
        if self.proximal and isinstance(setup.local, ProximalTraining):
            setup.local.proximal = self.proximal
        self.updates = _UPDATES[step](setup)
        self.residuals = Residuals()

    def views(self, noise_multiplier: float) -> Mapping[str, ev.Event]:
        """Return one round as who sees the model, the server, and one of the silos see it."""
        own = self.setup
        return weighted_views(
            noise_multiplier,
            silos=own.silos,
            rule=own.training.weighting,
            neighbours=own.privacy.neighbours,
            rate=self.rate,
            aggregation=own.aggregation,
            drawn_by=self.drawn_by,
            tolerated_dropouts=own.security.dropouts,
            coalitions=own.coalitions,
            colluders=own.security.colluders,
        )

    def start(self, parameters: Parameters, state: Arrays, number: int) -> Parameters:  # noqa: ARG002
        """Return what silos train from in round `number`, (D,): the last model.

        A hook: a function of these public values alone.  Updates are measured from what it returns.
        """
        return parameters

    def server_step(
        self,
        parameters: Parameters,
        noisy: NoisySum,
        state: Arrays,  # noqa: ARG002
        number: int,  # noqa: ARG002
    ) -> tuple[Parameters, Arrays]:
        """Return the next model (D,), and the state beside it: a step of the global rate.

        A hook: a function of these public values alone, whose arrays are those that `state` of
        the class states.  `noisy.mean` is the noisy mean update; arrays of `state` are read only.
        """
        return parameters + noisy.times(self.setup.training.global_rate), {}

    def round(
        self, number: int, parameters: Parameters, gate: Gate, state: Arrays | None = None
    ) -> Round:
        """Make one round: sample the users, sum what each silo sends, divide by constants."""
        own = self.setup
        before = self.initial_state() if state is None else state
        constant = self.rate * own.users * own.silos

        def work(ticket: Ticket) -> Draft:
            start = self.start(parameters, before, number)
            start = require_model(start, parameters.size, f"What silos of {self.name} start from")
            summed = self.summed(ticket, number, start)
            noisy = NoisySum(summed.total, constant)
            moved, after = self.server_step(parameters, noisy, before, number)
            return Draft(
                require_model(moved, parameters.size, f"The next model of {self.name}"),
                after,
                aggregate=summed.total,
                normaliser=records.Normaliser("constant", constant),
                sealed={**summed.sealed, **about_norms(summed.norms, own.training.clip)},
                shares=summed.shares,
            )

        return self.make_round(number, parameters, gate, work, sampling=self._sampling())

    def summing(self, noise_multiplier: float) -> Gaussian:
        """Return the noise of one round: sigma C on the sum over all silos, in |S| shares."""
        own = self.setup
        return weighted_sum(
            noise_multiplier,
            bound=own.training.clip,
            users=own.users,
            silos=own.silos,
            rule=own.training.weighting,
            tolerated_dropouts=own.security.dropouts,
        )

    def summed(self, ticket: Ticket, number: int, parameters: Parameters) -> RoundSum:
        """Return the noisy sum of one round."""
        raise NotImplementedError

    @property
    def rate(self) -> float:
        """The probability with which a user joins a round."""
        return self.setup.privacy.sampling_rate

    @property
    def drawn_by(self) -> DrawnBy:
        """Who draws the sample of users, where there is one: peers, from a secret they share."""
        return "shared-secret" if self.setup.aggregation == "shares" else "server"

    def joining(self, ticket: Ticket) -> NDArray[np.bool_]:
        """Return which users join, in all silos alike: (users,)."""
        if self.rate == 1.0:
            return np.ones(self.setup.users, bool)
        return poisson(ticket.stream(USER_SAMPLING_STREAM), self.setup.users, self.rate)

    def _sampling(self) -> records.Sampling:
        if self.rate == 1.0:
            return records.Sampling()
        return records.Sampling("poisson", "user", self.rate, self.drawn_by)


def _trained(own: Setup) -> UserUpdates:
    return own.local.user_deltas


def _descended(own: Setup) -> UserUpdates:
    def updates(
        parameters: Parameters, users: Sequence[Indices], number: int
    ) -> Iterator[UpdateBlock]:
        for part in own.local.user_gradients(parameters, users, number):
            yield replace(part, rows=_turned(part.rows))

    return updates


def _turned(rows: Rows | Sparse) -> Rows | Sparse:
    if isinstance(rows, Sparse):
        return replace(rows, values=-rows.values)
    return -rows


_UPDATES: Final[Mapping[str, Callable[[Setup], UserUpdates]]] = {
    "average": _trained,
    "gradient": _descended,
}
