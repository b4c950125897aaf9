"""Votes of who is held out under FLAME: two messages of every user, through the shuffler."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privplan.accountant.errors import InvalidInput
from privplan.fl.running.configuration import Configuration
from privplan.fl.running.preparation import prepare
from privplan.fl.shuffling import Shuffling, Terms
from privplan.fl.shuffling.ideal import IdealShuffling

from ...cases import for_each
from ..extras import needs
from .held_out_flame import (
    IDEAL,
    SETTINGS,
    UNPROVEN,
    Tables,
    configured,
)
from .held_out_runs import (
    EDITS,
    IN,
    OUT,
    gone,
    other,
)
from .hospitals import MARKER, write
from .playback import left, played

pytestmark = needs("torch", "pyarrow", "cryptography", "nacl")

EDITS_OF_LISTED = (*EDITS, other(MARKER))
"""Besides, somebody on the list who has no row is given some."""


@pytest.mark.quick(6)
@for_each("edited", range(len(EDITS_OF_LISTED)))
@for_each("system, tables", [*SETTINGS, *UNPROVEN])
def test_neighbours_differ_in_noised_values_alone_and_not_at_all_with_the_same(
    tmp_path: Path, system: str, tables: Tables, edited: int
) -> None:
    """Whoever is gone or has other rows; sizes and numbers of messages too, in transcripts."""
    said = configured(system, tables, run={"seed": 5, "rounds": 2})
    plain = played(tmp_path / "plain", said)
    assert plain.code == 0, plain.said
    noised = played(tmp_path / "noised", said, EDITS_OF_LISTED[edited])
    assert left(noised, after_noise=False) == left(plain, after_noise=False)
    same = played(tmp_path / "same", said, EDITS_OF_LISTED[edited], plain.noised)
    assert left(same) == left(plain)
    if "security" in tables and tables["security"].get("keep_transcripts"):
        seen = left(plain)
        assert {round for round, *_ in seen["transcripts/analyzer.jsonl"]} == {1, 2, 3}


def test_the_patients_that_are_changed_do_change_what_is_mixed(tmp_path: Path) -> None:
    """The comparison above would find a difference: who is held out moves votes, others models."""
    said = configured("flame-simple", {"flame": IDEAL}, run={"seed": 5, "rounds": 1})

    def sums(name: str, edited: Any = None) -> tuple[Any, Any]:
        run = played(tmp_path / name, said, edited)
        rounds = [each.sums for each in run.noised if hasattr(each, "sums")]
        return rounds[0], rounds[1]

    model, votes = sums("plain")
    assert votes.shape == (2, 1)
    model_without, votes_without = sums("out", gone(OUT))
    assert np.array_equal(model, model_without)
    assert not np.array_equal(votes, votes_without)
    assert not np.array_equal(model, sums("in", gone(IN))[0])


@for_each("system", ["flame-simple", "flame-topk"])
def test_a_method_as_published_cannot_pay_for_votes(tmp_path: Path, system: str) -> None:
    table = {**IDEAL, "as_published": True, **({"chosen": 2} if system == "flame-topk" else {})}
    tables = configured(system, {"flame": table})
    with pytest.raises(InvalidInput, match="as published cannot pay for votes") as refused:
        Configuration.of(tables)
    assert "leave as_published out" in str(refused.value)
    # By hand, where no rule is asked.
    sound = configured(system, {"flame": {**table, "as_published": False}})
    settings = Configuration.of(sound).settings
    own = replace(settings.table, as_published=True)  # type: ignore[type-var]
    write(tmp_path)
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(tmp_path)
        with pytest.raises(InvalidInput, match="as published cannot pay for votes"):
            prepare(replace(settings, table=own))


@for_each("sealed", [True, False])
def test_parties_have_other_terms_and_are_as_many(sealed: bool) -> None:
    made: Any = Shuffling if sealed else IdealShuffling
    first = made(Terms(5, 7, 7), colluders=2)
    second = first.with_terms(Terms(5, 2, 2))
    assert second.terms == Terms(5, 2, 2)
    assert first.terms == Terms(5, 7, 7)
    assert second.network is first.network
    assert second.security == first.security
    if sealed:
        assert second._key.public != first._key.public
        assert second._session != first._session
        with pytest.raises(InvalidInput, match="6 clients"):
            first.with_terms(Terms(6, 2, 2))
