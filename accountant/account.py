"""What did this cost?  One event in, one guarantee out, with the reasons."""

from __future__ import annotations

import contextlib
import importlib
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Final, cast

from . import events as ev
from . import rounding, validate
from .composition import Composition
from .delta_checks import refuse_negative_epsilon
from .engine_order import engines_for
from .engines.base import Answer, Engine, guarded
from .errors import EnginesDisagree, InvalidInput, Unsupported
from .event_tree import group_sizes, observer_of, unit_of
from .guarantee import Bounds, Guarantee, Step, agreed, unique_steps
from .nearest_names import named_keywords
from .neighbours import Neighbours, as_neighbours

_ENGINES: Final = {
    "rdp": ("rdp", "RdpEngine"),
    "pld": ("pld", "PldEngine"),
    "gdp": ("gdp", "GdpEngine"),
    "blanket": ("blanket", "BlanketEngine"),
    "pure": ("pure", "PureEngine"),
    "google": ("google", "GoogleEngine"),
    "microsoft": ("microsoft", "MicrosoftEngine"),
}


ENGINES_AT_ZERO: Final = ("pure", "rdp", "gdp", "blanket")
"""Engines that know epsilon at delta 0."""


LARGEST_SEARCHED: Final = 100.0
"""An epsilon at which delta counts little but what no epsilon allows."""


OF_CLASS: Final = Step(
    "mechanism",
    "Lower end: the worst mechanism that the stated numbers allow; a given one may lose less.",
    "randomized response attains them",
)
"""Says that a lower end is one of `Guarantee.lower_of_class`."""

_MARKED_GAIN: Final = 1e-6
"""A lower end that a class raises by less, relatively, is not said to be that of its worst."""


def engine_named(name: str) -> Engine:
    """Return a new engine of that name; raise `InvalidInput` for a name that is not known."""
    validate.choice(tuple(_ENGINES), engine=name)
    module, cls = _ENGINES[name]
    loaded = importlib.import_module(f".engines.{module}", __package__)
    return cast(Engine, getattr(loaded, cls)())


@named_keywords
def account(
    event: ev.EventLike,
    *,
    delta: float | None = None,
    epsilon: float | None = None,
    neighbours: str = "add-remove",
    engine: str | None = None,
) -> Guarantee:
    """Return what is proven about an event: epsilon at a delta, or delta at an epsilon.

    With `delta` in [0, 1), `guarantee.epsilon.upper` is an epsilon at which the event is
    (epsilon, delta)-DP, and no epsilon below `guarantee.epsilon.lower` is; with `epsilon` 0 or
    above, `guarantee.delta` is bounded likewise.  Where an event names a class of mechanisms
    (`Pure`, `Approximate`, `Local`) the lower end is that of the worst of them, where that is
    known, and the derivation says so; else it is 0.  `event` may also be an event of dp_accounting,
    or the named tuple of one, and stands for what that means here.  `neighbours` is the relation:
    `add-remove`, `replace-one` or `zero-out` of one record.  `engine` forces one of rdp, pld, gdp,
    blanket, pure, google, microsoft; the default takes the tightest bounds that hold (largest
    losses at delta 0, the closed form for unsampled Gaussians, the blanket for a single shuffled
    round, otherwise pld, otherwise rdp) and cross-checks them with rdp where it has an answer.

    However long it takes: the limit of work for files of strangers is that of the commands
    (`work.require_little_work`).

    Raises `InvalidInput` for values outside their range, `Unsupported` where no engine has sound
    mathematics, `EnginesDisagree` if one engine's lower end lies above another's upper end.
    Source: Dong, Roth and Su 2022, arXiv 1905.02383v3 (gdp), Mironov 2017, arXiv 1702.07476v3
    (rdp), Zhu, Dong and Wang 2022, arXiv 2106.08567v4 (pld: dominating pairs); each step of the
    derivation names its own.

    >>> guarantee = account(ev.Gaussian(1.0), delta=1e-5)
    >>> round(guarantee.epsilon.upper, 3)
    4.377
    """
    question = Question(delta, epsilon)
    relation = as_neighbours(neighbours)
    known = ev.known_event(event)
    composition = Composition.of(known)
    answer, name = _answer(composition, question, relation, engine)
    answer = with_class_lower(composition, answer, question, relation, engine)
    answer = with_scope(
        known, composition, answer, relation, delta=question.delta, epsilon=question.epsilon
    )
    guarantee = question.guarantee(answer, relation, name, unit_of(known), observer_of(known))
    if question.delta and math.isinf(guarantee.epsilon.upper):
        warnings = (*guarantee.warnings, *_enough_delta(composition, relation))
        guarantee = replace(guarantee, warnings=warnings)
    return guarantee


