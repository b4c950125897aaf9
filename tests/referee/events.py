"""Section `events`: what each engine answers of random events, from both sides."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from typing import Any, Final

from .golden import Case
from .random_events import MAKERS, random_event, random_question

SEED: Final = "events of the referee"
COUNT: Final = 2000
MOST_SECONDS: Final = 0.5
"""A draw that takes longer is left out."""

ENGINES: Final = ("rdp", "pld", "gdp", "blanket", "pure", "google", "microsoft")


def cases() -> Iterator[Case]:
    """Yield cases without an end: each type of event in turn, and a question about it."""
    kinds = list(MAKERS)
    index = 0
    while True:
        rng = random.Random(f"{SEED} {index}")
        kind = kinds[index % len(kinds)]
        event = random_event(rng, kind)
        yield Case(f"{index:04d} {kind}", {"event": event, **random_question(rng)})
        index += 1


def answer(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is answered by default, with its derivation, and by each engine by itself."""
    import privplan as pp
    from privplan.accountant import events as ev
    from privplan.accountant.errors import PrivplanError

    question = {key: asked[key] for key in ("delta", "epsilon", "neighbours") if key in asked}
    answers: dict[str, Any] = {}
    for engine in (None, *ENGINES):
        try:
            guarantee = pp.account(ev.from_json(asked["event"]), engine=engine, **question)
        except PrivplanError as refusal:
            answers[engine or "default"] = {
                "refused": type(refusal).__name__,
                "what": refusal.what,
                "next": refusal.next_step,
            }
            continue
        except Exception as error:  # a fault, which should not stay one
            answers[engine or "default"] = {"raised": type(error).__name__, "says": str(error)}
            continue
        bounds = guarantee.delta if "epsilon" in asked else guarantee.epsilon
        answers[engine or "default"] = {"lower": bounds.lower, "upper": bounds.upper}
        if engine is None:
            answers["default"] |= {
                "engine": guarantee.engine,
                "unit": guarantee.unit,
                "observer": guarantee.observer,
                "steps": [f"{step.stage}: {step.statement}" for step in guarantee.derivation],
                "sources": sorted({step.source for step in guarantee.derivation}),
                "warnings": list(guarantee.warnings),
            }
    return answers
