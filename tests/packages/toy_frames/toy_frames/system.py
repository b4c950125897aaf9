import math

import numpy as np

from privplan.accountant import events as ev
from privplan.accountant import records
from privplan.accountant.mechanisms import Gaussian
from privplan.fl.frame.expected_log import ExpectedLog, expected_phase, noise_multiplier_of
from privplan.fl.frame.private_system import PrivateSystem
from privplan.fl.frame.rounds import Draft
from privplan.fl.frame.setup import setup
from privplan.fl.frame.state import State

GROUP = 3
DETAIL = 1.0 - 2.0**-40  # shares of noise are rounded


def roster(number, silos):
    """Return the silos of a round: three in a row, one further each time, until the last three."""
    first = min(number - 1, silos - GROUP)
    return tuple(range(first, first + GROUP))


def counted(rounds, silos):
    rosters = [roster(number, silos) for number in range(1, rounds + 1)]
    return max(sum(silo in each for each in rosters) for silo in range(silos))


def noise_of(noise, clip):
    return Gaussian(bound=clip, std=noise * clip, shares=GROUP, unit="silo")


class Frames(PrivateSystem):
    """Each round adds the noisy sum of its silos' clipped mean features to the last one."""

    phase = "frame"
    state = State()

    def __init__(self, setup, clip):
        super().__init__(setup)
        self.clip = clip

    @property
    def parts(self):
        return {"sum": self.initial().shape}

    @property
    def counted_rounds(self):
        return counted(self.setup.rounds, self.setup.silos)

    def initial(self):
        return np.zeros(self.setup.federation.features.shape[1])

    def mechanism(self, noise_multiplier):
        return noise_of(noise_multiplier, self.clip)

    def views(self, noise_multiplier):
        each = ev.Gaussian(noise_multiplier / math.sqrt(GROUP) * DETAIL)
        other = ev.Gaussian(noise_multiplier * math.sqrt((GROUP - 1) / GROUP) * DETAIL)
        return {"model": ev.Gaussian(noise_multiplier), "server": each, "silo": other}

    def round(self, number, parameters, gate, state=None):
        federation, mechanism = self.setup.federation, self.mechanism(self.promise.noise_multiplier)
        silos = roster(number, self.setup.silos)
        # A function of released values and of one silo's data each, before the noise.
        rows = [federation.features[federation.silo == silo].mean(axis=0) for silo in silos]
        totals = [mechanism.total(row[None] - parameters[None]) for row in rows]

        def work(ticket):
            names = [f"noise/silo-{silo}" for silo in silos]
            total = np.sum(mechanism.noisy(ticket, totals, names), axis=0)
            constant = records.Normaliser("constant", float(GROUP))
            return Draft(parameters + total / GROUP, aggregate=total, normaliser=constant)

        return self.make_round(number, parameters, gate, work, silos=silos)


def frames(settings, federation, local, _):
    return Frames(setup(settings, federation, local), settings.table.clip)


def measure(prepared, released):
    return {"distance": np.linalg.norm(released - prepared.federation.test_features.mean(0))}


def _phase(read, intent, values):  # noqa: ARG001
    clip, silos = read("frames", "clip"), read("data", "silos")
    noise = noise_multiplier_of(read, intent, lambda noise: noise_of(noise, clip))
    constant = records.Normaliser("constant", float(GROUP))
    stated = expected_phase(
        noise_of(noise, clip), read("privacy", "neighbours"), 1, records.Sampling(), constant
    )
    return stated.__class__(**{**vars(stated), "silos": roster(intent.round, silos)})


DETERMINES = ExpectedLog(
    _phase, counted=lambda read: counted(read("run", "rounds"), read("data", "silos"))
)
