"""Makes the stored runs: tiny runs of every system, whole, stopped, resumed and signed ones."""

from __future__ import annotations

import random
import shutil
import tempfile
import zipfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from unittest import mock

from . import command, runs_stored

SEED: Final = "runs of the referee"
TURNS: Final = 2
"""New runs of each system; of those without earlier runs there are as many again."""

EARLIER_COUNT: Final = 56
"""Runs of an earlier version that are stored too."""

EARLIER: Final = Path(__file__).parents[1] / "audit" / "earlier"
HAVE_EARLIER: Final = ("fedavg", "uldp-")
"""How the names of systems begin of which there are earlier runs."""

WORK: Final = Path(__file__).parents[2] / "build" / "referee" / "runs"
"""Where runs are made; those that are there already are not made again."""

MOST_TRIES: Final = 60
"""Draws of one system that may be refused."""

MOST_BYTES: Final = 150_000
"""A run that leaves more, which small settings seldom do, is left out."""

Tables = dict[str, dict[str, object]]


def configuration(tables: Tables) -> str:
    """Return tables as TOML."""
    return "\n".join(
        f"[{name}]\n" + "".join(f"{key} = {_toml(value)}\n" for key, value in keys.items())
        for name, keys in tables.items()
        if keys
    )


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return repr(value)


def least(system: str) -> Tables:
    """Return what a small run of a system must say, without its noise."""
    tables: Tables = {
        "run": {"system": system, "rounds": 3},
        "data": {"name": "breast-cancer", "users": 8, "silos": 3},
        "privacy": {},
        "training": {"local_rate": 0.1, "local_epochs": 1},
        "security": {},
    }
    match system.partition("-")[0]:
        case "statistics":
            tables |= {"statistics": {"row_norm": 6.0}, "training": {}}
            tables["run"]["rounds"] = 1
        case "delm":
            tables["delm"] = {"row_norm": 6.0}
            tables["training"] = {}
            tables["run"]["rounds"] = 1
        case "fedpower":
            tables |= {"fedpower": {"rank": 2, "row_norm": 6.0}, "training": {}}
            if system in ("fedpower", "fedpower-one-shot"):
                tables["run"]["rounds"] = 1
        case "flame":
            del tables["data"]["silos"]
            tables["data"]["users"] = 12
            tables["training"]["model"] = "logistic"
            tables["flame"] = {} if system == "flame-simple" else {"chosen": 5}
        case "disco":
            tables["data"] = {"name": "breast-cancer", "silos": 5}
    if system == "uldp-group":
        tables["uldp"] = {"group_records": 4}
    if system == "uldp-sgd":
        tables["training"] = {}
    return tables


def varied(system: str, rng: random.Random) -> Tables:
    """Return a configuration of a system with some of what it can be set to, drawn."""
    from privplan.fl.declarations.packages import built_in

    declared, tables = built_in()[system], least(system)
    tables["data"]["seed"] = rng.randint(0, 9)
    chance = rng.random
    if declared.promises:
        privacy = tables["privacy"]
        if chance() < 0.5:
            privacy["epsilon"] = float(f"{rng.uniform(0.8, 9.0):.3g}")
        else:
            privacy["noise_multiplier"] = float(f"{rng.uniform(1.0, 8.0):.3g}")
        privacy["delta"] = rng.choice((1e-5, 1e-5, 1e-6, 5e-4))
        if chance() < 0.6:
            privacy["unit"] = rng.choice(declared.units)
            privacy["neighbours"] = rng.choice(declared.relations)
        if chance() < 0.1:
            privacy |= {"delta": 0.2, "accept_delta": True}
        if chance() < 0.25:
            privacy["observer"] = rng.choice(("server", "silo", "peer", "analyzer", "server+1"))
        if system in ("uldp-avg", "uldp-sgd") and chance() < 0.3:
            privacy["sampling_rate"] = 0.5
        if system == "uldp-avg" and chance() < 0.3:
            privacy |= {"noise": "banded", "cohorts": 2, "blocks": rng.choice((1, 2))}
            tables["run"]["rounds"] = 4
    if chance() < 0.7:
        tables["security"]["aggregation"] = rng.choice(
            [word for word in declared.aggregations if word != "private-weighting"]
        )
    if tables["security"].get("aggregation") == "masked" and chance() < 0.3:
        tables["security"]["dropouts"] = 1
    if chance() < 0.15:
        tables["security"]["colluders"] = 1
    if chance() < 0.15:
        tables["security"]["keep_transcripts"] = True
    if chance() < 0.15:
        tables["run"]["seed"] = rng.randint(0, 99)
    if chance() < 0.15:
        tables["run"]["trials"] = rng.randint(2, 5)
    if chance() < 0.15:
        tables["evaluation"] = {"test": "none"}
    if chance() < 0.15:
        tables["log"] = {"save_models": True}
    if system.startswith("uldp") and chance() < 0.2:
        tables["data"]["normalisation"] = "private"
        tables["privacy"]["normalisation_noise"] = 5.0
    if system in ("uldp-avg", "uldp-sgd") and chance() < 0.3:
        tables["training"]["weighting"] = "records"
    if system.startswith("uldp") and chance() < 0.15:
        tables.setdefault("uldp", {})["as_published"] = True
    if system == "disco" and chance() < 0.3:
        tables["disco"] = {"noise": "local"}
    if system.startswith("flame"):
        flame = tables["flame"]
        if chance() < 0.5:
            flame["transport"] = "ideal"
        if chance() < 0.2:
            flame["as_published"] = True
        if chance() < 0.3:
            flame["randomizer"] = rng.choice(("laplace", "responses"))
    if system == "statistics" and chance() < 0.4:
        tables["statistics"] |= rng.choice(
            ({"noise": "wishart"}, {"by_class": True}, {"ridge": 1.0}, {"rows_per_user": 3})
        )
    if system == "delm-linear":
        tables["delm"]["loss"] = rng.choice(("linear", "logistic"))
    if system.startswith("fedpower") and "rounds" in tables["run"] and chance() < 0.3:
        tables["fedpower"]["oversampling"] = 1
    return tables


