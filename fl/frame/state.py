"""State: what a system keeps between rounds beside its model, such as a velocity or a clip.

State is public.  It is a function of the configuration and of what was released, and of nothing
else: never of noise by itself, nor of anything from which noise follows, nor of a private record.
It goes into the checkpoint and comes back on resume, and the log names it by its digest.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ...accountant.errors import InvalidInput, kind_of

Shape: TypeAlias = tuple[int, ...]

Arrays: TypeAlias = Mapping[str, NDArray[np.float64]]
"""Public arrays by name, all float64."""

MAX_STATE_ARRAYS: Final = 8
"""Most arrays of a state: an audit reads at most 16 of a file, moments of features among them."""

_RESERVED_NAMES: Final = ("parameters", "about", "file", "allow_pickle")
"""Names that a file of a model, or numpy as it writes one, has for itself."""

_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")
"""A name that comes back from a file as it was written: numpy takes off `.npy`, zip ends at NUL."""


@dataclass(frozen=True, init=False)
class State:
    """The names and shapes of what a system keeps between rounds beside its model.

    `State()` says that it keeps nothing.  Every class of a system states its own: a class that
    keeps more than the one it inherits from would inherit a false statement.  Raises `InvalidInput`
    for a shape that is none, and for names that a file of a model has for itself.

    >>> State(velocity=(3,), steps=()).shapes
    {'velocity': (3,), 'steps': ()}
    """

    shapes: Mapping[str, Shape]

    def __init__(self, **shapes: Shape) -> None:
        for name, shape in shapes.items():
            _require_shape(name, shape)
        if len(shapes) > MAX_STATE_ARRAYS:
            raise InvalidInput(
                f"A state has at most {MAX_STATE_ARRAYS} arrays; these are {len(shapes)}.",
                next_step="Put several of them into one array.",
            )
        object.__setattr__(self, "shapes", dict(shapes))

    def __bool__(self) -> bool:
        return bool(self.shapes)

    def zeros(self) -> dict[str, NDArray[np.float64]]:
        """Return arrays of zeros."""
        return {name: np.zeros(shape) for name, shape in self.shapes.items()}

    def checked(self, arrays: object, whose: str) -> dict[str, NDArray[np.float64]]:
        """Return the arrays, which nobody can write to any more; raise `InvalidInput` for others.

        They have these names and shapes, are float64, and every number is finite.  `whose` names
        the system and its package in what is said.
        """
        if not isinstance(arrays, Mapping):
            raise _refused(f"The state of {whose} must be arrays by name; it is {kind_of(arrays)}.")
        for name in arrays:
            if name not in self.shapes:
                raise _refused(f"The state of {whose} has an array {name!r:.60} that it never said")
        return {name: self._array(arrays, name, whose) for name in self.shapes}

    def _array(self, arrays: Mapping[Any, Any], name: str, whose: str) -> NDArray[np.float64]:
        which = f"The array `{name}` in the state of {whose}"
        if name not in arrays:
            raise _refused(f"{which} is missing")
        given = arrays[name]
        if not isinstance(given, (np.ndarray, np.floating)) or given.dtype != np.float64:
            raise _refused(f"{which} must be float64; it is {_kind(given)}")
        if given.shape != self.shapes[name]:
            raise _refused(f"{which} must have shape {self.shapes[name]}; it has {given.shape}")
        if not np.isfinite(given).all():
            raise InvalidInput(
                f"{which} is not finite.",
                "A run goes on from its state, and from no number there is no way on.",
                "Lower the learning rates of [training], or give more noise, in a new run.",
            )
        kept = np.array(given)
        kept.setflags(write=False)
        return kept


def declared_state(system: object) -> State | None:
    """Return what a system keeps beside its model; None where its class does not say."""
    if "state" not in vars(type(system)):
        return None
    stated = getattr(system, "state", None)
    return stated if isinstance(stated, State) else None


def state_digest(arrays: Arrays) -> str | None:
    """Return the SHA-256 of a state, as the log names it; None for no arrays.

    Over, in the order of names, the name, the shape, and the little-endian float64 bytes.
    """
    if not arrays:
        return None
    content = hashlib.sha256()
    for name in sorted(arrays):
        array = np.asarray(arrays[name])
        content.update(f"{name}{tuple(array.shape)}\n".encode())
        content.update(array.astype("<f8").tobytes())
    return content.hexdigest()


def _require_shape(name: str, shape: object) -> None:
    sizes = isinstance(shape, tuple) and all(type(size) is int and size > 0 for size in shape)
    if not sizes:
        raise InvalidInput(
            f"The shape of `{name}` must be a tuple of integers, 1 or above; it is {shape!r:.60}.",
            next_step="Give (D,) for one number of each parameter, or () for one number.",
        )
    assert isinstance(shape, tuple)
    named = _NAME.fullmatch(name) is not None
    if not named or name in _RESERVED_NAMES or math.prod(shape) > 2**40:
        raise InvalidInput(
            f"No state has an array {name!r:.80} of shape {shape}.",
            "Names are at most 64 letters, digits and _, and begin with a letter.  A file of a "
            f"model has the names {' and '.join(_RESERVED_NAMES)} for itself, and an end.",
            "Give it another name, or a smaller shape.",
        )


def _kind(value: object) -> str:
    return str(value.dtype) if isinstance(value, np.ndarray) else kind_of(value)


def _refused(what: str) -> InvalidInput:
    return InvalidInput(
        what if what.endswith(".") else f"{what}.",
        "What is kept between rounds is what the system stated, so that a run can be resumed.",
        "State every array, with its shape, as `state` of the system's class.",
    )
