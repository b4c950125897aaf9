"""The plan that all silos agree on: one file, its digest, and their signatures.

It holds the configuration of the run and the public schema of its table, the version of the code,
what both promise (rounds, noise, bounds, epsilon), and the keys of the server and of every silo.
Who signs its digest has agreed to all of that, and to nothing else: another clip, less noise, one
round more or another silo is another plan.
"""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from importlib import metadata
from pathlib import Path
from typing import Any, Final

from ...accountant.errors import InvalidInput, ProtocolFault
from ...accountant.regular_file import first_bytes
from ..crypto.keys import Identity, framed, verify
from ..files import atomic
from ..parties.network import silo_name
from ..running.toml_writer import toml_bytes

FORMAT: Final = "privplan-network/1"

MAX_PLAN_BYTES: Final = 2**20

USUAL_SECONDS: Final = 120
"""How long a phase may take, unless the plan says otherwise."""

_HEX_KEY: Final = re.compile(r"[0-9a-f]{64}")
_HEX_SIGNATURE: Final = re.compile(r"[0-9a-f]{128}")
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._-]{0,63}")


@cache
def code_version() -> str:
    """Return the version of privplan that runs here, and a digest of its source files."""
    digest = hashlib.sha256()
    package = Path(__file__).parents[2]
    for floor in ("accountant", "fl"):
        for path in sorted((package / floor).rglob("*.py")):
            digest.update(path.relative_to(package).as_posix().encode() + b"\0")
            digest.update(hashlib.sha256(path.read_bytes()).digest())
    return f"{metadata.version('privplan')}+{digest.hexdigest()[:16]}"


@dataclass(frozen=True)
class SiloKey:
    """A silo of a plan: its name, and the Ed25519 public key that stands for it."""

    name: str
    key: bytes


