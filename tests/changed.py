"""The tests that a change can reach, nearest first, as many as fit into a minute.

python tests/changed.py [--since REV] [--seconds 60] [--list]
python tests/changed.py --write-durations build/tests/default.xml

Changed is what differs from a revision: what is not committed, files that are not yet tracked,
and, on a branch that is ahead of its upstream (or of `origin/main`), its commits.  What a test
reaches is read from imports and from names in the text, so little is missed; but almost every test
here reaches almost every module, and only those next to the change fit.  The rest is for
`make test`.
"""

from __future__ import annotations

import argparse
import heapq
import json
import os
import re
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Final
from xml.etree import ElementTree

ROOT: Final = Path(__file__).resolve().parents[1]
FLOORS: Final = ("accountant", "audit", "fl", "cli")
TESTED_TOO: Final = ("tests", "bench")
"""Folders whose modules are imported by their bare name as well, with their folder on the path."""

TABLE: Final = ROOT / "tests" / "durations.json"
REPORT: Final = ROOT / "build" / "tests" / "default.xml"

WORKERS: Final = 2
START: Final = 10.0
"""Seconds until two workers have loaded what they need, and begin."""

UNKNOWN: Final = 5.0
"""Seconds of a test file that was never timed."""

FIXTURES, ENTERED, WHOLE_TREE = 2, 2, 3
"""Steps to the fixtures of a folder, to modules that a package imports to have their entries in its
tables, and to whatever a test finds by looking through all files."""

_IMPORT = re.compile(
    r"^[ \t]*(?:from[ \t]+(?P<source>[\w.]+)[ \t]+import[ \t]+"
    r"(?P<names>\((?:#[^\n]*|[^)#])*\)|[^\n(]*)"
    r"|import[ \t]+(?P<modules>[\w., \t]+))",
    re.MULTILINE,
)
_STRING = re.compile(r'"([^"\n]*)"')
_DOTTED = re.compile(r"\bprivplan((?:\.\w+)+)")
_LOADED = re.compile(
    r'"(?P<dots>\.+|\{__package__\}\.)(?P<name>(?=[\w{])[\w.]*(?:\{[^"]*?\}[\w.]*)*)(?::\w+)?"'
)
_HOLE = re.compile(r"\{.*?\}")


