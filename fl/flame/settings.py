"""The table `[flame]`: how coordinates are chosen, randomised, padded and carried."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from ..declarations.declaration import Table
from ..declarations.toml_key import Key, at_least, flag, word

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

    randomizer: RandomizerName = "laplace"
    steps: int = 16
    chosen: int | None = None
    decoys: int = 0
    granularity: Granularity = "coordinate"
    padded_to: int | None = None
    overflow: Overflow = "refuse"
    transport: Transport = "sealed"
    as_published: bool = False


TABLE: Final = Table(
    name="flame",
    about="how coordinates are chosen, randomised, padded and carried",
    settings=FlameSettings,
    keys=(
        word(
            "randomizer",
            ("laplace", "responses"),
            "noise of a message: Laplace, or one of the words 0 to `steps` by randomized response",
            "laplace",
        ),
        Key(
            "steps",
            at_least(1),
            'randomizer = "responses": steps between the least and the largest word',
            "16",
            "It is a number of steps, one less than there are words.",
        ),
        Key(
            "chosen",
            at_least(1),
            "flame-double, flame-topk: how many coordinates of its update a user sends",
            "required there",
            "It is a number of coordinates, and at most as many as the model has parameters.",
        ),
        Key(
            "decoys",
            at_least(0),
            "flame-topk: how many other coordinates a user sends with a dummy in each, so that the "
            "shuffler does not know which are its largest",
            "0",
            "It is a number of coordinates, and with `chosen` at most as many as there are.",
        ),
        word(
            "granularity",
            ("coordinate", "tuple"),
            "what is mixed: every coordinate by itself, or all that a user sends in a piece, which "
            "local noise alone protects",
            "coordinate",
        ),
        Key(
            "padded_to",
            at_least(2),
            "messages of each coordinate in the end, dummies among them",
            "flame-topk: the users; flame-double: twice the fewest that hardly ever overflow",
            "How many users sent a coordinate would be seen without dummies.",
        ),
        word(
            "overflow",
            ("refuse", "cap"),
            "what becomes of a coordinate with more messages: the round is given up, or as many "
            "as there is room for are kept, at random",
            "refuse",
        ),
        word(
            "transport",
            ("sealed", "ideal"),
            "a ciphertext for every message, or arrays between the parties without any, which "
            "supposes a shuffler that cannot read",
            "sealed",
        ),
        Key(
            "as_published",
            flag,
            "run as the paper prints it, without a guarantee: whole tuples are mixed, the largest "
            'coordinates are the most positive ones, and "responses" draw from the words 1 to '
            "`steps`",
            "false",
        ),
    ),
)
