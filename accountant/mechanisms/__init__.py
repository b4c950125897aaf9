"""Mechanisms: they state the event, and draw its noise through the gate, exactly."""

from .about import About
from .fine import FineGaussian
from .gate import Gate
from .gaussian import Gaussian
from .integers import DiscreteGaussian, DiscreteLaplace
from .laplace import Laplace
from .messages import GaussianMessages, LaplaceMessages, Messages, ResponseMessages
from .response import RandomizedResponse
from .selection import Exponential
from .shuffled import Shuffled
from .ticket import Ticket

__all__ = [
    "About",
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
    "RandomizedResponse",
    "ResponseMessages",
    "Shuffled",
    "Ticket",
]