def bounds_on_epsilon(event: ev.Event, *, delta: float, neighbours: str = "add-remove") -> Bounds:
    """Return the bounds on epsilon that `account` gives at `delta`, without words and warnings.

    Some warnings account for another event, which takes as long again.  Raises as `account` does.

    >>> round(bounds_on_epsilon(ev.Gaussian(1.0), delta=1e-5).upper, 3)
    4.377
    """
    return _bounds(event, Question(delta, None), neighbours)


def bounds_on_delta(event: ev.Event, *, epsilon: float, neighbours: str = "add-remove") -> Bounds:
    """Return the bounds on delta that `account` gives at `epsilon`, without words and warnings.

    The lower end is that of every mechanism of a class, never of its worst alone.  Raises as
    `account` does.

    >>> round(bounds_on_delta(ev.Gaussian(1.0), epsilon=0.0).upper, 4)
    0.3829
    """
    return _bounds(event, Question(None, epsilon), neighbours)


def _bounds(event: ev.Event, question: Question, neighbours: str) -> Bounds:
    parts = Composition.of(event)
    if not parts.holds(ev.BestOf):
        return _answer(parts, question, as_neighbours(neighbours), None)[0].bounds
    # The best of several runs has a lower end of its own.
    guarantee = account(
        event, delta=question.delta, epsilon=question.epsilon, neighbours=neighbours
    )
    return guarantee.delta if question.delta is None else guarantee.epsilon


def bounds_on_deltas(
    event: ev.Event, epsilons: Sequence[float], *, neighbours: str = "add-remove"
) -> list[Bounds]:
    """Return what `bounds_on_delta` does at ascending epsilons, from few compositions.

    Raises as `account` does.

    >>> [round(bounds.upper, 4) for bounds in bounds_on_deltas(ev.Gaussian(1.0), [0.0, 1.0])]
    [0.3829, 0.1269]
    """
    from .engines.pld.ask.profile_engine import ProfileEngine

    parts, relation = Composition.of(event), as_neighbours(neighbours)
    if parts.holds(ev.BestOf):
        return [bounds_on_delta(event, epsilon=each, neighbours=neighbours) for each in epsilons]
    pld = ProfileEngine()
    questions = [Question(None, epsilon) for epsilon in epsilons]
    return [_answer(parts, each, relation, None, pld)[0].bounds for each in questions]


def with_class_lower(
    parts: Composition,
    answer: Answer,
    question: Question,
    relation: Neighbours,
    engine: str | None,
) -> Answer:
    """Return an answer with the lower end of the worst of each class in the event.

    The upper end is that of the answer: whoever asks about one mechanism gets the same.
    """
    if not parts.names_class:
        return answer
    lower = _answer(parts.worst(), question, relation, engine)[0].bounds.lower
    if lower <= answer.bounds.lower * (1.0 + _MARKED_GAIN):
        return answer
    worst, most = "The worst mechanism of a class loses", "and all of them lose"
    bounds = agreed(lower, answer.bounds.upper, worst, most, _MARKED_GAIN)
    steps = unique_steps((*answer.steps, OF_CLASS))
    return replace(answer, bounds=bounds, steps=steps, lower_of_class=True)


