"""References to a model or a loss of one's own: where its code lies, its digest, and its loading.

    "model.py:make"             a file, from the working directory, and a name in it
    "package.module:factory"    an installed module, and a name in it

Code is read to be digested, and executed by `CodeFile.load` alone.  Only who runs a configuration
makes a `CodeFile`: whoever reads a log has a name and a digest, and nothing that loads.
Nothing heavy is imported here.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import re
import sys
import types
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import TYPE_CHECKING, Any, Final

from ...accountant import validate
from ...accountant.errors import InvalidInput
from ...accountant.regular_file import first_bytes
from .toml_key import LOSSES, MODELS

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec

FROM_PYTHON: Final = "from-python"
"""What a configuration says of a model or a loss that a program gave as an object."""

SOURCE_DIGEST: Final = "source-sha256:"
"""Before the digest of the file in which the code lies."""

ARCHITECTURE_DIGEST: Final = "architecture-sha256:"
"""Before the digest of what an object is made of, whose code lies in no file."""

MAX_CODE_BYTES: Final = 2**22
"""Most bytes of a file of code."""

_NAME: Final = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*")
_DIGEST: Final = re.compile(f"(?:{SOURCE_DIGEST}|{ARCHITECTURE_DIGEST})[0-9a-f]{{64}}")


def is_own(name: object) -> bool:
    """Return whether a model or loss is one's own, rather than one of privplan's.

    >>> is_own("mlp"), is_own("model.py:make"), is_own("from-python")
    (False, True, True)
    """
    return isinstance(name, str) and (name == FROM_PYTHON or ":" in name)


def model_name(**field: object) -> str:
    """Return the name of a model of privplan's, or a reference to one's own."""
    return _name_or_reference(MODELS, field)


def loss_name(**field: object) -> str:
    """Return the name of a loss of privplan's, or a reference to one's own."""
    return _name_or_reference(LOSSES, field)


def code_digest(**field: object) -> str:
    """Return a digest of code as a log has it."""
    ((name, value),) = field.items()
    if not isinstance(value, str) or not _DIGEST.fullmatch(value):
        raise InvalidInput(f"`{name}` must be a digest of code; it is {value!r:.60}.")
    return value


def logged_reference(name: str) -> str:
    """Return a reference as a log has it: the file without its folders, which may name somebody.

    >>> logged_reference(r"C:\\Users\\Ada\\model.py:make"), logged_reference("models.nets:make")
    ('model.py:make', 'models.nets:make')
    """
    where, colon, attribute = name.rpartition(":")
    if not colon or not where.endswith(".py"):
        return name
    return f"{PurePosixPath(PureWindowsPath(where).name).name}:{attribute}"


@dataclass(frozen=True)
class CodeFile:
    """Code in a file: `attribute` of it, and the digest of the file as it was found.

    `module` is the name of an installed module, None for a file that was named by its path.
    """

    reference: str
    path: Path
    module: str | None
    attribute: str
    digest: str

    @classmethod
    def found(cls, reference: str) -> CodeFile:
        """Return the code that a reference means; nothing of it, and no package, is executed.

        Raises `InvalidInput` where there is no such file or module.
        """
        where, _, attribute = reference.rpartition(":")
        module = None if where.endswith(".py") else where
        path = Path(where) if module is None else _source_of(where, reference)
        return cls(reference, path, module, attribute, digest_of(_content(path, reference)))

    @staticmethod
    def digest_at(path: Path) -> str:
        """Return the digest of a file of code; raises `InvalidInput` where it cannot be read."""
        return digest_of(_content(path, str(path)))

    def load(self) -> Any:
        """Return what the reference names.  **This executes the code.**

        Raises `InvalidInput` where the file has changed since it was digested, fails, or has no
        such name.
        """
        content = _content(self.path, self.reference)
        if digest_of(content) != self.digest:
            raise _another(self.reference)
        try:
            with redirect_stdout(sys.stderr):  # what it prints is no answer of ours
                value: Any = self._executed(content)
                for name in self.attribute.split("."):
                    value = getattr(value, name)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # whatever the code does
            raise InvalidInput(
                f"{self.reference} cannot be loaded: {type(error).__name__}: {_said(error)}",
                "It is executed to make what is trained.",
                "Repair it, and try it in Python by itself.",
            ) from error
        return value

    def _executed(self, content: bytes) -> types.ModuleType:
        # What was digested is what is executed, whatever becomes of the file meanwhile, and
        # whatever was imported under this name before.
        if self.module is not None:
            return self._executed_in_package(self.module, content)
        name = f"privplan_own_{self.digest.removeprefix(SOURCE_DIGEST)[:16]}"
        module = types.ModuleType(name)
        module.__file__ = str(self.path)
        sys.modules[name] = module  # dataclasses look their module up
        exec(compile(content, str(self.path), "exec", dont_inherit=True), module.__dict__)
        return module

    def _executed_in_package(self, name: str, content: bytes) -> types.ModuleType:
        parent = name.rpartition(".")[0]
        if parent:
            importlib.import_module(parent)
        places = [str(self.path.parent)] if self.path.name == "__init__.py" else None
        spec = importlib.util.spec_from_file_location(
            name, self.path, submodule_search_locations=places
        )
        assert spec is not None
        module = importlib.util.module_from_spec(spec)
        before = sys.modules.get(name)
        sys.modules[name] = module
        try:
            exec(compile(content, str(self.path), "exec", dont_inherit=True), module.__dict__)
        except BaseException:
            del sys.modules[name]
            raise
        finally:
            # Who imported it before keeps what was imported.
            if before is not None:
                sys.modules[name] = before
        return module


@dataclass(frozen=True, eq=False)
class OwnCode:
    """The code of a run's own model and loss: a `CodeFile` each, or objects that a program gave."""

    model: object = None
    loss: object = None


