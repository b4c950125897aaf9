"""What holds of the logs of all parties of a network, whoever was killed and however often."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from privplan.accountant.records import RoundIntent, RoundRelease
from privplan.audit.edits import edits_of
from privplan.audit.verify import verify
from privplan.fl.log import read


def records_of(folder: Path, kind: type[Any]) -> list[Any]:
    """Return the records of a kind in a log."""
    return [line.record for line in read(folder) if isinstance(line.record, kind)]


def require_sound_logs(server: Path, silos: Sequence[Path]) -> None:
    """Require that closed logs agree, and that the silos spent at least what the server says."""
    assert verify(server).complete
    assert edits_of(server) == ()
    released = {each.round: each for each in records_of(server, RoundRelease)}
    begun = {each.round: each for each in records_of(server, RoundIntent)}
    for folder in silos:
        assert verify(folder).complete
        assert edits_of(folder) == ()
        intents, releases = records_of(folder, RoundIntent), records_of(folder, RoundRelease)
        assert len(intents) == len({each.round for each in intents})
        assert {each.round for each in intents} >= begun.keys() >= released.keys()
        assert {each.round for each in releases} <= released.keys()
        for each in releases:
            assert each.model_out == released[each.round].model_out
            (intent,) = [one for one in intents if one.round == each.round]
            assert intent.model_in == begun[each.round].model_in
        drawn = [each for release in releases for each in release.streams]
        for number, one in enumerate(drawn):  # no byte of a stream twice
            for other in drawn[:number]:
                apart = one.first >= other.last or other.first >= one.last
                assert one.stream != other.stream or apart
