"""The rooms of the house: every folder has a stated purpose, and no circle joins two of them."""

from __future__ import annotations

import ast
import doctest
import re
import sys
from collections import defaultdict
from typing import Final

from . import source_tree
from .source_tree import FLOORS, ROOT, circles, folders, imports, modules

ROOMS: Final[dict[str, str]] = {
    "accountant": "events to guarantees, targets to noise: no learning, no terminal",
    "accountant/amplification": "how sampling, shuffling and grouping change a guarantee",
    "accountant/amplification/shuffling": "bounds on what a shuffler adds to local randomizers",
    "accountant/claims": "what published systems claim, and what can be proven",
    "accountant/curves": "whole curves of an event, and the numbers that stand for one",
    "accountant/engines": "the ways from an event to a number, independent of one another",
    "accountant/engines/pld": "privacy loss distributions on a grid, bounded from both sides",
    "accountant/engines/pld/ask": "the questions, and what an answer says of the whole event",
    "accountant/engines/pld/compose": "many releases at once, by one transform",
    "accountant/engines/pld/grid": "where the mass of a loss lies, and which way it errs",
    "accountant/engines/pld/pairs": "the pair of each family of event",
    "accountant/engines/rdp": "Renyi curves, and one conversion at the end",
    "accountant/events": "the vocabulary of releases, and its JSON",
    "accountant/mechanisms": "mechanisms that state their event and draw its noise exactly",
    "accountant/odometer": "budgets that are spent as results come in",
    "accountant/plan": "the noise of every phase of a run, from one target",
    "accountant/records": "the closed vocabulary of what a run writes down",
    "accountant/risk": "what an attacker can do at best: trade-off functions and risks",
    "accountant/sensitivity": "by how much one unit moves what is released",
    "accountant/sensitivity/matrix": "by how much one unit moves C x, under correlated noise",
    "audit": "what runs leave behind, read and judged",
    "audit/adapters": "privplan inside of other libraries, one file for each",
    "audit/model_audits": "attacks on models that anybody trained, from their scores",
    "audit/attack": "the attack on a run, tier by tier",
    "audit/attack_methods": "attacks on transcripts, seeds and models",
    "audit/attack_methods/membership": "membership inference for records and users",
    "audit/budget": "budgets derived again from the facts in a log",
    "audit/budget_service": "a service that many spend a data set's budget from",
    "audit/budget_service/versions": "the steps from one version of its tables to the next",
    "audit/canaries": "lower bounds from units with a secret coin",
    "audit/check": "the verdict about somebody else's run: bounds, recomputations, causes",
    "audit/check/completions": "the runs that a description allows, by what it leaves open",
    "audit/check/causes": "why a reported number is wrong or in doubt, each under a stable id",
    "audit/configuration": "the configuration that a log states, against its file and rounds",
    "audit/demos": "published claims against simulations of their own mechanisms",
    "audit/derivation": "what event the facts of a round support before each observer",
    "audit/description": "a run that somebody describes: claim, settings, provenance of each fact",
    "audit/edits": "what no run writes: logs and files that contradict themselves",
    "audit/evidence": "all rounds of a log as evidence: kinds, observers, totals, doubts",
    "audit/findings": "what is wrong or in doubt of a run: one finding, one registry of rules",
    "audit/hazards": "rules that look for what a log says and does not support",
    "audit/ledger": "what a log says was spent: entries, phases, commitments",
    "audit/plots": "results as plots: on axes, in pictures, in characters",
    "audit/readers": "files of other libraries, read without running them",
    "audit/report": "the page about one run",
    "audit/reproduction": "what common accountants print for given settings, and nearby ones",
    "audit/residual": "tests of the noise that was drawn against the noise that was logged",
    "audit/shadows": "shadow models: who is in which, and how they are trained",
    "audit/statistics": "from counts and scores to bounds at a confidence",
    "cli": "what a person types: parse, call, print, exit code",
    "cli/cache": "computed answers that are kept between runs",
    "cli/commands": "one file for each command",
    "cli/inputs": "options, and the files that a person gives",
    "cli/pages": "the pages of `privplan explain`, a text file each",
    "cli/reports": "guarantees, plans, claims and runs in words and in JSON",
    "cli/terminal": "text, JSON, errors and exit codes",
    "fl": "systems and protocols, run under the accountant",
    "fl/aggregation": "how the silos' updates become one sum",
    "fl/canaries": "canaries in a rehearsal of a run's settings",
    "fl/crypto": "fixed point, keys, masks, shares and oblivious transfer",
    "fl/crypto/paillier": "Paillier encryption for weighted sums",
    "fl/data": "who holds which records",
    "fl/datasets": "data sets, from files or bundled",
    "fl/declarations": "what a system declares of itself, and the registry",
    "fl/delm": "DELM: coefficients that are released once, and the published schemes by pieces",
    "fl/disco": "the system DISCO: peers that train together without a server",
    "fl/fedavg": "the system FedAvg",
    "fl/fedpower": "federated SVD: one Gram release, a power iteration, and three as published",
    "fl/fedpower/noise_removal": "all noise but a hidden node's taken off a sum",
    "fl/files": "files that are whole or absent",
    "fl/flame": "FLAME: coordinates of users through a shuffler; in no list yet",
    "fl/frame": "what every system shares: setup, rounds, promise",
    "fl/ledger_client": "the client of a budget ledger",
    "fl/log": "the log of a run, written and read line by line",
    "fl/models": "models, for one parameter vector or many",
    "fl/network": "runs over a network: a guard at each silo, a server that sums",
    "fl/observers": "who sees what of a round, and the words for it",
    "fl/parties": "parties, their messages and the network between them",
    "fl/running": "the life cycle of a run, from its folder to its resumption",
    "fl/secagg": "secure aggregation of integer vectors",
    "fl/settings": "settings of a run: schema, rules, file",
    "fl/shuffling": "the shuffler's protocol",
    "fl/statistics": "noisy Gram matrices, and the fits that cost nothing more",
    "fl/statistics/estimators": "estimators for scikit-learn from one private release",
    "fl/tables": "tables of one's own: a public schema, and the rows that files hold",
    "fl/training": "local training of many units side by side",
    "fl/uldp": "the systems of Uldp-FL",
    "fl/uldp/canaries": "how canaries enter the systems of Uldp-FL",
    "fl/uldp/weighting": "private weighting (Protocol 1 of Uldp-FL)",
}
"""Every folder of the four floors and its purpose: whoever adds a folder says here what it is."""


