"""What it means that a run over a network is the run in one process: bit for bit, in every log."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from privplan.accountant.records import RoundIntent, RoundRelease, RunOpen
from privplan.audit.budget import audit_budget
from privplan.audit.edits import edits_of
from privplan.audit.verify import verify
from privplan.fl.log import read
from privplan.fl.running.checkpoint import MODEL_FILE, Checkpoint


def records_of(folder: Path, kind: type[Any]) -> list[Any]:
    return [line.record for line in read(folder) if isinstance(line.record, kind)]


def require_same_run(server: Path, silos: Sequence[Path], whole: Path, plan: bytes) -> None:
    """Require that models, facts, vectors and epsilon of all parties are those of one process."""
    model, whole_model = Checkpoint.read(server / MODEL_FILE), Checkpoint.read(whole / MODEL_FILE)
    assert np.array_equal(model.parameters, whole_model.parameters)
    assert model.measured == whole_model.measured
    assert audit_budget(server).total == audit_budget(whole).total
    of_whole = records_of(whole, RoundRelease)
    drawn = set()
    for silo, folder in enumerate((server, *silos), start=-1):
        assert verify(folder).complete
        assert edits_of(folder) == ()
        assert records_of(folder, RoundIntent) == records_of(whole, RoundIntent)
        releases = records_of(folder, RoundRelease)
        for ours, every in zip(releases, of_whole, strict=True):
            assert (ours.model_out, ours.aggregate, ours.state_out, ours.shares, ours.draws) == (
                *(every.model_out, every.aggregate, every.state_out, every.shares, every.draws),
            )
            assert ours.drawn_here == int(silo >= 0)
            assert silo >= 0 or not ours.streams
        (opened,) = records_of(folder, RunOpen)
        assert opened.party is not None
        assert opened.party.silo == (silo if silo >= 0 else None)
        assert opened.party.plan == plan.hex()
        drawn |= {(n, stream) for n, ours in enumerate(releases) for stream in ours.streams}
    # The silos' streams together are those of the run in one process: nobody else drew.
    assert drawn == {(n, each) for n, every in enumerate(of_whole) for each in every.streams}
