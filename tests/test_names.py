"""Nothing above `fl/` knows a system by name: what is said of it there comes from its declaration.

Searched are the names of all declared systems, their folders in `fl/` and quoted names of these,
which are names of their tables, in all files of `audit/` and `cli/`, in comments and texts too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Final

from privplan.fl.declarations.declaration import PRIVPLAN_PACKAGE
from privplan.fl.declarations.registry import declared

from .cases import for_each

ROOT: Final = Path(__file__).parents[1]

EXCEPTIONS: Final[dict[str, str]] = {
    "audit/attack_methods/seeds.py": "one search is for the seed of a published protocol",
    "audit/demos/*": "each demonstration refutes a claim of one published system",
    "cli/pages/attack.txt": "a text of help: on which system its table of canaries was measured",
    "cli/reports/claims.py": "the title of a published method, with those of the others",
    "cli/pages/delm.txt": "a page of help about a published method and the systems that run it",
    "cli/pages/disco.txt": "a page of help about a published method",
    "cli/pages/fedpower.txt": "a page of help about a published method and the systems that run it",
    "cli/pages/flame.txt": "a page of help about a published method and the systems that run it",
    "cli/pages/network.txt": "a page of help: which systems go over a network",
    "cli/pages/plan.txt": "a phase of its example has an ordinary word as its name",
    "cli/pages/statistics.txt": "a page of help about the sums that one system releases",
    "cli/pages/topics.py": "the list of pages of help, of which one has the name of a system",
    "cli/pages/run.txt": "a page of help: its example runs a system, and says where it comes from",
}
"""Files that name a system, and why they may."""


ORDINARY_WORDS: Final = frozenset({"statistics"})
"""Names of systems that are words of English too: they name a system where they are quoted, or
stand as a folder of `fl`."""


def folders() -> set[str]:
    """Return the folders of `fl/` that hold systems of this package."""
    modules = (system.make.partition(":")[0] for system in declared().values())
    return {match[1] for name in modules if (match := re.match(r"privplan\.fl\.(\w+)\.", name))}


def pattern() -> re.Pattern[str]:
    """Return what finds a name of a system, of its table, or of its folder."""
    # Not those that other tests of the process declare.
    systems = {name for name, each in declared().items() if each.package == PRIVPLAN_PACKAGE}
    special = sorted(systems - ORDINARY_WORDS, key=len, reverse=True)
    names = "|".join(map(re.escape, special))
    system_folders = "|".join(sorted(folders()))
    quoted = rf"[\"'](?:{system_folders})[\"']"
    return re.compile(
        rf"(?<![\w-])(?:{names})(?![\w-])|{quoted}|\bfl\.(?:{system_folders})\b|\bfl/(?:{system_folders})\b"
    )


def named() -> Iterator[tuple[str, str]]:
    """Yield each file with what it names."""
    search = pattern()
    for floor in ("audit", "cli"):
        for path in sorted((ROOT / floor).rglob("*")):
            if path.suffix in (".py", ".j2", ".txt"):
                for match in search.finditer(path.read_text("utf-8")):
                    yield path.relative_to(ROOT).as_posix(), match[0]


def test_no_file_above_the_systems_names_one() -> None:
    extra = [
        f"{file} names {name}"
        for file, name in named()
        if not any(fnmatch(file, exception) for exception in EXCEPTIONS)
    ]
    assert extra == [], "ask the declaration of the system (fl/declarations/declaration.py)"


def test_every_exception_is_needed() -> None:
    files = {file for file, _ in named()}
    for exception in EXCEPTIONS:
        assert any(fnmatch(file, exception) for file in files), (
            f"{exception} names no system any more"
        )


@for_each(
    ("text", "expected"),
    [
        ('if system == "uldp-group":', "uldp-group"),
        ("# fedavg clips nothing", "fedavg"),
        ('configuration["uldp"]', '"uldp"'),
        ("from ..fl.uldp.weighting import x", "fl.uldp"),
        ("see `fl/uldp/record_flags.py`", "fl/uldp"),
        ("privplan explain uldp-fl", None),
        ("from ...accountant.sensitivity import uldp", None),
        ("a rule of uldp-averages", None),
    ],
)
def test_what_is_searched_is_found(text: str, expected: str | None) -> None:
    match = pattern().search(text)
    assert (match and match[0]) == expected