@dataclass(frozen=True)
class Tree:
    """The files of a checkout, by their path below `root`, and what each of them uses."""

    root: Path
    files: frozenset[str]

    @classmethod
    def of(cls, root: Path) -> Tree:
        """Return the tree of a folder under git, with what is not ignored there."""
        listed = _git(root, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
        return cls(root, frozenset(name for name in listed if (root / name).is_file()))

    @cached_property
    def modules(self) -> Mapping[str, str]:
        """Module -> file; modules of the package without `privplan.`, which itself is ``."""
        return {_module(file): file for file in self.files if file.endswith(".py")}

    @cached_property
    def bare(self) -> Mapping[str, frozenset[str]]:
        """Name -> files outside the package that can be imported by it alone."""
        found: dict[str, set[str]] = defaultdict(set)
        for file in self.modules.values():
            parts = PurePosixPath(file).parts
            if parts[0] in TESTED_TOO and parts[-1] != "conftest.py":
                found[parts[-2] if parts[-1] == "__init__.py" else parts[-1][:-3]].add(file)
        return {name: frozenset(files) for name, files in found.items()}

    @cached_property
    def test_files(self) -> frozenset[str]:
        """The files that pytest collects."""
        return frozenset(
            file for file in self.modules.values() if re.match(r"tests/(.*/)?test_\w+\.py$", file)
        )

    @cached_property
    def uses(self) -> Mapping[str, Mapping[str, int]]:
        """File -> what it uses, and by how many steps."""
        return {file: dict(self._used(file)) for file in sorted(self.modules.values())}

    @cached_property
    def passed(self) -> Mapping[str, frozenset[str]]:
        """`__init__.py` -> the files that take through it what other modules define."""
        found: dict[str, set[str]] = defaultdict(set)
        for file in self.modules.values():
            for package in self._taken(file)[1]:
                found[package].add(file)
        return {package: frozenset(files) for package, files in found.items()}

    def text(self, file: str) -> str:
        """Return what a file says."""
        return self._texts[file]

    def reached(self, changed: Iterable[str]) -> dict[str, int]:
        """Return every file that uses a changed one, and by how many steps at least."""
        users: dict[str, dict[str, int]] = defaultdict(dict)
        for file, used in self.uses.items():
            for target, steps in used.items():
                users[target][file] = steps
        waiting = [(steps, file) for each in changed for file, steps in self._starts(each)]
        heapq.heapify(waiting)
        near: dict[str, int] = {}
        while waiting:
            steps, file = heapq.heappop(waiting)
            if file not in near:
                near[file] = steps
                for user, more in users[file].items():
                    heapq.heappush(waiting, (steps + more, user))
        return near

    @cached_property
    def _texts(self) -> Mapping[str, str]:
        python = self.modules.values()
        return {file: (self.root / file).read_text(encoding="utf-8") for file in python}

    def _starts(self, changed: str) -> Iterator[tuple[str, int]]:
        """Yield what a changed file reaches at once: itself, and what never names it."""
        yield changed, 0
        folder = PurePosixPath(changed).parent.as_posix()
        if changed.endswith("/__init__.py"):
            # Whatever lies in a package runs its first file, and so does whoever takes from it.
            yield from (
                (file, 1) for file in self.modules.values() if file.startswith(f"{folder}/")
            )
            yield from ((file, 1) for file in self.passed.get(changed, ()))
        elif not changed.endswith(".py"):
            yield from ((file, 1) for file in self._readers(PurePosixPath(changed)))

    def _readers(self, data: PurePosixPath) -> list[str]:
        """Return the Python files that name a file, or the nearest folder of it that any names."""
        for named in (data, *data.parents[:-1]):
            word = re.compile(rf"(?<![\w.-]){re.escape(named.name)}(?![\w-])")
            found = [
                file
                for file, text in self._texts.items()
                if any(word.search(string) for string in _STRING.findall(text))
            ]
            beside = [
                file
                for file in self._texts
                if data.parts[0] in FLOORS and PurePosixPath(file).parent == data.parent
            ]
            if found or beside:
                return [*found, *beside]
        return []

    def _used(self, file: str) -> Iterator[tuple[str, int]]:
        steps: dict[str, int] = {}
        if file.startswith("tests/"):
            folder = PurePosixPath(file).parent
            for above in (folder, *folder.parents):
                fixtures = f"{above.as_posix()}/conftest.py"
                if fixtures in self.files and file != fixtures:
                    steps[fixtures] = FIXTURES
            if re.search(r'glob\("\*\.py"\)', self.text(file)):
                inside = (name for name in self.modules.values() if name.startswith(FLOORS))
                steps |= dict.fromkeys(inside, WHOLE_TREE)
        taken, through = self._taken(file)
        for package in through:
            steps |= dict.fromkeys(self._entered(package), ENTERED)
        steps |= dict.fromkeys(taken, 1)
        steps |= dict.fromkeys(self._named(file), 1)
        steps.pop(file, None)
        yield from steps.items()

    def _taken(self, file: str) -> tuple[set[str], set[str]]:
        """Return the files that a file imports, and the packages it takes them through."""
        targets: set[str] = set()
        through: set[str] = set()
        for module, name, bound in self._imported(file):
            below = f"{module}.{name}".lstrip(".")
            if name and below in self.modules:
                module, name = below, ""
            if module not in self.modules:
                targets |= self.bare.get(module, frozenset())
                continue
            names = [name] if name else []
            package = self.modules[module].endswith("__init__.py")
            if package and not name:
                names = re.findall(rf"\b{re.escape(bound)}\.(\w+)", self.text(file))
            homes = {self._home(module, each) for each in names if package} - {None}
            if not homes:
                homes = {module}
            elif package:
                through.add(self.modules[module])
            targets |= {self.modules[home] for home in homes if home is not None}
        return targets, through

    def _entered(self, package: str) -> Iterator[str]:
        """Yield the modules that the first file of a package imports whole: they may register."""
        for module, name, _ in self._imported(package):
            if name and f"{module}.{name}" in self.modules:
                yield self.modules[f"{module}.{name}"]

    def _home(self, package: str, name: str) -> str | None:
        """Return the module that a package takes a name from; the package, if from nowhere."""
        below = f"{package}.{name}".lstrip(".")
        if below in self.modules:
            return below
        for module, other, bound in self._imported(self.modules[package]):
            if bound == name and module != package:
                inside = f"{module}.{other}".lstrip(".")
                if inside in self.modules:
                    return inside
                if module in self.modules:
                    deeper = self.modules[module].endswith("__init__.py")
                    return self._home(module, other) if deeper else module
        return package

    def _imported(self, file: str) -> Iterator[tuple[str, str, str]]:
        """Yield each module that is imported, the name that is taken of it, and its name here."""
        for found in _IMPORT.finditer(self.text(file)):
            if found["modules"] is not None:
                for each in found["modules"].split(","):
                    name, _, bound = each.partition(" as ")
                    yield _absolute(file, name.strip()), "", (bound or name).strip()
            else:
                module = _absolute(file, found["source"])
                names = re.sub(r"#[^\n]*", "", found["names"]).strip("()")
                for each in names.split(","):
                    name, _, bound = each.strip().partition(" as ")
                    if name:
                        yield module, name.strip(), (bound or name).strip()

    def _named(self, file: str) -> Iterator[str]:
        """Yield the files that a file names in its text, without importing them by statement."""
        text = self.text(file)
        if file.startswith(FLOORS):
            yield from self._loaded(file)
            return
        for dotted in _DOTTED.findall(_IMPORT.sub("", text)):
            parts = dotted.strip(".").split(".")
            longest = (".".join(parts[:end]) for end in range(len(parts), 0, -1))
            yield from [self.modules[name] for name in longest if name in self.modules][:1]
        strings = {part for string in _STRING.findall(text) for part in re.split("[:/ ]", string)}
        for string in strings:
            if file.startswith("tests/cli/"):
                command = f"cli/commands/{string.replace('-', '_')}.py"
                yield from {command} & self.files
            if string.endswith(".py") or ("bench" in text and string in self.bare):
                yield from self.bare.get(string.removesuffix(".py"), ())

    def _loaded(self, file: str) -> Iterator[str]:
        """Yield the modules of the package that a module loads by their name when it needs them."""
        text = self.text(file)
        for found in _LOADED.finditer(text):
            dots = found["dots"] if found["dots"].startswith(".") else "."
            prefix = _absolute(file, dots)
            name = re.escape(f"{prefix}." if prefix else "")
            name += _HOLE.sub(r"\\w+", found["name"])
            pattern = re.compile(name)
            yield from (self.modules[each] for each in self.modules if pattern.fullmatch(each))
        if "import_module" in text:
            package = _absolute(file, ".")
            for string in set(_STRING.findall(text)):
                for above in (package, package.rpartition(".")[0]):
                    name = f"{above}.{string.replace('-', '_')}".lstrip(".")
                    if name in self.modules and name != above:
                        yield self.modules[name]


@dataclass(frozen=True)
class Candidate:
    """A test file that reaches a change: in how many steps, less what its name tells; its time."""

    file: str
    steps: int
    seconds: float


@dataclass(frozen=True)
class Choice:
    """Which of the tests that reach a change are run, nearest first, and which are left out."""

    run: tuple[Candidate, ...]
    left: tuple[Candidate, ...]


def ordered(tree: Tree, changed: Iterable[str], durations: Mapping[str, float]) -> list[Candidate]:
    """Return the test files that reach a change, nearest first.

    Of equally near ones, those come first that name what changed, or its room; then short ones.
    """
    changed = tuple(changed)
    words = {word for each in changed for word in PurePosixPath(each).with_suffix("").parts[-2:]}
    either = ("[-_]".join(map(re.escape, re.split("[-_]", word))) for word in words)
    named = re.compile(rf"\b(?:{'|'.join(either)})\b")
    tests = [
        Candidate(
            file, steps - kinship(file, changed) if steps else 0, durations.get(file, UNKNOWN)
        )
        for file, steps in tree.reached(changed).items()
        if file in tree.test_files
    ]

    def rank(test: Candidate) -> tuple[int, int, float, str]:
        return test.steps, -len(set(named.findall(tree.text(test.file)))), test.seconds, test.file

    return sorted(tests, key=rank)


def kinship(test: str, changed: Iterable[str]) -> int:
    """Return how much nearer a test file is than its imports say, by its name: 0, 1 or 2 steps.

    >>> kinship("tests/accountant/test_rdp.py", ["accountant/engines/rdp.py"])
    2
    >>> kinship("tests/accountant/test_rdp_small_orders.py", ["accountant/engines/rdp/sampled.py"])
    1
    >>> kinship("tests/fl/test_rdp.py", ["accountant/engines/rdp.py"])
    0
    """
    return max((_kin(PurePosixPath(test), PurePosixPath(each)) for each in changed), default=0)


def _kin(test: PurePosixPath, changed: PurePosixPath) -> int:
    floor, *rooms = changed.parts[:-1] or ("",)
    if floor not in FLOORS or floor not in test.parts:
        return 0
    about = test.stem.removeprefix("test_")
    if about == changed.stem:
        return 2
    words = {changed.stem, *rooms[-1:]} - {"__init__"}
    return int(any(re.match(rf"{re.escape(word)}s?(_|$)", about) for word in words))


def chosen(tests: Iterable[Candidate], seconds: float, workers: int = WORKERS) -> Choice:
    """Return which tests fit into a time: those that do, in their order; the first one always."""
    room = workers * max(seconds - START, 0.0)
    run: list[Candidate] = []
    left: list[Candidate] = []
    for test in tests:
        fits = test.seconds <= room or not run
        (run if fits else left).append(test)
        room -= test.seconds if fits else 0.0
    return Choice(tuple(run), tuple(left))


def durations(tree: Tree, *reports: Path) -> dict[str, float]:
    """Return the seconds of each test file, of JUnit reports: the last that times a file counts."""
    found: dict[str, float] = {}
    for report in reports:
        here: dict[str, float] = defaultdict(float)
        for case in ElementTree.parse(report).getroot().iter("testcase"):
            parts = (case.get("classname") or "").split(".")
            names = ("/".join(parts[:end]) + ".py" for end in range(len(parts), 0, -1))
            for name in [name for name in names if name in tree.files][:1]:
                here[name] += float(case.get("time") or 0.0)
        found |= here
    return found


def known_durations(tree: Tree) -> dict[str, float]:
    """Return the seconds of each test file: the table, and over it the last run of `make test`."""
    table = json.loads(TABLE.read_text(encoding="utf-8")) if TABLE.exists() else {}
    return {**table, **durations(tree, *([REPORT] if REPORT.exists() else []))}


def write_durations(tree: Tree, report: Path) -> int:
    """Write the table anew from a report of the whole default run; return how many files it has."""
    timed = {file: round(each, 1) for file, each in sorted(durations(tree, report).items())}
    TABLE.write_text(json.dumps(timed, indent=0) + "\n", encoding="utf-8")
    return len(timed)


def base(root: Path) -> str:
    """Return what is compared with by default: where the branch left its upstream, or HEAD."""
    for upstream in ("@{upstream}", "origin/main"):
        command = ["git", "-C", str(root), "merge-base", "HEAD", upstream]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return done.stdout.strip()
    return "HEAD"


def changed_since(root: Path, revision: str) -> list[str]:
    """Return the files that differ from a revision, with those that are new or gone."""
    differing = _git(root, "diff", "--name-only", "--no-renames", "-z", revision, "--")
    return sorted({*differing, *_git(root, "ls-files", "-z", "--others", "--exclude-standard")})


def examples(changed: Iterable[str]) -> int:
    """Run the examples in the docstrings of changed modules of the package; 0 if all are true."""
    modules = [
        f"privplan.{_module(file)}".rstrip(".")
        for file in changed
        if file.endswith(".py") and (file.startswith(FLOORS) or "/" not in file)
    ]
    modules = [name for name in modules if not name.endswith(".__main__")]
    program = (
        "import doctest, importlib, sys\n"
        "sys.exit(any([doctest.testmod(importlib.import_module(n)).failed for n in sys.argv[1:]]))"
    )
    return subprocess.run([sys.executable, "-c", program, *modules]).returncode if modules else 0


def main(arguments: list[str] | None = None) -> int:
    """Choose the tests, say which, and run them."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--since", metavar="REV", help="compare with this revision")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long it may take")
    parser.add_argument("--list", action="store_true", help="only say what would be run")
    parser.add_argument("--write-durations", type=Path, metavar="XML", help="write the table anew")
    given = parser.parse_args(arguments)
    started = time.monotonic()
    if not (ROOT / ".git").exists():
        parser.error(
            "This is no checkout under git, so nobody knows what changed: run `make test`."
        )
    tree = Tree.of(ROOT)
    if given.write_durations:
        print(f"{write_durations(tree, given.write_durations)} test files in {TABLE.name}.")
        return 0
    revision = given.since or base(ROOT)
    changed = changed_since(ROOT, revision)
    print(f"Changed since {revision[:12]}: {_listed(changed)}.")
    tests = ordered(tree, changed, known_durations(tree))
    choice = chosen(tests, given.seconds - (time.monotonic() - started))
    tell(choice, len(tree.test_files))
    if given.list or not choice.run:
        return 0
    there = [file for file in changed if file in tree.files]
    failed = examples(there)
    command = [sys.executable, "-m", "pytest", "-n", str(WORKERS), "-q"]
    code = subprocess.run([*command, *(test.file for test in choice.run)], cwd=ROOT).returncode
    print(f"{time.monotonic() - started:.0f} s.  Only `make test` and `make slow` say everything.")
    return failed or code


def tell(choice: Choice, count: int) -> None:
    """Print what is run and what is left out."""
    reaching = len(choice.run) + len(choice.left)
    print(f"{reaching} of {count} test files reach that; {len(choice.run)} are run:")
    for test in choice.run:
        print(f"  {test.seconds:6.1f} s  {max(test.steps, 0):2d} steps  {test.file}")
    if choice.left:
        seconds = sum(test.seconds for test in choice.left)
        print(
            f"Left out for lack of time, {seconds:.0f} s: {_listed(t.file for t in choice.left)}."
        )
    print("Only `make test` and `make slow` say everything.")


def _listed(names: Iterable[str], most: int = 12) -> str:
    names = list(names)
    rest = f", and {len(names) - most} more" if len(names) > most else ""
    return (", ".join(names[:most]) or "nothing") + rest


def _module(file: str) -> str:
    return ".".join(PurePosixPath(file).with_suffix("").parts).removesuffix("__init__").rstrip(".")


def _absolute(file: str, name: str) -> str:
    """Return the module that a name in an import means, without `privplan.`."""
    dots = len(name) - len(name.lstrip("."))
    if not dots:
        return re.sub(r"^privplan(\.|$)", "", name)
    folder = PurePosixPath(file).parts[:-1]
    return ".".join([*folder[: len(folder) + 1 - dots], *filter(None, [name[dots:]])])


def _git(root: Path, *words: str) -> list[str]:
    command = ["git", "-C", str(root), *words]
    done = subprocess.run(command, capture_output=True, check=True)
    return [os.fsdecode(name) for name in done.stdout.split(b"\0") if name]


if __name__ == "__main__":
    sys.exit(main())
