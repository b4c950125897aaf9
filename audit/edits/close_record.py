"""The last line: does it count and name what stands above it?"""

from __future__ import annotations

from .edit_rule import EditFinding, History, NotStated, edit_rule
from .models import DIGEST_DIGITS_SHOWN


@edit_rule(
    "close-mismatch",
    why="The last line counts the releases, repeats the plan and names the model that the last of "
    "them left. Where it says otherwise, it belongs to another log, or lines were cut out.",
    next_step="Take the log from a copy that nobody has touched.",
)
def close_mismatch(history: History) -> EditFinding | NotStated | None:
    """Fire where `run.close` counts, plans or ends otherwise than the lines before it."""
    ledger, closed = history.ledger, history.ledger.closed
    if closed is None:
        return None
    where = (ledger.closed_at,)
    if closed.rounds > ledger.released:  # fewer: close-under-reports says it
        return EditFinding(
            f"The last line counts {closed.rounds:,} releases, and the log holds "
            f"{ledger.released:,}.",
            where,
        )
    plan = ledger.opened.plan.events
    other = sorted(
        who for who in closed.events.keys() | plan.keys() if closed.events.get(who) != plan.get(who)
    )
    if other:
        return EditFinding(
            f"The last line states other rounds before {other[0]!r:.60} than the plan.", where
        )
    due = history.lineage.last
    if closed.model is None or not due:
        return NotStated("Whether the run ended with the last model: the log names none.")
    if closed.model not in due:
        shown = " or ".join(digest[:DIGEST_DIGITS_SHOWN] for digest in due)
        return EditFinding(
            f"The last line names the model {closed.model[:DIGEST_DIGITS_SHOWN]}; the rounds "
            f"leave {shown}.",
            where,
        )
    return None
