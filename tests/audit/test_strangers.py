"""Logs name systems that strangers wrote: which code an audit loads for that, and which never."""

from __future__ import annotations

import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from privplan.accountant.errors import InvalidInput
from privplan.audit.budget import audit_budget
from privplan.audit.edits import edits_of
from privplan.fl.declarations.declaration import Declaration
from privplan.fl.declarations.packages import built_in
from privplan.fl.frame import expected_log
from privplan.fl.log import LogWriter
from privplan.fl.running.preparation import prepare
from privplan.fl.running.session import execute
from privplan.fl.running.toml_writer import toml_bytes
from privplan.fl.settings.toml_file import parse

from ..audit.forging import forged
from ..cases import for_each
from ..fl import foreign
from ..fl.wards import ward

pytestmark = pytest.mark.skipif(
    any(find_spec(name) is None for name in ("torch", "sklearn", "cryptography")),
    reason="runs need the extra `fl`",
)

RUN = toml_bytes(ward(run={"rounds": 2}, data={"users": 6, "silos": 2}))

DECLARED = """
from pathlib import Path
Path("{module}.loaded").touch()
from privplan.fl.declarations.declaration import Declaration
SYSTEMS = (
    Declaration(name="{system}", make="nowhere:make", summary="x", determines="{determines}"),
)
"""

AUDIT = """
    from pathlib import Path
    from privplan.audit.budget import audit_budget
    from privplan.audit.edits import edits_of
    report = audit_budget(Path("run"))
    print(edits_of(Path("run")) == (), report.total.upper, report.errors, report.not_stated)
"""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole") / "run"
    folder.mkdir()
    with LogWriter.create(folder) as writer:
        execute(prepare(parse(RUN, "run.toml")), folder, writer)
    return folder


def of_another(whole: Path, place: Path, system: str) -> Path:
    """Return a log of the same run that says another system ran, with its configuration beside."""

    def edit(lines: Any) -> Any:
        lines[0]["system"] = lines[0]["configuration"]["run"]["system"] = system
        return lines

    forged(whole, place / "run", edit)
    (place / "run" / "config.toml").write_bytes(RUN.replace(b"uldp-avg", system.encode()))
    return place / "run"


def install(
    place: Path, package: str, entry: str, system: str, determines: str = "nowhere:facts"
) -> None:
    """Put a package into a folder, with one entry point; who loads it leaves a file."""
    text = DECLARED.format(module=package.replace("-", "_"), system=system, determines=determines)
    foreign.install(place, package, text, entry=f"{entry} = {{}}")


def loaded(place: Path) -> list[str]:
    return sorted(path.stem for path in place.glob("*.loaded"))


def test_an_audit_loads_no_package_that_the_log_does_not_name(whole: Path, tmp_path: Path) -> None:
    of_another(whole, tmp_path, "other")
    install(tmp_path, "first-toys", "first", "first-avg")
    install(tmp_path, "other-toys", "others", "other")  # the entry has another name
    said = foreign.python(tmp_path, AUDIT)
    assert loaded(tmp_path) == []
    assert "'[run] system'" in said


def test_it_loads_the_one_whose_entry_has_the_very_name(whole: Path, tmp_path: Path) -> None:
    of_another(whole, tmp_path, "other")
    install(tmp_path, "first-toys", "first", "first-avg")
    install(tmp_path, "other-toys", "other", "other")
    said = foreign.python(tmp_path, AUDIT)
    assert loaded(tmp_path) == ["other_toys"]
    assert "what other of package other-toys determines" in said  # `nowhere` is no module


@pytest.mark.quick(1)
@for_each("last", ["raise RuntimeError('no')", "raise SystemExit(3)", "import gone"])
def test_a_package_that_fails_to_import_stops_no_audit(
    last: str, whole: Path, tmp_path: Path
) -> None:
    of_another(whole, tmp_path, "other")
    without = foreign.python(tmp_path, AUDIT)
    install(tmp_path, "other-toys", "other", "other")
    (tmp_path / "other_toys.py").write_text(last)
    assert foreign.python(tmp_path, AUDIT) == without
    assert "'[run] system'" in without


@pytest.mark.quick(2)
@for_each(
    "facts",
    [
        "raise RuntimeError('no')",
        "raise SystemExit(3)",
        "FACTS = None",
        "class FACTS:\n    phase = staticmethod(lambda *_: 1 // 0)\n    security = phase",
    ],
)
def test_code_that_fails_when_it_is_asked_stops_no_audit(
    facts: str, whole: Path, tmp_path: Path
) -> None:
    of_another(whole, tmp_path, "other")
    install(tmp_path, "other-toys", "other", "other", "toy_facts:FACTS")
    (tmp_path / "toy_facts.py").write_text(facts)
    said = foreign.python(tmp_path, AUDIT)
    assert "what other of package other-toys determines" in said


def test_who_runs_a_system_finds_it_by_whatever_entry(tmp_path: Path) -> None:
    install(tmp_path, "other-toys", "others", "other")
    program = """
        from privplan.fl.declarations.registry import declaration_of, declaration_or_none
        from privplan.fl.declarations.registry import exactly_named
        with exactly_named():
            print(declaration_or_none("other"))
        print(declaration_of("other").package)
        with exactly_named():
            print(declaration_or_none("other"))
    """
    assert foreign.python(tmp_path, program).split() == ["None", "other-toys", "None"]


def test_our_own_code_hides_no_error() -> None:
    ours = built_in()["uldp-avg"]

    def wrong() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        expected_log.call_system(ours, wrong)
    theirs = Declaration(name="x", make="a:b", summary="x", package="toys")
    with pytest.raises(expected_log.NotStated, match="what x of package toys determines"):
        expected_log.call_system(theirs, wrong)

    def refused() -> None:
        raise InvalidInput("Such noise cannot be.")

    with pytest.raises(InvalidInput):
        expected_log.call_system(theirs, refused)
    with pytest.raises(expected_log.NotStated):
        expected_log.call_system(theirs, refused, loading=True)


def test_the_same_log_under_its_own_name_is_as_it_was(whole: Path, tmp_path: Path) -> None:
    shutil.copytree(whole, tmp_path / "run")
    said = audit_budget(tmp_path / "run")
    assert edits_of(tmp_path / "run") == ()
    assert said.errors == ()
