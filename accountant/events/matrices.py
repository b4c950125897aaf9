"""Correlated noise: the strategy by which rounds share it, and the rounds in which a unit counts.

Of T rounds with contributions x_1, ..., x_T the mechanism releases C x + z, with C the strategy (a
row for each noised value, a column for each round) and z independent Gaussian noise.  Whatever is
released as B x + B C^{-1} z, prefix sums or models say, is computed from that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

from .. import validate
from ..errors import InvalidInput
from .base import Event, TypedValue, checked, listed, numbers_value, value_of

MAX_STRATEGY_STEPS: Final = 2**22
"""Most rounds of a strategy that are computed with."""


@dataclass(frozen=True, eq=False)
class Strategy(TypedValue):
    """A matrix C with one column for each round; the base of the closed list of strategies."""


@dataclass(frozen=True, eq=False)
class Participation(TypedValue):
    """In which rounds one unit may contribute; the base of the closed list of participations."""


def _rows(**given: object) -> tuple[tuple[float, ...], ...]:
    ((name, _),) = given.items()
    value = listed("rows", "[[1.0, 0.0], [0.5, 1.0]]", **given)
    rows = tuple(
        numbers_value(validate.finite, **{f"{name}[{index}]": row})
        for index, row in enumerate(value)
    )
    for index, row in enumerate(rows):
        if len(row) != len(rows[0]):
            raise InvalidInput(
                f"`{name}[{index}]` must have {len(rows[0])} numbers, as the first row; it has "
                f"{len(row)}.",
                next_step="Give every row one number for each round.",
            )
    return rows


def _diagonals(**given: object) -> tuple[tuple[float, ...], ...]:
    ((name, _),) = given.items()
    value = listed("diagonals", "[[1.0, 1.0], [0.5]]", **given)
    diagonals = tuple(
        numbers_value(validate.finite, **{f"{name}[{index}]": diagonal})
        for index, diagonal in enumerate(value)
    )
    for index, diagonal in enumerate(diagonals):
        if len(diagonal) != len(diagonals[0]) - index:
            raise InvalidInput(
                f"`{name}[{index}]` must have {len(diagonals[0]) - index} numbers, {index} fewer "
                f"than the main one; it has {len(diagonal)}.",
                next_step="Give each diagonal one number less than the one above it.",
            )
    return diagonals


def _require_invertible(field: str, diagonal: tuple[float, ...]) -> None:
    for index, entry in enumerate(diagonal):
        if entry == 0.0:
            raise InvalidInput(
                f"`{field}[{index}]` must not be 0.",
                "The strategy would be singular, so that B x + B C^-1 z cannot be released.",
                "Give every round a noised value with it in it.",
            )


@dataclass(frozen=True, eq=False)
class DenseStrategy(Strategy):
    """The strategy whose `rows` are given, each with one number for each round.

    Range: finite numbers, at least one row, as many rows as columns or more, and columns that are
    linearly independent.
    Source: Denisov et al. 2022, arXiv 2202.08312.
    """

    type: ClassVar[str] = "dense"
    rows: tuple[tuple[float, ...], ...] = checked(_rows)


@dataclass(frozen=True, eq=False)
class BandedStrategy(Strategy):
    """The lower triangular T x T strategy with these `diagonals`, from the main one down.

    Range: the first has T numbers, none of them 0, the next T - 1, and so on, at most T of them;
    what is not listed is 0.
    Source: Choquette-Choo et al. 2023, arXiv 2306.08153.
    """

    type: ClassVar[str] = "banded"
    diagonals: tuple[tuple[float, ...], ...] = checked(_diagonals)

    def __post_init__(self) -> None:
        super().__post_init__()
        _require_invertible("diagonals[0]", self.diagonals[0])


@dataclass(frozen=True, eq=False)
class ToeplitzStrategy(Strategy):
    """The lower triangular strategy of `steps` rounds with C[i, j] = `coefficients`[i - j].

    Coefficients that are not listed are 0.  Range: at most `steps`, the first not 0.
    Source: Kalinin and Lampert 2024, arXiv 2405.13763.
    """

    type: ClassVar[str] = "toeplitz"
    steps: int = checked(validate.count)
    coefficients: tuple[float, ...] = checked(numbers_value, validate.finite)

    def __post_init__(self) -> None:
        super().__post_init__()
        _require_invertible("coefficients", self.coefficients[:1])
        if len(self.coefficients) > self.steps:
            raise InvalidInput(
                f"`coefficients` must be at most {self.steps:,}, one for each of `steps`; they "
                f"are {len(self.coefficients):,}.",
                next_step="Leave out the last ones, or give more steps.",
            )


@dataclass(frozen=True, eq=False)
class BufferedToeplitzStrategy(Strategy):
    """A buffered linear Toeplitz (BLT) strategy: C[i, i] = 1, and k rounds below the diagonal

    C[i, i - k] = sum over buffers j of `scales`[j] `decays`[j]^(k - 1).

    Range: `decays` in [0, 1], as many as `scales`.
    Source: Dvijotham et al. 2024, arXiv 2404.16706.
    """

    type: ClassVar[str] = "buffered-toeplitz"
    steps: int = checked(validate.count)
    decays: tuple[float, ...] = checked(numbers_value, validate.probability)
    scales: tuple[float, ...] = checked(numbers_value, validate.finite)

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.scales) != len(self.decays):
            raise InvalidInput(
                f"`scales` must be as many as `decays`, {len(self.decays):,}; they are "
                f"{len(self.scales):,}.",
                next_step="Give each buffer one decay and one scale.",
            )


@dataclass(frozen=True, eq=False)
class TreeStrategy(Strategy):
    """The tree over `steps` rounds in which each node has `fan_out` children; complete nodes only.

    A node is the sum of the fan_out^l rounds below it, leaves (l = 0) included, and stands in C
    where all of these are among the rounds: 100 rounds have 7 levels at fan-out 2.  Whoever pads
    the tree, to 128 rounds, and releases nodes that hold only some of their rounds, the root among
    them, has 8 levels, and asks with `steps` 128.  Range: `steps` 1 or above, `fan_out` 2 or above.
    Source: Kairouz et al. 2021, arXiv 2103.00039.
    """

    type: ClassVar[str] = "tree"
    steps: int = checked(validate.count)
    fan_out: int = checked(validate.count_from, 2)


@dataclass(frozen=True, eq=False)
class SingleParticipation(Participation):
    """A unit contributes in at most one round, whichever.

    Source: Denisov et al. 2022, arXiv 2202.08312.
    """

    type: ClassVar[str] = "single"


@dataclass(frozen=True, eq=False)
class SeparatedParticipation(Participation):
    """A unit contributes in at most `most` rounds, any two of them at least `separation` apart.

    Range: `most` and `separation` 1 or above; more rounds than fit so far apart count as those that
    fit.
    Source: Choquette-Choo et al. 2023, arXiv 2306.08153.
    """

    type: ClassVar[str] = "separated"
    most: int = checked(validate.count)
    separation: int = checked(validate.count)


@dataclass(frozen=True, eq=False)
class EpochParticipation(Participation):
    """A unit contributes once in each of `epochs` passes, always at the same place of the pass.

    Of T rounds those are i, i + T / `epochs`, i + 2 T / `epochs`, and so on, for one i that may be
    known.  `epochs` must divide T.
    Source: Choquette-Choo et al. 2023, arXiv 2211.06530.
    """

    type: ClassVar[str] = "epochs"
    epochs: int = checked(validate.count)


@dataclass(frozen=True, eq=False)
class BallsInBins(Participation):
    """A unit draws one of `bins` rounds of a pass, at random, hidden, and keeps to it in each pass.

    Of T rounds it contributes in i, i + `bins`, i + 2 `bins`, and so on; units draw independently.
    Range: `bins` from 1 to T.
    Source: Choquette-Choo et al. 2024, arXiv 2410.06266.
    """

    type: ClassVar[str] = "balls-in-bins"
    bins: int = checked(validate.count)


@dataclass(frozen=True, eq=False)
class MatrixGaussian(Event):
    """The rounds of a run with correlated noise, all together: C x + z.

    `strategy` is C, x_t the sum of what the units contribute in round t, each at most one
    contribution bound (L2, vectors), and z independent Gaussian noise of standard deviation
    `noise_multiplier` x contribution bound in every coordinate.  `participation` says in which
    rounds one unit may contribute.  Range: `noise_multiplier` is above 0.
    Source: Denisov, McMahan, Rush, Smith and Thakurta 2022, Theorem 2.1, arXiv 2202.08312.
    """

    type: ClassVar[str] = "matrix-gaussian"
    noise_multiplier: float = checked(validate.positive)
    strategy: Strategy = checked(value_of, Strategy, "strategy", "ToeplitzStrategy(10, [1.0, 0.5])")
    participation: Participation = checked(
        value_of, Participation, "participation", "SingleParticipation()"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        steps = rounds_of(self.strategy)
        if steps is not None:
            require_fit(self.participation, steps)


def rounds_of(strategy: Strategy) -> int | None:
    """Return how many rounds a strategy has, the columns of C; None for one that is not known.

    >>> rounds_of(DenseStrategy([[1.0, 0.0], [0.5, 1.0]]))
    2
    """
    match strategy:
        case DenseStrategy(rows):
            return len(rows[0])
        case BandedStrategy(diagonals):
            return len(diagonals[0])
        case ToeplitzStrategy(steps) | BufferedToeplitzStrategy(steps) | TreeStrategy(steps):
            return steps
    return None


def require_fit(participation: Participation, steps: int) -> None:
    """Raise `InvalidInput` where a participation cannot be that of so many rounds."""
    match participation:
        case EpochParticipation(epochs) if steps % epochs:
            near = max(part for part in range(1, min(epochs, steps) + 1) if steps % part == 0)
            raise InvalidInput(
                f"`participation.epochs` must divide the {steps:,} rounds of the strategy; it is "
                f"{epochs:,}.",
                "A unit takes part once in each pass, and all passes are equally long.",
                f"Give {near:,} epochs, or a minimum separation.",
            )
        case BallsInBins(bins) if bins > steps:
            raise InvalidInput(
                f"`participation.bins` must be at most the {steps:,} rounds of the strategy; it is "
                f"{bins:,}.",
                "A bin is a round of a pass, and the strategy ends before the first pass does.",
                f"Give at most {steps:,} bins.",
            )
