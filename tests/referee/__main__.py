"""`python -m tests.referee`: keep the answers of today, or compare with those that are kept."""

from __future__ import annotations

import argparse
import importlib
import itertools
import random
import secrets
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence

from . import asking, golden, masks
from .comparison import Difference, differences
from .golden import Case, Golden

SHARE = 0.2
"""The share of each section that is drawn, where nobody says another."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command that the arguments name; return its exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.referee", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    write = commands.add_parser("write", help="keep the answers of today")
    write.add_argument("--reason", required=True, help="why they change; kept and printed")
    write.add_argument(
        "--cases", action="store_true", help="draw the questions anew, rather than ask the kept"
    )
    compare = commands.add_parser("compare", help="compare with what is kept")
    compare.add_argument("--share", type=float, default=SHARE, help="share of each section")
    compare.add_argument("--seed", type=int, help="of the share that is drawn")
    compare.add_argument("--all", action="store_true", help="all cases")
    compare.add_argument("--case", help="only cases whose name has this in it")
    for each in (write, compare):
        each.add_argument(
            "--section", action="append", choices=asking.SECTIONS, help="only this section"
        )
        each.add_argument("--processes", type=int, default=asking.PROCESSES)
    runs = commands.add_parser("runs", help="make the stored runs anew")
    runs.add_argument("--reason", required=True, help="why they change; kept and printed")
    given = parser.parse_args(arguments)
    if given.command == "runs":
        from . import runs_made

        return runs_made.write(given.reason)
    sections = tuple(given.section or asking.SECTIONS)
    if given.command == "write":
        return _write(sections, given.reason, given.processes, drawn_anew=given.cases)
    share = 1.0 if given.all else given.share
    if not 0.0 < share <= 1.0:
        parser.error("--share is above 0 and at most 1")
    seed = secrets.randbelow(2**32) if given.seed is None else given.seed
    return _compare(sections, share, seed, given.processes, given.case)


def _compare(
    sections: Sequence[str], share: float, seed: int, processes: int, part: str | None
) -> int:
    print(f"share {share:g}, seed {seed} (--share {share:g} --seed {seed} asks the same again)")
    started = time.monotonic()
    kept = {section: golden.read(section) for section in sections}
    drawn: list[tuple[str, Case]] = []
    for section, whole in kept.items():
        _tell_other_versions(whole)
        names = [name for name in whole.cases if part is None or part in name]
        count = max(1, round(share * len(names))) if names else 0
        chosen = set(random.Random(f"{seed} {section}").sample(names, count))
        drawn += [
            (section, Case(name, each["asked"]))
            for name, each in whole.cases.items()
            if name in chosen
        ]
    found: list[Difference] = []
    asked, differing = Counter[str](), Counter[str]()
    for answered in asking.answers(drawn, processes=processes):
        section, name = answered.section, answered.case.name
        differs = differences(
            f"{section}: {name}", kept[section].cases[name]["answer"], answered.answer
        )
        asked[section] += 1
        differing[section] += bool(differs)
        found += differs
    for section in sections:
        print(
            f"{section:<9} {asked[section]:>5} of {len(kept[section].cases)} cases, "
            f"{differing[section]} with differences"
        )
    print(f"{time.monotonic() - started:.0f} s, {processes} processes")
    for difference in found:
        print(difference.line())
    if not found:
        print("Every answer is the one that is kept.")
        return 0
    cases_found = len({difference.case for difference in found})
    ways = Counter(difference.way for difference in found)
    told = ", ".join(f"{count} {way}" for way, count in sorted(ways.items()))
    print(f"{len(found)} differences in {cases_found} cases: {told}.")
    print(
        "Outwards less is proven: never right by itself.  Inwards more is proven: it needs a "
        "proof.\nWhat is meant is kept by `python -m tests.referee write --reason ...`, in the "
        "commit that says why."
    )
    return 1


def _of(section: str, cases: Iterable[Case]) -> list[tuple[str, Case]]:
    return [(section, case) for case in cases]


def _tell_other_versions(kept: Golden) -> None:
    now = golden.versions()
    others = [
        f"{name} {version} (now {now.get(name)})"
        for name, version in kept.header["versions"].items()
        if now.get(name) != version
    ]
    if others:
        print(f"{kept.section}: kept with {', '.join(others)}, which may answer otherwise")


def _write(sections: Sequence[str], reason: str, processes: int, *, drawn_anew: bool) -> int:
    for section in sections:
        module = importlib.import_module(f".{section}", __package__)
        limit = getattr(module, "MOST_SECONDS", None)
        header = {
            "reason": reason,
            "versions": golden.versions(),
            "masks": {mask.name: mask.reason for mask in masks.MASKS.values()} | masks.FIELDS,
            "dropped": {},
        }
        if drawn_anew or not golden.path_of(section).exists():
            kept = _drawn(section, processes, limit, header)
        else:
            before = golden.read(section)
            header["dropped"] = before.header["dropped"]
            cases = [Case(name, each["asked"]) for name, each in before.cases.items()]
            kept = Golden(section, header)
            for answered in asking.answers(_of(section, cases), processes=processes):
                kept.cases[answered.case.name] = {
                    "asked": answered.case.asked,
                    "answer": answered.answer,
                }
            _tell_rewritten(before, kept)
        unsteady = _unsteady(kept, processes)
        for difference in unsteady:
            print("unsteady:", difference.line())
        for name in {difference.case for difference in unsteady}:
            del kept.cases[name]
        if unsteady:
            header["dropped"]["unsteady"] = header["dropped"].get("unsteady", 0) + len(
                {difference.case for difference in unsteady}
            )
        size = golden.write(kept)
        told = ", ".join(f"{count} {why}" for why, count in header["dropped"].items()) or "none"
        print(f"{section}: {len(kept.cases)} cases, {size:,} bytes; left out: {told}; {reason}")
    return 0


def _drawn(section: str, processes: int, limit: float | None, header: dict[str, object]) -> Golden:
    """Return new questions with their answers: the first so many that are asked in time."""
    module = importlib.import_module(f".{section}", __package__)
    kept, dropped = Golden(section, header), Counter[str]()
    source = iter(module.cases())
    refused_by = getattr(module, "left_out", None)
    while len(kept.cases) < module.COUNT:
        batch = list(itertools.islice(source, module.COUNT - len(kept.cases)))
        if not batch:
            break
        for answered in asking.answers(_of(section, batch), processes=processes, limit=limit):
            why = "too slow" if answered.answer is None else ""
            if refused_by is not None and not why:
                why = refused_by(answered.case, answered.answer)
            if why:
                dropped[why] += 1
            else:
                kept.cases[answered.case.name] = {
                    "asked": answered.case.asked,
                    "answer": answered.answer,
                }
    header["dropped"] = dict(dropped)
    return kept


def _unsteady(kept: Golden, processes: int) -> list[Difference]:
    """Return what is answered otherwise on an older processor, in another order."""
    cases = [Case(name, each["asked"]) for name, each in reversed(kept.cases.items())]
    found: list[Difference] = []
    with asking.another_processor():
        for answered in asking.answers(_of(kept.section, cases), processes=processes):
            name = answered.case.name
            found += differences(name, kept.cases[name]["answer"], answered.answer)
    return found


def _tell_rewritten(before: Golden, now: Golden) -> None:
    for name, each in now.cases.items():
        for difference in differences(
            f"{now.section}: {name}", before.cases[name]["answer"], each["answer"]
        ):
            print("rewritten:", difference.line())


if __name__ == "__main__":
    sys.exit(main())
