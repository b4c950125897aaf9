"""Messages of units through a shuffler to an analyzer: the protocol behind `shuffle`."""

from .rounds import Shuffling
from .terms import Received, Terms

__all__ = ["Received", "Shuffling", "Terms"]
