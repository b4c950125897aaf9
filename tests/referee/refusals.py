"""Section `refusals`: what is said about bad input of every kind, made by rule from the schemas."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from . import command, runs_stored
from .golden import Case
from .random_events import MAKERS, PARTICIPATION_MAKERS, STRATEGY_MAKERS
from .runs_made import configuration, least

SEED: Final = "refusals of the referee"
COUNT: Final = 580
"""Some 280 by rule, one for each end of a range and each damage to a log, and 300 drawn ones."""
MOST_SECONDS: Final = 3.0

WRONG: Final[Mapping[str, object]] = {
    "text": "a word",
    "true": True,
    "null": None,
    "list": [],
    "table": {},
    "nan": float("nan"),
    "inf": float("inf"),
    "-inf": float("-inf"),
    "-1": -1,
    "0": 0,
    "fraction": 1.5,
    "above 1": 1.0000001,
    "huge": 10**30,
}
"""Values of which each field refuses some: of another type, or outside its range."""


IN_EVENTS: Final = {name: value for name, value in WRONG.items() if name not in ("inf", "-inf")}
"""JSON has no such number: one kind of it is enough."""


PROBES: Final = (-1, 0, 1, 2, *(10**power for power in range(1, 20)))
"""Numbers by which the ends of a range are looked for."""


def just_outside(check: Callable[[object], object]) -> list[object]:
    """Return the numbers next to each end of the range that a check takes, that it refuses."""

    def taken(value: object) -> bool:
        try:
            check(value)
        except Exception:
            return False
        return True

    found: list[object] = []
    whole = not any(taken(value) for value in (0.5, 0.25, 1.5, 2.5))
    accepted = [taken(value) for value in PROBES]
    for index in range(len(PROBES) - 1):
        if accepted[index] == accepted[index + 1]:
            continue
        inside, outside = PROBES[index], PROBES[index + 1]
        if not accepted[index]:
            inside, outside = outside, inside
        found.append(_end(taken, inside, outside, whole=whole))
    if not any(accepted) and taken(0.5):  # an open interval between 0 and 1
        found += [_end(taken, 0.5, outside, whole=False) for outside in (0, 1)]
    return found


def _end(taken: Callable[[object], bool], inside: float, outside: float, *, whole: bool) -> float:
    """Return the refused number next to the end of a range, from one inside and one outside."""
    if whole:
        while abs(inside - outside) > 1:
            middle = (inside + outside) // 2
            inside, outside = (middle, outside) if taken(middle) else (inside, middle)
        return outside
    if outside != 0 and taken(outside * (1.0 + (1e-7 if outside < inside else -1e-7))):
        return outside
    for _ in range(24):
        middle = (inside + outside) / 2.0
        inside, outside = (middle, outside) if taken(middle) else (inside, middle)
    return float(f"{outside:.7g}") if not taken(float(f"{outside:.7g}")) else outside


def misspelt(name: str, rng: random.Random) -> str:
    """Return a name with two neighbouring letters exchanged, or one left out."""
    at = rng.randrange(len(name) - 1) if len(name) > 1 else 0
    if rng.random() < 0.5 and len(name) > 2:
        return name[:at] + name[at + 1 :]
    return name[:at] + name[at + 1 : at + 2] + name[at : at + 1] + name[at + 2 :]


def faulty(
    table: dict[str, Any], key: str, rng: random.Random, wrong: Mapping[str, object] = WRONG
) -> tuple[str, dict[str, Any]]:
    """Return a table with one fault at a key, and what the fault is called."""
    kind = rng.choice(("missing", "misspelt", *wrong))
    if kind == "missing":
        return kind, {name: value for name, value in table.items() if name != key}
    if kind == "misspelt":
        other = misspelt(key, rng)
        return kind, {other if name == key else name: value for name, value in table.items()}
    return kind, {**table, key: wrong[kind]}


def _events(rng: random.Random) -> Case:
    kind = rng.choice(list(MAKERS))
    event = MAKERS[kind](rng)
    field = rng.choice(list(event)[1:] if rng.random() < 0.9 else ["type"])
    inner, path = event, kind
    if kind == "matrix-gaussian" and rng.random() < 0.7:
        steps = 6
        part = rng.choice(("strategy", "participation"))
        makers = STRATEGY_MAKERS if part == "strategy" else PARTICIPATION_MAKERS
        event = {**event, "strategy": STRATEGY_MAKERS["toeplitz"](rng, steps)}
        event["participation"] = {"type": "single"}
        inner = makers[rng.choice(list(makers))](rng, steps)
        field, path = rng.choice(list(inner)), f"{part} {inner['type']}"
        fault, inner = faulty(inner, field, rng, IN_EVENTS)
        event[part] = inner
    elif isinstance(event.get("event"), dict) and rng.random() < 0.3:
        field = rng.choice(list(event["event"])[1:])
        path = f"{kind} {event['event'].get('type')}"
        fault, inner = faulty(event["event"], field, rng, IN_EVENTS)
        event = {**event, "event": inner}
    else:
        fault, event = faulty(event, field, rng, IN_EVENTS)
    return Case(
        f"event {path}.{field} {fault}",
        {"words": ["account", "event.json"], "files": {"event.json": json.dumps(event)}},
    )


_GAUSSIAN: Final = json.dumps({"type": "gaussian", "noise_multiplier": 2.0})
_OPACUS: Final = {"history": [[1.1, 0.00425531914893617, 3525]], "mechanism": "rdp"}

COMMANDS: Final[Mapping[str, str]] = {
    "account": "account --noise-multiplier 2 --rate 0.01 --rounds 50 --delta 1e-5",
    "calibrate": "calibrate --epsilon 2 --delta 1e-5 --rate 0.01 --rounds 50",
    "plan": "plan --epsilon 2 --delta 1e-5 --rates 0.01 --rounds 50",
    "run": "run run.toml --dry-run",
    "check": "check opacus.json --claimed 1.28 --delta 1e-5",
    "claims": "claims delm",
    "report": "report run -o page.html",
    "explain": "explain event.json --delta 1e-5",
    "audit log": "audit log run",
    "audit budget": "audit budget run",
    "audit attack": "audit attack run --no-append --canaries 50 --seed 1",
    "audit demo": "audit demo",
}
"""A line of each command that holds; its options are made bad one by one."""

BAD_WORDS: Final = (
    *("nan", "inf", "-inf", "-1", "0", "1", "1.5", "1e400", "1e-400", "word", "", "1,2", "٣"),
)


def options_of(name: str) -> list[tuple[str, bool]]:
    """Return the options of a command, and whether each takes a value."""
    import typer.main

    from privplan.cli.main import app

    found: Any = typer.main.get_command(app)
    for word in name.split():
        found = found.commands[word]
    return [
        (max(each.opts, key=len), not each.is_flag)
        for each in found.params
        if each.param_type_name == "option" and "--help" not in each.opts
    ]


def _options(rng: random.Random) -> Case:
    name = rng.choice(list(COMMANDS))
    words, (option, takes) = COMMANDS[name].split(), rng.choice(options_of(name))
    fault = rng.choice(("value", "value", "value", "value", "misspelt", "twice", "alone"))
    if not takes:
        fault = "misspelt"
    if fault == "value":
        bad = rng.choice(BAD_WORDS)
        fault = repr(bad)
        if option in words:
            words[words.index(option) + 1] = bad
        else:
            words += [option, bad]
    elif fault == "misspelt":
        words += ["--" + misspelt(option[2:], rng), *(["1"] if takes else [])]
    elif fault == "twice":
        words += [option, "3", option, "4"]
    else:
        words.append(option)
    return Case(f"option {name} {option} {fault}", {"words": words, "usual files": True})


def _configurations(rng: random.Random) -> Case:
    from privplan.fl.declarations.packages import built_in
    from privplan.fl.declarations.registry import keys_by_table

    declared = built_in()[rng.choice(list(built_in()))]
    tables = least(declared.name)
    if declared.promises:
        tables["privacy"]["epsilon"] = 4.0
    known = {
        name: keys
        for name, keys in keys_by_table().items()
        if name in tables or name in ("evaluation", "log", "security")
    }
    table = rng.choice(list(known))
    if rng.random() < 0.06:
        tables[misspelt(table, rng)] = tables.pop(table, {}) or {"seed": 1}
        return _configured(f"{declared.name} [{table}] misspelt", tables)
    key = rng.choice(known[table])
    keys = dict(tables.get(table, {}))
    if key.name not in keys and key.words:
        keys[key.name] = rng.choice(key.words)
    keys.setdefault(key.name, rng.choice((1, 2, 0.5, "word")))
    wrong = {name: value for name, value in WRONG.items() if name not in ("null", "table")}
    fault, tables[table] = faulty(keys, key.name, rng, wrong)
    return _configured(f"{declared.name} {table}.{key.name} {fault}", tables)


def _configured(name: str, tables: dict[str, dict[str, object]]) -> Case:
    text = configuration(tables)
    return Case(
        f"configuration {name}",
        {"words": ["run", "run.toml", "--dry-run"], "files": {"run.toml": text}},
    )


def _descriptions(rng: random.Random) -> Case:
    from privplan.audit.description.keys import TABLES

    form = rng.choice(("toml", "toml", "set", "opacus", "release"))
    table = rng.choice(list(TABLES))
    key = rng.choice(list(TABLES[table]))
    if form == "set":
        name = misspelt(key, rng) if rng.random() < 0.3 else key
        bad = rng.choice(BAD_WORDS)
        words = [*COMMANDS["check"].split(), "--set", f"{table}.{name}={bad}"]
        return Case(
            f"description --set {table}.{name}={bad}", {"words": words, "usual files": True}
        )
    if form == "opacus":
        field = rng.choice(list(_OPACUS))
        if rng.random() < 0.5:
            row: list[Any] = list(_OPACUS["history"][0])
            at = rng.randrange(3)
            kind = rng.choice(list(WRONG))
            row[at] = WRONG[kind]
            fault, state = f"row[{at}] {kind}", {**_OPACUS, "history": [row]}
        else:
            fault, state = faulty(dict(_OPACUS), field, rng)
            fault = f"{field} {fault}"
        words = ["check", "state.json", "--claimed", "1.28", "--delta", "1e-5"]
        return Case(
            f"description opacus {fault}",
            {"words": words, "files": {"state.json": json.dumps(state)}},
        )
    tables: dict[str, Any] = {
        "claim": {"epsilon": 4.6, "delta": 1e-5, "unit": "record", "neighbours": "add-remove"},
        "noise": {"noise_multiplier": 1.1, "clip_source": "constant"},
        "data": {"records": 60000},
        "sampling": {"method": "poisson", "batch": 256},
        "schedule": {"steps": 3000},
    }
    if form == "release":
        release = {"what": "a noisy count", "noise_multiplier": 10.0, "count": 100}
        field = rng.choice(list(release))
        fault, release = faulty(release, field, rng)
        tables["releases"] = [release]
        name = f"releases.{field} {fault}"
    else:
        keys = dict(tables.get(table, {}))
        keys.setdefault(key, 1)
        fault, tables[table] = faulty(keys, key, rng)
        name = f"{table}.{key} {fault}"
    return Case(
        f"description {name}",
        {"words": ["check", "run.json"], "files": {"run.json": json.dumps(tables)}},
    )


def _ratings(rng: random.Random) -> list[str]:
    rows = [
        f"u{user},f{film},{rng.randint(1, 10) / 2}"
        for user in range(12)
        for film in range(8)
        if rng.random() < 0.9
    ]
    return ["userId,movieId,rating", *rows]


_BAD_LINES: Final[Mapping[str, Callable[[str], str]]] = {
    "cut off": lambda line: line.rpartition(",")[0],
    "a field more": lambda line: line + ",1",
    "not a number": lambda line: line.rpartition(",")[0] + ",word",
    "nan": lambda line: line.rpartition(",")[0] + ",nan",
    "inf": lambda line: line.rpartition(",")[0] + ",inf",
    "above the range": lambda line: line.rpartition(",")[0] + ",5.5",
    "0": lambda line: line.rpartition(",")[0] + ",0",
    "-1": lambda line: line.rpartition(",")[0] + ",-1",
    "no name": lambda line: "," + line.partition(",")[2],
    "an open quote": lambda line: '"' + line,
    "no text": lambda line: line + "\x00",
}


def _data(rng: random.Random) -> Case:
    data = {"name": "ratings", "path": "ratings.csv", "users": 12, "silos": 3}
    data |= {"columns": "films.txt"}
    tables: dict[str, dict[str, object]] = {
        "run": {"system": "fedpower", "rounds": 1},
        "data": data,
        "privacy": {"epsilon": 4.0, "delta": 1e-5},
        "fedpower": {"rank": 2, "row_norm": 6.0},
    }
    lines, films = _ratings(rng), [f"f{number}" for number in range(8)]
    kind = rng.choice(("line", "line", "line", "header", "films", "empty", "other"))
    files = {"run.toml": ""}
    at = rng.randrange(1, len(lines))
    if kind == "line":
        kind = rng.choice(list(_BAD_LINES))
        lines[at] = _BAD_LINES[kind](lines[at])
        fault = f"line {kind}"
    elif kind == "header":
        column = rng.choice(lines[0].split(","))
        other = misspelt(column, rng) if rng.random() < 0.5 else ""
        lines[0] = lines[0].replace(column, other)
        fault = f"header {column} {other or 'empty'}"
    elif kind == "films":
        films, fault = rng.choice(
            (([], "no films"), (["f1", "f1"], "a film twice"), (["g1", "g2"], "other films"))
        )
    elif kind == "empty":
        lines, fault = rng.choice((([], "empty"), (lines[:1], "no ratings")))
    else:
        name = rng.choice(
            ("heart-disease", "creditcard", "mnist", "tcga-brca", "emnist", "cifar-10")
        )
        tables["data"] = {"name": name, "path": rng.choice(("ratings.csv", "missing", "folder"))}
        tables["run"] = {"system": "uldp-avg", "rounds": 1}
        del tables["fedpower"]
        files["folder/other.csv"] = "Time,Class\n1,0\n"
        fault = f"{name} {tables['data']['path']}"
    files |= {"ratings.csv": "\n".join([*lines, ""]), "films.txt": "\n".join([*films, ""])}
    files["run.toml"] = configuration(tables)
    return Case(f"data {fault}", {"words": ["run", "run.toml", "--dry-run"], "files": files})


LOG_EDITS: Final = (
    *("drop", "twice", "swap", "cut", "digit", "no json", "nan", "empty", "gone", "bytes", "prev"),
    *("forged number", "forged type", "forged missing", "forged drop", "forged twice"),
    "forged swap",
)
"""Damages to a log; one that is forged has a whole chain."""


def _logs(rng: random.Random) -> Case:
    name = rng.choice(list(runs_stored.about()["runs"]))
    edit, seed = rng.choice(LOG_EDITS), rng.randrange(10**6)
    words = rng.choice(
        (
            ["audit", "log", "run"],
            ["audit", "budget", "run"],
            ["audit", "budget", "run"],
            ["report", "run", "-o", "page.html"],
            ["run", "run/config.toml", "--out", "run", "--resume"],
        )
    )
    return Case(
        f"log {name} {edit} {' '.join(words[:2])}",
        {"words": words, "run": name, "edit": edit, "seed": seed},
    )


def edited(folder: Path, edit: str, seed: int) -> None:
    """Damage the log in a folder, or forge it: then its chain is whole."""
    from privplan.fl.log.hash_chain import chained

    rng, path = random.Random(seed), folder / "log.jsonl"
    lines = path.read_text().splitlines()
    at = rng.randrange(len(lines))
    if edit.startswith("forged"):
        records = [json.loads(line) for line in lines]
        _forge(records, at, edit.removeprefix("forged "), rng)
        prev, chain = json.loads(lines[0])["prev"], []
        for seq, record in enumerate(records):
            content = {key: value for key, value in record.items() if key not in CHAIN}
            text, prev = chained(content, seq, prev)
            chain.append(text)
        lines = chain
    match edit:
        case "prev":
            record = json.loads(lines[at])
            content = {key: value for key, value in record.items() if key not in CHAIN}
            lines[at], _ = chained(content, at, "0a" * 32)
        case "drop":
            del lines[at]
        case "twice":
            lines.insert(at, lines[at])
        case "swap":
            lines[at - 1], lines[at] = lines[at], lines[at - 1]
        case "cut":
            lines[-1] = lines[-1][: len(lines[-1]) // 2]
        case "digit":
            lines[at] = re.sub(
                r"\d(?=[,}])", lambda found: str((int(found[0]) + 1) % 10), lines[at], count=1
            )
        case "no json":
            lines[at] = "{" + lines[at]
        case "nan":
            lines[at] = re.sub(r":\d+", ":NaN", lines[at], count=1)
        case "empty":
            lines = []
        case "bytes":
            path.write_bytes(b"\xff\xfe" + path.read_bytes())
            return
        case "gone":
            path.unlink()
            return
    path.write_text("".join(line + "\n" for line in lines))


CHAIN: Final = ("seq", "prev", "hash")
"""Fields by which a log is a chain."""


def _forge(records: list[dict[str, Any]], at: int, how: str, rng: random.Random) -> None:
    """Leave out, repeat or exchange a record, or change one of its values, at any depth."""
    match how:
        case "drop":
            del records[at]
            return
        case "twice":
            records.insert(at, dict(records[at]))
            return
        case "swap":
            records[at - 1], records[at] = records[at], records[at - 1]
            return
    record = records[at]
    places: list[tuple[Any, Any]] = []
    waiting: list[Any] = [record]
    while waiting:
        each = waiting.pop()
        keys = each.keys() if isinstance(each, dict) else range(len(each))
        for key in sorted(keys, key=str):
            if each is record and key in CHAIN:
                continue
            places.append((each, key))
            if isinstance(each[key], (dict, list)) and each[key]:
                waiting.append(each[key])
    numbers = [(inside, key) for inside, key in places if isinstance(inside[key], (int, float))]
    inside, key = rng.choice(numbers if how == "number" and numbers else places)
    if how == "missing":
        del inside[key]
    elif how == "number" and numbers:
        inside[key] = rng.choice((0, -1, inside[key] + 1, 10 * inside[key], 0.5))
    else:
        inside[key] = rng.choice(("word", 7, [], {}, None, True))


MAKERS_BY_KIND: Final[Mapping[str, tuple[Callable[[random.Random], Case], int]]] = {
    "events": (_events, 60),
    "options": (_options, 60),
    "configurations": (_configurations, 75),
    "descriptions": (_descriptions, 40),
    "data": (_data, 25),
    "logs": (_logs, 40),
}
"""How bad input of each kind is made, and how many cases of it are kept."""


def _edges() -> Iterator[Case]:
    """Yield the numbers just outside of each range of a configuration, a description, an event."""
    from privplan.accountant import events as ev
    from privplan.audit.description.keys import KEYS
    from privplan.fl.declarations.packages import built_in
    from privplan.fl.declarations.registry import keys_by_table

    for table, keys in keys_by_table().items():
        system = next(
            (name for name, each in built_in().items() if each.table and each.table.name == table),
            "uldp-avg",
        )
        for key in keys:
            for value in just_outside(lambda given, key=key: key.check(**{key.name: given})):
                tables = least(system)
                tables["privacy"]["epsilon"] = 4.0
                tables[table] = {**tables.get(table, {}), key.name: value}
                yield _configured(f"{system} {table}.{key.name} just outside: {value}", tables)
    for name, known in KEYS.items():
        for value in just_outside(known.value):
            table, _, last = name.partition(".")
            text = json.dumps({table: {last: value}})
            yield Case(
                f"description {name} just outside: {value}",
                {"words": ["check", "run.json"], "files": {"run.json": text}},
            )
    rng = random.Random(SEED)
    for kind, make in MAKERS.items():
        event = make(rng)
        for field, present in list(event.items())[1:]:
            if isinstance(present, (str, dict, list)):
                continue

            def decoded(given: object, event: Any = event, field: str = field) -> object:
                return ev.from_json({**event, field: given})

            for value in just_outside(decoded):
                text = json.dumps({**event, field: value})
                yield Case(
                    f"event {kind}.{field} just outside: {value}",
                    {"words": ["account", "event.json"], "files": {"event.json": text}},
                )


def _each_edit() -> Iterator[Case]:
    """Yield each damage to a log, of three runs."""
    runs = list(runs_stored.about()["runs"])
    for index, edit in enumerate(3 * LOG_EDITS):
        name = runs[(7 * index) % len(runs)]
        asked = {"words": ["audit", "log", "run"], "run": name, "edit": edit, "seed": index}
        yield Case(f"log {name} {edit} each", asked)


def cases() -> Iterator[Case]:
    """Yield the ends of all ranges and each damage to a log, and then drawn ones without an end.

    They are drawn kind by kind in turn, as often as each is to be kept.
    """
    yield from _edges()
    yield from _each_edit()
    turns = [kind for kind, (_, count) in MAKERS_BY_KIND.items() for _ in range(count)]
    random.Random(SEED).shuffle(turns)
    seen: set[str] = set()
    index = 0
    while True:
        for kind in turns:
            case = MAKERS_BY_KIND[kind][0](random.Random(f"{SEED} {index}"))
            index += 1
            if case.name not in seen:
                seen.add(case.name)
                yield case


def left_out(case: Case, answer: Any) -> str:
    """Return why a case is no refusal; an empty text where it is one."""
    if answer["exit"] == 0:
        return "accepted"
    if case.name.startswith("description") and answer["exit"] not in (1, 2):
        return "answered"
    return ""


def answer(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return the exit code, the three lines, and the field that they name."""
    here = Path.cwd()
    if "usual files" in asked:
        command.written({"event.json": _GAUSSIAN, "opacus.json": json.dumps(_OPACUS)}, here)
        tables = least("uldp-avg")
        tables["privacy"]["epsilon"] = 4.0
        command.written({"run.toml": configuration(tables)}, here)
        runs_stored.unpack(next(iter(runs_stored.about()["runs"])), here / "run")
    command.written(asked.get("files", {}), here)
    if "run" in asked:
        edited(runs_stored.unpack(asked["run"], here / "run"), asked["edit"], asked["seed"])
    result = command.outcome(asked["words"], here)
    parts = [line.partition(":") for line in result["err"].splitlines()]
    lines = {
        label.strip(): rest.strip()
        for label, colon, rest in parts
        if colon and label.strip() in ("error", "why", "next")
    }
    named = re.search(r"`([^`]+)`", lines.get("error", ""))
    return {
        "exit": result["exit"],
        **({"field": named[1]} if named else {}),
        **(lines if lines else {"err": result["err"]}),
        "out": result["out"],
    }
