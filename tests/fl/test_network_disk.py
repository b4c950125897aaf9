"""A silo whose disk is full gives nothing out that its log does not know of, and says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from privplan.accountant.errors import ProtocolFault
from privplan.accountant.records import RoundIntent
from privplan.fl.network.wire import HELLO, KEYS, Reply, Request, opened

from ..cases import for_each
from ..sweeps import sweep
from .network_logs import records_of
from .network_parties import Parties, config
from .small_disks import fill, small_disk
from .test_network_refusals import Stopped, until_phase
from .test_network_stops import require_sound

FULL = "south refused: The silo cannot write: No space left on device."


@for_each("leave", sweep(list(range(12)), quick=3))
def test_a_full_disk_ends_the_round_before_anything_unknown_leaves(
    tmp_path: Path, leave: int
) -> None:
    parties = Parties.of(tmp_path / str(leave), config("fedpower-power"))
    parties.close()
    south = parties.folder / "south"
    with small_disk(south):
        for silo in range(3):
            parties.restart(silo)
        parties.courier.meddling = until_phase(parties, KEYS, 2)
        with pytest.raises(Stopped):
            parties.hub().run()
        parties.courier.meddling = None
        fill(south / "filler", leave)
        said = ""
        try:
            parties.hub().run()
        except ProtocolFault as error:
            said = error.what
        assert said in (FULL, "")
        assert said or leave > 3  # there is no round, and no start, without a page
        begun = {each.round for each in records_of(parties.run_folder(1), RoundIntent)}
        given = {
            request.round
            for silo, raw, answer in parties.courier.carried
            if silo == 1
            and not opened(parties.plan.silos[1].key, Reply, answer).refused
            and (request := opened(parties.plan.server, Request, raw)).phase != HELLO
        }
        assert given <= begun
        (south / "filler").unlink()
        parties.restart(1)  # as an operator would, who made room
        hub = parties.hub()
        if hub.closed:
            hub.tell_again()
        else:
            hub.run()
        parties.close()
        require_sound(parties)
