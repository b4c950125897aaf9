"""Mechanisms: they state the event, and draw its noise through the gate, exactly.

- `release_gate`, `round_ticket`: the gate: budget, intent on disk, then noise; and the ticket that
  draws it once.
- `base`: what a mechanism states: bound, noise, sensitivity, event.
- `clip`: rows of floats to rows of integers within the clipping norm.
- `gaussian`, `laplace`, `integers`, `fine_grid_gaussian`, `noisy_sums`: noise on sums of clipped
  rows, and on counts and histograms.
- `banded_gaussian`: noise that is correlated from round to round.
- `gram_noise`, `gram_grid`, `gram_rows`, `gram_row_grid`, `gram_products`, `wishart_gram`: noise on
  Gram matrices X^T X: its grid, exact rows and sums; Wishart noise as published.
- `noisy_product`, `product_grid`, `product_rows`: noise on products A^T A Z of power iterations:
  bits of rows and basis, exact sums.
- `messages`, `randomized_response`, `unblanketed_responses`, `shuffled_round`: units that randomise
  their own messages, and what a shuffler makes of them.
- `selection`: the exponential mechanism.
- `discrete_sampler`, `wide_gaussian`, `exponentials`: exact samplers: discrete Laplace and
  Gaussian, coins of exponentials.
"""

from .banded_gaussian import BandedGaussian
from .base import RoundDescription
from .fine_grid_gaussian import FineGaussian
from .gaussian import Gaussian
from .gram_grid import grid_bits
from .gram_noise import NoisyGram
from .integers import DiscreteGaussian, DiscreteLaplace
from .laplace import Laplace, SharedNoise
from .messages import GaussianMessages, LaplaceMessages, Messages, ResponseMessages
from .noisy_product import NoisyProduct
from .product_grid import ProductGrid
from .randomized_response import RandomizedResponse
from .release_gate import Gate
from .round_ticket import Ticket
from .selection import Exponential
from .shuffled_round import ShuffledRound
from .unblanketed_responses import UnblanketedResponses
from .wishart_gram import WishartGram, wishart_bits

__all__ = [
    "BandedGaussian",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "Exponential",
    "FineGaussian",
    "Gate",
    "Gaussian",
    "GaussianMessages",
    "Laplace",
    "LaplaceMessages",
    "Messages",
    "NoisyGram",
    "NoisyProduct",
    "ProductGrid",
    "RandomizedResponse",
    "ResponseMessages",
    "RoundDescription",
    "SharedNoise",
    "ShuffledRound",
    "Ticket",
    "UnblanketedResponses",
    "WishartGram",
    "grid_bits",
    "wishart_bits",
]
