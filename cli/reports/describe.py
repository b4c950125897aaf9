"""Guarantees and events in words and in JSON: what `account`, `calibrate` and `explain` share."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Final, Literal

from ...accountant import rounding
from ...accountant.errors import with_article
from ...accountant.neighbours import CHANGE_WORDS
from ...fl.declarations.study import study_words
from ...fl.observers.words import phrase as whom
from ...fl.observers.words import population_words
from ..terminal.output import paragraph, plain, table, wrapped

if TYPE_CHECKING:
    from ...accountant.bound_routes import Route
    from ...accountant.calibration_aims import Calibration
    from ...accountant.events import Event
    from ...accountant.guarantee import Bounds, Guarantee
    from ...accountant.records import Security
    from ...fl.frame.held_out_score import HeldOutScore
    from ...fl.frame.opening import Design
    from ...fl.running.prepared_run import PreparedRun

PROVEN_FOR: Final = ("neighbours", "engine", "unit", "observer")
"""What a guarantee says of its numbers, as JSON names it."""

Quantity = Literal["epsilon", "delta"]
"""Which of the two numbers a person asked for; the other one was given."""

_ENGINE_NAMES: Final[Mapping[str, str]] = {
    "rdp": "RDP",
    "pld": "PLD",
    "gdp": "GDP",
    "blanket": "the privacy blanket",
    "pure": "largest losses",
    "google": "Google's dp_accounting",
    "microsoft": "Microsoft's prv_accountant",
}

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


def engine(name: str) -> str:
    """Return how a person calls an engine."""
    return _ENGINE_NAMES.get(name, name)


def assumptions(event: Event, neighbours: str, unit: str, observer: str) -> tuple[str, ...]:
    """Return what must be true of the run for a guarantee about `event` to hold."""
    sentences = [
        f"What is hidden: {change(neighbours, unit)}, from {whom(observer)}.",
    ]
    # Inside a group it is each record that is clipped and drawn, not the unit.
    kinds = dict.fromkeys(
        (_kind(part), "record" if grouped else unit) for part, grouped in _parts(event)
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


def _sampled(kind: str, neighbours: str) -> str:
    if kind == "shuffled-batches" and neighbours == "add-remove":
        return _SECRET_ORDER
    return _SAMPLED[kind]


def no_guarantee(event: Event) -> str | None:
    """Return why an event has no guarantee, at any delta or at a small one; None where it has.

    >>> from privplan.accountant import events as ev
    >>> no_guarantee(ev.Repeat(2, ev.Approximate(0.0, 0.25)))
    'there is none at a delta below 0.4375'
    """
    from ...accountant.events import NoGuarantee

    reason = next((part.reason for part, _ in _parts(event) if isinstance(part, NoGuarantee)), None)
    least = _least_delta(event)
    if reason is None and least > 0.0:
        return f"there is none at a delta below {rounding.down(least)}"
    return reason


def _least_delta(event: Event) -> float:
    """Return a delta below which an event has no guarantee, whatever epsilon; 0 if none is known.

    Each part of delta gives everything away with that probability, by itself.
    """
    from ...accountant import events as ev

    if isinstance(event, ev.Approximate):
        return event.delta
    if isinstance(event, ev.Repeat):
        return 1.0 - (1.0 - _least_delta(event.event)) ** event.count
    if isinstance(event, ev.Compose):
        return 1.0 - math.prod(1.0 - _least_delta(part) for part in event.events)
    return 0.0


def phrase(event: Event) -> str:
    """Return an event on one short line.

    >>> from privplan.accountant import events as ev
    >>> phrase(ev.Repeat(1000, ev.Poisson(0.01, ev.Gaussian(1.0))))
    '1,000 x Gaussian noise 1, Poisson sampling at rate 0.01'
    """
    text = plain(_phrase(event))
    return text if len(text) <= 160 else text[:156] + " ..."


def facts(found: object, *names: str) -> dict[str, object]:
    """Return fields of a result as JSON has them: bounds with their two ends, unrounded.

    >>> from ...accountant.guarantee import Bounds
    >>> facts(Bounds(1.0, 2.5), "lower", "gap")
    {'lower': 1.0, 'gap': 1.5}
    """
    from ...accountant.guarantee import Bounds

    values = {name: getattr(found, name) for name in names}
    return {
        name: ends(value) if isinstance(value, Bounds) else value for name, value in values.items()
    }


def ends(bounds: Bounds) -> dict[str, float]:
    """Return the JSON of two ends, unrounded."""
    return {"lower": bounds.lower, "upper": bounds.upper}


def guarantee_json(guarantee: Guarantee, quantity: Quantity) -> dict[str, object]:
    """Return the JSON result of `account`.

    `epsilon` always has two ends; `delta` is a number, unless it is what was asked for.
    """
    return {
        "epsilon": ends(guarantee.epsilon),
        "delta": ends(guarantee.delta) if quantity == "delta" else guarantee.delta.upper,
        **facts(guarantee, *PROVEN_FOR, "lower_of_class"),
        "derivation": [asdict(step) for step in guarantee.derivation],
    }


def calibration_json(calibration: Calibration, delta: float) -> dict[str, object]:
    """Return the JSON of the least noise that meets an epsilon at a delta, of whatever release."""
    proven = calibration.guarantee
    return {
        "noise_multiplier": calibration.value,
        "epsilon": ends(proven.epsilon),
        "delta": delta,
        "gap": calibration.gap,
        "event": calibration.event.to_json(),
        **facts(proven, *PROVEN_FOR),
    }


def assumptions_of(calibration: Calibration) -> tuple[str, ...]:
    """Return what must be true of a run for what its noise proves to hold."""
    proven = calibration.guarantee
    return assumptions(calibration.event, proven.neighbours, proven.unit, proven.observer)


def is_noise_removed(security: Security | None) -> bool:
    """Return whether a run takes all noise but one silo's off its masked sums, under Paillier."""
    return security is not None and security.protocol == "pairwise-masks" and security.key_bits > 0


