"""Pickles read without running them, protocols 0 to 5.

Plain values come out as themselves (None, bool, int, float, str, bytes, tuple, list, dict, set);
what a global of the closed list in `pickle_calls.py` would build comes out as a plain value or as
an `Inert` placeholder, and a pickle that names any other global is refused.  Nothing is imported,
called, or looked up by name.

The machine never walks what it built, so that shared and nested values cost nothing, and it hashes
short keys only.  What a pickle can cost is bounded by counts of opcodes, marks, memo entries, keys
and copied items (`pickle_calls.py`).

**The machine** that a pickle is a program for is a stack, marks and a memo, and nothing else.  It
knows the opcodes of protocols 0 to 5, but no extension registry and no buffers outside the file.

Source: CPython 3.11, pickletools: `genops` decodes opcodes and executes none, and says what each
does to the stack.
"""

from __future__ import annotations

import pickletools
import re
import struct
import warnings
from collections.abc import Callable
from io import BytesIO
from typing import BinaryIO, Final

from ...accountant.errors import InvalidInput
from .pickle_calls import (
    MAX_MARKS,
    MAX_MEMO,
    MAX_OPCODES,
    GlobalName,
    Inert,
    NumpyType,
    PickleBudget,
    UnreadablePickle,
    called,
    constant,
    named_global,
    refusal,
)

