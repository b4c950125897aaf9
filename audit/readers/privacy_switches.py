"""Keys of a configuration that switch all privacy on or off."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ...accountant.events import Event, NoGuarantee

OFF: Final = frozenset(
    {"disable_dp", "disable_privacy", "no_dp", "no_privacy", "non_private", "without_dp"}
)
ON: Final = frozenset(
    {"enable_dp", "use_dp", "with_dp", "dp_enabled", "dp", "dpsgd", "dp_sgd", "enable_privacy"}
    | {"use_privacy", "is_private", "private", "differential_privacy", "use_dpsgd", "use_dp_sgd"}
)
"""Switches of all privacy: what leaves none where it is true, and what where it is false."""


def is_switch(key: str) -> bool:
    """Return whether a key switches privacy on or off.

    >>> is_switch("disable-dp"), is_switch("dpsgd"), is_switch("disable_bias")
    (True, True, False)
    """
    return _plain(key) in OFF | ON


def switched_off(settings: Mapping[str, object]) -> tuple[Event | None, list[str]]:
    """Return the event of a run without privacy if settings switch it off, and what is doubtful."""
    event: Event | None = None
    doubts = []
    for key, value in settings.items():
        if not is_switch(key):
            continue
        truth = _truth(value)
        if truth is None:
            doubts.append(f"`{key:.40}` is {str(value)[:40]!r}, neither true nor false; not read.")
        elif truth == (_plain(key) in OFF):
            event = NoGuarantee("its configuration switches privacy off")
            doubts.append(f"`{key:.40}` is {value}: the run had no privacy, whatever else was set.")
    return event, doubts


def _plain(key: str) -> str:
    return key.strip("\"' ").lower().replace("-", "_")


def _truth(value: object) -> bool | None:
    word = str(value).strip().lower()
    if word in ("true", "yes", "on", "1"):
        return True
    return False if word in ("false", "no", "off", "0") else None
