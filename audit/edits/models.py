"""Models that do not follow from one another: where rounds were cut out, or logs spliced.

The last line has to count and name what stands above it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...fl.declarations.own_code import is_own
from ...fl.frame.held_out_messages import VOTE_NUMBERS
from ..findings import COPY_OF_CUT_LOG, UNTOUCHED_COPY, Match, NotStated, rule
from ..ledger.entries import Ledger
from ..ledger.matrix_facts import is_matrix
from ..ledger.phases import configured_value, models_of, training_of, votes_of
from .lineage import Lineage, digits, stateless

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_CODE_OF_OWNER = "the model is code of the run's owner, which no audit executes"
"""Why nothing is compared with a model of one's own."""


def _stated(ledger: Ledger, question: str) -> NDArray[np.float64] | NotStated | None:
    """Return what the system of a run says that it starts from; None where that is its model.

    Where a configuration names no system, its model is what there is to compare with; and what is
    trained by a system of this package starts from its model, so no code is loaded to say so.
    """
    from ...fl.declarations.packages import built_in

    name = configured_value(ledger, "run", "system")
    system = built_in().get(name) if isinstance(name, str) else None
    # Nothing is imported for systems of this package, so the check stays quick.
    if name is None or (system is not None and system.trains and not system.reshapes):
        return None
    from ...fl.frame.expected_log import NotStated as Missing
    from ..configuration.logged_configuration import first_of

    try:
        return first_of(ledger.opened)
    except Missing as missing:
        return NotStated(f"{question}: nothing here says {missing}.")


@rule(
    "foreign-first-model",
    why="The first round starts from a public model, which the configuration and the code give. "
    "Another one was trained: rounds before it are not in the log.",
    next_step="Take the log from a copy that nobody has touched, or read it with the version of "
    "privplan that its first line names.",
)
def foreign_first_model(ledger: Ledger, lineage: Lineage) -> Match | NotStated | None:
    """Fire where the first round starts from another model than the configuration gives."""
    first = lineage.first
    if not training_of(ledger):
        return None
    if first is None:
        return NotStated("The model that the first round starts from: no round names one.")
    question = "Whether the first round starts from the initial model"
    stated = _stated(ledger, question)
    if isinstance(stated, NotStated):
        return stated
    if stated is not None:
        from ...fl.frame.model import model_digest

        initial = model_digest(stated)
        return None if first == initial else _another(ledger, first, initial)
    names = [("training", "model"), ("data", "name"), ("training", "seed")]
    model, data, seed = (configured_value(ledger, *name) for name in names)
    if is_own(model):
        return NotStated(f"{question}: {_CODE_OF_OWNER}.")
    unknown = NotStated(
        f"{question}: the configuration does not name a model, a seed and data that this "
        "version of privplan knows."
    )
    if model is None or data is None or seed is None:
        return unknown
    from ...fl.frame.initial_model import initial_digest

    schema = configured_value(ledger, "data", "schema")
    due = initial_digest(model, data, seed, schema=schema)
    if due is None:
        return unknown
    if first == due or first == initial_digest(model, data, seed, schema=schema, fused=True):
        return None
    return _another(ledger, first, due)


def _another(ledger: Ledger, first: str, due: str) -> Match:
    where = next(spent for spent in ledger.spent if spent.intent.model_in is not None)
    return Match(
        f"The first round starts from the model {digits(first)}; the initial one "
        f"of the configuration is {digits(due)}.",
        (where.number,),
    )


def _model_size(ledger: Ledger) -> int | None:
    """Return how many parameters the configured model has; None for what is not known here."""
    model = configured_value(ledger, "training", "model")
    data = configured_value(ledger, "data", "name")
    if model is None or data is None:
        return None
    from ...fl.frame.initial_model import initial_size

    return initial_size(model, data, configured_value(ledger, "data", "schema"))


