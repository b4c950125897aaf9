"""What leaves a run whose users are held out: of neighbours the same, but for noised values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privplan.audit.ledger.phases import score_of
from privplan.fl.frame.held_out_release import HeldOutRelease

from ...cases import for_each
from ..extras import needs
from .held_out_runs import (
    EDITS,
    IN,
    OUT,
    SETTINGS,
    VOTES,
    configured,
    gone,
    ledger_of,
    measured,
    ran,
    shown,
    stored,
)
from .hospitals import configuration
from .test_table_runs import MARKER

pytestmark = needs("torch", "pyarrow", "cryptography")


@pytest.mark.quick(5)
@for_each("edited", range(len(EDITS)))
@for_each("system, tables", SETTINGS[:-1])
def test_neighbours_differ_in_noised_values_alone_and_not_at_all_with_the_same(
    tmp_path: Path, system: str, tables: dict[str, Any], edited: int
) -> None:
    """Of all that leaves a run, whoever of the patients is gone or has other rows."""
    said = configured(system, {**tables, "run": {"seed": 5, "rounds": 2}})
    plain, sums = ran(tmp_path / "plain", said)
    files = sorted((path.name, path.stat().st_size) for path in plain.glob("*.npz"))
    folder, others = ran(tmp_path / "noised", said, EDITS[edited])
    assert [each.shape for each in others] == [each.shape for each in sums]
    assert shown(folder, after_noise=False) == shown(plain, after_noise=False)
    same, again = ran(tmp_path / "played", said, EDITS[edited], sums)
    assert len(again) == len(sums)
    assert shown(same, after_noise=True) == shown(plain, after_noise=True)
    assert measured(same) == measured(plain)
    assert stored(same) == stored(plain)
    for each in (folder, same):
        assert sorted((path.name, path.stat().st_size) for path in each.glob("*.npz")) == files
        for path in each.rglob("*"):
            assert not path.is_file() or MARKER.encode() not in path.read_bytes()


def test_the_patients_that_are_changed_do_change_what_is_summed(tmp_path: Path) -> None:
    """The comparison above would find a difference: who is held out moves votes, others models."""
    said = configuration(evaluation=VOTES, run={"seed": 5})
    *rounds, votes = ran(tmp_path / "plain", said)[1]
    *rounds_without, votes_without = ran(tmp_path / "out", said, gone(OUT))[1]
    assert all(map(np.array_equal, rounds, rounds_without))
    assert not np.array_equal(votes, votes_without)
    *rounds_without, _ = ran(tmp_path / "in", said, gone(IN))[1]
    assert not any(map(np.array_equal, rounds, rounds_without))


def test_no_score_without_noise_leaves_a_run(tmp_path: Path) -> None:
    """Of sums before the noise nothing is found in a file but the sealed ones, nor in a report."""
    true: list[Any] = []
    totals = HeldOutRelease.totals

    def seen(votes: Any, *args: Any) -> Any:
        made = totals(votes, *args)
        true.extend((made.sum(axis=0) * votes.mechanism.grid).tolist())
        true.extend((made * votes.mechanism.grid).ravel().tolist())
        return made

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(HeldOutRelease, "totals", seen)
        folder, _ = ran(tmp_path / "run", configuration(evaluation=VOTES))
    assert len(true) == 8
    page = pp_report(folder)
    for path in folder.rglob("*"):
        if path.is_file() and not path.name.startswith("sealed"):
            content = path.read_bytes()
            for value in true:
                assert repr(value).encode()[:9] not in content or len(repr(value)) < 9
                assert np.float64(value).tobytes() not in content or value == 0.0
    for value in true:
        assert f"{value:.6g}" not in page or len(f"{value:.6g}") < 6
    score = score_of(ledger_of(folder))
    assert str(score) in page


def pp_report(folder: Path) -> str:
    from privplan.audit.report.page import render
    from privplan.audit.report.run_facts import read

    return render(read(folder))
