"""Whether a system is what the frame can run: its data, model, parts, and what it opens."""

from __future__ import annotations

import contextlib
import hashlib
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import numpy as np

from ...accountant.errors import InvalidInput, kind_of
from ...accountant.plan import Plan
from ..data.federation import Federation
from .opening import OpeningStatement
from .state import Shape

if TYPE_CHECKING:
    from ..settings.schema import Settings

FEDERATION_DIGEST: Final = "federation"
"""The digest of all training records, among those that a system names."""


def require_opening(
    opening: object, plan: Plan, settings: Settings, whose: str
) -> OpeningStatement:
    """Return what a run states before its first round, if its plan proves it.

    Raises `InvalidInput` where it claims more than the plan proves, before somebody whom the plan
    does not know, or of something else than the settings protect.  A method that is run as it was
    published claims what was printed, and its log says so.
    """
    if not isinstance(opening, OpeningStatement):
        raise _refused(whose, f"must return an OpeningStatement; it returned {kind_of(opening)}")
    claim, asked = opening.claim, settings.privacy
    proven = plan.guarantees.get(claim.observer)
    if proven is None:
        raise _refused(
            whose,
            f"claims something before {claim.observer!r:.60}, of whom the plan says nothing",
        )
    # A published claim is what the paper printed; no proof is compared with it.
    if opening.as_published or claim.epsilon is None:
        return opening
    if (claim.delta, claim.group) != (asked.delta, asked.group):
        raise _refused(whose, "claims another delta or group than its settings have")
    if proven.epsilon.upper > claim.epsilon:
        raise _refused(
            whose, f"claims epsilon {claim.epsilon:g}; its plan proves {proven.epsilon.upper:g}"
        )
    return opening


def checked_parts(parts: object, size: int, whose: str) -> dict[str, Shape]:
    """Return the parts of what is released; raise `InvalidInput` where they are not all of it."""
    if not isinstance(parts, Mapping) or not all(
        _is_name(name)
        and isinstance(shape, tuple)
        and all(type(length) is int and length >= 0 for length in shape)
        for name, shape in parts.items()
    ):
        raise InvalidInput(
            f"`parts` of {whose} must be shapes by name.",
            "The parts of what is released are all of it, one behind the other.",
            "Give a mapping of texts to tuples of integers.",
        )
    whole = sum(math.prod(shape) for shape in parts.values())
    if parts and whole != size:
        raise InvalidInput(
            f"`parts` of {whose} have {whole:,} numbers; its vector has {size:,}.",
            "The parts of what is released are all of it, one behind the other.",
            "Give the shape of each part.",
        )
    return dict(parts)


def checked_measurements(numbers: object, whose: str) -> dict[str, float]:
    """Return what a system measured, as numbers by name; raise `InvalidInput` for anything else."""
    if isinstance(numbers, Mapping) and all(map(_is_name, numbers)):
        with contextlib.suppress(TypeError, ValueError, OverflowError):
            texts = [value for value in numbers.values() if isinstance(value, (str, bytes))]
            if not texts:
                return {name: float(value) for name, value in numbers.items()}
    raise InvalidInput(
        f"`measure` of {whose} must give numbers by name.",
        "They stand in the log and in metrics.json; the round that they are of is kept.",
        "Repair it, and resume the run.",
    )


def _is_name(name: object) -> bool:
    return isinstance(name, str) and bool(name) and name.isprintable()


def _refused(whose: str, what: str) -> InvalidInput:
    return InvalidInput(
        f"`opening` of {whose} {what}.",
        "What a run promises is what its plan proves, of what its settings protect.",
        "Return the claim of the plan (`fl.frame.promise.claimed`).",
    )


def checked_data(given: object, whose: str) -> tuple[Federation, dict[str, str]]:
    """Return what a system makes of data, and the digests that identify it.

    One more digest is made here, of all training records with their users and silos: a system that
    digests too little would be resumed on other records.  Raises `InvalidInput`, which names the
    system and its package and no value, for anything else.
    """
    match given:
        case (Federation() as federation, Mapping() as digests) if all(
            isinstance(item, str) for pair in digests.items() for item in pair
        ):
            return federation, {**digests, FEDERATION_DIGEST: _digest(federation)}
    raise InvalidInput(
        f"The `data` of {whose} must return a Federation and digests, texts by name.",
        "A run goes on with the records that it was begun with, which are known by digests.",
        "Return the federation, and a dictionary such as {'records': SHA-256 in hex}.",
    )


def _digest(federation: Federation) -> str:
    content = hashlib.sha256(f"{federation.users},{federation.silos}".encode())
    for array in (federation.features, federation.labels, federation.user, federation.silo):
        content.update(f"{array.dtype.str}{array.shape}".encode())
        content.update(np.ascontiguousarray(array).tobytes())
    return content.hexdigest()
