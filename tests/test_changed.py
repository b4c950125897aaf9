"""Which tests a change selects, on small trees, and that the tree's own imports are all seen."""

from __future__ import annotations

import doctest
import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from . import changed, source_tree
from .changed import Candidate, Tree, chosen, durations, ordered

SMALL = {
    "__init__.py": "from .accountant.noise import draw\n",
    "accountant/__init__.py": "",
    "accountant/noise.py": "def draw(): ...\n",
    "accountant/engines/__init__.py": "from .rdp import curve\nfrom .gdp import mu\n",
    "accountant/engines/rdp.py": "from ..noise import draw\n",
    "accountant/engines/gdp.py": "",
    "audit/hazards/__init__.py": "from . import clip\nfrom .rule import RULES\n",
    "audit/hazards/rule.py": "RULES = []\n",
    "audit/hazards/clip.py": "from .rule import RULES\n",
    "fl/__init__.py": "",
    "fl/running.py": "def run():\n    from ..accountant import noise\n",
    "cli/main.py": "from .commands.run import run\n",
    "cli/commands/run.py": "import importlib\nimportlib.import_module(f'..{run}')\n",
    "cli/commands/explain.py": 'import importlib\nimportlib.import_module(f"..pages.{name}")\n',
    "cli/pages/__init__.py": "",
    "cli/pages/topics.py": "",
    "cli/pages/run.txt": "how to run",
    "bench/headlines.py": "from privplan.accountant.noise import draw\n",
    "tests/conftest.py": "",
    "tests/shared.py": "import privplan.accountant.engines.gdp\n",
    "tests/data.json": "{}",
    "tests/test_front.py": "import privplan as pp\npp.draw()\n",
    "tests/test_words.py": 'FILES = ROOT.rglob("*.py")\n',
    "tests/accountant/test_rdp.py": "from privplan.accountant.engines import curve\n",
    "tests/accountant/test_gdp.py": "from privplan.accountant import engines as e\ne.mu\n",
    "tests/accountant/test_shared.py": "from ..shared import something  # of a helper\n",
    "tests/accountant/test_data.py": 'read(FOLDER / "data.json")\n',
    "tests/accountant/test_bench.py": "import headlines\n",
    "tests/audit/test_hazards.py": "from privplan.audit.hazards import RULES\n",
    "tests/cli/conftest.py": "from privplan.cli.main import app\n",
    "tests/cli/test_pages.py": 'run("explain")\n',
    "tests/fl/test_process.py": 'PROGRAM = """\n    from privplan.fl.running import run\n"""\n',
}


def written(root: Path, files: Mapping[str, str]) -> Tree:
    """Return a tree with these files."""
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    return Tree(root, frozenset(files))


def steps(tree: Tree, *names: str) -> dict[str, int]:
    """Return by how many steps the tests reach a change, without those that read every file."""
    found = {
        Path(test.file).stem.removeprefix("test_"): test.steps for test in ordered(tree, names, {})
    }
    return {name: count for name, count in found.items() if name != "words"}


@pytest.fixture
def small(tmp_path: Path) -> Tree:
    """Return the small tree."""
    return written(tmp_path, SMALL)


def test_examples() -> None:
    assert doctest.testmod(changed).failed == 0


@pytest.mark.parametrize(
    ("name", "tests"),
    [
        # By the name that is taken: the test of the other engine is not reached.
        ("accountant/engines/rdp.py", {"rdp": -1}),
        # By an alias of a package, and by a helper.
        ("accountant/engines/gdp.py", {"gdp": -1, "shared": 2}),
        # By the front door, by an engine, inside a function, by a bare name, in a program's text.
        ("accountant/noise.py", {"front": 1, "rdp": 2, "bench": 2, "process": 2}),
        # By the first file of a package run those who take something through it.
        ("accountant/engines/__init__.py", {"rdp": 1, "gdp": 1, "shared": 3}),
        # By a table that a module has its entries in.
        ("audit/hazards/clip.py", {"hazards": 1}),
        ("audit/hazards/rule.py", {"hazards": 0}),
        # By a command's name, and by a name that is put together when it is loaded.
        ("cli/commands/explain.py", {"pages": 1}),
        ("cli/pages/topics.py", {"pages": 1}),
        ("cli/commands/run.py", {"pages": 4}),
        # Files that are not Python: by their name, or by who lies beside them.
        ("tests/data.json", {"data": 1}),
        ("cli/pages/run.txt", {"pages": 2}),
        # What tests stand on, and tests themselves.
        ("tests/shared.py", {"shared": 1}),
        ("tests/cli/conftest.py", {"pages": 2}),
        ("tests/fl/test_process.py", {"process": 0}),
        ("bench/headlines.py", {"bench": 1}),
        ("nobody/names.this", {}),
    ],
)
def test_a_change_reaches(name: str, tests: dict[str, int], small: Tree) -> None:
    assert steps(small, name) == tests


def test_fixtures_of_all_tests_reach_all(small: Tree) -> None:
    assert set(small.reached(["tests/conftest.py"])) >= small.test_files


def test_a_test_that_reads_every_file_is_reached_by_each(small: Tree) -> None:
    for name in ("accountant/noise.py", "cli/pages/topics.py"):
        assert "tests/test_words.py" in {test.file for test in ordered(small, [name], {})}


