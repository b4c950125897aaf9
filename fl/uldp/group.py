"""ULDP-GROUP: every silo runs DP-SGD on records of which each user has at most k.

    silo s, each step:  G = sum over a sample of clip_C(gradient) + N(0, sigma^2 C^2)
                        x_s - eta_l / (q n) G
    server:             x + eta_g / |S| sum_s (x_s - x)

A record lies in one silo, so a round shows of it `steps` Gaussian sums, each of a Poisson sample
that it joined with probability q.  A user is up to k such records, in whatever silos: the pair of
all k records in one silo covers every spread over silos with the same q, sigma and steps, as the
norm of what they move together is at most the number of them that were drawn.  Each silo chooses
which of its records take part by itself (`flags`), so that tells it nothing of other silos'.

q, the steps and n = k |U| / |S|, the records that a silo has if every user has k, are public
constants; the sum is divided by q n, whatever was drawn, and an empty sample is noise alone.

Source: Kato, Xiong, Takagi, Cao and Yoshikawa 2024, *Uldp-FL*, arXiv 2308.12210, Algorithm 2.
The group's event: Ganesh 2024, *Tight group-level DP guarantees for DP-SGD with sampling via
mixture of Gaussians mechanisms*, arXiv 2401.10294.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from ...accountant import events as ev
from ...accountant import records, validate
from ...accountant.errors import InvalidInput, Unsupported
from ...accountant.mechanisms import Gate, Gaussian, Ticket
from ...accountant.randomness import poisson
from ...accountant.sensitivity.release import repeated, up
from ..aggregation.clip_check import Recomputed
from ..aggregation.residuals import Residuals, Watch, every
from ..aggregation.sums import float_sum
from ..aggregation.term_norms import norms_of
from ..data.federation import Federation, Indices
from ..frame.model import Parameters, Round
from ..frame.private_system import PrivateSystem
from ..frame.requirements import require_all_users, require_public_normalisation, require_user_unit
from ..frame.rounds import Draft, NoisySum
from ..frame.setup import Setup, setup
from ..frame.state import Arrays, State
from ..training.local_training import LocalTraining, Rows
from .record_flags import FLAGS_CHOSEN_BY, records_taking_part
from .settings import UldpSettings

if TYPE_CHECKING:
    from ...accountant.randomness import Streams
    from ..settings.schema import Settings


_MAX_NUMBERS_AT_ONCE: Final = 2**24
"""How many numbers of gradients or of samples are made at once: 128 MB."""

_MAX_STEPS_RECOMPUTED: Final = 8
"""How many steps of a round are summed again, for the sealed sidecar."""


class UldpGroup(PrivateSystem):
    """ULDP-GROUP-k, k being `setup.privacy.group`.

    `rate` is the probability that a record joins a step (`None`: one batch of a silo's nominal
    records), `seed` the public seed of the flags.  Raises `InvalidInput` for a unit that it does
    not protect and for k below 2, `Unsupported` under `replace-one` and for a loss without a
    gradient of one record.
    """

    state = State()

    def __init__(self, setup: Setup, *, rate: float | None = None, seed: int = 0) -> None:
        require_user_unit(setup)
        if setup.privacy.group < 2:
            raise InvalidInput(
                "uldp-group needs room for two records of a user or more.",
                "With one, a run could only promise that record, and where it goes, another one of "
                "the same user takes its place.",
                "Give group_records = 2, or more.",
            )
        super().__init__(setup)
        require_all_users(setup)
        require_public_normalisation(setup)
        _add_remove_only(setup)
        # Refused now, not in the first round: a loss may couple records, and have none of these.
        start = np.tile(setup.local.initial(), (setup.silos, 1))
        setup.local.record_gradients(start, np.empty(0, np.int64), 0)
        self.nominal = Fraction(setup.privacy.group * setup.users, setup.silos)
        self.rate = _rate(setup, self.nominal) if rate is None else _checked(rate)
        self.steps = setup.training.local_epochs * math.ceil(1 / Fraction(self.rate))
        self.constant = float(Fraction(self.rate) * self.nominal)
        self.residuals = Residuals()
        taking_part = records_taking_part(setup.federation, setup.privacy.group, seed)
        self._silo, silos = setup.federation.silo, setup.federation.by_silo()
        self._records = [
            own[taking_part[own]] for own in (silos.records(silo) for silo in range(setup.silos))
        ]

    def mechanism(self, noise_multiplier: float) -> Gaussian:
        """Return the noise of one step in one silo: sigma C, on the sum of clipped gradients."""
        clip = self.setup.training.clip
        return Gaussian(
            bound=clip,
            std=up(Fraction(noise_multiplier) * Fraction(clip)),
            terms="unit",
            unit="record",
        )

    def views(self, noise_multiplier: float) -> Mapping[str, ev.Event]:
        """Return one round of one record; the same for all, as its silo alone draws the samples.

        Whether the server sees every silo's update by itself or, under masks, only their sum, and
        though a silo may take its own off the model: a record has the noise and the samples of its
        own silo, and nobody sees more than what that silo sends.  A silo that holds records of the
        user is no exception: its flags are made of its own records alone, so they show nothing of
        those elsewhere, of which at most k take part.
        """
        step: ev.Event = ev.Gaussian(noise_multiplier)
        if self.rate < 1.0:
            step = ev.Poisson(self.rate, step)
        whom = ["model", "server"]
        if self.setup.silos > 1:
            whom += ["silo", "silo-with-records"]
        return dict.fromkeys(whom, repeated(self.steps, step))

    def round(
        self,
        number: int,
        parameters: Parameters,
        gate: Gate,
        state: Arrays | None = None,  # noqa: ARG002
    ) -> Round:
        """Make one round: DP-SGD in every silo, then the mean of their updates."""
        mechanism, silos = self.mechanism(self.promise.noise_multiplier), self.setup.silos

        def work(ticket: Ticket) -> Draft:
            looked = _RoundStatistics(ticket.intent, mechanism, models=(silos, parameters.size))
            models = self._descended(parameters, number, mechanism, ticket, looked)
            total = float_sum(self.aggregator, number, models - parameters)
            return Draft(
                parameters + NoisySum(total, silos).times(self.setup.training.global_rate),
                aggregate=total,
                normaliser=records.Normaliser("constant", self.constant),
                sealed={
                    "taking_part": [len(own) for own in self._records],
                    **looked.items(self.residuals.watch(ticket.intent.noise)),
                },
            )

        return self.make_round(
            number, parameters, gate, work, sampling=self._sampling(), draws=self.steps
        )

    def _sampling(self) -> records.Sampling:
        if self.rate == 1.0:
            return records.Sampling(chosen_by=FLAGS_CHOSEN_BY)
        return records.Sampling("poisson", "record", self.rate, "silos", chosen_by=FLAGS_CHOSEN_BY)

    def _descended(
        self,
        parameters: Parameters,
        number: int,
        mechanism: Gaussian,
        ticket: Ticket,
        looked: _RoundStatistics,
    ) -> Rows:
        """Return the model of each silo after all steps, (silos, D); every step is a release.

        The silos descend side by side, each by itself; `looked` is shown every step.
        """
        silos, local = self.setup.silos, self.setup.local
        noise = mechanism.steps(
            ticket,
            [f"noise/silo-{silo}" for silo in range(silos)],
            [f"silo-{silo}" for silo in range(silos)],
            width=parameters.size,
            count=self.steps,
        )
        length = self.setup.training.local_rate / self.constant
        most = max(1, _MAX_NUMBERS_AT_ONCE // parameters.size)
        models = np.tile(parameters, (silos, 1))
        for place, chosen in enumerate(self._samples(ticket)):
            step = (number - 1) * self.steps + place
            totals = np.zeros(models.shape, np.int64)
            for first in range(0, len(chosen), most):
                some = chosen[first : first + most]
                rows = local.record_gradients(models, some, step)
                totals += mechanism.totals(rows, self._silo[some], silos)
                looked.rows(place, rows, self._silo[some])
            noisy = noise.noisy(totals)
            looked.sums(place, totals, noisy)
            models -= length * noisy
        return models

    def _samples(self, ticket: Ticket) -> Iterator[Indices]:
        """Yield which records join each step, in all silos."""
        # How much a fork is used does not show in the log; the number of records is private.
        drawing = [
            ticket.stream(f"sampling/silo-{silo}").fork() for silo in range(self.setup.silos)
        ]
        everybody = np.concatenate(self._records)
        # No more records than that take part: their own number is private, and is not looked at.
        ahead = max(1, _MAX_NUMBERS_AT_ONCE // (self.setup.privacy.group * self.setup.users))
        for first in range(0, self.steps, ahead):
            steps = min(ahead, self.steps - first)
            joins = [
                poisson(stream, steps * len(own), self.rate).reshape(steps, len(own))
                for stream, own in zip(drawing, self._records, strict=True)
            ]
            step, place = np.nonzero(np.hstack(joins))
            chosen, ends = everybody[place], np.searchsorted(step, np.arange(steps + 1))
            yield from (chosen[i:j] for i, j in itertools.pairwise(ends.tolist()))


class _RoundStatistics:
    """Steps of a round, evenly spaced, of which the sealed sidecar has statistics."""

    def __init__(
        self, intent: records.RoundIntent, mechanism: Gaussian, models: tuple[int, int]
    ) -> None:
        silos, width = models
        steps = intent.noise.draws
        self._every, self._again_every = every(steps, width), -(-steps // _MAX_STEPS_RECOMPUTED)
        self._grid = mechanism.grid
        self._again = Recomputed(intent, mechanism, silos, width)
        self._totals = np.zeros(models, np.int64)
        self._sent: list[Rows] = []
        self._exact: list[NDArray[np.int64]] = []

    def rows(self, place: int, rows: Rows, silo: Indices) -> None:
        """Look at the gradients of a step, (records, D), of these silos."""
        if place % self._again_every == 0:
            self._again.add(rows, silo, norms_of(rows))

    def sums(self, place: int, totals: NDArray[np.int64], noisy: Rows) -> None:
        """Look at what each silo makes of a step, before and after its noise: (silos, D)."""
        if place % self._again_every == 0:
            self._totals += totals
        if place % self._every == 0:
            self._exact.append(totals)
            self._sent.append(noisy)

    def items(self, watch: Watch) -> dict[str, object]:
        """Return what is sealed of the round."""
        sent = np.rint(np.array(self._sent) / self._grid).astype(np.int64)
        residuals = sent - np.array(self._exact)
        for silo in range(residuals.shape[1]):
            watch.share(silo, residuals[:, silo], self._grid)
        return {**watch.items(), **self._again.items(self._totals)}


def group(
    settings: Settings, federation: Federation, local: LocalTraining, _: Streams
) -> UldpGroup:
    """Return ULDP-GROUP-k."""
    own = setup(settings, federation, local)
    return UldpGroup(own, rate=settings.of(UldpSettings).record_rate, seed=settings.training.seed)


def _rate(setup: Setup, nominal: Fraction) -> float:
    """Return the rate at which a silo with its nominal records draws one batch, on average."""
    return min(float(setup.training.batch / nominal), 1.0)


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
