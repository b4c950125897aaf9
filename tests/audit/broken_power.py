"""A power iteration, broken in the ways that happen, for tests that must notice.

Each bug patches the path that every round takes, and nothing else: the log goes on saying what it
says of a correct run.  `with broken_power("half-noise"): ...`
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from unittest import mock

import numpy as np

from privplan.accountant.mechanisms import noisy_product
from privplan.accountant.mechanisms.gram_row_grid import GridScale
from privplan.accountant.mechanisms.noisy_product import NoisyProduct
from privplan.accountant.mechanisms.product_rows import ProductRows

draw, share_steps, exact = (
    noisy_product.discrete_gaussian,
    NoisyProduct.share_steps,
    ProductRows.total,
)


def noise_times(factor):
    """Every share of noise is that many times as wide as is stated."""

    def drawn(stream, count, scale):
        return draw(stream, count, factor * scale)

    return mock.patch.object(noisy_product, "discrete_gaussian", drawn)


def no_clipping():
    """Rows pass the clip whatever their norm (up to 1,000 times the bound)."""
    most = GridScale.most.func
    return mock.patch.object(GridScale, "most", property(lambda scale: 1_000_000 * most(scale)))


def orthonormal():
    """Every silo orthonormalises its product, to columns of R^2 / s, and adds the noise then."""

    def total(self, basis):
        sums = exact(self, basis).reshape(basis.shape)
        if not sums.any():
            return sums.reshape(-1)
        longest = 2.0 ** (2 * self.row_bits) * np.linalg.norm(basis[:, 0])
        return np.rint(longest * np.linalg.qr(sums.astype(float)).Q).astype(np.int64).reshape(-1)

    made = ProductRows.__init__

    def placed(self, mechanism, rows, **more):
        self.row_bits = mechanism.grid_bits.row_bits
        made(self, mechanism, rows, **more)

    return mock.patch.multiple(ProductRows, total=total, __init__=placed)


def silent_silo():
    """The last silo adds no noise."""

    def steps(self, ticket, total, name):
        noisy = share_steps(self, ticket, total, name)
        return total if name.endswith(f"silo-{self.shares - 1}") else noisy

    return mock.patch.object(NoisyProduct, "share_steps", steps)


def noise_again():
    """The last silo adds its noise of the first round in every round."""
    first = {}

    def steps(self, ticket, total, name):
        noise = share_steps(self, ticket, total, name) - total
        if name.endswith(f"silo-{self.shares - 1}"):
            if ticket.intent.round == 1:
                first["noise"] = noise
            noise = first["noise"]
        return total + noise

    return mock.patch.object(NoisyProduct, "share_steps", steps)


BUGS = {
    "half-noise": lambda: noise_times(0.5),
    "no-clipping": no_clipping,
    "orthonormal": orthonormal,
    "silent-silo": silent_silo,
    "noise-again": noise_again,
    "none": contextlib.nullcontext,
}
"""By name, what breaks the rounds; `none` leaves them as they are."""


@contextlib.contextmanager
def broken_power(name: str) -> Iterator[None]:
    """Break every round in one way, for a while."""
    with BUGS[name]():
        yield