def test_the_nearest_are_run_and_what_does_not_fit_is_left_out() -> None:
    tests = [
        Candidate("a", 0, 30.0),
        Candidate("b", 1, 90.0),
        Candidate("c", 2, 50.0),
        Candidate("d", 3, 1.0),
    ]
    choice = chosen(tests, 50.0 + changed.START, workers=2)
    assert [test.file for test in choice.run] == ["a", "c", "d"]
    assert [test.file for test in choice.left] == ["b"]
    # The nearest one is run, whatever it takes.
    assert [test.file for test in chosen(tests, 0.0).run] == ["a"]


def test_of_equally_near_tests_those_come_first_that_name_the_change_then_short_ones(
    tmp_path: Path,
) -> None:
    taken = "from privplan.fl.model import fit\n"
    tree = written(
        tmp_path,
        {
            "fl/model.py": "",
            "tests/test_long.py": "from .taken import fit\n",
            "tests/test_short.py": "from .taken import fit\n",
            "tests/test_named.py": "from .taken import (  # of the model :)\n    fit,\n)\n",
            "tests/taken.py": taken,
        },
    )
    times = {"tests/test_long.py": 9.0, "tests/test_short.py": 1.0, "tests/test_named.py": 99.0}
    found = [Path(test.file).stem for test in ordered(tree, ["fl/model.py"], times)]
    assert found == ["test_named", "test_short", "test_long"]


def test_durations_are_those_of_the_files(small: Tree, tmp_path: Path) -> None:
    report = tmp_path / "default.xml"
    report.write_text(
        '<testsuites><testsuite><testcase classname="tests.accountant.test_rdp" time="1.5"/>'
        '<testcase classname="tests.accountant.test_rdp.TestCurve" time="2"/>'
        '<testcase classname="tests.fl.test_gone" time="7"/></testsuite></testsuites>'
    )
    assert durations(small, report) == {"tests/accountant/test_rdp.py": 3.5}


def git(root: Path, *words: str) -> None:
    """Run git in a folder, without anybody's settings."""
    none = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    who = ["-c", "user.name=n", "-c", "user.email=e@example.org"]
    subprocess.run(["git", *who, *words], cwd=root, check=True, env={**os.environ, **none})


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_what_changed_is_what_git_says(tmp_path: Path) -> None:
    names = ("kept.py", "edited.py", "gone.py", ".gitignore")
    written(tmp_path, dict.fromkeys(names, "") | {".gitignore": "ignored.py\n"})
    git(tmp_path, "init", "-q", "-b", "main")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "first")
    assert changed.base(tmp_path) == "HEAD"
    written(tmp_path, dict.fromkeys(("edited.py", 'new "n.py', "ignored.py"), "1\n"))
    (tmp_path / "gone.py").unlink()
    assert changed.changed_since(tmp_path, "HEAD") == ["edited.py", "gone.py", 'new "n.py']
    assert Tree.of(tmp_path).files == {"kept.py", "edited.py", 'new "n.py', ".gitignore"}
    # On a branch, its commits count as well.
    git(tmp_path, "update-ref", "refs/remotes/origin/main", "HEAD")
    git(tmp_path, "add", "edited.py")
    git(tmp_path, "commit", "-q", "-m", "second")
    assert "edited.py" in changed.changed_since(tmp_path, changed.base(tmp_path))


@pytest.fixture(scope="module")
def whole() -> Tree:
    """Return this checkout, from the files that are there."""
    found = changed.ROOT.rglob("*.py")
    inside = (path.relative_to(changed.ROOT) for path in found if "build" not in path.parts)
    folders = ("tests", "bench", *changed.FLOORS)
    names = {path.as_posix() for path in inside if path.parts[0] in folders}
    return Tree(changed.ROOT, frozenset(names | {"__init__.py"}))


@pytest.mark.parametrize("part", [pytest.param(1, marks=pytest.mark.slow), 20])
def test_every_import_is_seen(part: int, whole: Tree) -> None:
    """Against syntax trees, which take 20 times as long: all modules, or one of `part`."""
    for name, path in sorted(source_tree.modules().items())[::part]:
        file = path.relative_to(changed.ROOT).as_posix()
        taken, through = whole._taken(file)
        imported = {
            source_tree.modules()[target].relative_to(changed.ROOT).as_posix()
            for target in source_tree.imports_of(name)
        }
        assert imported - taken - through == set(), file


def test_every_module_is_reached_by_a_test_that_does_not_read_all_files(whole: Tree) -> None:
    waiting, reached = list(whole.test_files), set(whole.test_files)
    while waiting:
        used = whole.uses[waiting.pop()].items()
        new = {file for file, steps in used if steps < changed.WHOLE_TREE} - reached
        waiting += new
        reached |= new
    modules = {path.relative_to(changed.ROOT).as_posix() for path in source_tree.modules().values()}
    # Through the first file of a package others take what other modules define.
    assert {name for name in modules - reached if not name.endswith("/__init__.py")} == set()


def test_the_table_of_durations_is_of_files_with_tests(whole: Tree) -> None:
    table = json.loads(changed.TABLE.read_text(encoding="utf-8"))
    assert all(seconds >= 0.0 for seconds in table.values())
    there = whole.test_files & set(table)
    assert len(there) > 0.9 * len(table), "write it anew: python tests/changed.py --write-durations"
