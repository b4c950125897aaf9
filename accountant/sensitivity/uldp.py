"""Uldp-FL: what one user can move, across silos, and what each observer sees of it.

C is the clip, sigma the noise multiplier that a run states, S the silos, T the rounds.

`naive`: silo s sends clip(x_s - x) + N(0, sigma^2 C^2 |S|), so the sum has noise sigma C |S|.  A
user moves every silo's clipped delta between two points of a ball of radius C: by 2C, not by C as
published, however few of its records the silo holds.  Attained: for the loss -z.x and others that
pull by -M, a user that pulls by +2M swings every silo's delta from -C to +C in every round.

`weighted` (AVG and SGD): silo s sends sum_u w_su clip_C(delta_su) + N(0, sigma^2 C^2 / |S|).  A
user whose records go takes its own terms with it: C sum_s w_su <= C.  A user whose records are
exchanged moves the sum by 2C.  The list of users, |U|, |S| and the sampling rate are public and
fixed: the result is divided by them.

An observer of the silos A sees their sum, or each by itself:

    together:    mu = sqrt(|S|) sum_{s in A} w_su / (sigma sqrt(|A|))
    separately:  mu = sqrt(|S| sum_{s in A} w_su^2) / sigma

per round, for the worst user u.  Source of the algorithms: Kato, Xiong, Takagi, Cao and Yoshikawa
2024, *Uldp-FL*, arXiv 2308.12210, Algorithms 1, 3 and 4; bounds derived here.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import events as ev
from .. import validate
from ..errors import InvalidInput, Unsupported
from ..guarantee import as_neighbours
from .release import Release, Sensitivity, reach, repeated, root_down, up

_ULP: Final = 2.0**-52


def naive_sensitivity_as_published(clip: float, silos: int) -> float:
    """Return the paper's bound on the sum of all silos' deltas under `naive`: C |S|.

    Half of the truth, see `naive_sensitivity`.  Source: Kato et al. 2024, Theorem 3, as printed.
    """
    return validate.positive(clip=clip) * validate.count(silos=silos)


def naive_sensitivity(clip: float, silos: int, neighbours: str = "add-remove") -> Sensitivity:
    """Return by how much a user moves the sum of all silos' clipped deltas: 2 C |S|.

    Two points of a ball of radius C are at most 2C apart; attained, see the module, whether the
    user's records are removed or exchanged.

    >>> naive_sensitivity(0.125, 4).l2
    1.0
    """
    bound = up(Fraction(validate.positive(clip=clip)) * 2 * validate.count(silos=silos))
    conditions = (
        "every silo's delta is clipped to norm C, a public constant",
        "|S| is public and fixed",
    )
    return Sensitivity(bound, as_neighbours(neighbours), unit="user", conditions=conditions)


def naive_release(
    noise_multiplier: float,
    *,
    rounds: int,
    silos: int,
    seen: int | None = None,
    together: bool = True,
    neighbours: str = "add-remove",
) -> Release:
    """Return what ULDP-NAIVE reveals of a user to who sees `seen` of the silos (all, if left out).

    Each silo moves by 2C and has noise sigma C sqrt(|S|), so over the |A| silos seen, together or
    each by itself, mu = 2 sqrt(|A|/|S|) / sigma.  The relation makes no difference: a user that is
    removed, and one whose records are exchanged, both move a silo across the ball.

    >>> naive_release(5.0, rounds=100, silos=5).event
    Repeat(count=100, event=Gaussian(noise_multiplier=2.5))
    """
    relation = as_neighbours(neighbours)
    sigma = Fraction(validate.positive(noise_multiplier=noise_multiplier))
    total = validate.count(silos=silos)
    watched = total if seen is None else validate.count(seen=seen)
    if watched > total:
        raise InvalidInput(f"`seen` must be at most `silos` ({total}); it is {watched}.")
    scaled = root_down((reach(relation) * sigma / 2) ** 2 * Fraction(total, watched))
    return Release(
        repeated(validate.count(rounds=rounds), ev.Gaussian(scaled)),
        relation,
        _seen_by(watched, total, together),
        "user",
        conditions=(
            "each silo clips its delta to C and adds noise sigma C sqrt(|S|)",
            "no silo that is seen tells its noise",
        ),
    )


def weight_sum(weights: ArrayLike) -> float:
    """Return the largest sum of one user's weights, rounded up; refuse more than 1.

    `weights` is (users, silos), each 0 or above.  A sum may exceed 1 by rounding alone, by |S|
    units in the last place, and then is counted as it is.

    Raises `InvalidInput` for another shape, a weight that is negative or no number, and a sum
    above 1, naming the row.

    >>> weight_sum([[0.5, 0.5], [0.25, 0.25]]) >= 1.0
    True
    """
    table = _table(weights)
    sums = _row_sums(table)
    too_large = np.flatnonzero(sums > 1.0 + table.shape[1] * _ULP)
    if too_large.size:
        raise InvalidInput(
            f"The weights of user {too_large[0]} (a row of `weights`) sum to more than 1.",
            "A user then moves the sum by more than the clip C that the noise was made for.",
            "Divide each user's weights by their sum.",
        )
    return float(sums.max())


def weighted_sensitivity(
    clip: float, weights: ArrayLike, neighbours: str = "add-remove"
) -> Sensitivity:
    """Return by how much a user moves the sum of weighted, clipped deltas.

    C max_u sum_s w_su for a user whose records go; twice that for one whose records are exchanged
    (attained by opposite deltas).  `weights` is (users, silos): public, or covering every user
    that the promise is for (`worst_weights`).
    """
    relation = as_neighbours(neighbours)
    c = Fraction(validate.positive(clip=clip))
    bound = up(reach(relation) * c * Fraction(weight_sum(weights)))
    return Sensitivity(bound, relation, unit="user", conditions=_conditions())


def worst_weights(silos: int) -> NDArray[np.float64]:
    """Return weights that stand for every user: row s is a user with all its records in silo s.

    Over users with weights >= 0 that sum to at most 1, sum_{s in A} w_su and sum w_su^2 are
    convex, so they are largest here.
    """
    return np.eye(validate.count(silos=silos))


def weighted_release(
    noise_multiplier: float,
    *,
    rounds: int,
    weights: ArrayLike,
    neighbours: str = "add-remove",
    rate: float = 1.0,
    seen: Sequence[int] | None = None,
    together: bool = True,
    knows_sample: bool = False,
) -> Release:
    """Return what ULDP-AVG or ULDP-SGD reveals of the worst user to one kind of observer.

    `weights` is (users, silos): public, or `worst_weights`; weights computed from record counts
    are private, and a number made from them holds for those users only.  `seen`: the silos whose
    sum (`together`), or whose separate updates, the observer sees; all of them if left out.
    `rate`: users join each round by a Poisson draw common to all silos.  `knows_sample`: the
    observer learns who was drawn (the server that draws does), so its rate is 1.

    For a silo that knows its own noise and its own users use `insider_release`.

    >>> import numpy as np
    >>> uniform = np.full((1, 4), 0.25)
    >>> weighted_release(5.0, rounds=50, weights=uniform).event
    Repeat(count=50, event=Gaussian(noise_multiplier=5.0))
    """
    relation = as_neighbours(neighbours)
    weight_sum(weights)
    table = _table(weights)
    silos = table.shape[1]
    watched = _silos_seen(seen, silos)
    scaled = _scaled(table[:, watched], silos, noise_multiplier, together)
    event: ev.Event = ev.Gaussian(scaled)
    drawn = validate.probability(rate=rate)
    if drawn < 1.0 and not knows_sample:
        event = ev.Poisson(drawn, event)
    return Release(
        repeated(validate.count(rounds=rounds), event),
        relation,
        _seen_by(len(watched), silos, together) + (", who knows the sample" * knows_sample),
        "user",
        conditions=_conditions(),
    )


def insider_release(
    noise_multiplier: float,
    *,
    rounds: int,
    silos: int,
    weighting: str = "uniform",
    holds_user: bool = True,
    neighbours: str = "add-remove",
) -> Release:
    """Return what the aggregate reveals to one silo, about a user's records in the other silos.

    The silo subtracts its own noise and the users' deltas that it knows, and sees the others
    together.  Per round, for `add-remove` of the records elsewhere:

    - `uniform` weights 1/|S| stay what they are: mu = sqrt((|S|-1)/|S|) / sigma.
    - `records` weights n_su/N_u, of a user of whom this silo has nothing (`holds_user` False):
      mu = sqrt(|S|/(|S|-1)) / sigma.
    - `records` weights, of a user of whom it has a share w: when the records elsewhere go, that
      share grows to 1, and the sum moves by up to (1 - w) C there and (1 - w) C here.  As w may be
      near 0, mu = 2 sqrt(|S|/(|S|-1)) / sigma.

    Exchanged (`replace-one`), they move the sum by (1 - w) C + (1 - w') C + |w - w'| C <= 2C, or
    2C (|S|-1)/|S| with uniform weights.  Sampling is not counted: a silo that trains only on the
    users who were drawn knows them.  Raises `Unsupported` for a single silo.  Derived here.

    >>> insider_release(5.0, rounds=100, silos=2, weighting="records", holds_user=False).event
    Repeat(count=100, event=Gaussian(noise_multiplier=3.5355339059327373))
    """
    relation = as_neighbours(neighbours)
    validate.choice(("uniform", "records"), weighting=weighting)
    total = validate.count(silos=silos)
    if total < 2:
        raise Unsupported(
            "A single silo sees all of its users' data.",
            "There are no records elsewhere to protect from it.",
            "Give the number of silos, 2 or above.",
        )
    square = Fraction(validate.positive(noise_multiplier=noise_multiplier)) ** 2
    square *= Fraction(total - 1, total)
    if weighting == "uniform":
        square *= Fraction(total, total - 1) ** 2
    elif holds_user and relation != "replace-one":
        square /= 4
    return Release(
        repeated(validate.count(rounds=rounds), ev.Gaussian(root_down(square))),
        relation,
        "silo",
        "user",
        conditions=(*_conditions(), "the unit is a user's records in the other silos"),
    )


def _scaled(
    table: NDArray[np.float64], silos: int, noise_multiplier: float, together: bool
) -> float:
    """Return 1/mu for the worst row, rounded down."""
    sigma = Fraction(validate.positive(noise_multiplier=noise_multiplier))
    watched = table.shape[1]
    if together:
        worst = Fraction(float(_row_sums(table).max())) ** 2 / watched
    else:
        worst = Fraction(float(_row_sums(np.square(table) * (1.0 + 2.0 * _ULP)).max()))
    if worst == 0:
        raise InvalidInput(
            "No user has a weight in the silos that are seen.",
            "Nothing is released about anybody.",
            "Check `weights` and `seen`.",
        )
    return root_down(sigma**2 / (silos * worst))


def _row_sums(table: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the sum of each row, rounded up: what each addition loses is added up beside it."""
    total, lost, size = np.zeros((3, len(table)))
    for column in table.T:
        after = total + column
        kept = after - total
        error = (total - (after - kept)) + (column - kept)  # exact (Knuth's two-sum)
        total, lost, size = after, lost + error, size + np.abs(error)
    lost = lost + (len(table.T) + 2) * _ULP * size
    return np.where(lost > 0.0, np.nextafter(total + lost, np.inf), total)


def _table(weights: ArrayLike) -> NDArray[np.float64]:
    try:
        table = np.asarray(weights, np.float64)
    except (TypeError, ValueError):
        table = np.empty(0)
    if table.ndim != 2 or 0 in table.shape:
        raise InvalidInput(
            "`weights` must be a table of numbers, one row per user and one column per silo.",
            next_step="Give an array of shape (users, silos).",
        )
    bad = np.flatnonzero(~((table >= 0.0) & np.isfinite(table)).all(axis=1))
    if bad.size:
        raise InvalidInput(
            f"The weights of user {bad[0]} (a row of `weights`) are not all numbers, 0 or above.",
            next_step="Give finite weights that are not negative.",
        )
    return table


def _silos_seen(seen: Sequence[int] | None, silos: int) -> list[int]:
    watched = list(range(silos)) if seen is None else [int(index) for index in seen]
    if not watched or len(set(watched)) != len(watched) or not set(watched) <= set(range(silos)):
        raise InvalidInput(
            f"`seen` must name different silos, from 0 to {silos - 1}.",
            next_step="Leave it out for all silos.",
        )
    return watched


def _seen_by(watched: int, silos: int, together: bool) -> str:
    which = "all silos" if watched == silos else f"{watched} of {silos} silos"
    if together:
        return "model" if watched == silos else f"sum of {which}"
    return f"each of {which}"


def _conditions() -> tuple[str, ...]:
    return (
        "each user's delta is clipped to C, a public constant, in each silo, then weighted",
        "each silo adds noise sigma C / sqrt(|S|), freshly, and nobody who watches knows it",
        "the list of users, |U|, |S| and the rate are public and fixed",
    )
