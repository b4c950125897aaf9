"""Declarations: every list of systems and keys follows from them, those of other packages too."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from privplan.accountant.errors import InvalidInput
from privplan.accountant.records import Claim, Planned, Population, Randomness, RunOpen
from privplan.audit.configured import settings_in
from privplan.cli.run_page import run_page
from privplan.fl.determined import NotStated, phase_of
from privplan.fl.frame.checking import require_sound
from privplan.fl.frame.declaration import Declaration, Table
from privplan.fl.frame.key import Key
from privplan.fl.frame.systems import built_in, declaration_of, keys_by_table
from privplan.fl.keys import LATER_SYSTEMS, LATER_TABLES, SHARED, SOME
from privplan.fl.resumption import require_same_settings
from privplan.fl.settings import LogSettings, Settings, idle_tables, tables_of
from privplan.fl.settings_file import parse
from privplan.fl.uldp.settings import TABLE, UldpSettings

from .foreign import HEAD, install, privplan, python

SYSTEMS = built_in()
AVERAGE = SYSTEMS["uldp-avg"]

BASE = {"run": {"system": '"uldp-avg"'}, "data": {"name": '"breast-cancer"'}}


def written(system: str, **tables: dict[str, str]) -> bytes:
    """Return a configuration of a system: what it must have, and these keys."""
    own = {"run": {"system": f'"{system}"', "rounds": "2"}, "data": dict(BASE["data"])}
    if SYSTEMS.get(system, AVERAGE).promises:
        own["privacy"] = {"noise_multiplier": "5.0"}
    if system == "uldp-group":
        own["uldp"] = {"group_records": "4"}
    for name, keys in tables.items():
        own[name] = {**own.get(name, {}), **keys}
    return "".join(
        f"[{name}]\n" + "".join(f"{key} = {value}\n" for key, value in keys.items())
        for name, keys in own.items()
    ).encode()


def read(system: str, **tables: dict[str, str]) -> Settings:
    return parse(written(system, **tables), "run.toml")


# --- ours -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("system", SYSTEMS.values(), ids=SYSTEMS)
def test_every_declaration_is_sound(system: Declaration) -> None:
    require_sound(system)
    for reference in (system.make, system.determines):
        assert reference is None or system.load(reference) is not None


@pytest.mark.parametrize(
    ("table", "key"),
    [(table, key) for table, keys in keys_by_table().items() for key in keys],
    ids=lambda value: value if isinstance(value, str) else value.name,
)
def test_every_key_has_a_range_and_is_refused_outside_of_it_by_name(table: str, key: Key) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse(f"[{table}]\n{key.name} = [[1.5]]\n".encode(), "run.toml")
    assert f"`{key.name}`" in caught.value.what
    assert f"[{table}]" in caught.value.what


@pytest.mark.parametrize("name", SYSTEMS)
def test_what_a_system_declares_can_be_written(name: str) -> None:
    found = read(name)
    assert found.system is SYSTEMS[name]
    assert set(found.to_json()) == set(tables_of(SYSTEMS[name])) - {"log"}
    assert found.data.users > 1
    kind = SYSTEMS[name].table
    assert (found.table is None) == (kind is None)


VALUES = {
    ("privacy", "sampling_rate"): "0.5",
    ("privacy", "normalisation_noise"): "5.0",
    ("training", "weighting"): '"uniform"',
    ("training", "clip"): "0.5",
    ("training", "local_rate"): "0.5",
    ("training", "local_epochs"): "2",
    ("training", "batch"): "2",
    ("training", "dropout"): "0.0",
    ("uldp", "group_records"): "4",
    ("uldp", "record_rate"): "0.5",
}


@pytest.mark.parametrize("name", SYSTEMS)
@pytest.mark.parametrize(("table", "key"), VALUES)
def test_a_key_is_taken_where_it_is_declared_and_nowhere_else(
    name: str, table: str, key: str
) -> None:
    tables: dict[str, dict[str, str]] = {table: {key: VALUES[table, key]}}
    if key == "normalisation_noise":
        tables["data"] = {"name": '"digits"', "normalisation": '"private"'}
    if SYSTEMS[name].has_use_for(table, key):
        assert read(name, **tables)
        return
    with pytest.raises(InvalidInput, match=f"{name} (has no use for it|cannot pay|promises noth)"):
        read(name, **tables)


def test_the_keys_of_only_some_systems_are_those_that_one_has_and_one_has_not() -> None:
    assert set(VALUES) >= set(SOME)
    for table, key in SOME:
        uses = [system.has_use_for(table, key) for system in SYSTEMS.values()]
        assert any(uses), key
        assert not all(uses), key
        assert key in [one.name for one in SHARED[table]]


def test_the_page_lists_every_system_and_says_whose_a_key_is() -> None:
    page = run_page()
    for name, system in SYSTEMS.items():
        assert f"\n  {name} " in page
        assert " ".join(system.summary.split()[:4]) in page
    assert "probability that a user joins a round (uldp-avg, uldp-sgd)" in " ".join(page.split())
    assert "bound on one contribution, L2 (not for fedavg)" in " ".join(page.split())


@pytest.mark.parametrize("name", SYSTEMS)
def test_aggregations_are_those_that_are_declared(name: str) -> None:
    for word in ("plain", "masked", "private-weighting"):
        security = {"aggregation": f'"{word}"'}
        if word in SYSTEMS[name].aggregations:
            assert read(name, security=security).security.aggregation == word
        else:
            with pytest.raises(InvalidInput, match=f"{name} (has no weights|cannot sum)"):
                read(name, security=security)


def test_a_system_that_promises_nothing_protects_no_unit() -> None:
    assert [name for name, one in SYSTEMS.items() if not one.promises] == ["fedavg"]
    assert read("fedavg").privacy.unit is None
    with pytest.raises(InvalidInput, match="promises nothing"):
        read("fedavg", privacy={"delta": "1e-6"})


@pytest.mark.parametrize(
    ("name", "tables", "what"),
    [
        ("uldp-group", {"uldp": {"record_rate": "0.5"}, "training": {"batch": "4"}}, "both"),
        ("uldp-naive", {"uldp": {"as_published": "true"}, "privacy": {"epsilon": "8"}}, "epsilon"),
        ("uldp-sgd", {"uldp": {"as_published": "true"}}, "sound as it is published"),
        (
            "uldp-naive",
            {
                "uldp": {"as_published": "true"},
                "data": {"name": '"digits"', "normalisation": '"private"'},
                "privacy": {"normalisation_noise": "5.0"},
            },
            "as published cannot pay for it",
        ),
    ],
)
def test_rules_of_a_system_hold_for_it(name: str, tables: Any, what: str) -> None:
    with pytest.raises(InvalidInput, match=what):
        read(name, **tables)


def test_words_for_later_are_no_systems_of_ours() -> None:
    assert not set(LATER_SYSTEMS) & set(SYSTEMS)
    assert not set(LATER_TABLES) & set(keys_by_table())


def test_lists_and_pages_load_nothing_heavy() -> None:
    program = (
        "import sys; from privplan.cli.run_page import run_page; run_page(); "
        "from privplan.fl.frame.systems import declared; declared(); "
        "print([name for name in ('numpy', 'scipy', 'torch') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr


def test_rounds_of_a_system_that_determines_nothing_are_not_compared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They are not stated, which is neither right nor wrong; so is a system that is not known."""
    monkeypatch.setitem(SYSTEMS, "uldp-avg", replace(AVERAGE, determines=None))
    intent: Any = SimpleNamespace(phase="train")
    with pytest.raises(NotStated, match="rounds of uldp-avg"):
        phase_of(lambda _, key: {"system": "uldp-avg"}.get(key), intent, None)
    with pytest.raises(NotStated, match=r"\[run\] system from-elsewhere"):
        phase_of(lambda _, key: {"system": "from-elsewhere"}.get(key), intent, None)


