"""What a pickle names and nothing here runs: a closed list, and what stands for results of calls.

The functions that a pickle names are never imported or called.  For those whose result is a plain
value (a dict, a set, a number of numpy), that value is computed here from the arguments.

What reading may cost is counted, and a pickle that would cost more is refused.

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

from ...accountant.errors import InvalidInput


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


_NAMES_BY_MODULE: Final = {
    "argparse": "Namespace",
    "_codecs": "encode",
    "builtins": "bytearray bytes complex dict frozenset getattr list object range set slice tuple",
    "collections": "Counter OrderedDict defaultdict deque",
    "copyreg": "_reconstructor",
    "datetime": "date datetime timedelta",
    "decimal": "Decimal",
    "fractions": "Fraction",
    "lightning.fabric.utilities.data": "AttributeDict",
    "lightning.pytorch.utilities.parsing": "AttributeDict",
    "lightning_fabric.utilities.data": "AttributeDict",
    "numpy": "dtype ndarray",
    "numpy._core.multiarray": "_reconstruct scalar",
    "numpy._core.numeric": "_frombuffer",
    "numpy.core.multiarray": "_reconstruct scalar",
    "numpy.core.numeric": "_frombuffer",
    "pathlib": "PosixPath PurePosixPath PureWindowsPath WindowsPath",
    # Since Python 3.13 paths are pickled by the module that they are written in.
    "pathlib._local": "PosixPath PurePosixPath PureWindowsPath WindowsPath",
    "pytorch_lightning.utilities.parsing": "AttributeDict",
    "torch": "Size Tensor device strided",
    "torch._tensor": "_rebuild_from_type_v2",
    "torch._utils": "_rebuild_device_tensor_from_cpu_tensor _rebuild_device_tensor_from_numpy "
    "_rebuild_meta_tensor_no_storage _rebuild_parameter _rebuild_parameter_with_state "
    "_rebuild_qtensor _rebuild_sparse_tensor _rebuild_tensor _rebuild_tensor_v2 _rebuild_tensor_v3",
    "torch.nn.parameter": "Parameter",
    "torch.serialization": "_get_layout",
    "torch.storage": "TypedStorage UntypedStorage _load_from_bytes",
    "types": "SimpleNamespace",
    "uuid": "UUID",
}
_NAMES: Final = frozenset(
    f"{module}.{name}" for module, names in _NAMES_BY_MODULE.items() for name in names.split()
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


MAX_OPCODES: Final = 2_000_000
MAX_MARKS: Final = 1_000
MAX_MEMO: Final = 1_000_000
MAX_COPIED_ITEMS: Final = 10_000_000
MAX_NUMBER_KEYS: Final = 100_000
MAX_INTEGER_BITS: Final = 1_024
MAX_KEY_BITS: Final = 60
MAX_KEY_ITEMS: Final = 16


class UnreadablePickle(Exception):
    """A pickle that is not read, with the sentence that says why."""


@dataclass
class PickleBudget:
    """Counts what a pickle costs beyond opcodes: items that are copied, keys that are hashed."""

    copied_items: int = 0
    number_keys: int = 0

    def copying(self, count: int) -> None:
        """Count items that a call copies; a short pickle could copy a long list many times."""
        self.copied_items += count
        if self.copied_items > MAX_COPIED_ITEMS:
            raise UnreadablePickle(f"It copies more than {MAX_COPIED_ITEMS:,} items.")

    def key(self, value: object) -> object:
        """Return a value that may be a key of a dict or a member of a set.

        Hashing a tuple of tuples of ... of one shared tuple takes for ever, and integers of more
        bits than a hash can be chosen to collide.
        """
        if isinstance(value, str):
            return value
        self.number_keys += 1
        if self.number_keys > MAX_NUMBER_KEYS:
            raise UnreadablePickle(f"It has more than {MAX_NUMBER_KEYS:,} keys that are not text.")
        parts = value if isinstance(value, tuple) else (value,)
        if len(parts) > MAX_KEY_ITEMS or not all(_is_simple(part) for part in parts):
            raise UnreadablePickle("It has a key that is neither text nor a short number or tuple.")
        return value


def constant(value: object) -> object:
    """Return a number or text that a pickle holds; integers have at most `MAX_INTEGER_BITS`."""
    if isinstance(value, int) and value.bit_length() > MAX_INTEGER_BITS:
        raise UnreadablePickle(f"It has an integer of more than {MAX_INTEGER_BITS:,} bits.")
    return bytes(value) if isinstance(value, bytearray) else value


def _is_simple(part: object) -> bool:
    if isinstance(part, int):
        return part.bit_length() <= MAX_KEY_BITS
    return part is None or isinstance(part, (str, float, bytes, Inert))


DICTIONARIES: Final = frozenset(
    {"builtins.dict", "collections.OrderedDict", "collections.defaultdict"}
)
SEQUENCES: Final = frozenset(
    {"builtins.set", "builtins.frozenset", "builtins.list", "builtins.tuple"}
)
NUMPY_SCALARS: Final = frozenset({"numpy.core.multiarray.scalar", "numpy._core.multiarray.scalar"})
GETATTR: Final = "builtins.getattr"


def named_global(module: object, name: object) -> GlobalName:
    """Return the placeholder of a global; `UnreadablePickle` names one outside the closed list."""
    if not isinstance(module, str) or not isinstance(name, str):
        raise TypeError("a global whose name is no text")
    listed = known_global(module, name)
    if listed is None:
        raise UnreadablePickle(f"Loading it would run `{module:.60}.{name:.60}`.")
    return listed


def called(function: object, arguments: object, budget: PickleBudget) -> object:
    """Return what stands for a call of a global of the closed list with `arguments`."""
    if not isinstance(function, GlobalName) or not isinstance(arguments, tuple):
        raise TypeError("a call of what is no global")
    name = function.name
    if name in DICTIONARIES:
        without_factory = arguments[1:] if name.endswith("defaultdict") else arguments
        return _dictionary(without_factory, budget)
    if name in SEQUENCES:
        return _sequence(name, arguments, budget)
    if name in ("_codecs.encode", "builtins.bytes", "builtins.bytearray"):
        return _bytes(arguments, budget)
    if name in NUMPY_SCALARS:
        kind, content = arguments
        return numpy_number(kind, content)
    if name == "numpy.dtype":
        code = arguments[0]
        return NumpyType(name, code=code if isinstance(code, str) else "")
    if name == GETATTR:
        return _attribute(arguments)
    return Inert(name)


def _dictionary(sources: tuple[object, ...], budget: PickleBudget) -> dict[object, object]:
    result: dict[object, object] = {}
    for source in sources:
        if not isinstance(source, (list, dict, tuple)):
            raise TypeError("a mapping that is made of something else")
        budget.copying(len(source))
        for pair in source.items() if isinstance(source, dict) else source:
            if not isinstance(pair, (list, tuple)) or len(pair) != 2:
                raise TypeError("an item that is no pair")
            result[budget.key(pair[0])] = pair[1]
    return result


def _sequence(name: str, sources: tuple[object, ...], budget: PickleBudget) -> object:
    items: list[object] = []
    for source in sources:
        if not isinstance(source, (list, tuple, set, frozenset)):
            raise TypeError("a sequence that is made of something else")
        budget.copying(len(source))
        items.extend(source)
    if name == "builtins.list":
        return items
    if name == "builtins.tuple":
        return tuple(items)
    keys = [budget.key(item) for item in items]
    return set(keys) if name == "builtins.set" else frozenset(keys)


def _bytes(arguments: tuple[object, ...], budget: PickleBudget) -> bytes:
    """Return bytes, which old protocols write as text and a call that encodes it."""
    if len(arguments) > 2:
        raise TypeError("bytes that are made of more than text")
    content = arguments[0] if arguments else b""
    encoding = arguments[1] if len(arguments) == 2 else "latin1"
    if isinstance(content, bytes):
        return content
    if not isinstance(content, str) or encoding not in ("latin1", "latin-1"):
        raise TypeError("an encoding that no pickler uses")
    budget.copying(len(content))
    return content.encode("latin-1")


def _attribute(arguments: tuple[object, ...]) -> Inert:
    """Return the placeholder of an accountant's `mechanism`, which Opacus up to 1.5 saved so."""
    target, attribute = arguments
    if not isinstance(target, GlobalName) or attribute != "mechanism":
        raise UnreadablePickle(f"Loading it would run `{GETATTR}`.")
    return Inert(f"{target.name}.{attribute}")


def refusal(source: str, why: str) -> InvalidInput:
    """Return the error for a pickle that is not read, with the two sentences that all share."""
    return InvalidInput(
        f"The pickle in `{source}` is not read. {why}",
        "A pickle is a program that runs when it is loaded: none is run here, and only names of a "
        "closed list are read.",
        "Save the accountant's state by itself: json.dump(accountant.state_dict(), file).",
    )