def room(module: str) -> str:
    """Return the room that a module is in, or the module itself where it is in none.

    >>> room("fl.crypto.paillier.keys"), room("accountant.errors")
    ('fl.crypto', 'accountant.errors')
    """
    return ".".join(module.split(".")[:2])


def listed(found: set[frozenset[str]]) -> list[list[str]]:
    """Return circles in a stable order, for a message that can be read."""
    return sorted(sorted(circle) for circle in found)


def test_examples() -> None:
    for module in (source_tree, sys.modules[__name__]):
        assert doctest.testmod(module).failed == 0


def test_every_folder_has_a_stated_purpose() -> None:
    assert folders() == sorted(ROOMS)
    assert all(purpose.strip() and "\n" not in purpose for purpose in ROOMS.values())


def test_no_file_of_fl_is_loose() -> None:
    assert [path.name for path in sorted((source_tree.ROOT / "fl").glob("*.py"))] == ["__init__.py"]


def test_modules_form_no_circle() -> None:
    assert listed(circles(imports())) == []


def test_rooms_form_no_circle() -> None:
    arrows: dict[str, set[str]] = defaultdict(set)
    for module, targets in imports().items():
        arrows[room(module)] |= {room(target) for target in targets} - {room(module)}
    assert listed(circles(arrows)) == []


def test_imports_are_seen_wherever_they_stand() -> None:
    """At the top, inside a function, under `TYPE_CHECKING`, and from a package's `__init__`."""
    assert "cli.terminal.output" in imports()["cli.commands.run"]
    assert "cli.reports.run" in imports()["cli.commands.run"]
    assert "accountant.guarantee" in imports()["cli.reports.run"]
    assert set(imports()) == set(modules())


LISTED_FROM: Final = 5
"""From so many files on, the docstring of a folder lists what lies where."""


def names_listed(docstring: str) -> list[str]:
    """Return the names before the colons of a docstring's list.

    >>> names_listed("Sums.\\n\\n- `keys`, `masks`: see `shamir`.\\n- `paillier/`: sums.")
    ['keys', 'masks', 'paillier/']
    """
    items = re.findall(r"^- (`[\w/]+`(?:,\s+`[\w/]+`)*):", docstring, flags=re.MULTILINE)
    return [name for item in items for name in re.findall(r"`([\w/]+)`", item)]


def test_a_folder_lists_what_lies_where() -> None:
    """Every file and folder once, and nothing that is not there: who looks for one finds it."""
    wrong = {}
    for folder in sorted(ROOMS):
        files = {path.stem for path in (ROOT / folder).glob("*.py")} - {"__init__", "__main__"}
        inside = {f"{path.parent.name}/" for path in (ROOT / folder).glob("*/__init__.py")}
        tree = ast.parse((ROOT / folder / "__init__.py").read_text(encoding="utf-8"))
        found = names_listed(ast.get_docstring(tree) or "")
        if len(files) >= LISTED_FROM and sorted(found) != sorted(files | inside):
            wrong[folder] = sorted(set(found) ^ (files | inside)) or "twice"
    assert wrong == {}


ELSEWHERE: Final = frozenset({"amplification_bounds.py", "dp_event.py"})
"""Files of other projects that are cited as a source."""


def test_a_file_that_is_cited_exists() -> None:
    """A derivation, a docstring or a comment that sends its reader to a file names one of ours."""
    sources = sorted(path for floor in FLOORS for path in (ROOT / floor).rglob("*.py"))
    known = {path.relative_to(ROOT).as_posix() for path in sources} | {"__init__.py"}
    missing = sorted(
        f"{path.relative_to(ROOT).as_posix()}: {cited}"
        for path in sources
        for cited in set(re.findall(r"[\w/]*\w\.py\b", path.read_text(encoding="utf-8")))
        if cited not in ELSEWHERE and not any(f"/{name}".endswith(f"/{cited}") for name in known)
    )
    assert missing == []
