"""The privacy-loss-distribution engine: certified bounds from both sides."""

from .ask.engine import PldEngine

__all__ = ["PldEngine"]