def _signing_key(folder: Path) -> None:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = Ed25519PrivateKey.generate()
    text = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    (folder / "public.pem").write_bytes(text)
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    (folder / "key.pem").write_bytes(private)


def _stopped(words: list[str], folder: Path, at: int) -> dict[str, Any]:
    """Run, and stop at the record with a number, as Ctrl-C would."""
    from privplan.fl.log import LogWriter

    append, count = LogWriter.append, 0

    def failing(self: LogWriter, record: Any) -> int:
        nonlocal count
        count += 1
        if count == at:
            raise KeyboardInterrupt
        return append(self, record)

    with mock.patch.object(LogWriter, "append", failing):
        return command.outcome(words, folder)


KINDS: Final = ("whole", "stopped", "resumed", "signed", "signed-resumed")
"""How a run ends; one that is resumed was stopped before."""


def _made(system: str, rng: random.Random, folder: Path) -> str:
    """Make one run in `run` below a folder; return its kind, or the refusal."""
    tables = varied(system, rng)
    kind = rng.choice(("whole", *KINDS))
    if kind.startswith("signed"):
        _signing_key(folder)
        tables.setdefault("log", {})["sign_key"] = "key.pem"
    (folder / "run.toml").write_text(configuration(tables))
    words = ["run", "run.toml", "--out", "run"]
    if kind in ("whole", "signed"):
        result = command.outcome(words, folder)
    else:
        result = _stopped(words, folder, rng.randint(3, 9))
        if not (folder / "run" / "log.jsonl").exists():
            return str(result.get("err", result))
        if kind.endswith("resumed"):
            result = command.outcome([*words, "--resume"], folder)
    if result["exit"] not in (0, 130) or not (folder / "run" / "log.jsonl").exists():
        return str(result.get("err", result))
    if (folder / "public.pem").exists():
        shutil.copy(folder / "public.pem", folder / "run" / "public.pem")
    size = sum(path.stat().st_size for path in (folder / "run").rglob("*") if path.is_file())
    if size > MOST_BYTES:
        return f"too large: {size}"
    return kind


def _systems() -> list[str]:
    from privplan.fl.declarations.packages import built_in

    systems = list(built_in())
    others = [name for name in systems if not name.startswith(HAVE_EARLIER)]
    return TURNS * (systems + others)


def _make(index: int, system: str, refusals: Counter[str]) -> None:
    """Make the run with a number: the first draw of its configuration that is not refused."""
    for attempt in range(MOST_TRIES):
        rng = random.Random(f"{SEED} {index} {attempt}")
        with command.clean_folder() as folder:
            kind = _made(system, rng, folder)
            if kind not in KINDS:
                refusals[kind.splitlines()[0] if kind else "?"] += 1
                continue
            shutil.move(folder / "run", WORK / f"{index:03d}-{system}-{kind}")
            return
    print(f"{index:03d}-{system}: every draw was refused")


def _earlier(into: Path) -> Iterator[str]:
    """Unpack some of the runs of an earlier version; yield their names."""
    found: list[tuple[str, str]] = []
    for archive in ("runs.zip", "runs_two.zip"):
        with zipfile.ZipFile(EARLIER / archive) as packed:
            names = {name.partition("/")[0] for name in packed.namelist() if "/" in name}
        found += [(archive, name) for name in sorted(names)]
    for archive, name in sorted(random.Random(SEED).sample(found, EARLIER_COUNT)):
        called = f"earlier-{Path(archive).stem}-{name}"
        with zipfile.ZipFile(EARLIER / archive) as packed:
            for member in packed.namelist():
                run, _, rest = member.partition("/")
                if run == name and rest and not rest.endswith("/"):
                    path = into / called / rest
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_bytes(packed.read(member))
            if "signed" in name and "public.pem" in packed.namelist():
                (into / called / "public.pem").write_bytes(packed.read("public.pem"))
        yield called


def write(reason: str) -> int:
    """Make and store the runs; what was made before an interruption is kept."""
    command.settle()
    WORK.mkdir(parents=True, exist_ok=True)
    refusals: Counter[str] = Counter()
    for index, system in enumerate(_systems()):
        if not any(WORK.glob(f"{index:03d}-*")):
            _make(index, system, refusals)
    with tempfile.TemporaryDirectory(prefix="referee-runs-") as unpacked:
        folders = {path.name: path for path in sorted(WORK.iterdir())}
        folders |= {name: Path(unpacked) / name for name in _earlier(Path(unpacked))}
        runs = {
            name: {"signed": (folder / "public.pem").exists()} for name, folder in folders.items()
        }
        size = runs_stored.pack({"reason": reason, "runs": runs}, folders)
    for what, count in refusals.most_common():
        print(f"{count:>4} draws refused: {what}")
    print(f"{len(folders)} runs, {size:,} bytes; {reason}")
    return 0
