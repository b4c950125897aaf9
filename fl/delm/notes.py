"""What a run of DELM's schemes says beside its guarantees: which pieces prove nothing, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..frame.note import Note
from .settings import DIVERGENCE, LINEAR_MODELS, WISHART

if TYPE_CHECKING:
    from .choice import ClientChoice
    from .parts import Parts

SHUFFLE_NOTE: Final = (
    "Messages lose their senders layer by layer, and no number here is lower for it: what a client "
    "adds hides a record, and a shuffler hides a client.",
    "Epsilon is not divided by the number of layers: a record moves all of them, and all are seen.",
)

ROUNDS_PROVE_NOTHING: Final = (
    "no sensitivity is proven of what a client adds, as it depends on the weights of the model"
)

CHOICE_NOTE: Final = (
    "Clients are chosen by messages that have their noise already, so the choice costs nothing, "
    "whatever its epsilon.",
)


def notes_of(
    *,
    published: bool,
    pca: str,
    model: str,
    parts: Parts,
    layers: int,
    shuffled: bool,
    choice: ClientChoice | None,
) -> tuple[Note, ...]:
    """Return the notes of a run, by its settings alone."""
    notes = []
    if published:
        unsound = []
        if pca == WISHART:
            unsound.append(
                "The PCA proves nothing: a record that cannot be subtracted from what was released "
                "is absent (privplan explain delm)."
            )
        if model not in LINEAR_MODELS:
            unsound.append(f"The rounds prove nothing: {ROUNDS_PROVE_NOTHING}.")
        numbers = {
            "epsilon_pca": parts.pca,
            "epsilon_training": parts.training,
            "epsilon_selection": parts.selection,
            "layers": float(layers),
        }
        claimed = (
            f"The claim is the paper's: max({parts.pca:.4g} + {parts.training:.4g}/{layers}, "
            f"{parts.selection:.4g}/{layers})."
        )
        notes.append(Note("as published", (*unsound, claimed), numbers))
    if shuffled:
        notes.append(Note("shuffle", SHUFFLE_NOTE))
    if choice is not None and choice.kind == DIVERGENCE:
        notes.append(Note("selection", CHOICE_NOTE))
    return tuple(notes)
