"""References to code of one's own: what they mean, what a log says of them, and who executes it."""

from __future__ import annotations

import hashlib
import importlib
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from privplan.accountant.errors import InvalidInput
from privplan.fl.declarations import own_code
from privplan.fl.declarations.own_code import CodeFile, logged_reference, loss_name, model_name

from ..cases import for_each

MARKER = "import pathlib; pathlib.Path('executed').touch()\n"


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def executed() -> bool:
    return Path("executed").exists()


def test_a_file_is_digested_and_not_executed() -> None:
    Path("net.py").write_text(f"{MARKER}make = 3\n")
    code = CodeFile.found("net.py:make")
    assert code.digest == "source-sha256:" + hashlib.sha256(Path("net.py").read_bytes()).hexdigest()
    assert not executed()
    assert code.load() == 3
    assert executed()


def test_a_module_is_found_and_no_package_above_it_executed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "place" / "own_nets_of_a_test" / "inner"
    package.mkdir(parents=True)
    for folder in (package, package.parent):
        (folder / "__init__.py").write_text(MARKER)
    (package / "nets.py").write_text(f"{MARKER}class Kinds:\n    make = 4\n")
    monkeypatch.syspath_prepend(tmp_path / "place")
    code = CodeFile.found("own_nets_of_a_test.inner.nets:Kinds.make")
    assert code.digest == CodeFile.digest_at(package / "nets.py")
    assert not executed()
    assert "own_nets_of_a_test" not in sys.modules
    assert code.load() == 4


def test_a_file_that_changed_since_it_was_digested_is_not_executed() -> None:
    Path("net.py").write_text("make = 3\n")
    code = CodeFile.found("net.py:make")
    Path("net.py").write_text(f"{MARKER}make = 3\n")
    with pytest.raises(InvalidInput, match="its digest differs"):
        code.load()
    assert not executed()


def _a_pipe() -> None:
    os.mkfifo("net.py")


def _a_folder() -> None:
    Path("net.py").mkdir()


def _too_long() -> None:
    Path("net.py").write_bytes(b"#" * (own_code.MAX_CODE_BYTES + 1))


@for_each(
    "reference, prepare",
    [
        ("net.py:make", lambda: None),
        ("net.py:make", _a_pipe),
        ("net.py:make", _a_folder),
        ("net.py:make", _too_long),
        ("no_such_package_here.nets:make", lambda: None),
        ("privplan.no_such_module:make", lambda: None),
        ("math.pi:make", lambda: None),
        ("sys:path", lambda: None),
    ],
)
def test_what_is_no_code_is_refused(
    reference: str, prepare: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    prepare()
    with pytest.raises(InvalidInput):
        CodeFile.found(reference)


@for_each(
    "content, said",
    [
        ("make = ", "SyntaxError"),
        ("raise RuntimeError('of the file')", "RuntimeError: of the file"),
        ("import sys; sys.exit(3)", "SystemExit"),
        ("other = 3", "has no attribute 'make'"),
    ],
)
def test_code_that_fails_is_refused_with_what_it_said(
    content: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("net.py").write_text(content)
    with pytest.raises(InvalidInput, match=r"net\.py:make cannot be loaded") as refusal:
        CodeFile.found("net.py:make").load()
    assert said in refusal.value.what


@for_each(
    "said",
    [
        "mlp",
        "net.py:make",
        "/home/ada/net.py:Net",
        "package.module:make.inner",
        "from-python",
    ],
)
def test_a_name_or_a_reference_is_taken(said: str) -> None:
    assert model_name(model=said) == said


@for_each(
    "said", ["mpl", ":make", "net.py:", "net.py:make()", "net.py:a b", "net:1", 3, "net.py\n:a"]
)
def test_anything_else_is_refused(said: object) -> None:
    with pytest.raises(InvalidInput):
        model_name(model=said)


def test_a_loss_has_names_of_its_own() -> None:
    assert loss_name(loss="cox") == "cox"
    with pytest.raises(InvalidInput, match="cross-entropy"):
        loss_name(loss="hinge")


@for_each(
    "said, logged",
    [
        ("../ada/net.py:make", "net.py:make"),
        (r"C:\Users\Ada\net.py:make", "net.py:make"),
        ("package.module:make", "package.module:make"),
        ("from-python", "from-python"),
        ("mlp", "mlp"),
    ],
)
def test_a_log_says_the_file_and_no_folder(said: str, logged: str) -> None:
    assert logged_reference(said) == logged


def test_a_module_that_was_imported_before_is_executed_as_it_was_digested(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "own_package_of_a_test"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "beside.py").write_text("two = 2\n")
    (package / "nets.py").write_text("make = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    imported = importlib.import_module("own_package_of_a_test.nets")
    (package / "nets.py").write_text("from .beside import two\nmake = [two, __name__]\n")
    code = CodeFile.found("own_package_of_a_test.nets:make")
    assert code.digest == CodeFile.digest_at(package / "nets.py")
    assert code.load() == [2, "own_package_of_a_test.nets"]
    assert imported.make == 1
    assert sys.modules["own_package_of_a_test.nets"] is imported