def design_json(design: Design | None) -> dict[str, str] | None:
    """Return a design that was chosen, and why, for JSON; None where there was no choice."""
    return None if design is None else {"name": design.name, "reason": "; ".join(design.reasons)}


def design_rows(design: Design | None) -> list[tuple[str, str]]:
    """Return the lines about a design that was chosen; none where there was no choice."""
    if design is None:
        return []
    return [("design", f"{design.name}: {design.reasons[0]}")] + [
        ("", reason) for reason in design.reasons[1:]
    ]


def guarantee_rows(guarantee: Guarantee, quantity: Quantity) -> list[tuple[str, str]]:
    """Return the lines that say what is proven, how closely, and for whom."""
    changed = change(guarantee.neighbours, guarantee.unit)
    if quantity == "epsilon":
        bounds, at = guarantee.epsilon, f"at delta {rounding.as_given(guarantee.delta.upper)}"
    else:
        bounds, at = guarantee.delta, f"at epsilon {rounding.as_given(guarantee.epsilon.upper)}"
    # An infinite epsilon or a delta of 1 permits everything, so nothing is proven.
    empty = math.isinf(bounds.upper) or (quantity == "delta" and bounds.upper >= 1.0)
    if empty:
        rows = [("proves", f"nothing {at}: {quantity} is {rounding.up(bounds.upper)}")]
    else:
        rows = [("proves", f"{quantity} {rounding.up(bounds.upper)} {at}, {changed}")]
    if bounds.lower > 0.0:
        least = f"{quantity} {rounding.down(bounds.lower)}"
        if math.isinf(bounds.lower):
            least = f"no finite {quantity}"
        rows.append(("at least", f"{least}, {least_of(guarantee.lower_of_class)}"))
    return rows


def least_of(of_class: bool) -> str:
    """Return what a lower end is of, in words.

    >>> least_of(False), least_of(True)
    ('by any accounting', 'for the worst mechanism with this number')
    """
    return "for the worst mechanism with this number" if of_class else "by any accounting"


