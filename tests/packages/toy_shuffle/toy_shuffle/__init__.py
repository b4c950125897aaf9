"""A system of another package: means of users' vectors, by messages through a shuffler."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from privplan.accountant import validate
from privplan.fl.declarations.declaration import Complaint, Declaration, Given, Table
from privplan.fl.declarations.toml_key import Key


@dataclass(frozen=True, kw_only=True)
class ShuffleSettings:
    """`[toy_shuffle]`: which coordinates there are, and how they are sent."""

    dimensions: int = 12
    chosen: int = 3
    padded_to: int = 20


def replaces_users(given: Given) -> Complaint | None:
    """Refuse a relation under which it is seen that a user sends."""
    if given.get("privacy", {}).get("neighbours", "add-remove") == "replace-one":
        return None
    return (
        'needs neighbours = "replace-one" in [privacy]',
        "Who sends a message is seen on its way, so a user is replaced and never absent.",
        'Write neighbours = "replace-one" under [privacy].',
    )


SYSTEMS: Final = (
    Declaration(
        name="toy-shuffle",
        summary="means of users' vectors: a few coordinates of each, shuffled one by one",
        make="toy_shuffle.system:make",
        table=Table(
            name="toy_shuffle",
            about="what only toy-shuffle has",
            settings=ShuffleSettings,
            keys=(
                Key("dimensions", validate.count, "coordinates of a vector", "12"),
                Key("chosen", validate.count, "how many of them each user sends", "3"),
                Key("padded_to", validate.count, "messages of each, dummies among them", "20"),
            ),
        ),
        rules=(replaces_users,),
        rounds=3,
        aggregations=("shuffle",),
        phases=("release",),
        observers=("model", "analyzer", "shuffler"),
        trains=False,
        measure="toy_shuffle.system:measure",
        sealed=lambda _: {"release": ()},
    ),
)
