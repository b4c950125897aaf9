"""Samplers other than Poisson: each enters its events when it is imported."""

from . import allocation, batches, fixed_size, truncated  # noqa: F401