@rule(
    "foreign-length",
    why="A round of training releases one noisy number for each parameter of the model, which the "
    "configuration gives, and votes two. Other numbers of them belong to another run, or to none.",
    next_step=UNTOUCHED_COPY,
)
def foreign_length(ledger: Ledger, lineage: Lineage) -> Match | NotStated | None:
    """Fire where a round of training released more or fewer values than the model has.

    Or where votes were released that are not two numbers, right and wrong.
    """
    votes = votes_of(ledger)
    for number, release in () if votes is None else votes.releases:
        if release.values != VOTE_NUMBERS:
            what = f"Votes of who was held out are {release.values:,} values; they are two numbers."
            return Match(what, lines=(number,))
    rounds = models_of(ledger)
    # A matrix is as long as its facts say (`matrix_statements`), whatever model is made of it.
    released = [
        release
        for spent in rounds
        if not is_matrix(spent.intent.contribution)
        for release in spent.releases
    ]
    if not released:
        return None
    if not lineage.named:  # it may be what stands with a model
        return NotStated("Whether rounds release as many values as the model has: none names one.")
    question = "Whether rounds release as many values as the model has"
    stated = _stated(ledger, question)
    if isinstance(stated, NotStated):
        return stated
    if stated is None and is_own(configured_value(ledger, "training", "model")):
        return NotStated(f"{question}: {_CODE_OF_OWNER}.")
    due = _model_size(ledger) if stated is None else stated.size
    if due is None:
        return NotStated(
            f"{question}: the configuration does not name a model and data that this version of "
            "privplan knows."
        )
    bad = [(number, release.values) for number, release in released if release.values != due]
    if not bad:
        return None
    return Match(
        f"A round of training releases {bad[0][1]:,} values; the model of the configuration has "
        f"{due:,}.",
        tuple(number for number, _ in bad),
    )


@rule(
    "broken-lineage",
    why="A round starts from the model that the last one released, or, after a recovery, from the "
    "one that this release started from. Rounds in between were cut out, or lines of two logs put "
    "together.",
    next_step=COPY_OF_CUT_LOG,
)
def broken_lineage(ledger: Ledger, lineage: Lineage) -> Match | NotStated | None:
    """Fire where a round starts from a model that nothing before it has left, or lacks a state."""
    if lineage.breaks:
        first = lineage.breaks[0]
        return Match(
            f"Round {first.round:,} starts from the model {digits(first.stated)}; the rounds "
            f"before it leave {digits(*first.due)}.",
            tuple(broken.number for broken in lineage.breaks),
        )
    votes = votes_of(ledger)
    if votes is not None and lineage.last and votes.intent.model_in not in lineage.last:
        return Match(
            f"Users who were held out vote on the model {digits(votes.intent.model_in)}; the "
            f"rounds leave {digits(*lineage.last)}.",
            (votes.number,),
        )
    silent = stateless(ledger)
    if silent:
        return Match("Some rounds release a state with their model, and others do not.", silent)
    return _partly(lineage)


def _partly(lineage: Lineage) -> Match | NotStated | None:
    """Return what is to be said of rounds that name no models."""
    if not lineage.unstated:
        return None
    if lineage.named:
        return Match("Some rounds name the models they start from or release, and others do not.")
    return NotStated("Whether each round starts from the last model: rounds name none.")


@rule(
    "close-mismatch",
    why="The last line counts the releases, repeats the plan and names the model that the last of "
    "them left. Where it says otherwise, it belongs to another log, or lines were cut out.",
    next_step=UNTOUCHED_COPY,
)
def close_mismatch(ledger: Ledger, lineage: Lineage) -> Match | NotStated | None:
    """Fire where `run.close` counts, plans or ends otherwise than the lines before it."""
    closed = ledger.closed
    if closed is None:
        return None
    where = (ledger.closed_at,)
    if closed.rounds > ledger.released:  # fewer: close-under-reports says it
        return Match(
            f"The last line counts {closed.rounds:,} releases, and the log holds "
            f"{ledger.released:,}.",
            where,
        )
    plan = ledger.opened.plan.events
    other = sorted(
        who for who in closed.events.keys() | plan.keys() if closed.events.get(who) != plan.get(who)
    )
    if other:
        return Match(
            f"The last line states other rounds before {other[0]!r:.60} than the plan.", where
        )
    due = lineage.last
    if closed.model is None or not due:
        return NotStated("Whether the run ended with the last model: the log names none.")
    if closed.model not in due:
        return Match(
            f"The last line names the model {digits(closed.model)}; the rounds leave "
            f"{digits(*due)}.",
            where,
        )
    return None
