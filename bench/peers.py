"""The peers, called as their own documentation calls them."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import dp_accounting as dp
from dp_accounting.pld import PLDAccountant
from dp_accounting.pld.privacy_loss_distribution import from_mixture_gaussian_mechanism
from dp_accounting.rdp import RdpAccountant
from prv_accountant import GaussianMechanism, PoissonSubsampledGaussianMechanism, PRVAccountant
from scipy.stats import binom

from privplan.accountant.events import Event


@dataclass(frozen=True)
class SampledGaussian:
    """Gaussian noise on a Poisson sample of `rate`, `rounds` times."""

    rate: float
    rounds: int

    def dp_event(self, noise: float) -> dp.DpEvent:
        """Return the event of dp_accounting.

        At rate 1 it is the plain Gaussian, which the library composes in closed form.
        """
        release = dp.GaussianDpEvent(noise)
        step = release if self.rate == 1.0 else dp.PoissonSampledDpEvent(self.rate, release)
        return dp.SelfComposedDpEvent(step, self.rounds)


def google_noise(training: SampledGaussian, epsilon: float, delta: float) -> float:
    """Return the noise that dp_accounting finds with its PLD, everything at its defaults."""
    noise = dp.calibrate_dp_mechanism(
        PLDAccountant,
        training.dp_event,
        target_epsilon=epsilon,
        target_delta=delta,
        bracket_interval=dp.LowerEndpointAndGuess(0, 1),
    )
    return float(noise)


def google_epsilon(
    training: SampledGaussian, noise: float, delta: float, discretisation: float = 1e-4
) -> float:
    """Return an upper bound on epsilon, by the PLD of dp_accounting; 1e-4 is its default."""
    accountant = PLDAccountant(value_discretization_interval=discretisation)
    return float(accountant.compose(training.dp_event(noise)).get_epsilon(delta))


def google_group_epsilon(size: int, noise: float, rate: float, rounds: int, delta: float) -> float:
    """Return an upper bound on epsilon of `size` records, by dp_accounting's mixture PLD."""
    loss = from_mixture_gaussian_mechanism(
        noise, list(range(size + 1)), list(binom.pmf(range(size + 1), size, rate))
    )
    return float(loss.self_compose(rounds).get_epsilon_for_delta(delta))


def google_composed(event: Event, delta: float) -> float:
    """Return an upper bound on epsilon of any event, by the PLD of dp_accounting."""
    return float(PLDAccountant().compose(event.to_dp_event()).get_epsilon(delta))


def google_rdp(training: SampledGaussian, noise: float, delta: float) -> float:
    """Return an upper bound on epsilon, by the RDP of dp_accounting."""
    return float(RdpAccountant().compose(training.dp_event(noise)).get_epsilon(delta))


def microsoft_epsilon(
    training: SampledGaussian, noise: float, delta: float, eps_error: float = 0.01
) -> tuple[float, float]:
    """Return bounds on epsilon by prv_accountant, with its own advice of delta / 1000 for slack."""
    prv = (
        GaussianMechanism(noise_multiplier=noise)
        if training.rate == 1.0
        else PoissonSubsampledGaussianMechanism(
            noise_multiplier=noise, sampling_probability=training.rate
        )
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        accountant = PRVAccountant(
            prvs=prv,
            max_self_compositions=training.rounds,
            eps_error=eps_error,
            delta_error=delta / 1000.0,
        )
        lower, _, upper = accountant.compute_epsilon(delta, training.rounds)
    return float(lower), float(upper)


def warm_up() -> None:
    """Call every peer once on something small, so that no timed call pays for a first use."""
    small = SampledGaussian(0.1, 10)
    google_noise(small, 1.0, 1e-5)
    google_rdp(small, 2.0, 1e-5)
    microsoft_epsilon(small, 2.0, 1e-5, eps_error=0.1)
