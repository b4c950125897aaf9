"""Systems of other packages: found, listed, and their configurations checked like ours."""

from __future__ import annotations

from pathlib import Path

from ..cases import for_each
from ..packages.inside import privplan, python
from .configured import written
from .foreign import HEAD, LIST, install
from .foreign import python as in_a_process

UNTRAINED = """
SYSTEMS = (system(trains=False, rounds=1),)
"""


def test_a_system_that_trains_nothing_needs_no_settings_of_training(tmp_path: Path) -> None:
    install(tmp_path, "toy-system", HEAD + UNTRAINED)
    install(
        tmp_path,
        "long-system",
        HEAD.replace('"toy', '"long') + "SYSTEMS = (system(trains=False),)\n",
    )
    program = """
        import json
        from privplan.accountant.errors import PrivplanError
        from privplan.fl.settings.schema import NO_TRAINING
        from privplan.fl.settings.toml_file import parse
        base = '[run]\\nsystem = "{}"\\n[data]\\nname = "digits"\\n[privacy]\\nepsilon = 8\\n'
        own = parse(base.format("toy-avg").encode(), "run.toml")
        print(own.training == NO_TRAINING, own.run.rounds, sorted(own.to_json()))
        for system, more in (
            ("toy-avg", "[training]\\nclip = 1.0"),
            ("toy-avg", "[training]\\nseed = 1"),
            ("long-avg", ""),
        ):
            try:
                parse((base.format(system) + more).encode(), "run.toml")
            except PrivplanError as error:
                print(error)
    """
    said = python(tmp_path, program).splitlines()
    tables = ["data", "evaluation", "privacy", "run", "security", "toy"]
    assert said[0] == f"True 1 {tables}"
    assert "has keys in [training], and toy-avg trains no model" in said[1]
    assert "has keys in [training], and toy-avg trains no model" in said[2]
    assert "lacks `rounds` in [run]" in said[3]


def test_a_key_without_a_default_is_required(tmp_path: Path) -> None:
    install(
        tmp_path,
        "toy-system",
        HEAD.replace("share: float = 0.5", "share: float") + "SYSTEMS = (system(),)\n",
    )
    (tmp_path / "run.toml").write_bytes(written("toy-avg"))
    asked = privplan(tmp_path, "run", "run.toml", "--out", "out")
    assert asked.returncode == 2
    assert "lacks `share` in [toy]" in asked.stderr


def test_a_system_of_another_package_is_found(tmp_path: Path) -> None:
    install(tmp_path, "toy-system", HEAD + "SYSTEMS = (system(),)\n")
    assert "toy-avg toy-system\n" in python(tmp_path, LIST)
    page = " ".join(privplan(tmp_path, "explain", "run").stdout.split())
    assert "toy-avg a toy (package toy-system)" in page
    assert "[toy] what only toys have share how much of a step is taken. Default: 0.5." in page
    assert "toy-system 1.0" in privplan(tmp_path, "doctor").stdout


@for_each(
    ("entry", "more"),
    [
        ("toy = {}:ONE", "ONE = system()"),
        ("toy = {}", "SYSTEMS = (system(),)"),
        ("toy = {}:SYSTEMS", "SYSTEMS = [system()]"),
        ("toy = {}:Box", "class Box:\n    SYSTEMS = (system(package='privplan'),)"),
    ],
)
def test_an_entry_names_one_or_several(tmp_path: Path, entry: str, more: str) -> None:
    install(tmp_path, "toy-system", f"{HEAD}\n{more}\n", entry=entry)
    assert "toy-avg toy-system\n" in python(tmp_path, LIST)


def test_several_entries_may_name_one_module_each_for_one_of_its_systems(tmp_path: Path) -> None:
    two = "SYSTEMS = (system(), system(name='toy-sgd'))\n"
    for_both = "toy-avg = {0}\ntoy-sgd = {0}"
    install(tmp_path, "toy-system", HEAD + two, entry=for_both)
    listed = python(tmp_path, LIST)
    assert "toy-avg toy-system\n" in listed
    assert "toy-sgd toy-system\n" in listed
    said = privplan(tmp_path, "doctor").stdout
    assert "CANNOT" not in said
    assert "NOT COMPARED" not in said


