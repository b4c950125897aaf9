"""A model and a loss that a program gives as objects: `pp.run(..., model=module, loss=...)`.

The configuration says `from-python`, so that whoever reads it knows that it does not say all; the
log has the digest of the code, or of the architecture where the code lies in no file.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import re
import sys
import types
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ...accountant.errors import InvalidInput, kind_of
from ...accountant.toml_source import toml_tables, toml_text
from ..declarations.own_code import (
    ARCHITECTURE_DIGEST,
    FROM_PYTHON,
    MAX_CODE_BYTES,
    OwnCode,
    digest_of,
)
from ..settings.toml_file import parse
from .configuration import Configuration, with_code, with_found_code
from .rows_from_program import holding, table_handed_over

if TYPE_CHECKING:
    from ..settings.schema import Settings

_TRAINING_HEADER: Final = re.compile(
    rb"^[ \t]*\[[ \t]*training[ \t]*\][ \t]*(?:#[^\r\n]*)?(?=\r?$)", re.MULTILINE
)
"""The line that begins the table [training]."""

_HOW: Final = "pp.resume(folder, model=...)"


def with_given_model(configuration: Configuration, model: object, loss: object) -> Configuration:
    """Return a configuration whose model and loss are those that a program gives, if it does.

    A text is a name or a reference, as in a file.  What is given stands in the copy that the run's
    folder keeps: objects as `from-python`.  Raises `InvalidInput` where the configuration says
    something else, or needs an object that was not given.
    """
    words = {"model": _word(model, "model"), "loss": _word(loss, "loss")}
    how = configuration.settings.training
    for key, word in words.items():
        said = how.model if key == "model" else how.loss
        if word is not None and _states(configuration, key) and said != word:
            raise InvalidInput(
                f"`{key}` is given, and the configuration has {key} = {said!r:.60} in [training].",
                "A run has one.",
                "Leave one of them out.",
            )
    lines = [
        f"{key} = {toml_text(word)}"
        for key, word in words.items()
        if word is not None and not _states(configuration, key)
    ]
    if lines:
        configuration = _with_lines(configuration, lines)
    return replace(configuration, settings=with_objects(configuration.settings, model, loss))


def with_objects(settings: Settings, model: object, loss: object) -> Settings:
    """Return settings that carry the objects where they say `from-python`; raise where one lacks.

    Raises `InvalidInput` for an object of which the settings know nothing.
    """
    how, code = settings.training, settings.training.executable or OwnCode()
    given = {"model": model, "loss": loss}
    digests: dict[str, str | None] = {"model": how.model_digest, "loss": how.loss_digest}
    for key, said in (("model", how.model), ("loss", how.loss)):
        value = given[key]
        if said == FROM_PYTHON and (value is None or isinstance(value, str)):
            raise InvalidInput(
                f"The {key} of this run was given in Python, and is not given now.",
                "A folder keeps no code: the log has its digest.",
                f"Give it: {_HOW.replace('model=', f'{key}=')}",
            )
        if value is None or isinstance(value, str):
            continue
        if said != FROM_PYTHON:
            raise InvalidInput(
                f"`{key}` is given, and the run has {key} = {said!r:.60}.",
                "A run that goes on keeps what it was begun with.",
                "Leave it out.",
            )
        code = replace(code, **{key: value})
        digests[key] = _digest(value, key)
    if FROM_PYTHON not in (how.model, how.loss):
        return settings
    return with_code(settings, code, digests["model"], digests["loss"])


def _word(value: object, key: str) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if not callable(value):
        raise InvalidInput(
            f"`{key}` must be a module, a function, or a name; it is {kind_of(value)}.",
            "It is what is trained, or what is learnt by."
            if key == "model"
            else "A loss takes outputs and labels, and returns a number for each record.",
            "Give a torch.nn.Module, or a function of yours.",
        )
    return FROM_PYTHON


def _states(configuration: Configuration, key: str) -> bool:
    return key in toml_tables(configuration.content).get("training", {})


def _with_lines(configuration: Configuration, lines: list[str]) -> Configuration:
    text = "\n".join(lines).encode()
    content = _TRAINING_HEADER.sub(
        lambda found: found.group(0) + b"\n" + text, configuration.content, count=1
    )
    # Without a line [training], the table stands at the end.
    if content == configuration.content:
        content = content.rstrip(b"\n") + b"\n\n[training]\n" + text + b"\n"
    rows = table_handed_over(configuration.settings)
    settings = with_found_code(holding(parse(content, "The configuration"), rows))
    return Configuration(content, settings, configuration.from_file)


def _digest(value: Any, key: str) -> str | None:
    """Return the digest of the file that defines a function or class; None for any other model.

    Such a model is known by its architecture, once it is made (`preparation.prepare`).  Raises
    `InvalidInput` for a loss that stands nowhere.
    """
    source = _source(value)
    if source is not None:
        return digest_of(source)
    if key == "model":
        return None
    if hasattr(value, "named_modules"):  # a torch module, such as nn.CrossEntropyLoss
        from ..models.own_model_building import architecture_digest

        return ARCHITECTURE_DIGEST + architecture_digest(value)
    from ..models.module_attributes import described, source_of

    code = value.func if isinstance(value, functools.partial) else value
    if not source_of(type(code) if _is_object(code) else code):
        raise InvalidInput(
            "The code of `loss` is in no file.",
            "Its digest stands in the log.",
            "Give a function or a class that a file defines, or the name of a loss.",
        )
    return ARCHITECTURE_DIGEST + hashlib.sha256(described(value).encode()).hexdigest()


def _is_object(value: Any) -> bool:
    return not inspect.isfunction(value) and not inspect.isclass(value)


def _source(value: Any) -> bytes | None:
    """Return the file of a function or class that a module has under its name; None for others.

    What a closure or a part of a function remembers stands in no file.
    """
    if _is_object(value):
        return None
    defined: Any = value
    module = sys.modules.get(defined.__module__)
    if getattr(module, defined.__qualname__, None) is not value:
        return None
    try:
        file = inspect.getsourcefile(defined)
        content = None if file is None else Path(file).read_bytes()
    except (TypeError, OSError):
        return None
    if content is None or len(content) > MAX_CODE_BYTES:
        return None
    return content if _was_loaded(defined, content) else None


def _was_loaded(value: Any, content: bytes) -> bool:
    """Return whether a function or class, and what it uses of its module, is as in the file now."""
    try:
        written = set(_codes(compile(content, "", "exec", dont_inherit=True)))
    except (SyntaxError, ValueError):
        return False
    module = vars(sys.modules[value.__module__])
    held: list[Any] = [value]
    for each in held:  # which grows
        parts = list(vars(each).values()) if inspect.isclass(each) else [each]
        for code in (inspect.unwrap(part).__code__ for part in parts if inspect.isfunction(part)):
            # A dataclass has functions that stand in no file.
            if code.co_filename != "<string>" and code not in written:
                return False
            names = {name for inner in _codes(code) for name in inner.co_names}
            used = (module[name] for name in names if name in module)
            held += [
                other
                for other in used
                if (inspect.isfunction(other) or inspect.isclass(other))
                and other.__module__ == value.__module__
                and not any(other is known for known in held)
            ]
    return True


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for part in code.co_consts:
        if isinstance(part, types.CodeType):
            yield from _codes(part)
