"""The table `[flame]`: how coordinates are chosen, randomised, padded and carried."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from ..declarations.declaration import Table
from ..declarations.toml_key import at_least, key

RandomizerName = Literal["laplace", "responses"]
Granularity = Literal["coordinate", "tuple"]
Overflow = Literal["refuse", "cap"]
Transport = Literal["sealed", "ideal"]

LAPLACE: Final = "laplace"
RESPONSES: Final = "responses"
SEALED: Final = "sealed"


@dataclass(frozen=True, kw_only=True)
class FlameSettings:
    """`[flame]`: how coordinates are chosen, randomised, padded and carried."""

    randomizer: RandomizerName = key(
        "noise of a message: Laplace, or one of the words 0 to `steps` by randomized response",
        default="laplace",
    )
    steps: int = key(
        'randomizer = "responses": steps between the least and the largest word',
        at_least(1),
        default=16,
        why="It is a number of steps, one less than there are words.",
    )
    chosen: int | None = key(
        "flame-double, flame-topk: how many coordinates of its update a user sends",
        at_least(1),
        default=None,
        shown="required there",
        why="It is a number of coordinates, and at most as many as the model has parameters.",
    )
    decoys: int = key(
        "flame-topk: how many other coordinates a user sends with a dummy in each, so that the "
        "shuffler does not know which are its largest",
        at_least(0),
        default=0,
        why="It is a number of coordinates, and with `chosen` at most as many as there are.",
    )
    granularity: Granularity = key(
        "what is mixed: every coordinate by itself, or all that a user sends in a piece, which "
        "local noise alone protects",
        default="coordinate",
    )
    padded_to: int | None = key(
        "messages of each coordinate in the end, dummies among them",
        at_least(2),
        default=None,
        shown="flame-topk: the users; flame-double: twice the fewest that hardly ever overflow",
        why="How many users sent a coordinate would be seen without dummies.",
    )
    overflow: Overflow = key(
        "what becomes of a coordinate with more messages: the round is given up, or as many as "
        "there is room for are kept, at random",
        default="refuse",
    )
    transport: Transport = key(
        "a ciphertext for every message, or arrays between the parties without any, which "
        "supposes a shuffler that cannot read",
        default="sealed",
    )
    as_published: bool = key(
        "run as the paper prints it, without a guarantee: whole tuples are mixed, the largest "
        'coordinates are the most positive ones, and "responses" draw from the words 1 to `steps`',
        default=False,
    )


TABLE: Final = Table(
    name="flame",
    about="how coordinates are chosen, randomised, padded and carried",
    settings=FlameSettings,
)