def least_words(lower: float, *, of_class: bool = False) -> str:
    """Return a lower end in words.

    >>> least_words(1.25), least_words(math.inf)
    ('at least 1.250, by any accounting', 'no finite number holds, by any accounting')
    """
    least = f"at least {rounding.down(lower)}"
    if math.isinf(lower):
        least = "no finite number holds"
    return f"{least}, {least_of(of_class)}"


def guarantee_text(guarantee: Guarantee, quantity: Quantity, event: Event) -> str:
    """Return what a guarantee says, for a person."""
    return table(
        [
            *guarantee_rows(guarantee, quantity),
            ("by", engine(guarantee.engine)),
            ("against", whom(guarantee.observer)),
            ("for", phrase(event)),
        ]
    )


def derivation_text(guarantee: Guarantee) -> str:
    """Return the steps of a derivation, numbered, each with its source and conditions."""
    lines: list[str] = []
    for number, step in enumerate(guarantee.derivation, start=1):
        lines.append(paragraph(f"{number:>2}. ", f"{step.stage}: {step.statement}"))
        if step.source:
            lines.append(paragraph("    source:  ", step.source))
        lines += [paragraph("    given:   ", condition) for condition in step.conditions]
    return "\n".join(lines)


def routes_json(routes: tuple[Route, ...]) -> list[dict[str, object]]:
    """Return the JSON of every way to a number; `epsilon` is null where a way is refused."""
    return [
        {
            "name": route.name,
            "epsilon": None if route.bounds is None else ends(route.bounds),
            "source": route.source,
            "refused": route.refused or None,
        }
        for route in routes
    ]


def routes_text(routes: tuple[Route, ...]) -> str:
    """Return every way to a number, with its source, or with the reason where it is refused."""
    width = max(len(route.name) for route in routes)
    lines = []
    for route in routes:
        number = "-" if route.bounds is None else rounding.up(route.bounds.upper)
        label = f"{route.name:<{width}}  {number:<9} "
        lines.append(paragraph(label, route.refused if route.bounds is None else route.source))
    return "\n".join(lines)


def bullets(sentences: tuple[str, ...]) -> str:
    """Return sentences as a list."""
    return "\n".join(paragraph(" -  ", sentence) for sentence in sentences)


def _children(event: Event) -> list[Event]:
    """Return the events directly inside `event`."""
    from ...accountant.events import Event as Base

    values = [getattr(event, item.name) for item in fields(event)]
    return [
        part
        for value in values
        for part in (value if isinstance(value, tuple) else (value,))
        if isinstance(part, Base)
    ]


def _parts(event: Event) -> Iterator[tuple[Event, bool]]:
    """Yield `event` and everything inside it, and whether it stands inside a group."""
    waiting = [(event, False)]
    while waiting:
        part, grouped = waiting.pop()
        yield part, grouped
        inside = grouped or part.type == "group"
        waiting += [(child, inside) for child in _children(part)]


def _kind(part: Event) -> str:
    """Return the key of what an event takes for granted."""
    return "tuple" if getattr(part, "granularity", "") == "tuple" else part.type