def test_a_system_without_an_entry_of_its_name_is_said_to_be_compared_by_nobody(
    tmp_path: Path,
) -> None:
    two = "SYSTEMS = (system(), system(name='toy-sgd'))\n"
    install(tmp_path, "toy-system", HEAD + two, entry="toy-avg = {}")
    said = " ".join(privplan(tmp_path, "doctor").stdout.split())
    assert said.count("NOT COMPARED") == 1
    assert "No entry point is named toy-sgd" in said
    program = """
        from privplan.accountant.errors import InvalidInput
        from privplan.fl.declarations.registry import declaration_of, exactly_named
        with exactly_named():
            try:
                declaration_of("toy-sgd")
            except InvalidInput as error:
                print(error.what)
    """
    assert "No package here has an entry point of that name" in python(tmp_path, program)


def test_what_takes_more_than_one_argument_is_no_carrier(tmp_path: Path) -> None:
    source = "SYSTEMS = (system(carrier='privplan.fl.canaries:canary_training'),)\n"
    install(tmp_path, "toy-system", HEAD + source, entry="toy-avg = {}")
    program = """
        from types import SimpleNamespace
        from privplan.accountant.errors import InvalidInput
        from privplan.fl.canaries import carrier_of
        try:
            carrier_of(SimpleNamespace(run=SimpleNamespace(system="toy-avg")))
        except InvalidInput as error:
            print(error.what)
    """
    said = python(tmp_path, program)
    assert said.startswith("Package toy-system: system toy-avg, `privplan.fl.canaries:canary_train")
    assert "a carrier takes one argument, `RehearsalRequest`" in said


def test_a_configuration_of_another_package_is_checked_like_ours(tmp_path: Path) -> None:
    install(tmp_path, "toy-system", HEAD + "SYSTEMS = (system(),)\n")
    program = """
        from privplan.accountant.errors import PrivplanError
        from privplan.fl.settings.toml_file import parse
        base = '[run]\\nsystem = "{}"\\n[data]\\nname = "digits"\\n[privacy]\\nepsilon = 8\\n'
        for system, more in (
            ("toy-avg", ""),
            ("toy-avg", "[toy]\\nshare = 0.25"),
            ("toy-avg", "[toy]\\nshare = -1.0"),
            ("toy-avg", "[toy]\\nshares = 1.0"),
            ("toy-avg", "[uldp]\\nas_published = true"),
            ("toy-avg", "[training]\\nclip = 1.0"),
            ("uldp-avg", "[toy]\\nshare = 0.25"),
            ("toy-agv", ""),
        ):
            try:
                own = parse((base.format(system) + more).encode(), "run.toml")
                print(own.table, own.to_json()["toy"])
            except PrivplanError as error:
                print(error)
    """
    said = python(tmp_path, program).splitlines()
    assert said[0] == "ToySettings(share=0.5) {'share': '0.5'}"
    assert said[1] == "ToySettings(share=0.25) {'share': '0.25'}"
    assert "[toy]: `share` must be" in said[2]
    assert "unknown key `shares` in [toy]" in said[3]
    assert "Did you mean `share`?" in said[3]
    assert "toy-avg has no use for it" in said[4]
    assert "toy-avg has no use for it" in said[5]
    assert "uldp-avg has no use for it. It belongs to toy-avg." in said[6]
    assert 'Did you mean system = "toy-avg"?' in said[7]


def test_our_systems_ask_no_other_package(tmp_path: Path) -> None:
    install(tmp_path, "toy-system", "raise RuntimeError('asked')\n")
    program = """
        import sys
        from privplan.fl.settings.toml_file import parse
        parse(b'[run]\\nsystem = "fedavg"\\n[data]\\nname = "digits"\\n', "run.toml")
        print("toy_system" in sys.modules, "importlib.metadata" in sys.modules)
    """
    assert in_a_process(tmp_path, program) == "False False\n"
