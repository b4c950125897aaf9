"""What is wrong with a package is said with its name, and stops no system of another."""

from __future__ import annotations

from pathlib import Path

import pytest

from ..cases import for_each
from .configured import written
from .foreign import HEAD, LIST, SHOW, install, privplan, python

BROKEN = {
    "does not import": (
        "import something_that_is_not_there",
        "The entry point `toy` of package toy-system cannot be loaded: ModuleNotFoundError",
    ),
    "leaves": ("raise SystemExit(3)", "of package toy-system cannot be loaded: SystemExit"),
    "lacks its name": ("OTHERS = ()", "cannot be loaded: AttributeError"),
    "names nothing": ("SYSTEMS = ()", "of package toy-system names no declaration"),
    "names something else": ("SYSTEMS = 3", "of package toy-system names no declaration"),
    "has our name": (
        HEAD + "SYSTEMS = (system(name='uldp-avg'),)",
        "Package toy-system: the `name` uldp-avg is also that of a system of privplan",
    ),
    "has one name twice": (
        HEAD + "SYSTEMS = (system(), system())",
        "Package toy-system: the `name` toy-avg is also that of a system of the same package",
    ),
    "has no range": (
        HEAD + "SYSTEMS = (system(table=table(keys=(Key('share', None, 'x', 'y'),))),)",
        "Package toy-system: system toy-avg, `table.keys, [toy] share` must have a range",
    ),
    "has a default out of its range": (
        HEAD + "SYSTEMS = (system(table=table(keys=(Key('share', between(2, 9), 'x', 'y'),))),)",
        "Package toy-system: system toy-avg, `table.keys, [toy] share, default` is out of its",
    ),
    "has a bad type": (
        HEAD + "SYSTEMS = (system(rules='none'),)",
        "Package toy-system: system toy-avg, `rules` must be a tuple of functions; it is 'none'",
    ),
    "has another's table": (
        HEAD + "SYSTEMS = (system(table=table(name='uldp')),)",
        "Package toy-system: system toy-avg has another `table` [uldp] than uldp-naive of package "
        "privplan",
    ),
}


@pytest.mark.quick(4)
@for_each("name", BROKEN)
def test_a_broken_package_is_named_and_stops_no_other(tmp_path: Path, name: str) -> None:
    source, said = BROKEN[name]
    install(tmp_path, "toy-system", source)
    install(tmp_path, "good-system", HEAD.replace('"toy', '"good') + "SYSTEMS = (system(),)\n")
    listed, checked, page = python(tmp_path, LIST + SHOW).split("---")
    assert "good-avg good-system\n" in listed
    assert "toy-avg" not in listed
    assert "uldp-avg privplan\n" in listed
    assert said in checked
    assert said in " ".join(page.split())
    (tmp_path / "run.toml").write_bytes(written("toy-avg"))
    asked = privplan(tmp_path, "run", "run.toml", "--out", "out")
    assert asked.returncode == 2
    assert said in " ".join(asked.stderr.split())
    assert not (tmp_path / "out").exists()


def test_what_fails_when_it_is_asked_for_names_its_package(tmp_path: Path) -> None:
    install(
        tmp_path,
        "toy-system",
        HEAD
        + """
SYSTEMS = (
    system(name="toy-rule", rules=(lambda given: given["toy"]["shares"],)),
    system(name="toy-make", make="toy_system:nothing"),
    system(name="toy-far", make="toy_system.far:make"),
)
""",
    )
    program = """
        from privplan.accountant.errors import InvalidInput
        from privplan.fl.declarations.registry import declaration_of
        from privplan.fl.settings.toml_file import parse
        base = '[run]\\nsystem = "{}"\\n[data]\\nname = "digits"\\n[privacy]\\nepsilon = 8\\n'
        for name in ("toy-rule", "toy-make", "toy-far"):
            try:
                system = parse(base.format(name).encode(), "run.toml").system
                system.load(system.make)
            except InvalidInput as error:
                print(error.what)
    """
    said = python(tmp_path, program).splitlines()
    start = "Package toy-system: system"
    assert said[0].startswith(f"{start} toy-rule, `rules` fails: KeyError")
    assert said[1].startswith(f"{start} toy-make, `toy_system:nothing` fails: AttributeError")
    assert said[2].startswith(f"{start} toy-far, `toy_system.far:make` fails: ModuleNotFoundError")


def test_two_packages_with_one_name_are_both_refused(tmp_path: Path) -> None:
    for package in ("first-toys", "second-toys"):
        install(tmp_path, package, HEAD + "SYSTEMS = (system(),)\n")
    assert "toy-avg" not in python(tmp_path, LIST)
    said = python(tmp_path, LIST + SHOW)
    assert "Package first-toys: the `name` toy-avg is also that of a system of second-toys" in said
    assert "Package second-toys: the `name` toy-avg is also that of a system of first-toys" in said


def test_two_packages_with_one_table_must_have_the_same_keys(tmp_path: Path) -> None:
    for package in ("first-toys", "second-toys"):
        name = package.split("-")[0]
        install(tmp_path, package, f"{HEAD}SYSTEMS = (system(name='{name}-avg'),)\n")
    listed = python(tmp_path, LIST)
    assert "first-avg first-toys\n" in listed
    assert "second-avg" not in listed
    said = python(tmp_path, LIST + SHOW)
    assert "Package second-toys: system second-avg has another `table` [toy] than first-avg" in said
