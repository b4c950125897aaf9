"""The names of array types: one for each element type, whatever the shape."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

BoolArray: TypeAlias = NDArray[np.bool_]
FloatArray: TypeAlias = NDArray[np.float64]
Float32Array: TypeAlias = NDArray[np.float32]
ComplexArray: TypeAlias = NDArray[np.complex128]
IntArray: TypeAlias = NDArray[np.int64]
IndexArray: TypeAlias = NDArray[np.intp]
UInt64Array: TypeAlias = NDArray[np.uint64]