_CONSTANTS: Final = frozenset(
    {
        *("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT"),
        *("STRING", "BINSTRING", "SHORT_BINSTRING", "UNICODE", "BINUNICODE"),
        *("SHORT_BINUNICODE", "BINUNICODE8", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8"),
        "BYTEARRAY8",
    }
)


class PickleMachine:
    """Follows one pickle opcode by opcode; errors of any kind mean that it is damaged."""

    def __init__(self) -> None:
        self.stack: list[object] = []
        self.below: list[list[object]] = []
        self.memo: dict[int, object] = {}
        self.budget = PickleBudget()

    def result(self) -> object:
        """Return what the pickle built."""
        return self.stack.pop()

    def step(self, name: str, argument: object) -> None:
        """Do what one opcode does to stack, marks and memo."""
        if name in _CONSTANTS:
            self.stack.append(constant(argument))
            return
        action = ACTIONS.get(name)
        if action is None:
            raise UnreadablePickle(f"It has the opcode {name}, which needs more than the file.")
        action(self, argument)

    def since_mark(self) -> list[object]:
        """Return what was pushed since the last mark, and take the mark away."""
        items = self.stack
        self.stack = self.below.pop()
        return items

    def put_pairs(self, target: object, items: list[object]) -> None:
        """Enter keys and values, in turns, in a dict; those of a placeholder are left out."""
        if len(items) % 2:
            raise ValueError("a key without a value")
        if isinstance(target, dict):
            for index in range(0, len(items), 2):
                target[self.budget.key(items[index])] = items[index + 1]
        elif not isinstance(target, Inert):
            raise TypeError("items for what is no mapping")

    def extend(self, target: object, items: list[object]) -> None:
        """Append items to a list or a set; those of a placeholder are left out."""
        if isinstance(target, list):
            target.extend(items)
        elif isinstance(target, set):
            target.update(self.budget.key(item) for item in items)
        elif not isinstance(target, Inert):
            raise TypeError("items for what is no list")


def _nothing(_machine: PickleMachine, _argument: object) -> None:
    """Pass over what only matters to a loader (PROTO, FRAME)."""


def _pushes(make: Callable[[], object]) -> Callable[[PickleMachine, object], None]:
    return lambda machine, _argument: machine.stack.append(make())


def _set_item(machine: PickleMachine, _argument: object) -> None:
    value, key = machine.stack.pop(), machine.stack.pop()
    machine.put_pairs(machine.stack[-1], [key, value])


def _set_items(machine: PickleMachine, _argument: object) -> None:
    items = machine.since_mark()
    machine.put_pairs(machine.stack[-1], items)


def _append(machine: PickleMachine, _argument: object) -> None:
    item = machine.stack.pop()
    machine.extend(machine.stack[-1], [item])


def _append_all(machine: PickleMachine, _argument: object) -> None:
    items = machine.since_mark()
    machine.extend(machine.stack[-1], items)


def _mark(machine: PickleMachine, _argument: object) -> None:
    if len(machine.below) >= MAX_MARKS:
        raise UnreadablePickle(f"It nests more than {MAX_MARKS:,} marks.")
    machine.below.append(machine.stack)
    machine.stack = []


def _pop(machine: PickleMachine, _argument: object) -> None:
    if machine.stack:
        machine.stack.pop()
    else:
        machine.since_mark()


def _pop_mark(machine: PickleMachine, _argument: object) -> None:
    machine.since_mark()


def _repeat_top(machine: PickleMachine, _argument: object) -> None:
    machine.stack.append(machine.stack[-1])


def _list(machine: PickleMachine, _argument: object) -> None:
    items = machine.since_mark()
    machine.stack.append(items)


def _dictionary(machine: PickleMachine, _argument: object) -> None:
    items = machine.since_mark()
    target: dict[object, object] = {}
    machine.put_pairs(target, items)
    machine.stack.append(target)


def _tuple(machine: PickleMachine, _argument: object) -> None:
    items = machine.since_mark()
    machine.stack.append(tuple(items))


def _frozen_set(machine: PickleMachine, _argument: object) -> None:
    items = machine.since_mark()
    machine.stack.append(frozenset(machine.budget.key(item) for item in items))


def _short_tuple(length: int) -> Callable[[PickleMachine, object], None]:
    def act(machine: PickleMachine, _argument: object) -> None:
        if len(machine.stack) < length:
            raise IndexError("too few values for a tuple")
        items = tuple(machine.stack[-length:])
        del machine.stack[-length:]
        machine.stack.append(items)

    return act


def _remember(machine: PickleMachine, argument: object) -> None:
    # MEMOIZE has no argument and counts by itself.
    index = argument if isinstance(argument, int) else len(machine.memo)
    if index not in machine.memo and len(machine.memo) >= MAX_MEMO:
        raise UnreadablePickle(f"It remembers more than {MAX_MEMO:,} values.")
    machine.memo[index] = machine.stack[-1]


def _recall(machine: PickleMachine, argument: object) -> None:
    if not isinstance(argument, int):
        raise TypeError("an index that is no number")
    machine.stack.append(machine.memo[argument])


def _global(machine: PickleMachine, argument: object) -> None:
    # `genops` puts a blank between module and name; no module of the closed list has one.
    module, _, name = str(argument).partition(" ")
    machine.stack.append(named_global(module, name))


def _stack_global(machine: PickleMachine, _argument: object) -> None:
    name, module = machine.stack.pop(), machine.stack.pop()
    machine.stack.append(named_global(module, name))


def _call(machine: PickleMachine, _argument: object) -> None:
    arguments, function = machine.stack.pop(), machine.stack.pop()
    machine.stack.append(called(function, arguments, machine.budget))


def _call_with_names(machine: PickleMachine, _argument: object) -> None:
    if machine.stack.pop():
        raise UnreadablePickle("It calls a class with named arguments.")
    _call(machine, None)


def _instance(machine: PickleMachine, argument: object) -> None:
    arguments = tuple(machine.since_mark())
    _global(machine, argument)
    machine.stack.append(called(machine.stack.pop(), arguments, machine.budget))


def _object(machine: PickleMachine, _argument: object) -> None:
    function, *arguments = machine.since_mark()
    machine.stack.append(called(function, tuple(arguments), machine.budget))


def _build(machine: PickleMachine, _argument: object) -> None:
    """Give the topmost value its state; a dict's attributes (torch's metadata) are left out."""
    state, target = machine.stack.pop(), machine.stack[-1]
    if isinstance(target, NumpyType):
        if isinstance(state, tuple) and len(state) > 1 and isinstance(state[1], str):
            target.order = state[1]
    elif isinstance(target, Inert) and not isinstance(target, GlobalName):
        target.state = state
    elif not isinstance(target, (dict, list, set)):
        raise TypeError("a state for what has none")


def _storage(machine: PickleMachine, _argument: object) -> None:
    machine.stack.pop()
    machine.stack.append(Inert("storage"))


ACTIONS: Final[dict[str, Callable[[PickleMachine, object], None]]] = {
    "PROTO": _nothing,
    "FRAME": _nothing,
    "NONE": _pushes(lambda: None),
    "NEWTRUE": _pushes(lambda: True),
    "NEWFALSE": _pushes(lambda: False),
    "EMPTY_LIST": _pushes(list),
    "EMPTY_DICT": _pushes(dict),
    "EMPTY_TUPLE": _pushes(tuple),
    "EMPTY_SET": _pushes(set),
    "PERSID": _pushes(lambda: Inert("storage")),
    "BINPERSID": _storage,
    "MARK": _mark,
    "POP": _pop,
    "POP_MARK": _pop_mark,
    "DUP": _repeat_top,
    "LIST": _list,
    "DICT": _dictionary,
    "TUPLE": _tuple,
    "TUPLE1": _short_tuple(1),
    "TUPLE2": _short_tuple(2),
    "TUPLE3": _short_tuple(3),
    "FROZENSET": _frozen_set,
    "APPEND": _append,
    "APPENDS": _append_all,
    "ADDITEMS": _append_all,
    "SETITEM": _set_item,
    "SETITEMS": _set_items,
    "PUT": _remember,
    "BINPUT": _remember,
    "LONG_BINPUT": _remember,
    "MEMOIZE": _remember,
    "GET": _recall,
    "BINGET": _recall,
    "LONG_BINGET": _recall,
    "GLOBAL": _global,
    "STACK_GLOBAL": _stack_global,
    "REDUCE": _call,
    "NEWOBJ": _call,
    "NEWOBJ_EX": _call_with_names,
    "INST": _instance,
    "OBJ": _object,
    "BUILD": _build,
}
"""What each opcode does; PERSID has its id in the argument, BINPERSID on the stack."""


MAX_PICKLE_BYTES: Final = 64 * 1024 * 1024

NEWEST_PROTOCOL: Final = 5

_TEXT_PICKLE: Final = re.compile(
    rb"\(d[p.]|\(l[p.]|[}\]][q.]|c[\w.]+\n[\w.]+\n|\(i[\w.]+\n[\w.]+\n"
)
"""How a pickle of protocol 0 or 1 begins that holds a dict or a list, or calls something."""


def looks_like_pickle(content: bytes) -> bool:
    """Return whether content begins as a pickle does, with its protocol or as protocol 0 or 1.

    >>> looks_like_pickle(b"\\x80\\x04}."), looks_like_pickle(b'{"history": []}')
    (True, False)
    """
    if content[:1] == b"\x80":
        return content[1:2] != b"" and content[1] <= NEWEST_PROTOCOL
    return _TEXT_PICKLE.match(content) is not None and content.rstrip().endswith(b".")


def read_pickle(content: bytes, source: str) -> object:
    """Return what one pickle holds, as plain values and placeholders; `source` names it in errors.

    Raises `InvalidInput` for what is no pickle, a global outside the closed list (it is named),
    and a pickle that would cost too much.

    >>> read_pickle(b"(dp0\\nS'steps'\\nI3\\ns.", "state.pkl")
    {'steps': 3}
    """
    if len(content) > MAX_PICKLE_BYTES:
        raise refusal(source, f"It is larger than {MAX_PICKLE_BYTES // 2**20} MiB.")
    return next_pickle(BytesIO(content), source)


def next_pickle(stream: BinaryIO, source: str) -> object:
    """Return what the pickle at a stream's position holds, and leave the stream behind it.

    Raises `InvalidInput` as `read_pickle` does.
    """
    try:
        with warnings.catch_warnings():
            # Text of protocol 0 is Python's, and strange escapes in it need not reach the reader.
            warnings.simplefilter("ignore")
            return _followed(stream)
    except UnreadablePickle as error:
        raise refusal(source, str(error)) from None
    except (
        ValueError,
        LookupError,
        EOFError,
        OverflowError,
        TypeError,
        AttributeError,
        struct.error,
        MemoryError,
    ):
        # Opcodes that are cut off, or in an order that no pickler writes: what follows.
        pass
    raise InvalidInput(
        f"`{source}` does not hold a whole pickle.",
        "Its bytes are damaged, cut off, or of another format.",
        "Save the file again.",
    )


def _followed(stream: BinaryIO) -> object:
    machine = PickleMachine()
    for count, (opcode, argument, _) in enumerate(pickletools.genops(stream)):
        if count >= MAX_OPCODES:
            raise UnreadablePickle(f"It has more than {MAX_OPCODES:,} opcodes.")
        if opcode.name == "STOP":
            return machine.result()
        machine.step(opcode.name, argument)
    raise EOFError("a pickle without an end")