def _phrase(event: Event) -> str:
    from ...accountant import events as ev

    match event:
        case ev.Gaussian(noise):
            return f"Gaussian noise {noise:g}"
        case ev.Laplace(noise):
            return f"Laplace noise {noise:g}"
        case ev.Renyi(orders, _):
            if len(orders) == 1:
                return f"a Renyi divergence at order {orders[0]:g}"
            return f"a Renyi curve at {len(orders)} orders up to {orders[-1]:g}"
        case ev.NoGuarantee(reason):
            return f"a release without protection ({reason.rstrip('.')})"
        case ev.Poisson(rate, inner):
            return f"{_phrase(inner)}, Poisson sampling at rate {rounding.rate_shown(rate)}"
        case ev.Repeat(count, inner):
            return f"{count:,} x {_phrase(inner)}"
        case ev.Group(size, inner):
            return f"a unit of {size:,} records in {_phrase(inner)}"
        case ev.FixedSize(batch, population, inner):
            return f"{_phrase(inner)}, {batch:,} of {population:,} records drawn"
        case ev.WithReplacement(batch, population, inner):
            return f"{_phrase(inner)}, {batch:,} draws of {population:,} records, put back"
        case ev.ClientSampled(rate, inner):
            return (
                f"{_phrase(inner)}, in a client that takes part at rate {rounding.rate_shown(rate)}"
            )
        case ev.GaussianMixture(noise, contributions, _):
            return f"Gaussian noise {noise:g} on contributions of up to {max(contributions):g}"
        case ev.ShuffledBatches(batches, inner):
            return f"{_phrase(inner)}, an epoch of {batches:,} shuffled batches"
        case ev.RandomAllocation(steps, chosen, inner):
            return f"{_phrase(inner)}, in {chosen:,} of {steps:,} steps"
        case ev.MatrixGaussian(noise, strategy, participation):
            rounds = f"{strategy.type} strategy, {participation.type} participation"
            return f"correlated Gaussian noise {noise:g} over all rounds ({rounds})"
        case ev.Shuffle(users, inner):
            return f"{_phrase(inner)} by each of {users:,} users, shuffled"
        case ev.BestOf(distribution, mean, inner, shape):
            law = distribution if shape is None else f"{distribution}, shape {shape:g}"
            return f"the best of {mean:g} ({law}) runs of {_phrase(inner)}"
        case ev.Compose(()):
            return "nothing"
        case ev.Compose(parts):
            # A long plan is told by its ends: the line has to stay one line.
            if len(parts) > 3:
                ends = _phrase(parts[0]), _phrase(parts[-1])
                return f"{len(parts):,} releases, from ({ends[0]}) to ({ends[1]})"
            return "; ".join(f"({_phrase(part)})" for part in parts)
    values = [
        f"{item.name} {value:g}" if isinstance(value, float) else f"{item.name} {value}"
        for item in fields(event)
        if not isinstance(value := getattr(event, item.name), ev.Event)
    ]
    inside = "".join(f" of {_phrase(part)}" for part in _children(event))
    return f"{event.type} ({', '.join(values)}){inside}"


def population(prepared: PreparedRun) -> str:
    """Return who takes part in a run, as far as that is public."""
    said, unit = prepared.opening.population, prepared.opening.claim.unit
    listed = prepared.settings.data.users_public is not None
    private = prepared.federation.user_names is not None and not listed
    return population_words(
        said.users, said.silos, unit, prepared.plan.guarantees, at_most=private, listed=listed
    )


def study(prepared: PreparedRun) -> str:
    """Return who was dealt at random, and is no real unit of a run; nothing where nobody was."""
    return study_words(prepared.settings.data.name, prepared.opening.claim.unit)


def study_rows(said: str) -> list[tuple[str, str]]:
    """Return the rows that say so; none where nothing was dealt."""
    return wrapped("study", said) if said else []


def held_out_rows(
    prepared: PreparedRun, score: HeldOutScore | None = None
) -> list[tuple[str, str]]:
    """Return the lines on users who are held out, and how they voted; none where none are."""
    evaluation = prepared.settings.evaluation
    if evaluation.held_out_noise is None or evaluation.held_out is None:
        return []
    noise = rounding.as_given(evaluation.held_out_noise)
    paid = "each epsilon pays for it" if prepared.promises else "there is no guarantee"
    paid = f"noise multiplier {noise}; {paid}"
    if score is None:
        share = rounding.as_given(evaluation.held_out)
        # A silo, or a record, votes where that is what a guarantee is for.
        unit = prepared.settings.privacy.unit if prepared.promises else "user"
        vote = f"one vote of each {unit}" if unit in ("silo", "record") else "one vote each"
        said = f"a share {share} of the users, by their ids; {vote} on the last model, {paid}"
        return wrapped("holds out", said)
    return wrapped("held out", f"{score}, as standard deviations ({paid})")


def held_out_json(prepared: PreparedRun, score: HeldOutScore | None = None) -> dict[str, object]:
    """Return the same for JSON; nothing where no users are held out."""
    evaluation = prepared.settings.evaluation
    if evaluation.held_out_noise is None:
        return {}
    planned = {"held_out": evaluation.held_out, "noise_multiplier": evaluation.held_out_noise}
    return {"held_out": {**planned, **({} if score is None else score.to_json())}}
