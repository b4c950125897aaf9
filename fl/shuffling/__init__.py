"""Messages of units through a shuffler to an analyzer: the protocol behind `shuffle`."""

from .rounds import Shuffling
from .terms import ReceivedMessages, Terms

__all__ = ["ReceivedMessages", "Shuffling", "Terms"]