@dataclass(frozen=True)
class NetworkPlan:
    """What is agreed on; `read` returns that of a file.

    - `config`: the configuration, TOML; `schema`: that of its table, TOML, or empty.
    - `version`: the version of privplan that every party runs.
    - `promise`: what the configuration comes to, as words by name; each party computes it again.
    - `server`: the public key of the server; `silos`: in the order in which they are counted.
    - `seconds`: how long a phase may take.
    - `insecure`: whether a seed may be in the configuration, which protects nobody.
    - `signatures`: by silo, of the digest; no part of what is signed.
    """

    config: str
    schema: str
    version: str
    promise: Mapping[str, str]
    server: bytes
    silos: tuple[SiloKey, ...]
    seconds: int = USUAL_SECONDS
    insecure: bool = False
    signatures: Mapping[str, bytes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        names, keys = [silo.name for silo in self.silos], [silo.key for silo in self.silos]
        if len(set(names)) < len(names) or len({*keys, self.server}) <= len(keys):
            raise _no_plan("two parties have one name, or one key")
        if not all(map(_NAME.fullmatch, names)) or len(names) < 2 or self.seconds < 1:
            raise _no_plan("it needs two silos or more, with plain names, and a limit of seconds")

    @cached_property
    def digest(self) -> bytes:
        """SHA-256 of everything but the signatures."""
        content: dict[str, Any] = {**self._tables(), "signatures": None}
        content["silos"] = list(content["silos"].items())  # their order is how they are counted
        text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        return hashlib.sha256(b"privplan network plan\0" + text.encode()).digest()

    @property
    def roster(self) -> dict[str, bytes]:
        """The silos' public keys by the names that protocols know them by."""
        return {silo_name(number): silo.key for number, silo in enumerate(self.silos)}

    def silo_of(self, public: bytes) -> int:
        """Return the number of the silo with a key; `InvalidInput` where it is none of them."""
        for number, silo in enumerate(self.silos):
            if silo.key == public:
                return number
        raise InvalidInput(
            "The key of this silo is not in the plan.",
            "A plan names every silo by its key.",
            "Give the public key to whoever writes the plan: privplan guard key DIR",
        )

    def signed_by(self, identity: Identity) -> NetworkPlan:
        """Return the plan with the signature of one of its silos."""
        name = self.silos[self.silo_of(identity.public)].name
        signature = identity.sign(self._statement())
        return replace(self, signatures={**self.signatures, name: signature})

    def require_signed(self, silo: int) -> None:
        """Raise `InvalidInput` unless a silo has signed this plan."""
        named = self.silos[silo]
        try:
            verify(named.key, self.signatures.get(named.name, b""), self._statement())
        except ProtocolFault:
            raise InvalidInput(
                f"The plan is not signed by {named.name}.",
                "A silo runs what it agreed to, and nothing else.",
                "Read it (privplan guard show PLAN), then: privplan guard sign PLAN --state DIR",
            ) from None

    @classmethod
    def read(cls, path: Path) -> NetworkPlan:
        """Return the plan in a file; `InvalidInput` for anything else."""
        try:
            content = first_bytes(path, MAX_PLAN_BYTES + 1)
            if len(content) > MAX_PLAN_BYTES:
                raise _no_plan("it is longer than a plan can be", path)
            return _plan_of(tomllib.loads(content.decode()))
        except InvalidInput:
            raise
        except OSError as error:
            raise InvalidInput(f"{path} cannot be read: {error.strerror}.") from None
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise _no_plan("a key is missing, or has another form", path) from None

    def write(self, path: Path) -> None:
        """Put the plan in its place, whole or not at all; raises `OSError`."""
        atomic.write(path, toml_bytes(self._tables()))

    def _statement(self) -> bytes:
        return framed(b"privplan network agreement", self.digest)

    def _tables(self) -> dict[str, dict[str, Any]]:
        return {
            "plan": {
                "format": FORMAT,
                "version": self.version,
                "seconds": self.seconds,
                "insecure_seed": self.insecure,
                "config": self.config,
                "schema": self.schema,
            },
            "promise": dict(self.promise),
            "server": {"key": self.server.hex()},
            "silos": {silo.name: silo.key.hex() for silo in self.silos},
            "signatures": {name: each.hex() for name, each in sorted(self.signatures.items())},
        }


def _plan_of(tables: Mapping[str, Any]) -> NetworkPlan:
    about, signatures = tables["plan"], tables["signatures"]
    known = {"format", "version", "seconds", "insecure_seed", "config", "schema"}
    texts = [about["version"], about["config"], about["schema"], *tables["promise"].values()]
    fits = (
        about["format"] == FORMAT
        and set(about) == known
        and set(tables) == {"plan", "promise", "server", "silos", "signatures"}
        and set(tables["server"]) == {"key"}
        and all(isinstance(text, str) for text in texts)
        and type(about["seconds"]) is int
        and type(about["insecure_seed"]) is bool
        and all(map(_HEX_SIGNATURE.fullmatch, signatures.values()))
        and set(signatures) <= set(tables["silos"])
    )
    if not fits:
        raise ValueError
    return NetworkPlan(
        config=about["config"],
        schema=about["schema"],
        version=about["version"],
        promise=dict(tables["promise"]),
        server=_key(tables["server"]["key"]),
        silos=tuple(SiloKey(name, _key(key)) for name, key in tables["silos"].items()),
        seconds=about["seconds"],
        insecure=about["insecure_seed"],
        signatures={name: bytes.fromhex(each) for name, each in signatures.items()},
    )


def _key(text: str) -> bytes:
    if not _HEX_KEY.fullmatch(text):
        raise ValueError
    return bytes.fromhex(text)


def _no_plan(why: str, path: Path | None = None) -> InvalidInput:
    return InvalidInput(
        f"{'This' if path is None else path} is no plan of a network: {why}.",
        "All parties read the same plan, and its digest is what silos sign.",
        "Write it anew: privplan flower init CONFIG.toml -o APP --silo NAME=KEY ...",
    )