# --- settings -------------------------------------------------------------------------------------


def test_settings_hold_the_table_of_their_system_and_no_other() -> None:
    own = read("uldp-avg")
    assert own.of(UldpSettings) == UldpSettings()
    free = read("fedavg")
    assert free.table is None
    with pytest.raises(InvalidInput, match="fedavg have no UldpSettings"):
        free.of(UldpSettings)
    with pytest.raises(InvalidInput, match="fedavg has none"):
        replace(free, table=UldpSettings(as_published=True))
    with pytest.raises(InvalidInput, match="needs UldpSettings"):
        replace(own, table=3)
    assert replace(own, run=replace(own.run, system="fedavg")).table is None  # it said nothing


def test_a_bound_on_records_is_that_of_the_declared_key() -> None:
    assert read("uldp-group").most_records == 4
    assert read("uldp-group").privacy.group == 4
    assert read("uldp-avg").most_records is None


def test_a_table_that_earlier_versions_wrote_for_every_system_says_nothing() -> None:
    """A run of fedavg from before holds [uldp], all at its defaults, and goes on all the same."""
    now = read("fedavg").to_json()
    defaults = {"as_published": False, "group_records": None, "record_rate": None}
    for said, fits in (
        (defaults, True),
        ({"as_published": False}, True),
        ({**defaults, "as_published": True}, False),
        ({**defaults, "record_rate": "0.5"}, False),
        ({"shares": 3}, False),
        (3, False),
    ):
        opened = logged({**now, "uldp": said})
        assert idle_tables(opened.configuration) == (("uldp",) if fits else ())
        if fits:
            require_same_settings(opened, now)
            assert settings_in(opened) == replace(read("fedavg"), log=LogSettings())
        else:
            with pytest.raises(InvalidInput, match=r"changed: .*uldp"):
                require_same_settings(opened, now)
            with pytest.raises(InvalidInput, match="unknown table 'uldp'"):
                settings_in(opened)


