"""What must be true of a run for what is said of its events to hold, in sentences."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from ...accountant.errors import with_article
from ...accountant.neighbours import CHANGE_WORDS
from ...fl.observers.words import phrase as whom
from ..terminal.output import paragraph
from .event_words import parts_of

if TYPE_CHECKING:
    from ...accountant.calibration_aims import Calibration
    from ...accountant.events import Event

_BOUNDED_CONTRIBUTION: Final = (
    "Each {unit}'s contribution to a sum is bounded before noise is added (by clipping), and the "
    "noise multiplier is the noise divided by that bound."
)

_FRESH_NOISE: Final = "Every release draws fresh noise from a source that nobody can predict."

_POISSON: Final = (
    "Each {unit} joins each sample independently, with the stated probability, and the sample is "
    "not revealed; a loader that shuffles does not do that."
)

_SECRET_ORDER: Final = (
    "Each {unit} stands in exactly one batch of an epoch, and the order is uniformly random and "
    "not revealed. With one {unit} more or less there are as many batches, and what a batch sums "
    "to is not divided by how many it holds."
)
"""What shuffled batches rest on where a unit comes or goes."""

_SAMPLED: Final[Mapping[str, str]] = {
    "poisson": _POISSON,
    "truncated-poisson": (
        "Each {unit} joins each sample independently, with the stated probability; a sample above "
        "the cap is cut at random, and neither the sample nor its size is revealed."
    ),
    "fixed-size": (
        "Each sample is a uniformly random set of exactly the stated size, drawn afresh for each "
        "step, and not revealed."
    ),
    "with-replacement": (
        "Each draw of a batch is uniform among all records, fresh, and not revealed, and a record "
        "counts as often as it was drawn."
    ),
    "client-sampled": (
        "A client takes part in a round with the stated probability, drawn afresh and whatever it "
        "holds; who takes part may be seen. The {unit} is in one client."
    ),
    "gaussian-mixture": (
        "How much each {unit} contributes is drawn afresh in each release as stated, independently "
        "of the others, and not revealed."
    ),
    "random-allocation": (
        "Each {unit} takes part in exactly the stated number of steps, a uniformly random set that "
        "is independent of all others and not revealed."
    ),
    "matrix-gaussian": (
        "No {unit} contributes in more rounds, or in rounds closer together, than the event says; "
        "each contribution is a vector that is clipped, and all rounds share noise that is drawn "
        "as the strategy says and used once."
    ),
    "shuffled-batches": (
        "Each {unit} stands in exactly one batch of an epoch, and the order does not depend on "
        "the data; it need not be secret."
    ),
    "shuffle": (
        "Everybody uses the same randomizer once, with a value in [-bound, +bound]; the shuffler "
        "mixes all messages uniformly, and whoever sees them colludes with no user."
    ),
    "sampled-shuffle": (
        "Coordinates are chosen afresh as the event says, each dimension is shuffled by itself and "
        "padded with dummies that cannot be told from messages, and the shuffler is honest."
    ),
    "tuple": (
        "Coordinates are chosen as the event says, each user's messages stay together in one "
        "tuple, and nothing is claimed of the shuffler."
    ),
    "best-of": (
        "Only the best run is released, the number of runs is drawn as stated before the first "
        "and kept secret, and 'best' is decided by what the runs released."
    ),
}

_PROVEN_ELSEWHERE: Final = (
    "The parameter of {type} was proven elsewhere, for the neighbouring relation that "
    "is named here."
)

_NOISY: Final = (
    *("gaussian", "laplace", "discrete-gaussian", "discrete-laplace"),
    "matrix-gaussian",
)

_STATED: Final = (
    *("randomized-response", "local", "exponential"),
    *("pure", "approximate", "zcdp", "renyi"),
)


def change(neighbours: str, unit: str) -> str:
    """Return what one step between neighbouring data sets is, in words."""
    return CHANGE_WORDS.get(neighbours, neighbours).format(unit=unit)


def assumptions(event: Event, neighbours: str, unit: str, observer: str) -> tuple[str, ...]:
    """Return what must be true of the run for a guarantee about `event` to hold."""
    sentences = [
        f"What is hidden: {change(neighbours, unit)}, from {whom(observer)}.",
    ]
    # Inside a group it is each record that is clipped and drawn, not the unit.
    kinds = dict.fromkeys(
        (_kind(part), "record" if grouped else unit) for part, grouped in parts_of(event)
    )
    sentences += [
        _BOUNDED_CONTRIBUTION.format(unit=protected) for kind, protected in kinds if kind in _NOISY
    ]
    sentences += [_FRESH_NOISE for kind, _ in kinds if kind in _NOISY]
    sentences += [
        _sampled(kind, neighbours).format(unit=protected)
        for kind, protected in kinds
        if kind in _SAMPLED
    ]
    sentences += [
        _PROVEN_ELSEWHERE.format(type=with_article(f"`{kind}` event"))
        for kind, _ in kinds
        if kind in _STATED
    ]
    return tuple(dict.fromkeys(sentences))


def assumptions_of(calibration: Calibration) -> tuple[str, ...]:
    """Return what must be true of a run for what its noise proves to hold."""
    proven = calibration.guarantee
    return assumptions(calibration.event, proven.neighbours, proven.unit, proven.observer)


def bullets(sentences: tuple[str, ...]) -> str:
    """Return sentences as a list."""
    return "\n".join(paragraph(" -  ", sentence) for sentence in sentences)


def _sampled(kind: str, neighbours: str) -> str:
    if kind == "shuffled-batches" and neighbours == "add-remove":
        return _SECRET_ORDER
    return _SAMPLED[kind]


def _kind(part: Event) -> str:
    """Return the key of what an event takes for granted."""
    return "tuple" if getattr(part, "granularity", "") == "tuple" else part.type
