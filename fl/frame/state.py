"""The state of a system: public arrays that it keeps between rounds, such as a momentum.

State is a function of the configuration and of released values, and of nothing else: never of a
private record, nor of noise or of anything that noise could be computed from.  It is written to the
checkpoint, read again on resume, and named in the log by its digest.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np

from ...accountant.arrays import FloatArray
from ...accountant.errors import InvalidInput, kind_of

Shape: TypeAlias = tuple[int, ...]

Arrays: TypeAlias = Mapping[str, FloatArray]
"""Public arrays by name, all float64."""

MAX_STATE_ARRAYS: Final = 8
"""Arrays of a state: an audit reads at most 16 from a file, the feature moments among them."""

_RESERVED_NAMES: Final = ("parameters", "about", "file", "allow_pickle")
"""Names that the file of a model, or numpy's writer, uses itself."""

_STATE_ARRAY_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")
"""Names that a file returns unchanged: numpy strips `.npy`, and zip ends a name at NUL."""


@dataclass(frozen=True, init=False)
class State:
    """Names and shapes of the arrays that a system keeps between rounds with its model.

    `State()` declares that it keeps nothing.  Every class declares its own, as a subclass that
    keeps more would inherit a false declaration.  Raises `InvalidInput` for what is no shape, and
    for names that the file of a model reserves.

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

    def zeros(self) -> dict[str, FloatArray]:
        """Return arrays of zeros."""
        return {name: np.zeros(shape) for name, shape in self.shapes.items()}

    def checked(self, arrays: object, whose: str) -> dict[str, FloatArray]:
        """Return read-only copies of arrays with exactly these names and shapes.

        They must be float64, and every number finite.  `whose` names the system and its package in
        errors.  Raises `InvalidInput` for anything else.
        """
        if not isinstance(arrays, Mapping):
            raise _refused(f"The state of {whose} must be arrays by name; it is {kind_of(arrays)}.")
        for name in arrays:
            if name not in self.shapes:
                raise _refused(f"The state of {whose} has an array {name!r:.60} that it never said")
        return {name: self._array(arrays, name, whose) for name in self.shapes}

    def _array(self, arrays: Mapping[Any, Any], name: str, whose: str) -> FloatArray:
        which = f"The array `{name}` in the state of {whose}"
        if name not in arrays:
            raise _refused(f"{which} is missing")
        array = arrays[name]
        if not isinstance(array, (np.ndarray, np.floating)) or array.dtype != np.float64:
            raise _refused(f"{which} must be float64; it is {_kind(array)}")
        if array.shape != self.shapes[name]:
            raise _refused(f"{which} must have shape {self.shapes[name]}; it has {array.shape}")
        if not np.isfinite(array).all():
            raise InvalidInput(
                f"{which} is not finite.",
                "A run goes on from its state, and from no number there is no way on.",
                "Lower the learning rates of [training], or give more noise, in a new run.",
            )
        copy = np.array(array)
        copy.setflags(write=False)
        return copy


def declared_state(system: object) -> State | None:
    """Return the state that the system's own class declares; None where it declares none."""
    if "state" not in vars(type(system)):
        return None
    declared = getattr(system, "state", None)
    return declared if isinstance(declared, State) else None


def state_digest(arrays: Arrays) -> str | None:
    """Return the SHA-256 of a state, as the log names it; None for no arrays.

    Hashed are, in the order of names, the name, the shape, and the little-endian float64 bytes.
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
    is_shape = isinstance(shape, tuple) and all(type(size) is int and size > 0 for size in shape)
    if not is_shape:
        raise InvalidInput(
            f"The shape of `{name}` must be a tuple of integers, 1 or above; it is {shape!r:.60}.",
            next_step="Give (D,) for one number of each parameter, or () for one number.",
        )
    assert isinstance(shape, tuple)
    if (
        _STATE_ARRAY_NAME.fullmatch(name) is None
        or name in _RESERVED_NAMES
        or math.prod(shape) > 2**40
    ):
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
