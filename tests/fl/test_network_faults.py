"""Over Flower: processes that are killed, hang, are away for a while, or have a full disk.

Every network here is one plan from its first round to its last, with a fault in each start of the
server.  In the environment of Flower; elsewhere these are skipped.
"""

from __future__ import annotations

import contextlib
import signal
from pathlib import Path

import pytest

from privplan.accountant.records import RoundIntent, RoundRelease
from privplan.audit.reconciliation import reconcile
from privplan.fl.network.demo_hospitals import HOSPITALS

from .extras import needs
from .network_logs import records_of, require_sound_logs
from .network_parties import config
from .rehearsals import Rehearsal, usual_limit
from .small_disks import fill, small_disk

pytestmark = [needs("flwr", "cryptography", "msgpack"), pytest.mark.slow]

GRACE = 5.0


class Faulty(Rehearsal):
    """A masked run, whose superlink keeps on disk what it has to carry."""

    def superlink_options(self) -> list[str]:
        return ["--insecure", "--database", str(self.folder / "superlink.db")]

    def again(self, name: str, *, supernode: bool = False) -> None:
        """Start a guard again, and its supernode with it where that is said."""
        if supernode:  # as its unit has it, with whose guard it is started again
            self.restart_supernode(name)
        self.start_guard(name)

    def restart_supernode(self, name: str) -> None:
        """Have a supernode end, and start it again."""
        self.signal(f"node-{name}", signal.SIGTERM)
        self.await_death(f"node-{name}")
        self.start_supernode(name)

    def require_sound(self) -> None:
        silos = [self.silo(name) for name in HOSPITALS]
        require_sound_logs(self.server_run, silos)
        assert reconcile(self.server_run, silos).problems == ()
        assert not self.mark.exists()


def intents(folder: Path) -> set[int]:
    return {each.round for each in records_of(folder, RoundIntent)}


def network_in(folder: Path, rounds: int = 3) -> Faulty:
    text = config("fedpower-power").replace("rounds = 3", f"rounds = {rounds}")
    return Faulty(folder, print, text=text, seconds=usual_limit())


def test_a_guard_that_is_killed_around_its_two_pulls(tmp_path: Path) -> None:
    with network_in(tmp_path) as network:
        network.prepare()
        network.start()
        # Before either pull, and between them: who comes back finishes what is pending.
        network.kill_at("north", "PullTaskInput")
        network.kill_at("south", "PullMessages")
        with network.server():
            for name in ("north", "south"):
                network.await_death(f"guard-{name}")
                network.again(name)
            network.until(lambda: len(network.done("south")) > 1)
            if "start it again" in str(network.done("south")):  # after a minute it is too late
                network.restart_supernode("south")
            network.await_done("east", "given-out", round=1, phase="keys")
            # In the middle of the second one: what was asked of it is lost, and the server stops.
            network.kill_at("east", "PullObject")
            network.await_death("guard-east")
        assert len(network.stopped) == 1
        assert network.seconds - 1 < network.seconds_of_last_wait() < network.seconds + GRACE
        network.again("east", supernode=True)
        # After both, with an answer that never left: it is given out when it is asked for again.
        with network.server():
            network.await_done("south", "given-out", round=2, phase="keys")
            network.kill_at("south", "PushMessages")
            network.await_death("guard-south")
            network.again("south", supernode=True)
            network.await_done("south", "repeated")
        assert network.stopped == ["The guard of south was started anew in the middle of round 2."]
        assert network.seconds_of_last_wait() < network.seconds + GRACE
        with network.server():
            pass
        assert network.stopped == []
    network.require_sound()


def test_a_superlink_that_hangs_or_is_killed_in_mid_run(tmp_path: Path) -> None:
    with network_in(tmp_path) as network:
        network.prepare()
        network.start()
        # It hangs: nobody refuses a connection, and no call returns.  The limit holds all the same.
        with network.server():
            network.await_done("north", "given-out", round=1, phase="keys")
            network.signal("superlink", signal.SIGSTOP)
            network.await_stop_of_server()
            network.signal("superlink", signal.SIGCONT)
        assert network.seconds - 1 < network.seconds_of_last_wait() < network.seconds + GRACE
        # It is killed, and the server that Flower started with it; the next start goes on.
        with network.server():
            network.await_done("north", "given-out", round=2, phase="keys")
            assert network.server_runs()
            network.kill("superlink")
            assert network.until(lambda: not network.server_runs()) < network.seconds + GRACE
            network.start_superlink()
        for _ in range(3):  # supernodes look for their superlink every twenty seconds, in the end
            with network.server():
                pass
            if not network.stopped:
                break
        assert network.stopped == []
    network.require_sound()
    spent = [intents(network.silo(name)) for name in HOSPITALS]
    assert spent == [{1, 2, 3}] * 3
    assert {each.round for each in records_of(network.server_run, RoundRelease)} == {3}


def test_a_full_disk_and_a_silo_that_is_away_for_a_while(tmp_path: Path) -> None:
    with contextlib.ExitStack() as stack:
        network = stack.enter_context(network_in(tmp_path, rounds=4))
        network.prepare()
        stack.enter_context(small_disk(tmp_path / "south"))
        network.start()
        filler = tmp_path / "south" / "filler"
        with network.server():
            network.await_done("south", "given-out", round=1, phase="keys")
            fill(filler)
        (why,) = network.stopped
        assert why == "south refused: The silo cannot write: No space left on device."
        assert network.seconds_of_last_wait() < network.seconds + GRACE
        filler.unlink()
        # Away for less than the limit: nothing is lost.
        with network.server():
            network.await_done("east", "given-out", round=2, phase="keys")
            network.restart_supernode("east")
            network.await_done("east", "given-out", round=3, phase="keys")
            # And for longer: no silo may be missing in this plan, so the round is given up.
            network.kill("node-east")
        assert len(network.stopped) == 1
        assert network.seconds_of_last_wait() < network.seconds + GRACE
        network.start_supernode("east")
        with network.server():
            pass
        assert network.stopped == []
        network.require_sound()
        released = [each.round for each in records_of(network.server_run, RoundRelease)]
        assert released == [2, 4]