def test_a_table_that_a_system_has_is_never_idle() -> None:
    own = read("uldp-avg").to_json()
    assert idle_tables(own) == ()
    with pytest.raises(InvalidInput, match="changed: "):
        require_same_settings(logged({**own, "uldp": {}}), own)


def logged(configuration: dict[str, Any]) -> RunOpen:
    """Return a first line with this configuration."""
    return RunOpen(
        run_id="run-1",
        system=configuration["run"]["system"],
        claim=Claim("user", "add-remove", 1e-5, None),
        plan=Planned(2, {}),
        population=Population(50, 4),
        randomness=Randomness("operating-system"),
        configuration=configuration,
    )


# --- what is refused ------------------------------------------------------------------------------


def _bad_table(**changes: Any) -> dict[str, Any]:
    return {"table": replace(TABLE, **changes)}


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"name": "Uldp Avg"}, "`name`"),
        ({"name": 3}, "`name`"),
        ({"summary": ""}, "`summary`"),
        ({"make": "no reference"}, "`make`"),
        ({"make": None}, "`make`"),
        ({"measure": print}, "`measure`"),
        ({"determines": 3}, "`determines`"),
        ({"promises": 1}, "`promises`"),
        ({"trains": "no"}, "`trains`"),
        ({"sealed": {}}, "`sealed`"),
        ({"rules": (3,)}, "`rules`"),
        ({"rounds": 0}, "`rounds`"),
        ({"phases": ()}, "`phases`"),
        ({"phases": "train"}, "`phases`"),
        ({"phases": ["train"]}, "`phases`"),
        ({"phases": ("train", "train")}, "`phases`"),
        ({"phases": ("train", 3)}, "`phases`"),
        ({"phases": ("Train",)}, "`phases`"),
        ({"phases": ("normalise", "train")}, "`phases` must not name the phase of all systems"),
        ({"aggregations": ()}, "`aggregations`"),
        ({"aggregations": ("plane",)}, "`aggregations`"),
        ({"units": ("person",)}, "`units`"),
        ({"uses": ("training.clipp",)}, "`uses`"),
        ({"uses": "training.clip"}, "`uses`"),
        ({"trains": False}, "`uses`"),
        ({"ignores": ("shares",)}, "`ignores`"),
        (_bad_table(group="share"), "`table.group`"),
        ({"table": {}}, "`table`"),
        (_bad_table(name="run"), "`table.name`"),
        (_bad_table(about=""), "`table.about`"),
        (_bad_table(settings=dict), "`table.settings`"),
        (_bad_table(keys=()), "`table.keys`"),
        (_bad_table(keys=TABLE.keys[1:]), "`table.keys`"),
        (_bad_table(keys=(*TABLE.keys, TABLE.keys[0])), "`table.keys`"),
        (
            _bad_table(keys=(replace(TABLE.keys[0], check=None), *TABLE.keys[1:])),
            "as_published` must have a range",
        ),
        (
            _bad_table(keys=(replace(TABLE.keys[0], default=""), *TABLE.keys[1:])),
            "as_published, default`",
        ),
        ({"adjust": 3}, "`adjust`"),
        ({"adjust": lambda _, usual: replace(usual, clip=-1.0)}, "clip"),
        ({"adjust": lambda _, usual: replace(usual, rounds=0)}, "rounds"),
        ({"adjust": lambda _, usual: usual}, "clip"),  # which it uses, and has no bound for
        ({"adjust": lambda _: None}, "adjust, on heart-disease"),
        ({"adjust": lambda *_: None}, "adjust, on heart-disease` must give `Defaults`"),
        ({"adjust": lambda *_: sys.exit(3)}, "adjust, on heart-disease"),
        (
            _bad_table(keys=(replace(TABLE.keys[0], check=lambda **_: None), *TABLE.keys[1:])),
            "as_published` must have a range that returns what it checked",
        ),
    ],
)
def test_an_unsound_declaration_is_refused_by_package_and_field(
    changes: dict[str, Any], field: str
) -> None:
    with pytest.raises(InvalidInput) as caught:
        require_sound(replace(AVERAGE, package="other-toys", **changes))
    assert caught.value.what.startswith("Package other-toys: ")
    assert field in caught.value.what
    assert caught.value.next_step


