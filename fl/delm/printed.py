"""DELM's rounds on other models, as printed: noise on what one step reads of an expansion.

    client i   the gradient of its loss at x, summed over its records, with Laplace noise
    noise      scale Delta / epsilon2 on every number, the printed Delta of d features and c classes
    server     each layer's messages, shuffled; those that are chosen are averaged; one step

The objective of such a model is no polynomial.  Expanded at the current weights x its linear
coefficients are the gradient, and one step reads no others.  They depend on x, so no fixed number
bounds how far one record moves them, and none is given: **no guarantee**.  For convolutions
the text says nothing of coefficients at all.  Nothing is clipped, as nothing is there.

Source: Cao et al. 2023, DELM, Algorithm 1; the expansion is what is left of it for one step.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final, cast

import numpy as np

from ...accountant.arrays import FloatArray, IntArray
from ...accountant.mechanisms import Gate, Laplace, Ticket
from ..frame.model import Parameters, Round
from ..frame.rounds import Draft
from ..frame.state import Arrays, State
from ..parties.network import silo_name
from .layers import Layer, orders
from .scheme import DelmScheme

if TYPE_CHECKING:
    from ..training.local_training import SiloGradients

_MOST_MESSAGE_STEPS: Final = 2**51
"""Beyond so many steps of the grid a number of a message is cut off: floats hold sums exactly."""


class PrintedRounds(DelmScheme):
    """DELM on a model that is not linear; see the module.  Raises as `DelmScheme`."""

    @property
    def published(self) -> bool:
        """Always: whatever the other pieces are, the rounds have no guarantee."""
        return True

    @cached_property
    def state(self) -> State:
        """The last mean gradient, where the next round's messages are compared with it."""
        return self.stated()

    def mechanism(self, noise_multiplier: float) -> Laplace:
        """Return the noise of every client's message."""
        mechanism = self.terms.mechanism(noise_multiplier)
        assert isinstance(mechanism, Laplace)
        return mechanism

    def round(
        self, number: int, parameters: Parameters, gate: Gate, state: Arrays | None = None
    ) -> Round:
        """Make one round: gradients first, then the intent, noise under it, and one step."""
        mechanism = self.mechanism(self.promise.noise_multiplier)
        local = cast("SiloGradients", self.setup.local)
        exact = steps_of(local.silo_gradients(parameters, number), mechanism.grid)

        def work(ticket: Ticket) -> Draft:
            messages = np.array(
                [
                    mechanism.noisy(ticket, total, f"noise/{name}", part=name)
                    for total, name in zip(exact, map(silo_name, range(len(exact))), strict=True)
                ]
            )
            total = self._sum(ticket, mechanism, messages, self.last(state))
            gradient = total / self.terms.divisor
            return Draft(
                parameters - self.setup.training.global_rate * gradient,
                self.after(gradient),
                aggregate=total,
                normaliser=self.terms.normaliser,
                clip_enforced=self.terms.clip_enforced,
            )

        return self.make_round(number, parameters, gate, work, mechanism=mechanism)

    def _sum(
        self, ticket: Ticket, mechanism: Laplace, messages: FloatArray, last: FloatArray
    ) -> FloatArray:
        """Return the sum (D,) of the chosen messages of each layer, in whatever order they come."""
        total = np.zeros(messages.shape[1])
        order = orders(ticket, self.layers, len(messages), shuffled=self.terms.shuffled)
        for layer, of_layer in zip(self.layers, order, strict=True):
            seen = messages[of_layer, layer.numbers]
            total[layer.numbers] = self._of_layer(ticket, mechanism, layer, seen, last)
        return total

    def _of_layer(
        self, ticket: Ticket, mechanism: Laplace, layer: Layer, seen: FloatArray, last: FloatArray
    ) -> FloatArray:
        chosen = self.chosen(ticket, layer, seen, last)
        # Summed as integers, so that the order of the clients changes no last digit.
        steps = np.rint(seen[chosen] / mechanism.grid).astype(np.int64)
        return np.asarray(steps.sum(axis=0) * mechanism.grid)


def steps_of(rows: FloatArray, grid: float) -> IntArray:
    """Return rows as integers, in steps of the grid, rounded; what is no number counts as zero."""
    steps = np.rint(np.nan_to_num(rows, nan=0.0) / grid)
    return np.clip(steps, -_MOST_MESSAGE_STEPS, _MOST_MESSAGE_STEPS).astype(np.int64)
