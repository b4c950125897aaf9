"""The loss threshold: what a model has trained on, it is surer of.

It needs no shadows, and says nothing that is fitted to a record: records that are easy for every
model look like members.  Source: Yeom, Giacomelli, Fredrikson and Jha 2018, *Privacy Risk in
Machine Learning*, arXiv 1709.01604, section 3.
"""

from __future__ import annotations

from ....accountant.arrays import FloatArray
from .evidence import (
    Evidence,
    log_likelihood,
)


def loss(evidence: Evidence) -> FloatArray:
    """Return minus the loss of every record under every target, log p_y: (T, records)."""
    return log_likelihood(evidence.targets)