def test_an_unknown_name_lists_all_and_suggests_one() -> None:
    with pytest.raises(InvalidInput, match=r"`system` must be one of fedavg.*Did you mean uldp-s"):
        declaration_of("uldp-sdg")
    for odd in (3, None, ["uldp-avg"]):
        with pytest.raises(InvalidInput, match="`system` must be one of"):
            declaration_of(odd)


# --- other packages -------------------------------------------------------------------------------

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
        from privplan.fl.settings import NO_TRAINING
        from privplan.fl.settings_file import parse
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


LIST = """
    from privplan.fl.frame.systems import declared
    for name, system in declared().items():
        print(name, system.package)
"""

SHOW = """
    from privplan.cli.doctor_command import foreign_systems
    from privplan.cli.run_page import run_page
    print("---", *(system["trouble"] for system in foreign_systems()), "---", run_page())
"""


def test_a_system_of_another_package_is_found(tmp_path: Path) -> None:
    install(tmp_path, "toy-system", HEAD + "SYSTEMS = (system(),)\n")
    assert "toy-avg toy-system\n" in python(tmp_path, LIST)
    page = " ".join(privplan(tmp_path, "explain", "run").stdout.split())
    assert "toy-avg a toy (package toy-system)" in page
    assert "[toy] what only toys have share how much of a step is taken. Default: 0.5." in page
    assert "toy-system 1.0" in privplan(tmp_path, "doctor").stdout


@pytest.mark.parametrize(
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
        from privplan.fl.frame.systems import declaration_of, exactly_named
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
        from privplan.fl.canaries import carrier
        try:
            carrier(SimpleNamespace(run=SimpleNamespace(system="toy-avg")))
        except InvalidInput as error:
            print(error.what)
    """
    said = python(tmp_path, program)
    assert said.startswith("Package toy-system: system toy-avg, `privplan.fl.canaries:canary_train")
    assert "a carrier takes one argument, `Asked`" in said


def test_a_configuration_of_another_package_is_checked_like_ours(tmp_path: Path) -> None:
    install(tmp_path, "toy-system", HEAD + "SYSTEMS = (system(),)\n")
    program = """
        from privplan.accountant.errors import PrivplanError
        from privplan.fl.settings_file import parse
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


@pytest.mark.parametrize("name", BROKEN)
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
        from privplan.fl.frame.systems import declaration_of
        from privplan.fl.settings_file import parse
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


def test_our_systems_ask_no_other_package(tmp_path: Path) -> None:
    install(tmp_path, "toy-system", "raise RuntimeError('asked')\n")
    program = """
        import sys
        from privplan.fl.settings_file import parse
        parse(b'[run]\\nsystem = "fedavg"\\n[data]\\nname = "digits"\\n', "run.toml")
        print("toy_system" in sys.modules, "importlib.metadata" in sys.modules)
    """
    assert python(tmp_path, program) == "False False\n"


def test_every_field_of_a_declaration_is_said_what_it_is() -> None:
    said = f"{Declaration.__doc__} {Table.__doc__}"
    for item in (*fields(Declaration), *fields(Table)):
        assert f"`{item.name}`" in said or item.name in ("keys", "name"), item.name