def _answer(
    parts: Composition,
    question: Question,
    relation: Neighbours,
    engine: str | None,
    pld: Engine | None = None,
) -> tuple[Answer, str]:
    """Return the answer to a question about leaves, and the engine that gave it.

    `pld` stands in for the engine of that name.
    """
    chosen = None if engine is None else engine_named(engine)
    # Nothing released, one engine by name, or the tightest of those that know the leaves.
    if not parts:
        step = Step("composition", "Nothing is released.", "by definition")
        return Answer(Bounds.exactly(0.0), (step,)), engine or "gdp"
    if chosen is not None:
        return question.ask(chosen, parts, relation), chosen.name
    names = engines_for(parts, question.delta)
    if question.epsilon is not None and _exceeds_all_losses(question.epsilon, parts, relation):
        names = ("pure", *names)

    def named(name: str) -> Engine:
        return pld if pld is not None and name == pld.name else engine_named(name)

    return tightest(names, lambda name: question.ask(named(name), parts, relation))


def _enough_delta(parts: Composition, relation: Neighbours) -> tuple[str, ...]:
    """Return from which delta on an epsilon is proven, of a release that has none at a smaller one.

    That is the probability of what one of two data sets alone can give: delta at a large epsilon.
    """
    try:
        least = _answer(parts, Question(None, LARGEST_SEARCHED), relation, None)[0].bounds.upper
    except (Unsupported, EnginesDisagree):
        return ()
    shown = float(rounding.up(least))
    if shown >= 1.0:
        return ()
    return (
        f"From delta {rounding.as_given(shown)} on an epsilon is proven: below it something that "
        "only one of two data sets can give is too likely. Ask at that delta, or change the "
        "release.",
    )


def _exceeds_all_losses(epsilon: float, parts: Composition, relation: Neighbours) -> bool:
    """Return whether no loss is above epsilon, so that delta is 0 there and not just tiny."""
    from .engines.pure import largest_sum

    with contextlib.suppress(Unsupported), guarded("pure"):
        return largest_sum(parts, relation).upper <= epsilon
    return False


def refuse_at_zero(engine: str) -> None:
    """Raise `Unsupported` for an engine that has no answer at delta 0."""
    if engine not in ENGINES_AT_ZERO:
        raise Unsupported(
            f"The {engine} engine has no epsilon at delta 0.",
            "There the largest loss counts, which it does not look at.",
            "Leave the choice of the engine to privplan, or ask at a delta above 0.",
        )


def with_scope(
    event: ev.Event,
    parts: Composition,
    answer: Answer,
    relation: Neighbours,
    *,
    delta: float | None = None,
    epsilon: float | None = None,
) -> Answer:
    """Return an answer with what the event as a whole adds: scope of groups, ends, warnings.

    The one of `delta` and `epsilon` that was given is the query.
    """
    from .amplification.group import group_step
    from .engines.pld.ask.caveats import with_caveats

    scope = tuple(group_step(size, relation) for size in group_sizes(event) if size > 1)
    answer = replace(answer, steps=unique_steps((*scope, *answer.steps)))
    # Caveats are words about the event; where they cannot be computed the bounds still hold.
    with contextlib.suppress(Unsupported), guarded("pld"):
        answer = with_caveats(event, parts, answer, relation, delta=delta, epsilon=epsilon)
    return answer


def tightest(
    names: Iterable[str],
    query: Callable[[str], Answer],
    enough: Callable[[str, Answer], bool] = lambda *_: False,
) -> tuple[Answer, str]:
    """Return the tightest bounds that the named engines support, and the engine of the upper end.

    Engines are asked in turn, until an answer is `enough`.  Raises `Unsupported` where all refuse,
    `EnginesDisagree` where two contradict each other.
    """
    answers: dict[str, Answer] = {}
    refusals: list[Unsupported] = []
    for name in names:
        try:
            with guarded(name):
                answers[name] = query(name)
        except Unsupported as refusal:
            refusals.append(refusal)
            continue
        if enough(name, answers[name]):
            break
    if not answers:
        # A refusal that gives a reason says more than one that merely does not know the event.
        reasoned = [refusal for refusal in refusals if refusal.why]
        raise (reasoned or refusals)[-1].unforced()
    merged, best = combine(answers)
    # Renyi curves are a fallback: say that the bound is not tight.
    if refusals and set(answers) == {"rdp"}:
        note = f"{refusals[0].what} The rdp engine answers instead; its bound is not tight."
        merged = Answer(merged.bounds, merged.steps, (note, *merged.warnings))
    return merged, best


