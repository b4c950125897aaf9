"""ULDP-GROUP-k: every silo runs DP-SGD on its records, of which each user has at most k in all.

    silo s, each step:  G = sum over a sample of clip_C(gradient) + N(0, sigma^2 C^2)
                        x_s - eta_l / (q n) G
    server:             x + eta_g / |S| sum_s (x_s - x)

A record lies in one silo, so a round releases `steps` Gaussian sums of it, each over a Poisson
sample that contains it with probability q.  A user is a group of up to k such records in any silos.
The pair of data sets in which all k lie in one silo dominates every spread over silos with the same
q, sigma and steps, as the norm of what drawn records move together is at most their number.  Each
silo chooses which of its records take part from its own records alone (`record_flags`), so the
choice tells nothing about records elsewhere.

q, the steps and n = k |U| / |S|, the records of a silo if every user has k, are public constants.
The sum is divided by q n whatever was drawn, and an empty sample releases noise alone.

Source: Kato, Xiong, Takagi, Cao and Yoshikawa 2024, *Uldp-FL*, arXiv 2308.12210, Algorithm 2.
The group's event: Ganesh 2024, *Tight group-level DP guarantees for DP-SGD with sampling via
mixture of Gaussians mechanisms*, arXiv 2401.10294.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from ...accountant import records, validate
from ...accountant.arrays import IntArray
from ...accountant.errors import InvalidInput, Unsupported
from ...accountant.mechanisms import Gate, Gaussian, Ticket
from ...accountant.randomness import poisson
from ..aggregation.clip_check import ClipCheck, norms_of
from ..aggregation.residuals import ResidualMonitor, Residuals, every
from ..aggregation.sums import float_sum
from ..data.federation import Federation, Indices
from ..frame.model import Parameters, Round
from ..frame.private_system import PrivateSystem
from ..frame.rounds import Draft, NoisySum
from ..frame.setup import Setup, setup
from ..frame.state import Arrays, State
from ..training.local_training import LocalTraining, Rows
from .group_votes import votes_of_group
from .record_flags import records_taking_part
from .settings import UldpSettings
from .terms import GroupTerms

if TYPE_CHECKING:
    from ...accountant.randomness import Streams
    from ..settings.schema import Settings


_MAX_NUMBERS_AT_ONCE: Final = 2**24
"""Numbers of gradients, or of samples, that are computed at once: 128 MB."""

_MAX_STEPS_RECOMPUTED: Final = 8
"""Steps of a round whose sums are recomputed for the sealed sidecar."""


class UldpGroup(PrivateSystem):
    """ULDP-GROUP-k, where k is `setup.privacy.group`.

    `rate` is q, the probability that a record joins a step (None: on average one batch of a silo
    with n records); `seed` is the public seed of the flags.  Raises `InvalidInput` for a unit that
    is not protected and for k below 2, `Unsupported` under `replace-one` and for a loss that has no
    gradient of a single record.
    """

    state = State()

    def __init__(self, setup: Setup, *, rate: float | None = None, seed: int = 0) -> None:
        if setup.privacy.group < 2:
            raise InvalidInput(
                "uldp-group needs room for two records of a user or more.",
                "With one, a run could only promise that record, and where it goes, another one of "
                "the same user takes its place.",
                "Give group_records = 2, or more.",
            )
        super().__init__(setup)
        _add_remove_only(setup)
        # Refused here, before anything is paid: a loss that couples records has no such gradients.
        start = np.tile(setup.local.initial(), (setup.silos, 1))
        setup.local.record_gradients(start, np.empty(0, np.int64), 0)
        self.terms: GroupTerms = GroupTerms(
            setup, setup.privacy.group, None if rate is None else _checked(rate)
        )
        self.rate, self.steps, self.constant = self.terms.rate, self.terms.draws, self.terms.divisor
        self.residuals = Residuals()
        taking_part = records_taking_part(setup.federation, setup.privacy.group, seed)
        self._silo, by_silo = setup.federation.silo, setup.federation.by_silo()
        self._records = [
            records[taking_part[records]]
            for records in (by_silo.records(silo) for silo in range(setup.silos))
        ]

    def mechanism(self, noise_multiplier: float) -> Gaussian:
        """Return the noise of one step in one silo."""
        return self.terms.mechanism(noise_multiplier)

    def round(
        self, number: int, parameters: Parameters, gate: Gate, state: Arrays | None = None
    ) -> Round:
        """Make one round: DP-SGD in every silo, then the mean of the silos' updates."""
        mechanism, silos = self.mechanism(self.promise.noise_multiplier), self.setup.silos

        def work(ticket: Ticket) -> Draft:
            statistics = _RoundStatistics(ticket.intent, mechanism, models=(silos, parameters.size))
            models = self._silo_models(parameters, number, mechanism, ticket, statistics)
            # The updates are noisy already; adding them up is post-processing.
            total = float_sum(self.aggregator, number, models - parameters)
            return Draft(
                parameters + NoisySum(total, silos).times(self.setup.training.global_rate),
                aggregate=total,
                normaliser=self.terms.normaliser,
                sealed={
                    "taking_part": [len(records) for records in self._records],
                    **statistics.items(self.residuals.monitor(ticket.intent.noise)),
                },
            )

        return self.make_round(
            number, parameters, gate, work, sampling=self.terms.sampling, draws=self.steps
        )

    def _silo_models(
        self,
        parameters: Parameters,
        number: int,
        mechanism: Gaussian,
        ticket: Ticket,
        statistics: _RoundStatistics,
    ) -> Rows:
        """Return each silo's model after all steps of DP-SGD, (silos, D).

            G = sum clip_C(gradient) + N(0, sigma^2 C^2),   x_s <- x_s - eta_l / (q n) G

        The silos take their steps side by side, each on its own records; every step counts as a
        release.  `statistics` is given every step.
        """
        silos, local = self.setup.silos, self.setup.local
        noise = mechanism.steps(
            ticket,
            [f"noise/silo-{silo}" for silo in range(silos)],
            [f"silo-{silo}" for silo in range(silos)],
            width=parameters.size,
            count=self.steps,
        )
        step_size = self.setup.training.local_rate / self.constant  # eta_l / (q n)
        records_at_once = max(1, _MAX_NUMBERS_AT_ONCE // parameters.size)
        # (silos, D): every silo starts the round from the same released model.
        models = np.tile(parameters, (silos, 1))
        for index, chosen in enumerate(self._samples(ticket)):
            step = (number - 1) * self.steps + index
            totals = np.zeros(models.shape, np.int64)
            # Integers on the grid add up exactly, so blocks of any size give the same sum.
            for first in range(0, len(chosen), records_at_once):
                some = chosen[first : first + records_at_once]
                rows = local.record_gradients(models, some, step)
                totals += mechanism.totals(rows, self._silo[some], silos)
                statistics.rows(index, rows, self._silo[some])
            noisy = noise.noisy(totals)
            statistics.sums(index, totals, noisy)
            models -= step_size * noisy
        return models

    def _samples(self, ticket: Ticket) -> Iterator[Indices]:
        """Yield the records that join each step, of all silos; each is drawn with probability q."""
        # A silo's number of records is private, so how far its stream is read must not be logged:
        # the log counts what the stream gives out, and not what is read of a fork.
        forks = [ticket.stream(f"sampling/silo-{silo}").fork() for silo in range(self.setup.silos)]
        everybody = np.concatenate(self._records)
        # Steps per block, by k |U|, an upper bound of the private number of records that take part.
        steps_at_once = max(
            1, _MAX_NUMBERS_AT_ONCE // (self.setup.privacy.group * self.setup.users)
        )
        for first in range(0, self.steps, steps_at_once):
            steps = min(steps_at_once, self.steps - first)
            joins = [
                poisson(stream, steps * len(records), self.rate).reshape(steps, len(records))
                for stream, records in zip(forks, self._records, strict=True)
            ]
            step, column = np.nonzero(np.hstack(joins))  # in the order of steps
            chosen, ends = everybody[column], np.searchsorted(step, np.arange(steps + 1))
            yield from (chosen[i:j] for i, j in itertools.pairwise(ends.tolist()))


class _RoundStatistics:
    """Statistics of evenly spaced steps of a round, for the sealed sidecar."""

    def __init__(
        self, intent: records.RoundIntent, mechanism: Gaussian, models: tuple[int, int]
    ) -> None:
        silos, width = models
        steps = intent.noise.draws
        self._every, self._again_every = every(steps, width), -(-steps // _MAX_STEPS_RECOMPUTED)
        self._grid = mechanism.grid
        self._again = ClipCheck(intent, mechanism, silos, width)
        self._totals = np.zeros(models, np.int64)
        self._sent: list[Rows] = []
        self._exact: list[IntArray] = []

    def rows(self, step: int, rows: Rows, silo: Indices) -> None:
        """Add gradients of a step, (records, D), of these silos."""
        if step % self._again_every == 0:
            self._again.add(rows, silo, norms_of(rows))

    def sums(self, step: int, totals: IntArray, noisy: Rows) -> None:
        """Add each silo's sum of a step, without and with its noise: (silos, D)."""
        if step % self._again_every == 0:
            self._totals += totals
        if step % self._every == 0:
            self._exact.append(totals)
            self._sent.append(noisy)

    def items(self, monitor: ResidualMonitor) -> dict[str, object]:
        """Return the sealed items of the round."""
        # Back to integers: the noise of a step is what was sent minus the exact sum.
        sent = np.rint(np.array(self._sent) / self._grid).astype(np.int64)
        residuals = sent - np.array(self._exact)
        for silo in range(residuals.shape[1]):
            monitor.share(silo, residuals[:, silo], self._grid)
        return {**monitor.items(), **self._again.items(self._totals)}


def group(
    settings: Settings, federation: Federation, local: LocalTraining, _: Streams
) -> UldpGroup:
    """Return ULDP-GROUP-k."""
    parts = setup(settings, federation, local)
    seed = settings.training.seed
    if parts.held_out is not None:
        parts = replace(parts, held_out=votes_of_group(parts, parts.held_out, seed))
    return UldpGroup(parts, rate=settings.of(UldpSettings).record_rate, seed=seed)


def _checked(rate: float) -> float:
    if validate.probability(record_rate=rate) == 0.0:
        raise InvalidInput(
            "`record_rate` must be above 0.",
            "At 0 no record ever joins a step.",
            "Give the probability that a record joins one step.",
        )
    return rate


def _add_remove_only(setup: Setup) -> None:
    if setup.privacy.neighbours != "add-remove":
        raise Unsupported(
            "ULDP-GROUP is accounted under add-remove only.",
            "A user whose records are exchanged may have the new ones in other silos, and no "
            "proof here covers k records that go in one silo while k come in another.",
            "Give neighbours = 'add-remove', or use uldp-avg, which covers both.",
        )
