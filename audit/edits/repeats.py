"""What comes out twice although it cannot: noisy sums, models with noise, commitments."""

from __future__ import annotations

from collections.abc import Iterator

from ..ledger.phases import draws_noise, training_of
from .edit_rule import EditFinding, History, edit_rule


@edit_rule(
    "repeated-release",
    why="A sum with fresh noise never comes out twice, nor does a model that was moved by one, nor "
    "a commitment with fresh randomness. Lines were copied, or noise was used again.",
    next_step="Take the log from a copy that nobody has touched.",
)
def repeated_release(history: History) -> EditFinding | None:
    """Fire where a digest of something noisy, or a commitment, stands in the log twice."""
    known: dict[str, int] = {}
    for what, value, number in _fresh(history):
        if value in known:
            return EditFinding(
                f"{what} of line {number:,} stood in line {known[value]:,} before.",
                (known[value], number),
            )
        known[value] = number
    return None


def _fresh(history: History) -> Iterator[tuple[str, str, int]]:
    """Yield what is never the same twice, with a word for it and its line."""
    ledger = history.ledger
    if ledger.opened.dataset is not None:
        yield "The commitment `dataset`", ledger.opened.dataset, 1
    # The first model is public; its digest stands once as what the first round starts from.
    start = next(
        (spent for spent in training_of(ledger) if spent.intent.model_in is not None), None
    )
    if start is not None and start.intent.model_in is not None:
        yield "The first model", start.intent.model_in, start.number
    for spent in ledger.spent:
        for number, release in spent.releases:
            for name, commitment in release.sealed.items():
                yield f"The commitment `{name:.40}`", commitment, number
            if release.aggregate is not None and draws_noise(spent.intent):
                yield "The noisy sum", release.aggregate, number
            summed = release.model_out == release.aggregate  # the sum itself may be the model
            if release.model_out is not None and not summed and draws_noise(spent.intent):
                yield "The model", release.model_out, number
