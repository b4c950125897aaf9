"""Makes the stored runs: tiny runs of every system, whole, stopped, resumed and signed ones."""

from __future__ import annotations

import random
import shutil
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any, Final
from unittest import mock

from . import command, runs_stored

SEED: Final = "runs of the referee"
COUNT: Final = 120
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
    from privplan.fl.declarations.built_in import built_in

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
            flame["randomizer"] = rng.choice(("laplace", "randomized-response"))
    if system == "statistics" and chance() < 0.4:
        tables["statistics"] |= rng.choice(
            ({"noise": "wishart"}, {"by_class": True}, {"ridge": 1.0}, {"rows_per_user": 3})
        )
    if system == "delm-linear":
        tables["delm"]["loss"] = rng.choice(("squared", "logistic"))
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


def _made(system: str, rng: random.Random, folder: Path) -> tuple[str, dict[str, Any]] | str:
    """Make one run in `run` below a folder; return its name and how it was made, or a refusal."""
    tables = varied(system, rng)
    kind = rng.choice(("whole", "whole", "stopped", "resumed", "signed", "signed-resumed"))
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
    return kind, {"system": system, "kind": kind, "configuration": configuration(tables)}


def write(reason: str) -> int:
    """Make and store the runs."""
    from privplan.fl.declarations.built_in import built_in

    command.settle()
    systems = list(built_in())
    said: dict[str, Any] = {"reason": reason, "runs": {}}
    folders: dict[str, Path] = {}
    refusals: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="referee-runs-") as kept:
        for index in range(COUNT):
            system = systems[index % len(systems)]
            for attempt in range(MOST_TRIES):
                rng = random.Random(f"{SEED} {index} {attempt}")
                with command.clean_folder() as folder:
                    made = _made(system, rng, folder)
                    if isinstance(made, str):
                        refusals[made.splitlines()[0] if made else "?"] += 1
                        continue
                    kind, how = made
                    name = f"{index:03d}-{system}-{kind}"
                    folders[name] = Path(kept) / name
                    shutil.copytree(folder / "run", folders[name])
                    said["runs"][name] = how
                    print(name, flush=True)
                    break
            else:
                print(f"{index:03d}-{system}: every draw was refused")
        size = runs_stored.pack(said, folders)
    for what, count in refusals.most_common():
        print(f"{count:>4} draws refused: {what}")
    print(f"{len(folders)} runs, {size:,} bytes; {reason}")
    return 0
