"""Mechanisms: they state the event, and draw its noise through the gate, exactly."""

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
