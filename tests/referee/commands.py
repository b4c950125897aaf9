"""Section `commands`: what every command prints, as JSON, as text, and as the stated number."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from . import command, runs_stored
from .golden import Case
from .random_events import number, random_event
from .runs_made import configuration, varied

SEED: Final = "commands of the referee"
COUNT: Final = 200
MOST_SECONDS: Final = 6.0
PUBLISHED: Final = 20
"""Descriptions of published runs that are checked."""

RELATIONS: Final = ("add-remove", "replace-one", "zero-out")
SAMPLERS: Final = (
    *("poisson", "poisson", "shuffled", "fixed-size", "with-replacement", "random-allocation"),
    "full",
)
Rng = random.Random


def _form(rng: Rng) -> list[str]:
    return rng.choice((["--json"], ["--json"], [], [], ["-q"]))


def _schedule(rng: Rng, plural: str = "") -> list[str]:
    if rng.random() < 0.5:
        records = round(number(rng, 200, 20000))
        batch = max(1, round(records * number(rng, 0.005, 0.3)))
        epochs = ["--epochs", str(rng.randint(1, 4))]
        return ["--records", str(records), "--batch", str(batch), *epochs]
    rate, rounds = number(rng, 0.005, 0.2), round(number(rng, 1, 800))
    return [f"--rate{plural}", str(rate), "--rounds", str(rounds)]


def _often(rng: Rng, share: float, *words: str) -> list[str]:
    return list(words) if rng.random() < share else []


def _noisy_sums(rng: Rng) -> list[str]:
    return [
        *("--noise-multiplier", str(number(rng, 0.6, 6.0))),
        *_schedule(rng),
        *_often(rng, 0.5, "--sampling", rng.choice(SAMPLERS)),
        *_often(rng, 0.15, "--mechanism", "laplace"),
    ]


def _asked(rng: Rng) -> list[str]:
    relation = _often(rng, 0.5, "--neighbours", rng.choice(RELATIONS))
    if rng.random() < 0.7:
        return ["--delta", str(rng.choice((1e-5, 1e-6, number(rng, 1e-9, 1e-5)))), *relation]
    return ["--epsilon", str(number(rng, 0.1, 6.0)), *relation]


def _account(rng: Rng) -> Case:
    files: dict[str, str] = {}
    if rng.random() < 0.5:
        what = _noisy_sums(rng)
        more = [
            *_often(rng, 0.2, "--claimed", str(number(rng, 0.2, 8.0))),
            *_often(rng, 0.15, "--units", "1000000"),
        ]
    else:
        files["event.json"] = json.dumps(random_event(rng))
        what, more = ["event.json"], []
    words = [
        *("account", *what, *_asked(rng), *more),
        *_often(rng, 0.15, "--group", str(rng.randint(2, 5))),
        *_often(rng, 0.15, "--engine", rng.choice(("rdp", "pld", "gdp", "google"))),
        *_often(rng, 0.15, "--routes"),
        *_often(rng, 0.15, "--risk"),
        *_form(rng),
    ]
    return _case(words, files)


def _calibrate(rng: Rng) -> Case:
    if rng.random() < 0.2:
        words = [
            *("--release", "gram", "--dimension", str(rng.randint(1, 60))),
            *("--epsilon", str(number(rng, 0.3, 5.0)), "--delta", "1e-5"),
            *_often(rng, 0.5, "--classes", str(rng.randint(1, 4))),
            *_often(rng, 0.3, "--unit", "user", "--rows-per-user", str(rng.randint(1, 5))),
        ]
        return _case(["calibrate", *words, *_form(rng)])
    target = rng.choice(
        (
            *2 * (["--epsilon", str(number(rng, 0.4, 8.0)), "--delta", "1e-5"],),
            ["--advantage", str(number(rng, 0.02, 0.5))],
            ["--tpr", str(number(rng, 0.02, 0.3)), "--fpr", "0.01"],
            ["--bayes", str(number(rng, 0.1, 0.45))],
        )
    )
    words = [
        *("calibrate", *target, *_schedule(rng)),
        *_often(rng, 0.4, "--sampling", rng.choice(SAMPLERS)),
        *_often(rng, 0.15, "--mechanism", "laplace"),
        *_often(rng, 0.4, "--neighbours", rng.choice(RELATIONS)),
        *_often(rng, 0.15, "--group", str(rng.randint(2, 4))),
        *_form(rng),
    ]
    return _case(words)


def _plan(rng: Rng) -> Case:
    if rng.random() < 0.5:
        words = ["--epsilon", str(number(rng, 0.5, 6.0)), "--delta", "1e-5"]
        words += [
            *("--rates", ",".join(str(number(rng, 0.005, 0.2)) for _ in range(rng.randint(1, 3)))),
            *("--rounds", str(round(number(rng, 2, 300)))),
            *_often(rng, 0.3, "--group-sizes", "1,2"),
            *_often(rng, 0.3, "--sampling", rng.choice(SAMPLERS)),
            *_often(rng, 0.3, "--neighbours", rng.choice(RELATIONS)),
        ]
        return _case(["plan", *words, *_form(rng)])
    phases = [
        f'[[phase]]\nname = "phase{index}"\nmechanism = "{rng.choice(("gaussian", "laplace"))}"\n'
        + rng.choice(
            (
                f"rounds = {rng.randint(1, 20)}\n",
                f"rate = {number(rng, 0.01, 0.3)}\nrounds = {rng.randint(1, 200)}\n",
            )
        )
        for index in range(rng.randint(1, 3))
    ]
    text = (
        f"[target]\nepsilon = {number(rng, 0.5, 6.0)}\ndelta = 1e-5\n"
        f'neighbours = "{rng.choice(RELATIONS)}"\n[split]\n'
        f'how = "{rng.choice(("equal-noise", "cheapest"))}"\n' + "".join(phases)
    )
    return _case(["plan", "plan.toml", *_form(rng)], {"plan.toml": text})


FACTS: Final[Mapping[str, Callable[[Rng], object]]] = {
    "claim.unit": lambda rng: rng.choice(("record", "user")),
    "claim.neighbours": lambda rng: rng.choice(RELATIONS),
    "noise.clip_source": lambda rng: rng.choice(("constant", "data", "adaptive", "median", "none")),
    "noise.family": lambda rng: rng.choice(("gaussian", "laplace", "discrete-gaussian")),
    "sampling.clients_rate": lambda rng: number(rng, 0.05, 1.0),
    "schedule.microbatches": lambda rng: rng.randint(1, 4),
    "schedule.accumulation": lambda rng: rng.randint(1, 4),
    "schedule.restarts": lambda rng: rng.randint(1, 10),
    "aggregation.weights": lambda rng: rng.choice(("equal", "unequal")),
    "aggregation.normaliser": lambda rng: rng.choice(("constant", "realised")),
    "tuning.runs": lambda rng: rng.randint(1, 20),
    "data.records_per_user": lambda rng: rng.randint(1, 10),
    "claim.delta_rule": lambda rng: rng.choice(("1/records", "1/batches")),
    "claim.accountant": lambda rng: rng.choice(("rdp", "prv", "gdp")),
}
"""Facts beyond a noise, a schedule and a sampler that a description may state."""


def _check(rng: Rng) -> Case:
    records = rng.choice((5000, 60000))
    batch, noise, epochs = rng.choice((50, 256)), number(rng, 0.6, 4.0), rng.randint(1, 20)
    method = rng.choice(
        ("poisson", "poisson", "shuffled", "fixed-size", "with-replacement", "full", "weighted")
    )
    facts: dict[str, object] = {
        key: make(rng) for key, make in FACTS.items() if rng.random() < 0.12
    }
    claim = ["--claimed", str(number(rng, 0.3, 10.0)), "--delta", "1e-5"]
    brief = _often(rng, 0.3, "--brief")
    if rng.random() < 0.4:
        steps = -(-records * epochs // batch)
        state = {"history": [[noise, batch / records, steps]], "mechanism": "rdp"}
        facts |= {"sampling.method": method, "data.records": records}
        sets = [word for key, value in facts.items() for word in ("--set", f"{key}={value}")]
        words = ["check", "opacus.json", *claim, *sets, *brief, *_form(rng)]
        return _case(words, {"opacus.json": json.dumps(state)})
    facts |= {"noise.noise_multiplier": noise, "data.records": records}
    facts |= {"sampling.batch": batch, "schedule.epochs": epochs}
    if rng.random() < 0.85:
        facts["sampling.method"] = method
    tables: dict[str, dict[str, object]] = {}
    for key, value in facts.items():
        table, _, name = key.partition(".")
        tables.setdefault(table, {})[name] = value
    text = configuration(tables)
    if rng.random() < 0.2:
        text += '[[releases]]\nwhat = "a noisy count"\nnoise_multiplier = 10.0\ncount = 100\n'
    return _case(["check", "run.toml", *claim, *brief, *_form(rng)], {"run.toml": text})


def _explain(rng: Rng) -> Case:
    event = {"event.json": json.dumps(random_event(rng))}
    return _case(["explain", "event.json", *_asked(rng), *_often(rng, 0.4, "--json")], event)


def _audit(rng: Rng) -> Case:
    name = rng.choice(list(runs_stored.about()["runs"]))
    words = rng.choice(
        (
            ["audit", "log", "run"],
            ["audit", "log", "run", "--head", "0" * 32],
            ["audit", "budget", "run", "--limit", str(number(rng, 0.5, 9.0))],
            ["audit", "budget", "run", "--group", "2", "--group", "3"],
            ["report", "run", "-o", "page.html"],
            ["check", "run"],
            [
                *("audit", "attack", "run", "--no-append", "--canaries", "60", "--seed", "7"),
                *("--tier", "claim"),
            ],
        )
    )
    return _case([*words, *_form(rng)], run=name)


def _forecast(rng: Rng) -> Case:
    from privplan.fl.declarations.packages import built_in

    text = configuration(varied(rng.choice(list(built_in())), rng))
    words = rng.choice((["run", "run.toml", "--dry-run"], ["plan", "run.toml"]))
    return _case([*words, *_form(rng)], {"run.toml": text})


def _fixed() -> Iterator[Case]:
    """Yield what is asked once: helps, pages, lists, tables, and what runs print."""
    from privplan.cli.pages.topics import TOPICS

    audits = ("audit", "audit log", "audit budget", "audit attack", "audit counts", "audit demo")
    helps = ("account", "calibrate", "plan", "run", "check", "claims", "report", "explain")
    for name in ("", *helps, "doctor", *audits):
        yield _case([*name.split(), "--help"])
    for topic in TOPICS:
        yield _case(["explain", topic])
    for word in ("shuffled-loader", "bandmf", "rdp", "user-level"):
        yield _case(["explain", word, "--json"])
    yield _case(["explain"])
    for system in ("uldp-fl", "flame", "disco", "fedpower", "delm"):
        yield _case(["claims", system, "--json"])
    yield _case(["claims"])
    yield _case(["claims", "-q"])
    yield _case(["audit", "demo"])
    yield _case(["audit", "demo", "--json"])
    yield _case(["audit", "demo", "wishart-support", "--seed", "3", "--json"])
    yield _case(["audit", "demo", "fedpower-client-view", "--seed", "3"])
    yield _case(["doctor"], mask=["version"])
    yield _case(["doctor", "-q"])
    yield _case([])
    published = sorted((Path(__file__).parents[1] / "audit" / "published_runs").glob("*/*.toml"))
    for path in random.Random(SEED).sample(published, PUBLISHED):
        yield _case(["check", path.name, "--brief"], {path.name: path.read_text()})
    for name in ("breast-cancer", "disco", "flame", "statistics", "delm", "fedpower"):
        text = (Path(__file__).parents[2] / "examples" / f"{name}.toml").read_text()
        yield _case(["run", "run.toml", "--dry-run"], {"run.toml": text})
    for more in ([], ["-q"]):
        tables: dict[str, dict[str, object]] = {
            "run": {"system": "uldp-avg", "rounds": 2},
            "data": {"name": "breast-cancer", "users": 8, "silos": 3},
            "privacy": {"epsilon": 4.0, "delta": 1e-5},
            "training": {"local_rate": 0.1, "local_epochs": 1},
        }
        yield _case(
            ["run", "run.toml", "--out", "new", *more],
            {"run.toml": configuration(tables)},
            mask=["hash", "run", "measured"],
        )


MAKERS: Final[Mapping[Callable[[Rng], Case], int]] = {
    _account: 9,
    _calibrate: 5,
    _plan: 3,
    _check: 8,
    _explain: 2,
    _audit: 5,
    _forecast: 3,
}
"""How lines of each command are drawn, and how many of each in a turn."""


def _case(
    words: list[str],
    files: Mapping[str, str] | None = None,
    *,
    run: str | None = None,
    mask: list[str] | None = None,
) -> Case:
    asked: dict[str, Any] = {"words": words}
    if files:
        asked["files"] = dict(files)
    if run:
        asked["run"] = run
    if mask:
        asked["mask"] = mask
    return Case((" ".join(words) or "(nothing)") + (f" ({run})" if run else ""), asked)


def cases() -> Iterator[Case]:
    """Yield first what is asked once, and then drawn lines without an end."""
    yield from _fixed()
    turn = [maker for maker, count in MAKERS.items() for _ in range(count)]
    random.Random(SEED).shuffle(turn)
    index = 0
    while True:
        for maker in turn:
            case = maker(random.Random(f"{SEED} {index}"))
            index += 1
            yield Case(f"{index:03d} {case.name}", case.asked)


def answer(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the command leaves with, and prints."""
    here = Path.cwd()
    command.written(asked.get("files", {}), here)
    if "run" in asked:
        runs_stored.unpack(asked["run"], here / "run")
    return command.outcome(asked["words"], here, mask=asked.get("mask", ()))
