"""What a run says beside its guarantees, for a person and for a program."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..terminal.text import wrapped

if TYPE_CHECKING:
    from ...fl.frame.note import Note


def notes_json(notes: tuple[Note, ...]) -> list[dict[str, object]]:
    """Return what is said beside guarantees, for JSON."""
    return [{"name": note.name, "says": " ".join(note.sentences), **note.numbers} for note in notes]


def note_rows(notes: tuple[Note, ...]) -> list[tuple[str, str]]:
    """Return the lines about what is said beside guarantees."""
    return [
        row
        for note in notes
        for number, sentence in enumerate(note.sentences)
        for row in wrapped("" if number else note.name, sentence)
    ]
