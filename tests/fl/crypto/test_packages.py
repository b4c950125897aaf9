"""Missing packages are named before a run begins."""

from __future__ import annotations

from importlib import util

import pytest

from privplan.accountant.errors import MissingExtra
from privplan.fl.aggregation import choice


def test_all_that_is_missing_is_named_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    there = util.find_spec

    def without(name: str, package: str | None = None) -> object:
        return None if name in ("phe", "nacl") else there(name, package)

    monkeypatch.setattr(choice, "find_spec", without)
    with pytest.raises(MissingExtra, match="pynacl, phe"):
        choice.require_packages(choice.WEIGHTING)
    with pytest.raises(MissingExtra, match="pynacl"):
        choice.require_packages(choice.MASKS)
    monkeypatch.setattr(choice, "find_spec", there)
    choice.require_packages(("json", "math"))
