"""What a pickle names and nothing here runs: placeholders, and the closed list of names.

A pickle is a program.  Each global that it names is a function or class that loading it would
import and call.  Here only these names are known, and none is ever imported: a few become plain
values (`collections.OrderedDict` a dict), the others placeholders (a tensor is not needed to know
what an accountant wrote).

Source: CPython 3.11, pickletools (opcodes); files that PyTorch 2.13 and numpy 2.4 saved, and the
names that earlier versions used, in torch._utils, torch.serialization and numpy.core.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from typing import Final


@dataclass(eq=False)
class Inert:
    """Something that loading a pickle would have built: its `name`, and its `state` if any."""

    name: str
    state: object = None


@dataclass(eq=False)
class GlobalName(Inert):
    """A function or class that a pickle names, such as `torch.FloatStorage`; never imported."""


@dataclass(eq=False)
class NumpyType(Inert):
    """A numpy type by its `code`, such as f8, and its byte `order`."""

    code: str = ""
    order: str = "<"


RENAMED: Final = {"__builtin__": "builtins", "copy_reg": "copyreg"}
"""Modules of Python 2 by their names today."""


_NAMES: Final = frozenset(
    {
        "argparse.Namespace",
        "_codecs.encode",
        "builtins.bytearray",
        "builtins.bytes",
        "builtins.complex",
        "builtins.dict",
        "builtins.frozenset",
        "builtins.getattr",
        "builtins.list",
        "builtins.object",
        "builtins.range",
        "builtins.set",
        "builtins.slice",
        "builtins.tuple",
        "collections.Counter",
        "collections.OrderedDict",
        "collections.defaultdict",
        "collections.deque",
        "copyreg._reconstructor",
        "datetime.date",
        "datetime.datetime",
        "datetime.timedelta",
        "decimal.Decimal",
        "fractions.Fraction",
        "lightning.fabric.utilities.data.AttributeDict",
        "lightning.pytorch.utilities.parsing.AttributeDict",
        "lightning_fabric.utilities.data.AttributeDict",
        "numpy._core.multiarray._reconstruct",
        "numpy._core.multiarray.scalar",
        "numpy._core.numeric._frombuffer",
        "numpy.core.multiarray._reconstruct",
        "numpy.core.multiarray.scalar",
        "numpy.core.numeric._frombuffer",
        "numpy.dtype",
        "numpy.ndarray",
        # Since Python 3.13 paths are pickled by the module that they are written in.
        "pathlib._local.PosixPath",
        "pathlib._local.PurePosixPath",
        "pathlib._local.PureWindowsPath",
        "pathlib._local.WindowsPath",
        "pathlib.PosixPath",
        "pathlib.PurePosixPath",
        "pathlib.PureWindowsPath",
        "pathlib.WindowsPath",
        "pytorch_lightning.utilities.parsing.AttributeDict",
        "torch.Size",
        "torch.Tensor",
        "torch._tensor._rebuild_from_type_v2",
        "torch._utils._rebuild_device_tensor_from_cpu_tensor",
        "torch._utils._rebuild_device_tensor_from_numpy",
        "torch._utils._rebuild_meta_tensor_no_storage",
        "torch._utils._rebuild_parameter",
        "torch._utils._rebuild_parameter_with_state",
        "torch._utils._rebuild_qtensor",
        "torch._utils._rebuild_sparse_tensor",
        "torch._utils._rebuild_tensor",
        "torch._utils._rebuild_tensor_v2",
        "torch._utils._rebuild_tensor_v3",
        "torch.device",
        "torch.nn.parameter.Parameter",
        "torch.serialization._get_layout",
        "torch.storage.TypedStorage",
        "torch.storage.UntypedStorage",
        "torch.storage._load_from_bytes",
        "torch.strided",
        "types.SimpleNamespace",
        "uuid.UUID",
    }
)

_PATTERN: Final = re.compile(
    r"torch\.(?:[A-Z][A-Za-z0-9]*Storage|(?:float|bfloat|complex|int|uint|qint|quint|bool)[a-z0-9_]*)"
    r"|opacus\.accountants\.\w+\.\w+Accountant"
)
"""Storages and number types of torch, and the accountants of Opacus."""

_CODES: Final = {"i": "bhiq", "u": "BHIQ", "f": "efd"}
_SIZES: Final = {"i": "1248", "u": "1248", "f": "248"}


def known_global(module: str, name: str) -> GlobalName | None:
    """Return the placeholder of a global in the closed list; None for any other.

    >>> known_global("torch", "FloatStorage").name
    'torch.FloatStorage'
    >>> known_global("os", "system") is None
    True
    """
    full_name = f"{RENAMED.get(module, module)}.{name}"
    listed = full_name in _NAMES or _PATTERN.fullmatch(full_name) is not None
    return GlobalName(full_name) if listed else None


def numpy_number(kind: object, content: object) -> object:
    """Return the number that a numpy scalar of a type holds; a placeholder where it is another.

    >>> numpy_number(NumpyType("numpy.dtype", code="f8"), struct.pack("<d", 1.5))
    1.5
    """
    if isinstance(kind, NumpyType) and isinstance(content, bytes) and kind.order in "<>|=":
        letter, size = kind.code[:1], kind.code[1:]
        order = ">" if kind.order == ">" else "<"
        if kind.code in ("b1", "?") and len(content) == 1:
            return content != b"\0"
        if letter in _CODES and len(size) == 1 and size in _SIZES[letter]:
            form = order + _CODES[letter][_SIZES[letter].index(size)]
            if struct.calcsize(form) == len(content):
                (number,) = struct.unpack(form, content)
                return number
    return Inert("numpy scalar")