def found_code(model: str, loss: str | None) -> OwnCode:
    """Return the code that the names of a configuration mean; nothing of it is executed.

    Names of privplan's own, and objects that a program has to give, have none.
    """

    def of(name: str | None) -> CodeFile | None:
        return CodeFile.found(name) if name is not None and ":" in name else None

    return OwnCode(of(model), of(loss))


def digest_of(content: bytes) -> str:
    """Return the digest of the content of a file of code, as a log has it."""
    return SOURCE_DIGEST + hashlib.sha256(content).hexdigest()


def _name_or_reference(words: tuple[str, ...], field: dict[str, object]) -> str:
    ((name, value),) = field.items()
    if not isinstance(value, str) or not is_own(value):
        try:
            return validate.choice(words, **field)
        except InvalidInput as error:
            hint = f'Or name your own: {name} = "model.py:make".'
            raise InvalidInput(error.what, error.why, f"{error.next_step} {hint}".strip()) from None
    where, _, attribute = value.rpartition(":")
    fits = value == FROM_PYTHON or (
        value.isprintable()
        and _NAME.fullmatch(attribute)
        and (_NAME.fullmatch(where) or where.endswith(".py"))
    )
    if not fits:
        raise InvalidInput(
            f"`{name}` must name a file or a module, and a name in it; it is {value!r:.60}.",
            "A model of your own is made by a function of yours.",
            f'Write {name} = "model.py:make" or "package.module:make".',
        )
    return value


def _source_of(module: str, reference: str) -> Path:
    """Return the file of an installed module.  Its packages are found, not imported."""
    spec: ModuleSpec | None = None
    places = None
    names = module.split(".")
    # Package by package: `importlib.util.find_spec` would import those above the module.
    for depth in range(1, len(names) + 1):
        spec = _spec(".".join(names[:depth]), places)
        places = None if spec is None else spec.submodule_search_locations
        if spec is None or (places is None and depth < len(names)):
            raise InvalidInput(
                f"There is no module {'.'.join(names[:depth])}, of which {reference} is.",
                next_step="Install its package, or name a file: model.py:make.",
            )
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        raise InvalidInput(
            f"The module of {reference} has no source file.",
            "The digest of its code stands in the log.",
            "Name a module that is written in Python.",
        )
    return Path(spec.origin)


def _spec(name: str, places: Any) -> ModuleSpec | None:
    for finder in sys.meta_path:
        find = getattr(finder, "find_spec", None)
        spec: ModuleSpec | None = None if find is None else find(name, places, None)
        if spec is not None:
            return spec
    return None


def _content(path: Path, reference: str) -> bytes:
    """Return the content of a file of code; raises `InvalidInput` for what is none."""
    try:
        content = first_bytes(path, MAX_CODE_BYTES)
    except (OSError, ValueError) as error:
        raise InvalidInput(
            f"The code of {reference} cannot be read: {getattr(error, 'strerror', None) or error}.",
            "A file is looked for from the working directory.",
            "Give the name of a file of Python code, or its path.",
        ) from None
    if len(content) > MAX_CODE_BYTES:
        raise InvalidInput(f"The code of {reference} has more than {MAX_CODE_BYTES:,} bytes.")
    return content


def _another(reference: str) -> InvalidInput:
    return InvalidInput(
        f"{reference} is not the code that was run: its digest differs.",
        "Another model would be trained under the name of this one.",
        "Give the file as it was when the run began.",
    )


def _said(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"{text:.200}" if text else "no more is said."
