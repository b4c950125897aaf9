"""ULDP-AVG and ULDP-SGD: the users' updates are clipped in each silo, weighted, summed and noised.

    silo s:  D_s = sum_u w_su clip_C(d_su) + N(0, sigma^2 C^2 / |S|)
    server:  x + eta_g / (q |U| |S|) sum_s D_s

d_su is the change of the model by local training on user u's records in silo s (AVG), or minus
the mean gradient of these records (SGD).  As sum_s w_su <= 1, adding or removing a user moves the
sum by at most C.  A user joins a round with probability q, by one draw that holds in all silos.
|U|, |S| and q are public constants, as the accounting assumes, and the sum is divided by them.

Here is what does not depend on who knows the weights w_su.  Other systems override its hooks: the
model that silos start from, the proximal term that pulls local training back to it, and the step
that the server takes from the noisy sum.

Source: Kato, Xiong, Takagi, Cao and Yoshikawa 2024, *Uldp-FL*, arXiv 2308.12210, Algorithms 3
(AVG, SGD, weights by records) and 4 (sampled users).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Final, TypeAlias

import numpy as np

from ...accountant import validate
from ...accountant.arrays import BoolArray, FloatArray
from ...accountant.errors import Unsupported
from ...accountant.mechanisms import BandedGaussian, Gate, Ticket
from ...accountant.mechanisms.clip import Sparse
from ...accountant.randomness import poisson
from ..aggregation.clip_check import about_norms
from ..aggregation.residuals import Residuals
from ..data.federation import Indices
from ..frame.model import Parameters, Round, require_model
from ..frame.opening import Note
from ..frame.private_system import PrivateSystem
from ..frame.requirements import refuse
from ..frame.rounds import Draft, NoisySum
from ..frame.setup import Setup
from ..frame.state import Arrays
from ..settings.declared_rules import NONE_FOR_ANOTHER
from ..settings.security_rules import hidden_weights_complaint, weighting_complaint
from ..training.local_training import ProximalTraining, Rows, UpdateBlock
from .correlated import RunningBlock, Schedule, require_room
from .settings import correlated_complaint
from .terms import DrawnBy, WeightedTerms

UserUpdates: TypeAlias = Callable[[Parameters, Sequence[Indices], int], Iterator[UpdateBlock]]
"""From a model, the users of each silo and a round number, to one update per user and silo."""

USER_SAMPLING_STREAM: Final = "sampling/users"
"""The random stream that draws which users join a round."""


@dataclass(frozen=True, eq=False)
class RoundSum:
    """The noisy sum of one round, with what is sealed about it.

    - `total` (D,): the sum in units of the model; `shares`: how many silos' noise it contains.
    - `norms`: by silo, the norms of the updates before clipping; `sealed`: other values that were
      computed before the noise.  Both go to the sealed sidecar only.
    """

    total: FloatArray
    shares: int
    norms: Sequence[FloatArray]
    sealed: Mapping[str, object]


class UldpAvg(PrivateSystem):
    """ULDP-AVG (`step` is `average`) or ULDP-SGD (`gradient`), whoever knows the weights.

    `start`, `proximal` and `server_step` are hooks.  They are given public values alone, so
    they are post-processing; updates are clipped after the first two have had their effect.  A
    subclass defines `mechanism` and `summed`, which depend on who knows the weights.  With a
    `schedule` users take part in turns, and rounds share correlated noise (`correlated`).

    Raises `InvalidInput` for a unit or a relation that is not protected.
    """

    proximal: ClassVar[float] = 0.0
    """mu in the proximal term (mu / 2) |x - start|^2 of every local objective; FedProx.

    Range: 0 or above.  The term has no effect on ULDP-SGD, whose gradient is taken at x = start.
    Source: Li, Sahu, Zaheer, Sanjabi, Talwalkar and Smith 2020, *Federated optimization in
    heterogeneous networks*, MLSys, arXiv 1812.06127, Algorithm 2.
    """

    hides_weights: ClassVar[bool] = False
    """Whether updates are summed under weights that nobody sees."""

    as_published: ClassVar[bool] = False
    """Whether they are so by the published protocol."""

    def __init__(self, setup: Setup, *, step: str, schedule: Schedule | None = None) -> None:
        super().__init__(setup)
        self.schedule = schedule
        self.terms: WeightedTerms = WeightedTerms(setup, schedule, self.as_published)
        self.block = None if schedule is None else RunningBlock(schedule)
        if (setup.aggregation == "private-weighting") != self.hides_weights:
            raise Unsupported(
                f"{type(self).__name__} of {setup.name} has no aggregation {setup.aggregation!r}.",
                NONE_FOR_ANOTHER,
                "Have the system made by its name, which chooses by the aggregation.",
            )
        weighting = setup.training.weighting
        if setup.aggregation == "private-weighting":
            moments = setup.normalisation is not None
            refuse(setup, hidden_weights_complaint(weighting, moments=moments))
        if schedule is not None:
            unfit = correlated_complaint(
                setup.aggregation, setup.security.dropouts, setup.privacy.sampling_rate
            )
            refuse(setup, unfit, kind=Unsupported)
            schedule.require_users(setup.users)
        if setup.aggregation == "shares":
            refuse(setup, weighting_complaint(weighting))
        # Local training reads mu from the object that trains, before the first round.
        validate.non_negative(proximal=self.proximal)
        if self.proximal and isinstance(setup.local, ProximalTraining):
            setup.local.proximal = self.proximal
        self.updates = _UPDATES_OF_STEP[step](setup)
        self.residuals = Residuals()

    @property
    def notes(self) -> tuple[Note, ...]:
        """Return what is gained by correlated noise, where there is any."""
        return () if self.schedule is None else (self.schedule.note,)

    @property
    def blocks(self) -> int | None:
        """How many blocks of rounds share correlated noise; None where rounds share none."""
        return None if self.schedule is None else self.schedule.blocks

    def start(self, parameters: Parameters, state: Arrays, number: int) -> Parameters:
        """Return the model (D,) that silos train from in round `number`; here the last one.

        A hook: a function of these public values alone.  Updates are differences from its result.
        """
        return parameters

    def server_step(
        self, parameters: Parameters, noisy: NoisySum, state: Arrays, number: int
    ) -> tuple[Parameters, Arrays]:
        """Return the next model (D,) and the next state; here a step of the global rate.

        A hook: a function of these public values alone.  The state that it returns has the arrays
        that the class declares as `state`.  `noisy.mean` is the noisy mean update; the arrays of
        `state` are read only.
        """
        return parameters + noisy.times(self.setup.training.global_rate), {}

    def round(
        self, number: int, parameters: Parameters, gate: Gate, state: Arrays | None = None
    ) -> Round:
        """Make one round: sample users, sum their clipped updates with noise, take the step."""
        setup = self.setup
        last_state = self.initial_state() if state is None else state
        constant = self.terms.divisor  # whoever joined

        def work(ticket: Ticket) -> Draft:
            # Hooks are checked too: a model of another shape would not be caught by the clip.
            start = self.start(parameters, last_state, number)
            start = require_model(start, parameters.size, f"What silos of {self.name} start from")
            noisy_sum = self.summed(ticket, number, start)
            noisy = NoisySum(noisy_sum.total, constant)
            model, next_state = self.server_step(parameters, noisy, last_state, number)
            return Draft(
                require_model(model, parameters.size, f"The next model of {self.name}"),
                next_state,
                aggregate=noisy_sum.total,
                normaliser=self.terms.normaliser,
                sealed={**noisy_sum.sealed, **about_norms(noisy_sum.norms, setup.training.clip)},
                shares=noisy_sum.shares,
            )

        return self.make_round(
            number,
            parameters,
            gate,
            work,
            sampling=self.terms.sampling,
            mechanism=None if self.schedule is None else self.banded_mechanism(number),
        )

    def banded_mechanism(self, number: int) -> BandedGaussian:
        """Return the noise of a round of the block under way, or of a new one that it begins."""
        assert self.schedule is not None
        assert self.block is not None
        alone = self.terms.summed(self.promise.noise_multiplier)
        mechanism = self.schedule.noise(alone, self.block.at(number), number)
        require_room(mechanism, self.setup.users)
        return mechanism

    def summed(self, ticket: Ticket, number: int, parameters: Parameters) -> RoundSum:
        """Return the noisy sum of one round, of updates that start from `parameters`."""
        raise NotImplementedError

    @property
    def rate(self) -> float:
        """The probability with which a user joins a round."""
        return self.terms.rate

    @property
    def drawn_by(self) -> DrawnBy:
        """Who draws the sample of users, where there is one."""
        return self.terms.drawn_by

    def joining(self, ticket: Ticket) -> BoolArray:
        """Return which users join the round, the same in all silos: (users,)."""
        federation = self.setup.federation
        if self.rate == 1.0:
            return np.ones(federation.users, bool)
        stream = ticket.stream(USER_SAMPLING_STREAM)
        if federation.user_names is not None:
            # How many users have a row is private, so how far the stream is read is not logged.
            stream = stream.fork()
        return poisson(stream, federation.users, self.rate)


def _local_deltas(setup: Setup) -> UserUpdates:
    return setup.local.user_deltas


def _negative_gradients(setup: Setup) -> UserUpdates:
    def updates(
        parameters: Parameters, users: Sequence[Indices], number: int
    ) -> Iterator[UpdateBlock]:
        for block in setup.local.user_gradients(parameters, users, number):
            yield replace(block, rows=_negated(block.rows))

    return updates


def _negated(rows: Rows | Sparse) -> Rows | Sparse:
    if isinstance(rows, Sparse):
        return replace(rows, values=-rows.values)
    return -rows


_UPDATES_OF_STEP: Final[Mapping[str, Callable[[Setup], UserUpdates]]] = {
    "average": _local_deltas,
    "gradient": _negative_gradients,
}
