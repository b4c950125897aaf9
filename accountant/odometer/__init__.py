"""A budget that refuses before the release, and says which mathematics it is kept in."""

from .meter import Odometer
from .reading import Reading

__all__ = ["Odometer", "Reading"]
