"""Mechanisms that sum clipped rows on one grid, where every party adds its share of the noise."""

from __future__ import annotations

from typing import TypeAlias

from .gaussian import Gaussian
from .laplace import Laplace

SharedNoise: TypeAlias = Gaussian | Laplace
"""They have `totals`, `share_steps`, `units` and `grid` in common.

Gaussian noise is divided among the shares, and Laplace noise is in each of them whole.
"""
