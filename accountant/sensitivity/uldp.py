"""Uldp-FL: what one user can move, across silos, and what each observer sees of it.

C is the clip, sigma the noise multiplier that a run states, S the silos, T the rounds.

`naive`: silo s sends clip(x_s - x) + N(0, sigma^2 C^2 |S|), so the sum has noise sigma C |S|.  A
user moves every silo's clipped delta between two points of a ball of radius C: by 2C, not by C as
published, however few of its records the silo holds.  Attained: for the loss -z.x and others that
pull by -M, a user that pulls by +2M swings every silo's delta from -C to +C in every round.

`weighted` (AVG and SGD): silo s sends sum_u w_su clip_C(delta_su) + N(0, sigma^2 C^2 / |S|).  A
user whose records go takes its own terms with it: C sum_s w_su <= C.  A user whose records are
exchanged moves the sum by 2C.  The list of users, |U|, |S| and the sampling rate are public and
fixed: the result is divided by them.  An observer of the silos A sees their sum, or each by itself:

    together:    mu = sqrt(|S|) sum_{s in A} w_su / (sigma sqrt(|A|))
    separately:  mu = sqrt(|S| sum_{s in A} w_su^2) / sigma

per round, for the worst user u.  Weights by records are n_su/N_u, and a silo applies them to its
own users' updates: in the clear it knows N_u of each of them, without noise, and every number for
such weights rests on N_u reaching nobody else.

Source of the algorithms: Kato, Xiong, Takagi, Cao and Yoshikawa 2024, *Uldp-FL*, arXiv 2308.12210,
Algorithms 1, 3 and 4; bounds derived here.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from .. import events as ev
from .. import validate
from ..arrays import FloatArray
from ..errors import InvalidInput, Unsupported
from ..neighbours import as_neighbours
from .release import Release, Sensitivity, repeated, root_down, sensitivity_multiplier, up
from .silos import FLOAT_EPSILON, row_sums, square_left, table_of, weight_sum

CLEAR_WEIGHTS: Final = ev.NoGuarantee(
    "a silo that holds a record of a user applies the weight n_su/N_u, so it knows N_u without any "
    "noise, and whether the user has records elsewhere"
)
"""What weights by records in the clear are before a silo that holds a part of the user."""

PRIVATE_COALITION: Final = ev.NoGuarantee(
    "private weighting admits no coalition: the server knows r_u N_u, every silo r_u, so together "
    "they know N_u without any noise"
)
"""What private weighting is before the server and a silo that tell each other what they know."""


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
    tolerated_dropouts: int = 0,
) -> Release:
    """Return what ULDP-NAIVE reveals of a user to who sees `seen` of the silos (all, if left out).

    Each silo moves by 2C and has noise sigma C sqrt(|S|), so over the |A| silos seen, together or
    each by itself, mu = 2 sqrt(|A|/|S|) / sigma.  The relation makes no difference: a user that is
    removed, and one whose records are exchanged, both move a silo across the ball.

    Where the noise of t of them may be missing (`tolerated_dropouts`), each silo's is larger by
    sqrt(|S|/(|S|-t)), and a sum counts all terms and |A| - t shares:
    mu = 2 |A| sqrt(|S|-t) / (|S| sqrt(|A|-t) sigma).

    >>> naive_release(5.0, rounds=100, silos=5).event
    Repeat(count=100, event=Gaussian(noise_multiplier=2.5))
    """
    relation = as_neighbours(neighbours)
    sigma = Fraction(validate.positive(noise_multiplier=noise_multiplier))
    total = validate.count(silos=silos)
    seen_silos = total if seen is None else validate.count(seen=seen)
    if seen_silos > total:
        raise InvalidInput(f"`seen` must be at most `silos` ({total}); it is {seen_silos}.")
    missing = validate.count_from(0, tolerated_dropouts=tolerated_dropouts)
    if missing >= seen_silos:
        raise Unsupported(
            "No share of the noise is left in what is seen.",
            f"Of {seen_silos} shares {missing} may be missing.",
            "Tolerate fewer dropouts.",
        )
    share_factor = Fraction(total, total - missing)
    if together:
        share_factor *= Fraction(seen_silos - missing, seen_silos)
    # 1/mu^2 times the square of the sensitivity multiplier, as the noise multiplier counts bounds.
    noise_square = (sensitivity_multiplier(relation) * sigma / 2) ** 2
    scaled = root_down(noise_square * Fraction(total, seen_silos) * share_factor)
    return Release(
        repeated(validate.count(rounds=rounds), ev.Gaussian(scaled)),
        relation,
        _seen_by(seen_silos, total, together),
        "user",
        conditions=(
            "each silo clips its delta to C and adds noise sigma C sqrt(|S|)",
            "no silo that is seen tells its noise",
        ),
    )


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
    table = table_of(weights)
    silos = table.shape[1]
    seen_silos = _silos_seen(seen, silos)
    scaled = _scaled(table[:, seen_silos], silos, noise_multiplier, together)
    event: ev.Event = ev.Gaussian(scaled)
    sampling_rate = validate.probability(rate=rate)
    if sampling_rate < 1.0 and not knows_sample:
        event = ev.Poisson(sampling_rate, event)
    return Release(
        repeated(validate.count(rounds=rounds), event),
        relation,
        _seen_by(len(seen_silos), silos, together) + (", who knows the sample" * knows_sample),
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
    hidden_weights: bool = False,
    neighbours: str = "add-remove",
    rate: float = 1.0,
    knows_sample: bool = True,
    tolerated_dropouts: int = 0,
) -> Release:
    """Return what the aggregate reveals to one silo, about a user's records in the other silos.

    The silo subtracts its own noise and the users' deltas that it knows, and sees the others
    together.  Per round, for `add-remove` of the records elsewhere:

    - `uniform` weights 1/|S| stay what they are: mu = sqrt((|S|-1)/|S|) / sigma.
    - `records` weights n_su/N_u, of a user of whom this silo has nothing (`holds_user` False):
      mu = sqrt(|S|/(|S|-1)) / sigma.
    - `records` weights, of a user of whom it has a share w, **where nobody sees the weights**
      (`hidden_weights`, private weighting): when the records elsewhere go, that share grows to 1,
      and the sum moves by up to (1 - w) C there and (1 - w) C here.  As w may be near 0,
      mu = 2 sqrt(|S|/(|S|-1)) / sigma.
    - `records` weights in the clear, of a user of whom it has a share: the silo applies the weight
      n_su/N_u and knows n_su, so it knows N_u without any noise, and whether there are records
      elsewhere.  There is no guarantee, and the event says so (`CLEAR_WEIGHTS`).

    Exchanged (`replace-one`), they move the sum by (1 - w) C + (1 - w') C + |w - w'| C <= 2C, or
    2C (|S|-1)/|S| with uniform weights.  Weights c_su / (sum_s c_su + 1), with a dummy in every
    user's count, are `records` weights too: all that is used is that they are 0 or above, sum to
    at most 1, and that a silo's own weight grows by no more than the others' lose.

    `tolerated_dropouts` t: silos whose noise may be missing.  A share then has the variance
    sigma^2 C^2 / (|S|-t), and |S|-t-1 shares are left, so mu grows by the square root of
    ((|S|-1)/|S|) (|S|-t)/(|S|-t-1).

    `rate` counts only against a silo that does not know who was drawn (`knows_sample` False): under
    private weighting, where it works on all of its users alike.  A silo that trains on those who
    were drawn knows them.  **Poisson sampling holds for a user of whom the silo has nothing.**  The
    draw b of that user is independent of all that the silo has: its own data, its noise, the draws
    of others (give it those), and earlier rounds.  Given them, the silo sees v + b x + noise, v
    known, x being what the records elsewhere come to, |x| <= C, and the data sets differ in x
    alone.  That is what the model shows of a user, with the noise of fewer silos, and is the
    sampled Gaussian under `add-remove` (x and 0) and `replace-one` (x and x') alike.  For a user of
    whom it has a share, neither data set is the one without the user, x and x' lie in opposite
    directions, and no proof here covers that pair: it is refused.

    It is for silos that follow the protocol.  One that does not can mark a user by more than the
    clip, and read the draw, or the user's count, from the result.

    Raises `Unsupported` for a single silo, where no share of noise is left, and for a sample that
    is to hide a user from a silo that holds a part of it.  Derived here.

    >>> insider_release(5.0, rounds=100, silos=2, weighting="records", holds_user=False).event
    Repeat(count=100, event=Gaussian(noise_multiplier=3.5355339059327373))
    """
    relation = as_neighbours(neighbours)
    total = validate.count(silos=silos)
    if total < 2:
        raise Unsupported(
            "A single silo sees all of its users' data.",
            "There are no records elsewhere to protect from it.",
            "Give the number of silos, 2 or above.",
        )
    square = square_left(noise_multiplier, total, 1, tolerated_dropouts, weighting)
    hidden = validate.probability(rate=rate) < 1.0 and not knows_sample
    if hidden and holds_user:
        raise Unsupported(
            "Sampling is not proven against a silo that holds a part of the user.",
            "When the rest goes, the weight here grows: the sum moves in every round either way.",
            "Give rate = 1, or holds_user = False for users of whom the silo holds nothing.",
        )
    # The silo's own weight grows as the others go: the sum moves twice as far.
    if weighting == "records" and holds_user and relation != "replace-one":
        square /= 4
    event: ev.Event = ev.Gaussian(root_down(square))
    if hidden:
        event = ev.Poisson(rate, event)
    # Weights in the clear tell the silo N_u without noise: no event covers that.
    if weighting == "records" and holds_user and not hidden_weights:
        event = CLEAR_WEIGHTS
    return Release(
        repeated(validate.count(rounds=rounds), event),
        relation,
        "silo",
        "user",
        conditions=(
            *_conditions(),
            "the unit is a user's records in the other silos",
            "silos follow the protocol, and no silo colludes with another or with the server",
            *_counts_unknown(weighting, hidden_weights=hidden_weights),
        ),
    )


def coalition_release(
    noise_multiplier: float,
    *,
    rounds: int,
    silos: int,
    colluders: int,
    weighting: str = "uniform",
    holds_user: bool = True,
    neighbours: str = "add-remove",
    together: bool = True,
    tolerated_dropouts: int = 0,
) -> Release:
    """Return what the server and c silos know, together, of a user's records in the other silos.

    They take off what the c silos sent, and see the rest summed (`together`), or each update by
    itself; the server may say of t of the other silos that they are missing (`tolerated_dropouts`),
    so |S|-c-t shares of the noise count, each of variance sigma^2 C^2 / (|S|-t).  Per round:

        records, together:   mu = sqrt((|S|-t) / (|S|-t-c)) / sigma
        records, each:       mu = sqrt(|S|-t) / sigma
        uniform, together:   mu = ((|S|-c) / |S|) sqrt((|S|-t) / (|S|-t-c)) / sigma
        uniform, each:       mu = sqrt(|S|-c) sqrt(|S|-t) / (|S| sigma)

    By `records` that is for a user of whom none of the c silos has anything (`holds_user` False);
    one that has a record applies n_su/N_u, so they know N_u, and the event is `CLEAR_WEIGHTS`.
    With `uniform` weights nothing changes where they have a part of the user.  They know the
    sample, if there is one, so it hides nobody.  Weights must be in the clear: under private
    weighting such parties know every N_u, whoever holds what.

    Range: `colluders` 1 or above.  Raises `Unsupported` where no share of noise is left.  Derived
    here; c = 1 is what `insider_release` says of one silo.

    >>> given = dict(rounds=1, silos=5, weighting="records", holds_user=False)
    >>> coalition_release(5.0, colluders=1, **given).event == insider_release(5.0, **given).event
    True
    """
    relation = as_neighbours(neighbours)
    total, colluding = validate.count(silos=silos), validate.count(colluders=colluders)
    square = square_left(noise_multiplier, total, colluding, tolerated_dropouts, weighting)
    if not together:  # one share in each, and sum w^2 is at most 1, or (|S|-c) / |S|^2
        square = Fraction(noise_multiplier) ** 2 / (total - tolerated_dropouts)
        square *= Fraction(total**2, total - colluding) if weighting == "uniform" else 1
    event: ev.Event = ev.Gaussian(root_down(square))
    if weighting == "records" and holds_user:
        event = CLEAR_WEIGHTS
    which = "1 silo" if colluding == 1 else f"{colluding} silos"
    return Release(
        repeated(validate.count(rounds=rounds), event),
        relation,
        f"server with {which}",
        "user",
        conditions=(
            *_conditions(),
            "the unit is a user's records in the other silos",
            f"no more than {which} and the server tell each other what they know",
            *_counts_unknown(weighting, hidden_weights=False),
        ),
    )


def _counts_unknown(weighting: str, *, hidden_weights: bool) -> tuple[str, ...]:
    if weighting == "uniform":
        return ()
    if hidden_weights:
        return ("nobody sees a weight: silos apply n_su/N_u under encryption",)
    return ("N_u reaches nobody but the silos that hold some of the user's records",)


def _scaled(table: FloatArray, silos: int, noise_multiplier: float, together: bool) -> float:
    """Return 1/mu for the worst row, rounded down."""
    sigma = Fraction(validate.positive(noise_multiplier=noise_multiplier))
    seen_silos = table.shape[1]
    if together:
        # One sum over the silos seen: sensitivities add up, and so do the variances.
        worst = Fraction(float(row_sums(table).max())) ** 2 / seen_silos
    else:
        # Separate updates: squares of sensitivities add up; each square is rounded up.
        worst = Fraction(float(row_sums(np.square(table) * (1.0 + 2.0 * FLOAT_EPSILON)).max()))
    if worst == 0:
        raise InvalidInput(
            "No user has a weight in the silos that are seen.",
            "Nothing is released about anybody.",
            "Check `weights` and `seen`.",
        )
    return root_down(sigma**2 / (silos * worst))


def _silos_seen(seen: Sequence[int] | None, silos: int) -> list[int]:
    seen_silos = list(range(silos)) if seen is None else [int(index) for index in seen]
    if (
        not seen_silos
        or len(set(seen_silos)) != len(seen_silos)
        or not set(seen_silos) <= set(range(silos))
    ):
        raise InvalidInput(
            f"`seen` must name different silos, from 0 to {silos - 1}.",
            next_step="Leave it out for all silos.",
        )
    return seen_silos


def _seen_by(seen_silos: int, silos: int, together: bool) -> str:
    which = "all silos" if seen_silos == silos else f"{seen_silos} of {silos} silos"
    if together:
        return "model" if seen_silos == silos else f"sum of {which}"
    return f"each of {which}"


def _conditions() -> tuple[str, ...]:
    return (
        "each user's delta is clipped to C, a public constant, in each silo, then weighted",
        "each silo adds noise sigma C / sqrt(|S|), freshly, and nobody who watches knows it",
        "the list of users, |U|, |S| and the rate are public and fixed",
    )


def worst_weights(silos: int) -> FloatArray:
    """Return weights that stand for every user: row s is a user with all its records in silo s.

    Over users with weights >= 0 that sum to at most 1, sum_{s in A} w_su and sum w_su^2 are
    convex, so they are largest here.
    """
    return np.eye(validate.count(silos=silos))