def combine(answers: dict[str, Answer], *, forced: bool = False) -> tuple[Answer, str]:
    """Return the tightest bounds that all answers support, and the engine of the upper end.

    Raises `EnginesDisagree` when one answer's lower end lies above another's upper end.
    """
    # Every upper end is a guarantee, and every lower end a limit on all: take the tightest of each.
    best = min(answers, key=lambda name: answers[name].bounds.upper)
    highest_lower = max(answers, key=lambda name: answers[name].bounds.lower)
    bounds = agreed(
        answers[highest_lower].bounds.lower,
        answers[best].bounds.upper,
        f"The {highest_lower} engine shows",
        f"the {best} engine",
    )
    others = [name for name in answers if name != best]
    checks = tuple(
        Step(
            "cross-check",
            f"The {name} engine does not contradict it: its own upper end is "
            f"{answers[name].bounds.upper:.6g}.",
            "independent derivation",
            ("no lower end lies above an upper end",),
        )
        for name in others
    )
    # The derivation holds the steps of both ends.
    lower_steps = (
        answers[highest_lower].steps if highest_lower != best and bounds.lower > 0.0 else ()
    )
    steps = unique_steps((*answers[best].steps, *lower_steps, *checks))
    if not others:
        why = "was asked for" if forced else "has an answer here"
        only = Step("cross-check", f"None: only the {best} engine {why}.", "not cross-checked")
        steps = (*steps, only)
    warnings = answers[best].warnings
    return Answer(bounds, steps, warnings), best


class Question:
    """The quantity that is asked for: epsilon at a delta, or delta at an epsilon."""

    def __init__(self, delta: float | None, epsilon: float | None) -> None:
        if (delta is None) == (epsilon is None):
            raise InvalidInput(
                "Give exactly one of `delta` and `epsilon`.",
                "The other one is what is computed.",
            )
        refuse_negative_epsilon(epsilon)
        self.delta = None if delta is None else validate.probability_below_one(delta=delta)
        self.epsilon = None if epsilon is None else validate.non_negative(epsilon=epsilon)

    def ask(self, engine: Engine, parts: Composition, relation: Neighbours) -> Answer:
        with guarded(engine.name):
            if self.delta == 0.0:
                refuse_at_zero(engine.name)
            if self.delta is not None:
                return engine.epsilon(parts, self.delta, relation)
            assert self.epsilon is not None
            return engine.delta(parts, self.epsilon, relation)

    def guarantee(
        self, answer: Answer, relation: Neighbours, engine: str, unit: str, observer: str
    ) -> Guarantee:
        if self.delta is not None:
            epsilon, delta = answer.bounds, Bounds.exactly(self.delta)
        else:
            assert self.epsilon is not None
            epsilon, delta = Bounds.exactly(self.epsilon), answer.bounds
        warnings = answer.warnings
        if math.isinf(epsilon.upper):
            at = "delta 0" if self.delta == 0.0 else "this delta"
            warnings = (*warnings, f"No epsilon is proven at {at}.")
        if delta.lower < delta.upper == 1.0:
            warnings = (*warnings, "No delta below 1 is proven at this epsilon.")
        return Guarantee(
            epsilon,
            delta,
            relation,
            engine,
            unit,
            observer,
            derivation=answer.steps,
            warnings=warnings,
            lower_of_class=answer.lower_of_class,
        )
