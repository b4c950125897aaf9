"""Hazards of sampling: a wrong sampler or rate, or an observer who knows the sample."""

from __future__ import annotations

from ...accountant import events as ev
from ...fl.observers.names import MODEL, SERVER, SILO, SILO_WITH_RECORDS, coalition_of
from ...fl.observers.words import phrase
from ..derivation.protocol_consistency import reliable_facts
from ..derivation.sampling import SAMPLING_EVENTS, is_hidden, parts_of
from ..evidence.evidence import Evidence, RoundKind
from ..evidence.round_kinds import lines_of
from ..findings import Match, rule
from .units import holds

_FIXED_SIZE_SAMPLERS = ("shuffled", "fixed-size", "truncated-poisson")
_SHUFFLE_EVENTS = (ev.Shuffle, ev.SampledShuffle)


@rule(
    "shuffled-as-poisson",
    why="A loader that shuffles, or that fills batches, is not Poisson sampling, and can leak many "
    "times as much: privplan explain sampling.",
    next_step="Draw each unit independently, or account for the sampler that was used.",
    explains=True,
)
def shuffled_as_poisson(evidence: Evidence) -> Match | None:
    """Fire where rounds of another sampler are accounted as Poisson sampling."""
    bad = [
        kind
        for kind in evidence.kinds
        if kind.facts.sampling.method in _FIXED_SIZE_SAMPLERS
        and any(holds(event, ev.Poisson) for event in kind.stated.values())
    ]
    if not bad:
        return None
    method = bad[0].facts.sampling.method
    return Match(
        f"Batches were drawn by `{method}` and are accounted as Poisson samples.",
        lines_of(bad),
        evidence.left(),
    )


@rule(
    "rate-mismatch",
    why="Amplification grows as the rate falls, so a rate below the true one proves too much.",
    next_step="State the probability with which a unit really joins a round.",
    explains=True,
)
def rate_mismatch(evidence: Evidence) -> Match | None:
    """Fire where a stated sampling rate, or that of a stated event, is below the facts' rate.

    The facts give it as batch / population, or chosen / slots.
    """
    bad, rates = [], (0.0, 0.0)
    for kind in evidence.kinds:
        facts, _ = reliable_facts(kind.facts, evidence.setting)
        if facts.sampling.method != "poisson":
            continue
        stated = [
            part.rate for part in parts_of(kind.stated[MODEL]) if isinstance(part, ev.Poisson)
        ]
        least = min([kind.facts.sampling.rate, *stated])
        if least < facts.rate * (1.0 - 1e-9):
            bad.append(kind)
            rates = least, facts.rate
    if not bad:
        return None
    return Match(
        f"The rate is stated as {rates[0]:.6g}, and the facts give {rates[1]:.6g}.",
        lines_of(bad),
        evidence.left(),
    )


@rule(
    "known-sample",
    why="Whoever knows who was drawn is not confused by the draw, so nothing is amplified against "
    "them.",
    next_step="State what this observer sees without sampling, or let others draw in secret.",
    explains=True,
)
def known_sample(evidence: Evidence) -> Match | None:
    """Fire where amplification by sampling is stated against an observer who knows the sample."""
    coalitions = [name for name in evidence.observers if coalition_of(name) is not None]
    for observer in (SERVER, SILO, SILO_WITH_RECORDS, *coalitions):
        known = [
            kind
            for kind in evidence.kinds
            if kind.facts.sampling.method != "none"
            and not is_hidden(kind.facts, evidence.setting, observer)
        ]
        bad = [kind for kind in known if holds(kind.stated.get(observer), *SAMPLING_EVENTS)]
        planned = evidence.ledger.opened.plan.events.get(observer)
        if not bad and holds(planned, *SAMPLING_EVENTS):
            bad = known
        if bad:
            spent = evidence.spent_total(observer)
            who = f"the {observer}" if coalition_of(observer) is None else phrase(observer)
            drawer = bad[0].facts.sampling.drawn_by
            return Match(
                f"{who[0].upper()}{who[1:]} knows who was drawn (by: {drawer}), and the log "
                "counts the sample against it; without it the log supports "
                f"{spent.upper:.6g} there.",
                lines_of(bad),
                spent.epsilon,
            )
    return None


@rule(
    "visible-messages",
    why="A shuffle or a sample protects messages only from those who cannot see who sent which.",
    next_step="Send the messages through a shuffler whose part stands in the log, or state the "
    "guarantee of each message by itself.",
    explains=True,
)
def visible_messages(evidence: Evidence) -> Match | None:
    """Fire where messages are amplified, though the facts show no shuffler that hides senders."""
    bad = [
        kind
        for kind in evidence.kinds
        if any(
            holds(event, *_SHUFFLE_EVENTS)
            and not holds(_supported(evidence, kind, who), *_SHUFFLE_EVENTS)
            for who, event in kind.stated.items()
        )
        or (
            kind.facts.noise.family in ("randomized-response", "exponential")
            and evidence.setting.aggregation == "plain"
            and holds(kind.stated.get(SERVER), *SAMPLING_EVENTS)
        )
    ]
    if not bad:
        return None
    return Match(
        f"The server sees messages one by one (aggregation `{evidence.setting.aggregation}`), and "
        "they are accounted as if they were mixed.",
        lines_of(bad),
        evidence.left(),
    )


def _supported(evidence: Evidence, kind: RoundKind, observer: str) -> ev.Event:
    """Return the event that the facts support for an observer."""
    return evidence.seen(kind, observer).supported
