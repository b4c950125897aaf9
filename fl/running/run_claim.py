"""What a run claims from a budget ledger: its whole plan, before the first noise is drawn.

The claim's key is kept in the folder before it is sent, so that a run that was cut off at any
moment goes on with the same claim.  A ledger that cannot be reached stops the run before noise,
and never after: a release that was made is not held back by a ledger that fails to note it.
"""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from ...accountant import events as ev
from ...accountant.errors import InvalidInput, PrivplanError
from ...accountant.event_tree import with_less_noise
from ..files import atomic
from .folder import CLAIM_FILE
from .prepared_run import PreparedRun

if TYPE_CHECKING:
    from ..declarations.ledger_table import LedgerSettings
    from ..ledger_client.ledger import Ledger, LedgerClaim

NOISE_READ_BELOW: Final = 1e-9
"""How much less noise an audit may read from a log than was drawn, relative; measured: 2e-11."""

_KNOWN: Final = ("url", "data_set", "project", "key", "claim")


@dataclass
class RunClaim:
    """The claim of a run: begun when the object is there."""

    claim: LedgerClaim
    folder: Path

    @classmethod
    def begun(cls, prepared: PreparedRun, folder: Path) -> Self | None:
        """Return the claim of a run, begun; None for a run that claims from no ledger.

        Raises `BudgetExceeded` where the plan does not fit, and `PrivplanError` where the ledger
        refuses or cannot be reached: then nothing may be drawn.
        """
        asked = prepared.settings.ledger
        kept = _kept(folder)
        if asked.url is None:
            if kept is not None:
                raise _other_ledger(folder)
            return None
        from ..ledger_client.ledger import Ledger

        ledger = Ledger(asked.url, key=asked.public_key)
        if kept is None:
            kept = _fresh(asked)
            _keep(folder, kept)
        elif any(kept[name] != getattr(asked, name) for name in ("url", "data_set", "project")):
            raise _other_ledger(folder)
        claim = _made(ledger, prepared, folder, kept)
        if claim.state not in ("claimed", "begun"):
            raise InvalidInput(
                f"The claim of the run in {folder} is {claim.state}.",
                "What it paid for was released or given up; nothing more is drawn under it.",
                "Begin a new run in another folder.",
            )
        claim.begin()
        return cls(claim, folder)

    def released(self, head: str | None) -> str:
        """Close the claim with the head of the log; return what to say where that fails, else ''.

        The run was made and stays what it is; the ledger has it as spent in either case.
        """
        try:
            self.claim.release(head)
        except PrivplanError as error:
            return (
                f"The ledger has not noted the end of the run: {error.what} The claim "
                f"{self.claim.id} stays begun there, and is spent; close it with the head "
                f"{head}: POST /v1/claims/{self.claim.id}/release"
            )
        return ""


def claimed_event(prepared: PreparedRun) -> ev.Event:
    """Return what a run claims: all that the observer of its claim will see.

    An audit reads noise from the decimal numbers of the log, and rounds them outward; so that an
    honest run lost no more than it claimed, it claims with hardly less noise than it draws.
    """
    planned, observer = prepared.opening.plan.events, prepared.opening.claim.observer
    if observer in planned and prepared.promises:
        return with_less_noise(planned[observer], 1.0 + NOISE_READ_BELOW)
    return ev.NoGuarantee(f"a run of {prepared.system.name} promises nothing before {observer}")


def _made(ledger: Ledger, prepared: PreparedRun, folder: Path, kept: dict[str, Any]) -> LedgerClaim:
    """Return the claim that is kept, or make it; a lost answer is asked for again by its key."""
    from ..ledger_client.connection import LedgerRefused
    from ..ledger_client.ledger import claim_of

    if kept["claim"] is not None:
        return claim_of(ledger.connection, str(kept["claim"]))
    asked, promise = prepared.settings.ledger, prepared.opening.claim
    assert asked.data_set is not None
    assert asked.project is not None
    odometer = ledger.odometer(
        asked.data_set,
        project=asked.project,
        blocks=asked.charged_blocks,
        unit=promise.unit,
        neighbours=promise.neighbours,
        observer=promise.observer,
    )
    event = claimed_event(prepared)
    try:
        claim = odometer.claim(event, key=str(kept["key"]))
    except LedgerRefused as refusal:
        if not str(refusal.answer.get("type", "")).endswith(":key-reused"):
            raise
        # Nothing was begun under it: the settings were changed before the first line.
        kept = {**_fresh(asked)}
        _keep(folder, kept)
        claim = odometer.claim(event, key=str(kept["key"]))
    _keep(folder, {**kept, "claim": claim.id})
    return claim


def claim_of_run(folder: Path) -> str | None:
    """Return the id of the claim that a run made; None where its folder keeps none."""
    kept = _kept(folder)
    return None if kept is None or kept["claim"] is None else str(kept["claim"])


def kept_claim(folder: Path) -> bytes | None:
    """Return what a folder keeps of a claim, as it is in the file; None where it keeps none."""
    try:
        return (folder / CLAIM_FILE).read_bytes()
    except FileNotFoundError:
        return None


def keep_claim(folder: Path, content: bytes | None) -> None:
    """Put it back after a beginning was cleared away."""
    if content is not None:
        atomic.write(folder / CLAIM_FILE, content)


def _fresh(asked: LedgerSettings) -> dict[str, Any]:
    names = {name: getattr(asked, name) for name in ("url", "data_set", "project")}
    return {**names, "key": secrets.token_hex(16), "claim": None}


def _keep(folder: Path, kept: dict[str, Any]) -> None:
    try:
        atomic.write(folder / CLAIM_FILE, json.dumps(kept).encode("ascii"))
    except OSError as error:
        raise PrivplanError(
            f"{folder / CLAIM_FILE} cannot be written: {error.strerror or error}.",
            "A run that was cut off goes on with the claim that it made.",
            "Make room on the disk, or give another folder.",
        ) from None


def _kept(folder: Path) -> dict[str, Any] | None:
    content = kept_claim(folder)
    if content is None:
        return None
    try:
        source = json.loads(content)
    except ValueError:
        source = None
    if not isinstance(source, dict) or set(source) != set(_KNOWN):
        raise InvalidInput(
            f"{folder / CLAIM_FILE} is not what a run has written.",
            "It says which claim on a ledger the run made.",
            "Restore it, or begin a new run in another folder.",
        )
    return source


def _other_ledger(folder: Path) -> InvalidInput:
    return InvalidInput(
        f"The run in {folder} claimed from another ledger, data set or project.",
        "What was claimed there pays for its rounds.",
        "Restore [ledger] of its configuration, or begin a new run in another folder.",
    )
