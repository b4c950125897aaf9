"""FLAME's rounds, broken in the ways that happen, for tests that must notice.

Each bug patches the path that every round takes, and nothing else; the log goes on saying what it
says of a correct run.  `with broken_flame("half-noise")`
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any
from unittest import mock

import numpy as np

from privplan.accountant.mechanisms import LaplaceMessages, ResponseMessages
from privplan.accountant.randomness import Streams
from privplan.fl.flame import selection
from privplan.fl.flame.system import Flame
from privplan.fl.shuffling import parties
from privplan.fl.shuffling.ideal import IdealShuffling

draw_noise, reported = LaplaceMessages._draw_noise, ResponseMessages._reported
make_round = Flame.round


def both(*patches):
    """Return all of these patches as one."""
    stack = contextlib.ExitStack()
    for patch in patches:
        stack.enter_context(patch)
    return stack


def half_noise():
    """Messages and dummies have half of the noise; words twice the epsilon."""

    def noise(self, stream, count):
        return draw_noise(self, stream, count) // 2

    def words_of(self, ticket, values, name, part):
        told = ResponseMessages(2.0 * self.epsilon, self.categories)
        with mock.patch.object(ResponseMessages, "check_ticket"):
            return reported(told, ticket, values, name, part)

    return both(
        mock.patch.object(LaplaceMessages, "_draw_noise", noise),
        mock.patch.object(ResponseMessages, "_reported", words_of),
    )


def no_clip():
    """Values stay as they are: ten clips long."""

    def steps(self, values):
        return np.trunc(np.asarray(values) / self.grid).astype(np.int64)

    return mock.patch.object(LaplaceMessages, "steps", steps)


def constant_dummies():
    """Dummies are all the middle: they hide how many there are, and no message."""

    def zeros(self, ticket, count, name):
        del ticket, name
        return np.full(count, 0 if isinstance(self, LaplaceMessages) else self.categories // 2)

    return both(
        mock.patch.object(LaplaceMessages, "dummies", zeros),
        mock.patch.object(ResponseMessages, "dummies", zeros),
    )


def dropped_dummies():
    """The shuffler adds none; in ciphertexts the analyzer counts, so only without them."""
    return mock.patch.object(IdealShuffling, "_add_dummies")


def uncounted_dummies():
    """The shuffler hands on one ciphertext of each coordinate less than was agreed."""
    honest = parties.grouped_order

    def one_less(stream, groups):
        coordinates = len(np.unique(groups))
        return honest(stream, groups).reshape(coordinates, -1)[:, :-1].ravel()

    return mock.patch.object(parties, "grouped_order", one_less)


def largest_as_drawn():
    """Users of `double` send their largest coordinates, which are said to be drawn."""

    def largest(self, ticket, rows):
        del ticket
        return selection.largest_coordinates(rows, self.terms.chosen)

    return mock.patch.object(Flame, "_places", largest)


def repeated_noise():
    """Every round has the noise of the first one."""
    kept: list[Any] = []

    def noise(self, stream, count):
        del stream
        state = kept[-1].setdefault("streams", Streams.seeded(kept[-1]["run"], 0))
        return draw_noise(self, state.stream(f"again-{len(kept[-1])}"), count)

    def rounds(self, number, parameters, gate, state=None):
        if number == 1:
            kept.append({"run": len(kept)})
        kept[-1]["streams"] = Streams.seeded(kept[-1]["run"], 0)
        return make_round(self, number, parameters, gate, state)

    return both(
        mock.patch.object(LaplaceMessages, "_draw_noise", noise),
        mock.patch.object(Flame, "round", rounds),
    )


def unmixed():
    """The shuffler hands messages on as they came, coordinate by coordinate."""

    def as_it_came(stream, groups):
        del stream
        return np.argsort(groups, kind="stable")

    return mock.patch.object(parties, "grouped_order", as_it_came)


def mixed_whole():
    """The shuffler mixes users, and what each of them sends stays at one position."""

    def by_user(stream, groups):
        count = int(np.bincount(groups)[0])
        users = np.argsort(stream.integers64(count))
        # Of each coordinate the messages of users, in the same random order.
        order = np.argsort(groups, kind="stable").reshape(-1, count)
        return order[:, users].ravel()

    return mock.patch.object(parties, "grouped_order", by_user)


BUGS = {
    "half-noise": half_noise,
    "no-clip": no_clip,
    "constant-dummies": constant_dummies,
    "dropped-dummies": dropped_dummies,
    "uncounted-dummies": uncounted_dummies,
    "largest-as-drawn": largest_as_drawn,
    "repeated-noise": repeated_noise,
    "unmixed": unmixed,
    "mixed-whole": mixed_whole,
    "none": contextlib.nullcontext,
}
"""By name, what breaks the rounds and leaves the log; `none` leaves both as they are."""


@contextlib.contextmanager
def broken_flame(name: str) -> Iterator[None]:
    """Break every round in one way, for a while."""
    with BUGS[name]():
        yield
