"""The vocabulary: frozen values that say what a run released, and nothing about what it cost.

An event describes a mechanism; engines interpret it.  The meaning of an event never changes: a
new meaning is a new event.  A **noise multiplier** is the standard deviation (Laplace: the scale)
divided by the contribution bound of one unit, so the sum moves by at most one bound when a unit
comes or goes, and by at most two when it is replaced.  A stated `epsilon`, `delta` or `rho` holds
for the neighbouring relation that is named when the event is accounted.

Every event is validated when it is made, and travels as JSON: an object with `type` and the
fields of the class, both drawn from a closed list.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from .base import (
    MAX_DEPTH,
    BestOf,
    Compose,
    Event,
    Group,
    Repeat,
    TypedValue,
    to_json,
)
from .matrices import (
    BallsInBins,
    BandedStrategy,
    BufferedToeplitzStrategy,
    DenseStrategy,
    EpochParticipation,
    MatrixGaussian,
    Participation,
    SeparatedParticipation,
    SingleParticipation,
    Strategy,
    ToeplitzStrategy,
    TreeStrategy,
)
from .mechanisms import (
    ZCDP,
    Approximate,
    DiscreteGaussian,
    DiscreteLaplace,
    Exponential,
    Gaussian,
    GaussianMixture,
    Laplace,
    Local,
    NoGuarantee,
    Pure,
    RandomizedResponse,
    Renyi,
    ThresholdSelection,
    TruncatedDiscreteGaussian,
    TruncatedGeometricSelection,
)
from .samplers import (
    ClientSampled,
    FixedSize,
    Poisson,
    RandomAllocation,
    SampledShuffle,
    Shuffle,
    ShuffledBatches,
    TruncatedPoisson,
    WithReplacement,
)

__all__ = [
    "MAX_DEPTH",
    "PARTICIPATIONS",
    "STRATEGIES",
    "TYPES",
    "ZCDP",
    "Approximate",
    "BallsInBins",
    "BandedStrategy",
    "BestOf",
    "BufferedToeplitzStrategy",
    "ClientSampled",
    "Compose",
    "DenseStrategy",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "EpochParticipation",
    "Event",
    "Exponential",
    "FixedSize",
    "Gaussian",
    "GaussianMixture",
    "Group",
    "Laplace",
    "Local",
    "MatrixGaussian",
    "NoGuarantee",
    "Participation",
    "Poisson",
    "Pure",
    "RandomAllocation",
    "RandomizedResponse",
    "Renyi",
    "Repeat",
    "SampledShuffle",
    "SeparatedParticipation",
    "Shuffle",
    "ShuffledBatches",
    "SingleParticipation",
    "Strategy",
    "ThresholdSelection",
    "ToeplitzStrategy",
    "TreeStrategy",
    "TruncatedDiscreteGaussian",
    "TruncatedGeometricSelection",
    "TruncatedPoisson",
    "TypedValue",
    "WithReplacement",
    "to_json",
]

TYPES: Final[Mapping[str, type[Event]]] = {
    cls.type: cls
    for cls in (
        Gaussian,
        Laplace,
        DiscreteGaussian,
        TruncatedDiscreteGaussian,
        DiscreteLaplace,
        GaussianMixture,
        RandomizedResponse,
        Local,
        Exponential,
        Pure,
        Approximate,
        ZCDP,
        Renyi,
        NoGuarantee,
        MatrixGaussian,
        TruncatedGeometricSelection,
        ThresholdSelection,
        Poisson,
        TruncatedPoisson,
        FixedSize,
        WithReplacement,
        ClientSampled,
        ShuffledBatches,
        RandomAllocation,
        Shuffle,
        SampledShuffle,
        Compose,
        Repeat,
        Group,
        BestOf,
    )
}
"""The closed list of events: JSON `type` -> class."""

STRATEGIES: Final[Mapping[str, type[Strategy]]] = {
    cls.type: cls
    for cls in (
        DenseStrategy,
        BandedStrategy,
        ToeplitzStrategy,
        BufferedToeplitzStrategy,
        TreeStrategy,
    )
}
"""The closed list of strategies of a matrix mechanism."""

PARTICIPATIONS: Final[Mapping[str, type[Participation]]] = {
    cls.type: cls
    for cls in (
        SingleParticipation,
        SeparatedParticipation,
        EpochParticipation,
        BallsInBins,
    )
}
"""The closed list of participations in a matrix mechanism."""
